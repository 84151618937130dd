//! Repositories in this database.

use async_trait::async_trait;
use xet::{FileHash, Sha256};

use super::super::keep::LeftRow;
use super::super::repo::statements::{FRESH_S, implement_repo_catalog, retried};
use super::super::repo::{
    GIT_BATCH_ROWS, GIT_COLUMNS, GitColumns, GitRow, LinkedFile, MemberRow, NamespaceColumns, NamespaceRow,
    NamespaceState, REPO_COLUMNS, RefChange, RefRow, RepoAtColumns, RepoCatalog, RepoColumns, RepoQuery,
    RepoRow, like, oid_of,
};
use super::super::rows::{array, column, number};
use super::super::{BATCH_ROWS, Tries, translate, unique};
use super::SqliteCatalog;
use super::keep::{leave, note};
use crate::access::Scope;
use crate::audit::Deed;
use crate::catalog::tokens::BIND_TOKENS;
use crate::error::Result;
use crate::repo::oid::Oid;
use crate::repo::{RepoId, RepoName};

implement_repo_catalog!(SqliteCatalog, sqlx::Sqlite, reads, writes, BEGIN);

pub(super) const BEGIN: &str = super::BEGIN;
