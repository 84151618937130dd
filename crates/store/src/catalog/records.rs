//! Records: what the catalog alone knows of repositories and people, gathered to be written down as objects.

use async_trait::async_trait;

use super::keep::{LeftRow, QuotaOf, QuotaRow};
use super::repo::{MemberRow, NamespaceRow, RefRow, RepoRow};
use super::review::PullRow;
use crate::dedup::DedupPolicy;
use crate::error::Result;
use crate::repo::RepoId;

/// What is known of a repository besides its git objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoRecord {
    /// Its name, who sees it, whether it is in the trash.
    pub row: RepoRow,
    /// Where its branches, tags and pull requests point.
    pub refs: Vec<RefRow>,
    /// Its pull requests.
    pub pulls: Vec<PullRow>,
    /// Commits its refs have left.
    pub left: Vec<LeftRow>,
}

/// Users, organisations and their members, and what they may take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeopleRecord {
    /// Users and organisations.
    pub namespaces: Vec<NamespaceRow>,
    /// Who belongs to which.
    pub members: Vec<MemberRow>,
    /// Quotas, of repositories too: these have one whether they exist yet or not.
    pub quotas: Vec<QuotaRow>,
    /// Dedup policies of namespaces and repositories.
    pub dedup: Vec<(QuotaOf, DedupPolicy)>,
}

/// Gathers records.
///
/// *Contract*: as for [`Catalog`](super::Catalog). A record of a higher version has everything that was written before
/// one of a lower version was gathered.
#[async_trait]
pub trait Records: Send + Sync {
    /// What is known of a repository now, and a version that no record of it had before; `None` when it is gone.
    async fn note_repo(&self, repo: RepoId) -> Result<Option<(u64, RepoRecord)>>;

    /// The same of people.
    async fn note_people(&self) -> Result<(u64, PeopleRecord)>;

    /// A repository by what names it for ever, in the trash or not.
    async fn repo_of(&self, repo: RepoId) -> Result<Option<RepoRow>>;

    /// Makes refs and pull requests what a record says, and the next record's version a higher one. Refs to commits that
    /// are not there are left out.
    async fn restore_refs(&self, version: u64, record: &RepoRecord) -> Result<()>;

    /// Makes the next version of people's record a higher one.
    async fn restore_people_version(&self, version: u64) -> Result<()>;
}

/// The record that is of no repository.
pub(crate) const PEOPLE: &[u8] = b"people";

