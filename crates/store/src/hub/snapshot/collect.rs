//! Records: what the catalog alone knows of repositories and people, gathered to be written down as objects.

use crate::content::dedup_policy::{self, DedupPolicy};
use crate::content::quotas::usage::{self, QuotaOf, QuotaRow};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::people::{self, MemberRow, NamespaceRow};
use crate::hub::pulls::{PULL_COLUMNS, PullRow};
use crate::hub::reflog::ReflogEntry;
use crate::hub::rows::{REPO_COLUMNS, RefRow, RepoRow};
use crate::ids::RepoId;

/// State of a repository besides its git objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoSnapshot {
    /// Its name, who sees it, whether it is in the trash.
    pub row: RepoRow,
    /// Where its branches, tags and pull requests point.
    pub refs: Vec<RefRow>,
    /// Its pull requests.
    pub pulls: Vec<PullRow>,
    /// Its reflog.
    pub reflog: Vec<ReflogEntry>,
}

/// Users, organisations and their members, and what they may take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeopleSnapshot {
    /// Users and organisations.
    pub namespaces: Vec<NamespaceRow>,
    /// Who belongs to which.
    pub members: Vec<MemberRow>,
    /// Quotas, of repositories too: these have one whether they exist yet or not.
    pub quotas: Vec<QuotaRow>,
    /// Dedup policies of namespaces and repositories.
    pub dedup: Vec<(QuotaOf, DedupPolicy)>,
}

/// Snapshot of a repository, and a version that no earlier snapshot had; `None` when it is gone.
pub(crate) async fn collect_repo(db: &Catalog, repo: RepoId) -> Result<Option<(u64, RepoSnapshot)>> {
    db.write("collect a snapshot", |mut tx| async move {
        // Locks the row first: the second of two callers sees what the first one saw, and more.
        let version = next_version(&mut tx, repo.as_bytes()).await?;
        let row = Sql::new(format!("SELECT {REPO_COLUMNS} FROM repos WHERE id = $1"));
        let Some(row) = tx.row::<RepoRow>(row.bind(repo)).await? else { return Ok(None) };
        let refs = Sql::new("SELECT name, target FROM refs WHERE repo = $1 ORDER BY name");
        let refs: Vec<RefRow> = tx.rows(refs.bind(repo)).await?;
        let pulls = Sql::new(format!("SELECT {PULL_COLUMNS} FROM pulls WHERE repo = $1 ORDER BY number"));
        let pulls: Vec<PullRow> = tx.rows(pulls.bind(repo)).await?;
        let reflog = Sql::new(
            "SELECT oid, name, left_s, reclaim_s FROM reflog WHERE repo = $1 \
                 ORDER BY reclaim_s, oid, name",
        );
        let reflog: Vec<ReflogEntry> = tx.rows(reflog.bind(repo)).await?;
        tx.commit().await?;
        Ok(Some((version, RepoSnapshot { row, refs, pulls, reflog })))
    })
    .await
}

/// Snapshot of users and quotas, and its version.
pub(crate) async fn collect_people(db: &Catalog) -> Result<(u64, PeopleSnapshot)> {
    let version = db.write("collect a snapshot", |mut tx| async move {
        let version = next_version(&mut tx, PEOPLE).await?;
        tx.commit().await?;
        Ok(version)
    });
    let version = version.await?;
    // Read after the version was taken: nothing that is in a lower one can be missing.
    let namespaces = people::namespaces(db).await?;
    let mut members = Vec::new();
    for row in namespaces.iter().filter(|row| row.is_organisation) {
        members.extend(people::members(db, &row.name).await?);
    }
    let quotas = usage::quotas(db).await?;
    let dedup = dedup_policy::dedup_policies(db).await?;
    Ok((version, PeopleSnapshot { namespaces, members, quotas, dedup }))
}

/// Sets refs and pull requests as in a snapshot, and makes the next snapshot's version a higher one. Refs to commits that
/// are not there are left out.
pub(crate) async fn restore_refs(db: &Catalog, version: u64, snapshot: &RepoSnapshot) -> Result<()> {
    let repo = snapshot.row.id;
    db.write("restore a snapshot", |mut tx| async move {
        set_version(&mut tx, repo.as_bytes(), version).await?;
        for delete in ["DELETE FROM refs WHERE repo = $1", "DELETE FROM pulls WHERE repo = $1"] {
            tx.run(Sql::new(delete).bind(repo)).await?;
        }
        for given in &snapshot.refs {
            let insert = Sql::new(
                "INSERT INTO refs (repo, name, target) SELECT $1, $2, $3 WHERE EXISTS \
                     (SELECT 1 FROM git_objects WHERE repo = $1 AND oid = $3 AND kind = 1)",
            );
            tx.run(insert.bind(repo).bind(&given.name).bind(given.target)).await?;
        }
        for pull in &snapshot.pulls {
            let insert = Sql::new(
                "INSERT INTO pulls \
                     (repo, number, title, description, author, created_s, state, merged) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            );
            let insert = insert
                .bind(repo)
                .bind(pull.number)
                .bind(&pull.title)
                .bind(&pull.description)
                .bind(&pull.author)
                .bind(pull.created_s)
                .bind(pull.state.number())
                .bind(pull.state.merged());
            tx.run(insert).await?;
        }
        tx.commit().await
    })
    .await
}

/// Makes the next version of the people snapshot a higher one.
pub(crate) async fn restore_people_version(db: &Catalog, version: u64) -> Result<()> {
    db.write("restore a snapshot", |mut tx| async move {
        set_version(&mut tx, PEOPLE, version).await?;
        tx.commit().await
    })
    .await
}

async fn next_version(tx: &mut Tx, id: &[u8]) -> Result<u64> {
    let next = Sql::new(
        "INSERT INTO records (id, version) VALUES ($1, 1) \
         ON CONFLICT (id) DO UPDATE SET version = records.version + 1 RETURNING version",
    );
    let version: Option<u64> = tx.row(next.bind(id)).await?;
    version.ok_or_else(|| Error::new(ErrorKind::Internal, "the database returned no version"))
}

async fn set_version(tx: &mut Tx, id: &[u8], version: u64) -> Result<()> {
    let set = Sql::new(
        "INSERT INTO records (id, version) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET version = \
         CASE WHEN records.version < excluded.version THEN excluded.version ELSE records.version END",
    );
    tx.run(set.bind(id).bind(version)).await?;
    Ok(())
}

/// Id of the snapshot of users and quotas.
const PEOPLE: &[u8] = b"people";
