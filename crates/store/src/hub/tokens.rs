//! Access tokens in the catalog, with what each opens and the digest it is known by, and passwords.
//!
//! Unlike the rest of the catalog they follow from no object: a catalog that is built again has none.

#[cfg(test)]
mod tests;

use crate::access::Scope;
use crate::audit::{AuditEvent, append_event};
use crate::db::Catalog;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::people::{self, NamespaceRow};
use crate::hub::repos;
use crate::hub::rows::RepoRow;
use crate::ids::RepoId;
use crate::names::{Kind, RepoName};

/// The tokens of a catalog.
///
/// *Contract*: as for [`Catalog`](Catalog). Besides: no two tokens share an id or a digest; a token that was
/// revoked stays revoked, and keeps the time of the first revocation.
#[derive(Debug, Clone)]
pub struct Tokens {
    db: Catalog,
}

impl Tokens {
    /// The tokens of this catalog.
    pub fn new(catalog: &Catalog) -> Self {
        Self { db: catalog.clone() }
    }

    /// A user or organisation that tokens may be for, deleted ones too.
    pub async fn namespace(&self, name: &str) -> Result<Option<NamespaceRow>> {
        people::namespace(&self.db, name).await
    }

    /// A namespace as it is spelled; as it is given where it is unknown.
    pub async fn canonical_namespace(&self, name: &str) -> Result<String> {
        let found = people::spellings(&self.db, name).await?;
        Ok(found.into_iter().next().unwrap_or_else(|| name.to_owned()))
    }

    /// The repository of a name, in any case.
    pub async fn repo(&self, name: &RepoName) -> Result<Option<RepoRow>> {
        Ok(repos::repos(&self.db, std::slice::from_ref(name)).await?.into_iter().next())
    }

    /// Adds a token; `false` when its id or its digest is taken, and then nothing changed. A token for a repository that
    /// exists is bound to the repository's id; one for a name without repository is bound when a repository of that name
    /// is first created.
    pub async fn add(&self, row: &TokenRow) -> Result<bool> {
        self.db
            .write("add a token", |mut tx| async move {
                let mut repo_id = row.repo_id;
                if let (None, Bound::Repo(scope)) = (repo_id, &row.bound)
                    && let Some(select) = select_repo_of_scope(scope)
                {
                    repo_id = tx.row(select).await?;
                }
                let (namespace, repo) = row.bound.columns();
                let insert = format!(
                    "INSERT INTO tokens ({COLUMNS}) \
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING"
                );
                let insert = Sql::new(insert)
                    .bind(&row.id)
                    .bind(&row.label)
                    .bind(&row.digest)
                    .bind(&row.subject)
                    .bind(row.rights.number())
                    .bind(namespace)
                    .bind(repo)
                    .bind(row.created_s)
                    .bind(row.expires_s)
                    .bind(row.used_s)
                    .bind(row.revoked_s)
                    .bind(repo_id)
                    .bind(row.session.as_deref());
                let is_new = tx.run(insert).await? > 0;
                if is_new {
                    append_event(&mut tx, &row.event()).await?;
                }
                tx.commit().await?;
                Ok(is_new)
            })
            .await
    }

    /// The token with this digest, whatever became of it.
    pub async fn by_digest(&self, digest: &[u8; 32]) -> Result<Option<TokenRow>> {
        let select = format!("SELECT {COLUMNS} FROM tokens WHERE digest = $1");
        self.db.read_one("find a token", Sql::new(select).bind(digest).short()).await
    }

    /// The token with this id, whatever its state.
    pub async fn by_id(&self, id: &str) -> Result<Option<TokenRow>> {
        let select = format!("SELECT {COLUMNS} FROM tokens WHERE id = $1");
        self.db.read_one("find a token", Sql::new(select).bind(id).short()).await
    }

    /// Id of the repository of a scope of content, if it has one that is not in the trash.
    pub async fn repo_of_scope(&self, scope: &Scope) -> Result<Option<RepoId>> {
        let Some(select) = select_repo_of_scope(scope) else { return Ok(None) };
        self.db.read_one("find a repository", select.short()).await
    }

