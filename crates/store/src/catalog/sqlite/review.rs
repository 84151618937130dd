//! Pull requests and locks in this database.

use async_trait::async_trait;

use super::super::repo::statements::retried;
use super::super::review::statements::implement_review;
use super::super::review::{
    LOCK_COLUMNS, LockColumns, LockQuery, LockRow, PULL_COLUMNS, PullColumns, PullQuery, PullRow, PullState,
    Review,
};
use super::super::rows::{column, number};
use super::super::{Tries, translate};
use super::SqliteCatalog;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::RepoId;

implement_review!(SqliteCatalog, sqlx::Sqlite, reads, writes);
