//! Quotas, usage, the audit log and where refs were, in this database.

use async_trait::async_trait;

use super::super::keep::statements::implement_keep_catalog;
use super::super::keep::{DeedQuery, DeedRow, KeepCatalog, LeftRow, Limit, QuotaOf, QuotaRow, Usage};
use super::super::repo::oid_of;
use super::super::repo::statements::retried;
use super::super::rows::{column, number};
use super::super::{Tries, translate};
use super::PostgresCatalog;
use super::repo::BEGIN;
use crate::audit::Deed;
use crate::error::Result;
use crate::repo::{Kind, RepoId};

implement_keep_catalog!(PostgresCatalog, sqlx::Postgres, pool, pool, BEGIN);