    /// Every token, also those that were revoked, the oldest first.
    pub async fn all(&self) -> Result<Vec<TokenRow>> {
        let select = format!("SELECT {COLUMNS} FROM tokens ORDER BY created_s, id");
        self.db.read("list tokens", Sql::new(select)).await
    }

    /// Revokes a token and those that were made with it. Returns its row as it is now; `None` when there is no token of
    /// that id.
    pub async fn revoke(&self, id: &str, now_s: u64) -> Result<Option<TokenRow>> {
        let is_known = self
            .db
            .write("revoke a token", |mut tx| async move {
                let update = "UPDATE tokens SET revoked_s = COALESCE(revoked_s, $1) \
                    WHERE id = $2 OR (revoked_s IS NULL AND SUBSTR(id, 1, LENGTH($2) + 1) = $2 || '.') \
                    RETURNING id";
                let ids: Vec<String> = tx.rows(Sql::new(update).bind(now_s).bind(id)).await?;
                let is_known = ids.iter().any(|found| found == id);
                if is_known {
                    let detail = match ids.len() {
                        0 | 1 => String::new(),
                        many => format!("and {} it opened", many - 1),
                    };
                    append_event(&mut tx, &AuditEvent::new("token.revoke", id, detail)).await?;
                }
                tx.commit().await?;
                Ok(is_known)
            })
            .await?;
        // Read after the commit: a row that is damaged must not keep its token from being revoked.
        if is_known { self.by_id(id).await } else { Ok(None) }
    }

    /// Records that a token was shown now. Time never goes back.
    pub async fn note_use(&self, id: &str, now_s: u64) -> Result<()> {
        let update = "UPDATE tokens SET used_s = CASE WHEN used_s > $1 THEN used_s ELSE $1 END WHERE id = $2";
        let update = Sql::new(update).bind(now_s).bind(id);
        self.db.write_one("record the use of a token", update).await.map(|_| ())
    }

    /// The hash of a user's password, if there is one.
    pub async fn password(&self, name: &str) -> Result<Option<String>> {
        let select = Sql::new("SELECT hash FROM passwords WHERE name = $1").bind(name);
        self.db.read_one("find a password", select.short()).await
    }

    /// Sets a user's password, or removes it with `None`, and revokes the user's browser sessions and the tokens made in
    /// them, except those of `except_session`.
    pub async fn set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        now_s: u64,
        except_session: Option<&str>,
    ) -> Result<()> {
        self.db
            .write("set a password", |mut tx| async move {
                let set = match hash {
                    Some(hash) => {
                        let set = "INSERT INTO passwords (name, hash, changed_s) VALUES ($1, $2, $3) \
                            ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, changed_s = excluded.changed_s";
                        Sql::new(set).bind(name).bind(hash).bind(now_s)
                    }
                    None => Sql::new("DELETE FROM passwords WHERE name = $1").bind(name),
                };
                tx.run(set).await?;
                let end = "UPDATE tokens SET revoked_s = $1 \
                    WHERE revoked_s IS NULL AND subject = $2 AND session IS NOT NULL AND session <> $3";
                let end = Sql::new(end).bind(now_s).bind(name).bind(except_session.unwrap_or_default());
                tx.run(end).await?;
                append_event(&mut tx, &AuditEvent::new("password.set", name, "")).await?;
                tx.commit().await
            })
            .await
    }
}

/// Selects the id of the repository that a scope belongs to, whose name is compared without regard to case. `None` for a
/// scope that belongs to none: `models/name` is of a repository, `buckets/name` is not.
fn select_repo_of_scope(scope: &Scope) -> Option<Sql<'_>> {
    let (kind, name) = scope.repo().split_once('/')?;
    let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind)?;
    let select = "SELECT id FROM repos WHERE reclaim_s IS NULL AND kind = $1 \
        AND LOWER(namespace) = LOWER($2) AND LOWER(name) = LOWER($3) \
        ORDER BY CASE WHEN namespace = $2 AND name = $3 THEN 0 ELSE 1 END LIMIT 1";
    Some(Sql::new(select).bind(kind.number()).bind(scope.namespace()).bind(name))
}

