//! Lists for people in this database.

use async_trait::async_trait;
use xet::FileHash;

use super::super::browse::statements::implement_browse_catalog;
use super::super::browse::{BrowseCatalog, BrowseQuery, Order, RepoSize, SizedRepo, Upkeep};
use super::super::repo::statements::retried;
use super::super::repo::{REPO_COLUMNS, RepoColumns, RepoRow, like};
use super::super::rows::{array, column, number};
use super::super::{BATCH_ROWS, Tries, translate};
use super::{BEGIN, SqliteCatalog};
use crate::access::Scope;
use crate::error::Result;
use crate::repo::RepoId;

implement_browse_catalog!(SqliteCatalog, sqlx::Sqlite, reads, writes, BEGIN);
