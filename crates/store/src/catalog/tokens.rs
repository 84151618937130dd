//! The tokens people keep, in the catalog: what each opens, and the digest it is known by.
//!
//! Unlike the rest of the catalog they follow from no object: a catalog that is built again has none.

mod postgres;
mod sqlite;

use async_trait::async_trait;

use super::rows::{array, number};
use crate::access::Scope;
use crate::audit::Deed;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::{Kind, RepoId};

/// The tokens of a catalog.
///
/// *Contract*: as for [`Catalog`](super::Catalog). Besides: no two tokens share an id or a digest; a token that was
/// revoked stays revoked, and keeps the time of the first revocation.
#[async_trait]
pub trait Tokens: std::fmt::Debug + Send + Sync {
    /// Adds a token; `false` when its id or its digest is taken, and then nothing changed. A token for a repository that
    /// exists is bound to the repository's id; one for a name without repository is bound when a repository of that name
    /// is first created.
    async fn add(&self, row: &TokenRow) -> Result<bool>;

    /// The token with this digest, whatever became of it.
    async fn by_digest(&self, digest: &[u8; 32]) -> Result<Option<TokenRow>>;

    /// The token with this id, whatever its state.
    async fn by_id(&self, id: &str) -> Result<Option<TokenRow>>;

    /// Id of the repository of a scope of content, if it has one that is not in the trash.
    async fn repo_of_scope(&self, scope: &Scope) -> Result<Option<RepoId>>;

    /// Every token, also those that were revoked, the oldest first.
    async fn all(&self) -> Result<Vec<TokenRow>>;

    /// Revokes a token, and with it those it opened; `None` when there is none of that id. Tells how the row stands now.
    async fn revoke(&self, id: &str, now_s: u64) -> Result<Option<TokenRow>>;

    /// Notes that a token was shown now. Time never goes back.
    async fn note_use(&self, id: &str, now_s: u64) -> Result<()>;

    /// The hash of somebody's password, if they have one.
    async fn password(&self, name: &str) -> Result<Option<String>>;

