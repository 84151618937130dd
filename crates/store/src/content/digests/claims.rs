//! Digests of files: those that clients claim, and those that were computed from the bytes.

use xet::{FileHash, Sha256};

use crate::access::Scope;
use crate::audit::{AuditEvent, append_event};
use crate::content::reach::{Reach, push_reach};
use crate::db::Catalog;
use crate::db::batch::{BATCH_ROWS, unique};
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::Result;

/// Digests registered in `scope` that nobody has compared with the bytes of their files, or that disagree with them.
pub(crate) async fn digest_claims(
    db: &Catalog,
    scope: &Scope,
    digests: &[Sha256],
) -> Result<Vec<DigestClaim>> {
    let query = format!("{CLAIMS} AND s.namespace = $1 AND s.repo = $2 AND s.sha256 IN $3");
    let mut claims = Vec::new();
    for digests in unique(digests).chunks(BATCH_ROWS) {
        let query = Sql::new(query.as_str()).bind(scope.namespace()).bind(scope.repo());
        let query = query.list(digests.iter().copied());
        claims.extend(db.read::<DigestClaim>("find claimed digests", query).await?);
    }
    Ok(claims)
}

/// Such claims of all repositories, in the order of their keys, after one.
pub(crate) async fn claim_page(
    db: &Catalog,
    after: Option<&DigestClaim>,
    limit: u64,
) -> Result<Vec<DigestClaim>> {
    let mut query = Sql::new(CLAIMS);
    if let Some(after) = after {
        query.push(" AND (s.namespace, s.repo, s.sha256, s.file) > (");
        query.push_bind(after.scope.namespace()).push(", ").push_bind(after.scope.repo()).push(", ");
        query.push_bind(after.sha256).push(", ").push_bind(after.file).push(")");
    }
    query.push(" ORDER BY s.namespace, s.repo, s.sha256, s.file LIMIT ").push_bind(limit);
    db.read("find claimed digests", query).await
}

/// Digests of these files that were computed for a repository within reach.
pub(crate) async fn computed_sha256s(
    db: &Catalog,
    reach: &Reach,
    files: &[FileHash],
) -> Result<Vec<(FileHash, Sha256)>> {
    let mut found = Vec::new();
    for files in unique(files).chunks(BATCH_ROWS) {
        let mut query =
            Sql::new("SELECT DISTINCT r.file, r.sha256 FROM repo_files r WHERE r.sha256 IS NOT NULL");
        push_reach(&mut query, "r", reach);
        query.push(" AND r.file IN ").push_list(files.iter().copied());
        found.extend(db.read::<(FileHash, Sha256)>("find computed digests", query).await?);
    }
    Ok(found)
}

/// Records computed digests of files of a repository, and removes the claims that turned out to be false.
pub(crate) async fn resolve_claims(
    db: &Catalog,
    scope: &Scope,
    computed: &[(FileHash, Sha256)],
    refuted: &[DigestClaim],
) -> Result<()> {
    let (namespace, repo) = (scope.namespace(), scope.repo());
    db.write_serializable("record computed digests", |mut tx| async move {
        for computed in computed.chunks(BATCH_ROWS) {
            let update = "WITH computed (hash, digest) AS (VALUES $1) \
                    UPDATE repo_files SET sha256 = computed.digest FROM computed \
                    WHERE namespace = $2 AND repo = $3 AND file = computed.hash";
            let rows = computed.iter().map(|(file, sha256)| [file.into(), sha256.into()]);
            tx.run(Sql::new(update).rows(rows).bind(namespace).bind(repo)).await?;
        }
        let mut removed = Vec::new();
        for claim in refuted {
            let delete = "DELETE FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND sha256 = $3 \
                    AND file = $4";
            let delete = Sql::new(delete).bind(namespace).bind(repo);
            if tx.run(delete.bind(claim.sha256).bind(claim.file)).await? > 0 {
                removed.push(claim);
            }
        }
        if let Some(event) = DigestClaim::refusal(&removed) {
            append_event(&mut tx, &event).await?;
        }
        tx.commit().await
    })
    .await
}

/// Claims without a computed digest, or with one that disagrees.
const CLAIMS: &str = "SELECT s.namespace, s.repo, s.sha256, s.file, r.sha256 FROM repo_sha256s s \
    JOIN repo_files r ON r.namespace = s.namespace AND r.repo = s.repo AND r.file = s.file \
    WHERE (r.sha256 IS NULL OR r.sha256 <> s.sha256)";

/// The columns of [`CLAIMS`].
impl FromRow for DigestClaim {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            scope: Scope::new(row.text("namespace")?, row.text("repository")?)?,
            sha256: Sha256::from_row(row)?,
            file: FileHash::from_row(row)?,
            computed: row.optional_array("digest")?.map(Sha256::new),
        })
    }
}

/// A client's claim that the bytes of a file have this SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DigestClaim {
    /// Where it was registered.
    pub scope: Scope,
    /// The digest.
    pub sha256: Sha256,
    /// The file.
    pub file: FileHash,
    /// The digest of the file's bytes, if it was computed for this repository.
    pub computed: Option<Sha256>,
}

impl DigestClaim {
    /// The audit event of the removal of these, all of one repository.
    pub(crate) fn refusal(removed: &[&Self]) -> Option<AuditEvent> {
        let (first, more) = removed.split_first()?;
        let mut detail = format!(
            "file {} has another SHA-256 than {}",
            first.file,
            xet::hash::hex(first.sha256.as_bytes())
        );
        if !more.is_empty() {
            detail += &format!(", and {} more", more.len());
        }
        Some(AuditEvent::new("digest.refuse", first.scope.to_string(), detail))
    }
}
