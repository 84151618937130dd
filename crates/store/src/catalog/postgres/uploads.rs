//! Uploads and dedup policies in this database.

use async_trait::async_trait;
use xet::{FileHash, Sha256, XorbHash};

use super::super::keep::QuotaOf;
use super::super::repo::statements::retried;
use super::super::rows::{Reach, XorbColumns, XorbRow, array, column, number};
use super::super::uploads::statements::implement_upload_catalog;
use super::super::uploads::{NewObject, PartRow, RecordedUpload, UploadCatalog, UploadRow, XorbReference};
use super::super::{BATCH_ROWS, Tries, XORB_COLUMNS, push_reach, translate, unique};
use super::keep::note;
use super::repo::BEGIN as BEGIN_ROWS;
use super::{BEGIN, PostgresCatalog};
use crate::access::Scope;
use crate::audit::Deed;
use crate::dedup::DedupPolicy;
use crate::error::Result;
use crate::repo::RepoId;

implement_upload_catalog!(PostgresCatalog, sqlx::Postgres, pool, pool, BEGIN, BEGIN_ROWS);
