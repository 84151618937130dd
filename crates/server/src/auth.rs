//! Who is asking, and what they may: tokens for the CAS routes, and the tokens people keep.
//!
//! A CAS token is short-lived, says everything itself and is checked without the catalog; the token route hands it out to
//! whoever proves to be somebody. A personal token lives until it is revoked and is stored as a hash only; one that is
//! bound to a repository opens the CAS routes as well.

pub mod access;
pub mod cas;
pub mod identity;
pub mod password;
pub mod people;
pub mod personal;
pub mod sign_in_limit;

pub use cas::{CasTokens, Claims, Issued, Origin};
pub use identity::{Identity, Role};
pub use people::{People, Person};
pub use personal::TokenHash;

use std::fmt;

use xet::wire::ErrorCode;

/// What sort of repository; each has names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoKind {
    /// Weights and what belongs to them.
    Models,
    /// Data.
    Datasets,
    /// Applications; stored, never run.
    Spaces,
    /// Files without history.
    Buckets,
}

impl RepoKind {
    /// Every kind.
    pub const ALL: &[Self] = &[Self::Models, Self::Datasets, Self::Spaces, Self::Buckets];

    /// The segment after `/api/`.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Datasets => "datasets",
            Self::Spaces => "spaces",
            Self::Buckets => "buckets",
        }
    }
}

/// One repository. Prints as `datasets/ns/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Repository {
    /// What sort.
    pub kind: RepoKind,
    /// The user or organisation that owns it.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl Repository {
    /// The repository as the store names it: its kind is part of the name, `models/a` and `datasets/a` are two.
    pub fn scope(&self) -> store::Result<store::Scope> {
        store::Scope::new(&self.namespace, format!("{}/{}", self.kind.segment(), self.name))
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.segment(), self.namespace, self.name)
    }
}

/// Why a token opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("this needs a token: Authorization: Bearer <token>")]
    Missing,
    /// It has not the form of one, or is signed in a way we never sign.
    #[error("the token is malformed")]
    Malformed,
    /// Not signed by us, or with a key that is not believed any more.
    #[error("the token's signature is wrong")]
    Signature,
    /// None that was ever made here.
    #[error("the token is not known here")]
    Unknown,
    /// Too old.
    #[error("the token has expired")]
    Expired,
    /// Taken back by whoever keeps the server.
    #[error("the token was revoked")]
    Revoked,
    /// Its owner is disabled.
    #[error("the token's owner is disabled")]
    Disabled,
    /// The access it was issued for has ended.
    #[error("the access this token was issued for has ended: request a new token from the token route")]
    Void,
    /// A CAS token on a route that is not about content.
    #[error("a CAS token opens only the content routes (/v1, /v2): use a personal token here")]
    CasToken,
    /// It reads, but this writes.
    #[error("the token does not allow writing")]
    Scope,
    /// It is for another repository.
    #[error("the token is for another repository")]
    Repository,
    /// It is for many, and this is about one that only a token can name.
    #[error("the token is not for one repository: ask the token route of a repository for one that is")]
    NoRepository,
    /// This is for whoever keeps the server.
    #[error("this needs an admin token")]
    Admin,
}

impl Refusal {
    /// The code it is sent with: 401 where another token of the same person would help, 403 where it would not.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Missing
            | Self::Malformed
            | Self::Signature
            | Self::Unknown
            | Self::Expired
            | Self::Revoked
            | Self::Disabled
            | Self::Void => ErrorCode::Unauthorized,
            Self::CasToken | Self::Scope | Self::Repository | Self::NoRepository | Self::Admin => {
                ErrorCode::Forbidden
            }
        }
    }

    /// One word for it, for metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Signature => "signature",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Disabled => "disabled",
            Self::Void => "void",
            Self::CasToken => "cas_token",
            Self::Scope => "scope",
            Self::Repository => "repository",
            Self::NoRepository => "no_repository",
            Self::Admin => "admin",
        }
    }
}

/// The token in an `Authorization` header.
pub fn bearer(authorization: Option<&str>) -> Result<&str, Refusal> {
    let header = authorization.ok_or(Refusal::Missing)?;
    let (scheme, token) = header.trim().split_once(' ').ok_or(Refusal::Malformed)?;
    let token = token.trim_start();
    let fits = scheme.eq_ignore_ascii_case("bearer") && (1..=TOKEN_BYTES_MAX).contains(&token.len());
    fits.then_some(token).ok_or(Refusal::Malformed)
}

/// Longer than any of ours, and short enough to look at.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer(Some("Bearer abc")), Ok("abc"));
        assert_eq!(bearer(Some("bearer  abc ")), Ok("abc"));
        assert_eq!(bearer(None), Err(Refusal::Missing));
        let long = format!("Bearer {}", "a".repeat(TOKEN_BYTES_MAX + 1));
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "abc", long.as_str()] {
            assert_eq!(bearer(Some(bad)), Err(Refusal::Malformed), "{bad:.20}");
        }
    }

    #[test]
    fn a_repository_prints_as_it_is_asked_for() {
        let repo = Repository { kind: RepoKind::Datasets, namespace: "ns".into(), name: "name".into() };
        assert_eq!(repo.to_string(), "datasets/ns/name");
        for kind in RepoKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.segment());
        }
    }
}
