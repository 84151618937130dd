//! Multipart uploads: a large file that arrives in several requests, maybe at several servers, and is stored when complete.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use xet::Sha256;

use crate::access::{Grant, Scope};
use crate::content::Content;
use crate::content::body::BodyError;
use crate::content::put_file::StoredFile;
use crate::content::quotas::Need;
use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Digest, RepoId};
use crate::objects::key::ObjectKey;

/// A file that arrives by parts: all have the same length but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultipartFile {
    /// The digest of the file.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
    /// The length of a part.
    pub part_bytes: u64,
}

impl MultipartFile {
    /// How many parts there are.
    pub fn count(&self) -> u64 {
        self.bytes.div_ceil(self.part_bytes.max(1))
    }

    /// How long a part is, counted from 1; `None` if there is none of this number.
    pub fn bytes_of(&self, number: u64) -> Option<u64> {
        let start = number.checked_sub(1)?.checked_mul(self.part_bytes)?;
        self.bytes.checked_sub(start).filter(|left| *left > 0).map(|left| left.min(self.part_bytes))
    }

    fn key(&self, repo: RepoId, number: u64) -> Result<ObjectKey> {
        let number = u32::try_from(number);
        let number = number.map_err(|_| Error::new(ErrorKind::Invalid, "a file has too many parts"))?;
        Ok(ObjectKey::Part { repo, sha256: Digest::new(*self.sha256.as_bytes()), number })
    }
}

impl Content {
    /// Stores a part until the others have arrived. Sent again, it replaces the earlier one. Until they are joined, parts count
    /// against the quotas of the repository.
    pub async fn put_part(
        &self,
        repo: RepoId,
        scope: &Scope,
        file: &MultipartFile,
        number: u64,
        pieces: Vec<Bytes>,
    ) -> Result<()> {
        let found: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if file.bytes_of(number) != Some(found) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("part {number} should not have {found} bytes"),
            ));
        }
        let key = file.key(repo, number)?;
        let need = Need { physical_bytes: found, ..Need::default() };
        let reservation = self.reserve_quota(scope, need).await?;
        // Counted before it is stored: a sender that hangs up in between leaves nothing that is not counted.
        let part = PartRow {
            repo,
            file: file.sha256,
            number: u32::try_from(number).unwrap_or(u32::MAX),
            bytes: found,
            stored_s: self.clock.now_s(),
        };
        add_part(&self.db, &part).await?;
        drop(reservation);
        self.objects.put(&key, pieces).await
    }

    /// Stores the file whose parts are complete, and deletes them. A file that is not what was announced leaves them,
    /// so that a part can be sent again.
    pub async fn join_parts(&self, grant: &Grant, repo: RepoId, file: &MultipartFile) -> Result<StoredFile> {
        let numbers = 1..=file.count();
        for number in numbers.clone() {
            if self.objects.head(&file.key(repo, number)?).await? != file.bytes_of(number) {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("part {number} is missing: send it again"),
                ));
            }
        }
        let (objects, whole) = (self.objects.clone(), *file);
        let parts = stream::iter(numbers.clone()).then(move |number| {
            let objects = objects.clone();
            async move {
                let bytes = whole.bytes_of(number).unwrap_or_default();
                objects.stream(&whole.key(repo, number)?, 0..bytes).await
            }
        });
        let pieces = parts.try_flatten().map_err(BodyError::from).boxed();
        // The parts count already, for the same bytes.
        let grant = grant.clone().without_quota();
        let taken = self.put_file(&grant, file.sha256, file.bytes, pieces).await?;
        let parts = numbers.map(|number| file.key(repo, number));
        self.objects.delete_all(parts.collect::<Result<_>>()?).await?;
        drop_parts(&self.db, repo, file.sha256).await?;
        Ok(taken)
    }
}

/// Records a part of a file. Of the same number the longest counts: two may be on their way, and which of them is stored last
/// is not known.
pub(crate) async fn add_part(db: &Catalog, part: &PartRow) -> Result<()> {
    let insert = "INSERT INTO parts (repo, sha256, number, bytes, stored_s) \
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (repo, sha256, number) \
        DO UPDATE SET stored_s = excluded.stored_s, \
        bytes = CASE WHEN parts.bytes > excluded.bytes THEN parts.bytes ELSE excluded.bytes END";
    let insert = Sql::new(insert)
        .bind(part.repo)
        .bind(part.file)
        .bind(part.number)
        .bind(part.bytes)
        .bind(part.stored_s);
    db.write_one("record a part", insert).await.map(|_| ())
}

/// Drops the parts of a file.
pub(crate) async fn drop_parts(db: &Catalog, repo: RepoId, file: Sha256) -> Result<()> {
    let delete = Sql::new("DELETE FROM parts WHERE repo = $1 AND sha256 = $2").bind(repo).bind(file);
    db.write_one("drop parts", delete).await.map(|_| ())
}

/// Drops parts older than `before_s`.
pub(crate) async fn drop_old_parts(db: &Catalog, before_s: u64) -> Result<u64> {
    let delete = Sql::new("DELETE FROM parts WHERE stored_s < $1").bind(before_s);
    Ok(db.write_one("drop parts", delete).await?.changed)
}

/// A part of a file that is not joined yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartRow {
    /// The repository.
    pub repo: RepoId,
    /// The file.
    pub file: Sha256,
    /// Its number, from 1.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// When it was stored, Unix seconds.
    pub stored_s: u64,
}