/// Implements [`Records`] for `$catalog`.
macro_rules! implement_records {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Connection = <$database as sqlx::Database>::Connection;

        #[async_trait]
        impl Records for $catalog {
            async fn note_repo(&self, repo: RepoId) -> Result<Option<(u64, RepoRecord)>> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // Locks the row first: whoever comes second sees what the first one saw, and more.
                    let version = next_version(&mut tx, repo.as_bytes()).await?;
                    let row = format!("SELECT {REPO_COLUMNS} FROM repos WHERE id = $1");
                    let row = sqlx::query_as(sqlx::AssertSqlSafe(row)).bind(repo.as_bytes().to_vec());
                    let row: Option<RepoColumns> = row.fetch_optional(&mut *tx).await?;
                    let Some(row) = row else { return Ok(None) };
                    let refs = sqlx::query_as("SELECT name, target FROM refs WHERE repo = $1 ORDER BY name");
                    let refs: Vec<(String, Vec<u8>)> =
                        refs.bind(repo.as_bytes().to_vec()).fetch_all(&mut *tx).await?;
                    let pulls = format!("SELECT {PULL_COLUMNS} FROM pulls WHERE repo = $1 ORDER BY number");
                    let pulls = sqlx::query_as(sqlx::AssertSqlSafe(pulls)).bind(repo.as_bytes().to_vec());
                    let pulls: Vec<PullColumns> = pulls.fetch_all(&mut *tx).await?;
                    let left = left_of(&mut tx, repo).await?;
                    tx.commit().await?;
                    Ok(Some((version, row, refs, pulls, left)))
                };
                let Some((version, row, refs, pulls, left)) = retried!("gather a record", work()) else {
                    return Ok(None);
                };
                let refs = refs.into_iter().map(|(name, target)| Ok(RefRow { name, target: oid_of(target)? }));
                let record = RepoRecord {
                    row: row.try_into()?,
                    refs: refs.collect::<Result<_>>()?,
                    pulls: pulls.into_iter().map(PullRow::try_from).collect::<Result<_>>()?,
                    left: left.into_iter().map(left_row).collect::<Result<_>>()?,
                };
                Ok(Some((number("version", version)?, record)))
            }

            async fn note_people(&self) -> Result<(u64, PeopleRecord)> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let version = next_version(&mut tx, PEOPLE).await?;
                    tx.commit().await?;
                    Ok(version)
                };
                let version = number("version", retried!("gather a record", work()))?;
                // Read after the version was taken: nothing that is in a lower one can be missing.
                let namespaces = self.namespaces().await?;
                let mut members = Vec::new();
                for row in namespaces.iter().filter(|row| row.is_organisation) {
                    members.extend(self.members(&row.name).await?);
                }
                let (quotas, dedup) = (self.quotas().await?, self.dedup_policies().await?);
                Ok((version, PeopleRecord { namespaces, members, quotas, dedup }))
            }

            async fn repo_of(&self, repo: RepoId) -> Result<Option<RepoRow>> {
                let query = format!("SELECT {REPO_COLUMNS} FROM repos WHERE id = $1");
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(repo.as_bytes().to_vec());
                let row: Sql<Option<RepoColumns>> = query.fetch_optional(&self.$reads).await;
                row.map_err(|source| translate("find a repository", source))?.map(RepoRow::try_from).transpose()
            }

            async fn restore_refs(&self, version: u64, record: &RepoRecord) -> Result<()> {
                let repo = record.row.id.as_bytes().as_slice();
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    set_version(&mut tx, repo, version).await?;
                    for delete in ["DELETE FROM refs WHERE repo = $1", "DELETE FROM pulls WHERE repo = $1"] {
                        sqlx::query(delete).bind(repo).execute(&mut *tx).await?;
                    }
                    for given in &record.refs {
                        let insert = "INSERT INTO refs (repo, name, target) SELECT $1, $2, $3 WHERE EXISTS \
                            (SELECT 1 FROM git_objects WHERE repo = $1 AND oid = $3 AND kind = 1)";
                        let target = given.target.as_bytes().as_slice();
                        sqlx::query(insert).bind(repo).bind(&given.name).bind(target).execute(&mut *tx).await?;
                    }
                    for pull in &record.pulls {
                        let insert = "INSERT INTO pulls (repo, number, title, description, author, created_s, state, merged) \
                            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
                        let insert = sqlx::query(insert)
                            .bind(repo)
                            .bind(column(pull.number))
                            .bind(&pull.title)
                            .bind(&pull.description)
                            .bind(&pull.author)
                            .bind(column(pull.created_s))
                            .bind(pull.state.number())
                            .bind(pull.state.merged());
                        insert.execute(&mut *tx).await?;
                    }
                    tx.commit().await
                };
                retried!("restore a record", work());
                Ok(())
            }

            async fn restore_people_version(&self, version: u64) -> Result<()> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    set_version(&mut tx, PEOPLE, version).await?;
                    tx.commit().await
                };
                retried!("restore a record", work());
                Ok(())
            }
        }

        async fn next_version(connection: &mut Connection, id: &[u8]) -> Sql<i64> {
            let next = "INSERT INTO records (id, version) VALUES ($1, 1) \
                ON CONFLICT (id) DO UPDATE SET version = records.version + 1 RETURNING version";
            let (version,) = sqlx::query_as(next).bind(id).fetch_one(connection).await?;
            Ok(version)
        }

        async fn set_version(connection: &mut Connection, id: &[u8], version: u64) -> Sql<()> {
            let set = "INSERT INTO records (id, version) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE \
                SET version = CASE WHEN records.version < excluded.version THEN excluded.version ELSE records.version END";
            sqlx::query(set).bind(id).bind(column(version)).execute(connection).await.map(|_| ())
        }
    };
}

pub(in crate::catalog) use implement_records;