    /// Sets a user's password, or removes it with `None`, and revokes the user's browser sessions and the tokens made in
    /// them, except those of `kept_session`.
    async fn set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        now_s: u64,
        kept_session: Option<&str>,
    ) -> Result<()>;
}

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
    /// To keep the server.
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
    pub(crate) fn deed(&self) -> Deed {
        let place = match &self.bound {
            Bound::Everywhere => "everywhere".to_owned(),
            Bound::Namespace(namespace) => format!("in {namespace}"),
            Bound::Repo(scope) => format!("in {scope}"),
        };
        Deed::new(
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

/// Of the rows that were revoked the one that was meant, and what is noted of it.
fn revoked(rows: Vec<TokenColumns>, id: &str) -> Option<(TokenColumns, Deed)> {
    let detail = match rows.len() {
        0 | 1 => String::new(),
        many => format!("and {} it opened", many - 1),
    };
    let row = rows.into_iter().find(|row| row.0 == id)?;
    Some((row, Deed::new("token.revoke", id, detail)))
}

/// The columns, in the order of [`COLUMNS`].
type TokenColumns = (
    String,
    String,
    Vec<u8>,
    String,
    i64,
    Option<String>,
    Option<String>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<Vec<u8>>,
    Option<String>,
);

const SET_PASSWORD: &str = "INSERT INTO passwords (name, hash, changed_s) VALUES ($1, $2, $3) \
    ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, changed_s = excluded.changed_s";

/// Takes back a token and what it opened that is not over.
const REVOKE: &str = "UPDATE tokens SET revoked_s = COALESCE(revoked_s, $1) \
    WHERE id = $2 OR (revoked_s IS NULL AND SUBSTR(id, 1, LENGTH($2) + 1) = $2 || '.')";

/// Revokes the sessions of a user and the tokens made in them, except those of one session.
const END_SESSIONS: &str = "UPDATE tokens SET revoked_s = $1 \
    WHERE revoked_s IS NULL AND subject = $2 AND session IS NOT NULL AND session <> $3";

/// Id of the repository of this kind, namespace and name. Names are compared without regard to case.
const REPO_OF_SCOPE: &str = "SELECT id FROM repos WHERE reclaim_s IS NULL AND kind = $1 \
    AND LOWER(namespace) = LOWER($2) AND LOWER(name) = LOWER($3) \
    ORDER BY CASE WHEN namespace = $2 AND name = $3 THEN 0 ELSE 1 END LIMIT 1";

/// The kind and the name of the repository that a scope can belong to: `models/name` is one, `buckets/name` is none.
fn kind_and_name(scope: &Scope) -> Option<(i64, &str)> {
    let (kind, name) = scope.repo().split_once('/')?;
    let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind)?;
    Some((kind.number(), name))
}

fn repo_id_of(column: Vec<u8>) -> Result<RepoId> {
    let damaged = || Error::new(ErrorKind::Corrupt, "the catalog holds an impossible repository id");
    column.try_into().map(RepoId::new).map_err(|_| damaged())
}

/// Binds the tokens for a scope to the repository that was created there.
pub(in crate::catalog) const BIND_TOKENS: &str = "UPDATE tokens SET repo_id = $1 \
    WHERE repo_id IS NULL AND LOWER(namespace) = LOWER($2) AND LOWER(repo) = LOWER($3)";

const COLUMNS: &str = "id, label, digest, subject, rights, namespace, repo, created_s, expires_s, used_s, \
    revoked_s, repo_id, session";

impl TryFrom<TokenColumns> for TokenRow {
    type Error = Error;

    fn try_from(columns: TokenColumns) -> Result<Self> {
        let (
            id,
            label,
            digest,
            subject,
            rights,
            namespace,
            repo,
            created,
            expires,
            used,
            revoked,
            repo_id,
            session,
        ) = columns;
        let damaged =
            |what| Error::new(ErrorKind::Corrupt, format!("the catalog holds an impossible {what}"));
        let rights = Rights::ALL.iter().find(|known| known.number() == rights);
        let bound = match (namespace, repo) {
            (None, None) => Bound::Everywhere,
            (Some(namespace), None) => Bound::Namespace(namespace),
            (Some(namespace), Some(repo)) => {
                Bound::Repo(Scope::new(namespace, repo).map_err(|_| damaged("repository of a token"))?)
            }
            // A token bound to half a name must not open everything.
            (None, Some(_)) => return Err(damaged("binding of a token")),
        };
        let time = |what, column: Option<i64>| column.map(|column| number(what, column)).transpose();
        Ok(Self {
            id,
            label,
            digest: array("digest of a token", digest)?,
            subject,
            rights: *rights.ok_or_else(|| damaged("right of a token"))?,
            bound,
            created_s: number("time created", created)?,
            expires_s: time("time of expiry", expires)?,
            used_s: time("time of use", used)?,
            revoked_s: time("time of revocation", revoked)?,
            repo_id: repo_id.map(repo_id_of).transpose()?,
            session,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> TokenColumns {
        let text = |text: &str| Some(text.to_owned());
        let (namespace, repo) = (text("ann"), text("models/a"));
        (
            "t1".into(),
            "laptop".into(),
            vec![7; 32],
            "ann".into(),
            1,
            namespace,
            repo,
            5,
            Some(9),
            None,
            None,
            Some(vec![3; 16]),
            None,
        )
    }

    #[test]
    fn a_binding_covers_what_it_names() {
        let scope = |text: &str| text.parse::<Scope>().unwrap();
        let (mine, ours, theirs) = (scope("ann/models/a"), scope("ann/models/b"), scope("bob/models/a"));
        let covered = |bound: Bound| [&mine, &ours, &theirs].map(|scope| bound.covers(scope));
        assert_eq!(covered(Bound::Everywhere), [true, true, true]);
        assert_eq!(covered(Bound::Namespace("ann".into())), [true, true, false]);
        assert_eq!(covered(Bound::Repo(mine.clone())), [true, false, false]);
    }

    #[test]
    fn impossible_rows_are_corrupt_and_open_nothing() {
        assert!(TokenRow::try_from(columns()).is_ok());
        let mut half = columns();
        half.5 = None;
        let mut digest = columns();
        digest.2.pop();
        let mut rights = columns();
        rights.4 = 3;
        let mut time = columns();
        time.8 = Some(-1);
        let mut repo_id = columns();
        repo_id.11 = Some(vec![3; 15]);
        for columns in [half, digest, rights, time, repo_id] {
            assert_eq!(TokenRow::try_from(columns).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn a_token_ends_when_it_expires_or_is_revoked() {
        let row = TokenRow::try_from(columns()).unwrap();
        assert!(row.is_live(8) && !row.is_live(9));
        assert!(!TokenRow { revoked_s: Some(6), ..row.clone() }.is_live(6));
        assert!(TokenRow { expires_s: None, ..row }.is_live(u64::MAX));
        assert!(Rights::Read < Rights::Write && Rights::Write < Rights::Admin);
    }
}
