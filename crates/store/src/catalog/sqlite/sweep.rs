//! Sweep in this database.

use async_trait::async_trait;
use xet::FileHash;

use super::super::repo::statements::retried;
use super::super::repo::{REPO_COLUMNS, RepoRow, oid_of};
use super::super::rows::{FileColumns, FileRow, XorbRow, array, column, number};
use super::super::sweep::statements::implement_sweep_catalog;
use super::super::sweep::{Doomed, Kept, SweepCatalog, SweptObject, SweptRepo, Use};
use super::super::{BATCH_ROWS, Tries, translate};
use super::keep::add_line;
use super::{BEGIN, SqliteCatalog};
use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};
use crate::objects::ObjectKey;
use crate::repo::RepoId;
use crate::repo::oid::{ObjectKind, Oid};

implement_sweep_catalog!(SqliteCatalog, sqlx::Sqlite, reads, writes, BEGIN);