const COLUMNS: &str = "id, label, digest, subject, rights, namespace, repo, created_s, expires_s, used_s, \
    revoked_s, repo_id, session";

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Names it where it must not stand itself. One that another opened has the other's id and a dot before its own.
    pub id: String,
    /// What its maker calls it. Two may be called the same.
    pub label: String,
    /// What it is known by.
    pub digest: [u8; 32],
    /// Whose it is.
    pub subject: String,
    /// What it allows.
    pub rights: Rights,
    /// Where.
    pub bound: Bound,
    /// When it was made, Unix seconds.
    pub created_s: u64,
    /// From when on it opens nothing, if it ever ends.
    pub expires_s: Option<u64>,
    /// When it was last shown, to the hour or so.
    pub used_s: Option<u64>,
    /// When it was taken back.
    pub revoked_s: Option<u64>,
    /// Id of the repository that a token for one repository is bound to; `None` as long as none of its name was created.
    pub repo_id: Option<RepoId>,
    /// Id of the browser session that the token is, or was made in.
    pub session: Option<String>,
}

/// What a token allows. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// To read.
    Read,
    /// To write.
    Write,
    /// Administration.
    Admin,
}

impl Rights {
    /// All of them, the least first.
    pub const ALL: &[Self] = &[Self::Read, Self::Write, Self::Admin];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    fn number(self) -> i64 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Admin => 2,
        }
    }
}

/// Where a token opens something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// In every repository.
    Everywhere,
    /// In the repositories of one namespace.
    Namespace(String),
    /// In one repository.
    Repo(Scope),
}

impl Bound {
    /// Whether it opens something in this repository.
    pub fn covers(&self, scope: &Scope) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Namespace(namespace) => namespace == scope.namespace(),
            Self::Repo(repo) => repo == scope,
        }
    }

    fn columns(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Everywhere => (None, None),
            Self::Namespace(namespace) => (Some(namespace), None),
            Self::Repo(scope) => (Some(scope.namespace()), Some(scope.repo())),
        }
    }
}

impl TokenRow {
    /// What adding it means. Its digest is nobody's business.
    pub(crate) fn event(&self) -> AuditEvent {
        let place = match &self.bound {
            Bound::Everywhere => "everywhere".to_owned(),
            Bound::Namespace(namespace) => format!("in {namespace}"),
            Bound::Repo(scope) => format!("in {scope}"),
        };
        AuditEvent::new(
            "token.create",
            self.id.as_str(),
            format!("{} {} {place}", self.subject, self.rights.as_str()),
        )
    }

    /// Whether it opens anything at this time.
    pub fn is_live(&self, now_s: u64) -> bool {
        self.revoked_s.is_none() && self.expires_s.is_none_or(|expires_s| now_s < expires_s)
    }
}

/// The columns in the order of `COLUMNS`.
impl FromRow for TokenRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let damaged =
            |what| Error::new(ErrorKind::Corrupt, format!("the catalog holds an impossible {what}"));
        let (id, label) = (row.text("id of a token")?, row.text("label of a token")?);
        let digest = row.array("digest of a token")?;
        let subject = row.text("subject of a token")?;
        let rights = row.signed("right of a token")?;
        let rights = Rights::ALL.iter().find(|known| known.number() == rights);
        let namespace = row.optional_text("namespace of a token")?;
        let bound = match (namespace, row.optional_text("repository of a token")?) {
            (None, None) => Bound::Everywhere,
            (Some(namespace), None) => Bound::Namespace(namespace),
            (Some(namespace), Some(repo)) => {
                Bound::Repo(Scope::new(namespace, repo).map_err(|_| damaged("repository of a token"))?)
            }
            // A token bound to half a name must not open everything.
            (None, Some(_)) => return Err(damaged("binding of a token")),
        };
        Ok(Self {
            id,
            label,
            digest,
            subject,
            rights: *rights.ok_or_else(|| damaged("right of a token"))?,
            bound,
            created_s: row.number("time created")?,
            expires_s: row.optional_number("time of expiry")?,
            used_s: row.optional_number("time of use")?,
            revoked_s: row.optional_number("time of revocation")?,
            repo_id: row.optional_array("repository id")?.map(RepoId::new),
            session: row.optional_text("session of a token")?,
        })
    }
}
