//! Records in this database.

use async_trait::async_trait;

use super::super::keep::KeepCatalog as _;
use super::super::records::implement_records;
use super::super::records::{PEOPLE, PeopleRecord, Records, RepoRecord};
use super::super::repo::statements::retried;
use super::super::repo::{REPO_COLUMNS, RefRow, RepoCatalog as _, RepoColumns, RepoRow, oid_of};
use super::super::review::{PULL_COLUMNS, PullColumns, PullRow};
use super::super::rows::{column, number};
use super::super::uploads::UploadCatalog as _;
use super::super::{Tries, translate};
use super::PostgresCatalog;
use super::keep::{left_of, left_row};
use crate::error::Result;
use crate::repo::RepoId;

implement_records!(PostgresCatalog, sqlx::Postgres, pool, pool, super::repo::BEGIN);
