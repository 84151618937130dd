//! Verify, rebuild and compaction in this database.

use async_trait::async_trait;
use xet::{FileHash, Sha256, ShardHash, XorbHash};

use super::super::care::statements::implement_care_catalog;
use super::super::care::{CareCatalog, DigestClaim, Relay};
use super::super::repo::oid_of;
use super::super::repo::statements::retried;
use super::super::rows::{
    FileColumns, FileRow, Reach, ShardRow, XorbColumns, XorbRow, array, column, number,
};
use super::super::{BATCH_ROWS, REVIVE_SHARD, Tries, XORB_COLUMNS, push_reach, translate, unique};
use super::keep::note;
use super::{BEGIN, SqliteCatalog};
use crate::access::Scope;
use crate::error::Result;
use crate::layout::Layout;
use crate::objects::XorbKey;
use crate::repo::RepoId;
use crate::repo::oid::Oid;

implement_care_catalog!(SqliteCatalog, sqlx::Sqlite, reads, writes, BEGIN);
