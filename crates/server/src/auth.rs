//! Authentication and authorisation: who a caller is and what it may do. Knows tokens as text, and nothing of HTTP.
//!
//! | type          | is                                                                                      |
//! |---------------|-----------------------------------------------------------------------------------------|
//! | [`Principal`] | a caller with a personal token or a session, and what its token and owner allow         |
//! | [`access::Access`] | what a CAS token allows on the content of one repository, now                           |
//! | [`Claims`]    | content of a CAS token: short-lived, signed, checked without the catalog                |
//!
//! The store's `Grant` is what results: the right to read or write the content of one scope.

pub(crate) mod access;
pub(crate) mod authenticator;
pub(crate) mod cas_token;
pub mod password;
pub mod personal_token;
pub(crate) mod principal;
pub(crate) mod sign_in_limit;
pub(crate) mod token_store;

pub(crate) use authenticator::{AuthError, Authenticator};
pub(crate) use cas_token::{Claims, Issued, Origin};
pub(crate) use principal::Principal;

use xet::wire::ErrorCode;
use xet::wire::repo::RepoName;

/// The content scope of a repository: its kind is part of the name, `models/a` and `datasets/a` are two.
pub(crate) fn scope_of(name: &RepoName) -> store::Result<store::Scope> {
    store::Scope::new(&name.namespace, format!("{}/{}", name.kind.plural(), name.name))
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
    /// Revoked by an administrator.
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
    /// This is for administrators.
    #[error("this needs an admin token")]
    Admin,
}

impl Refusal {
    /// The code it is sent with: 401 where another token of the same person would help, 403 where it would not.
    pub(crate) fn code(self) -> ErrorCode {
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
    pub(crate) const fn reason(self) -> &'static str {
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
pub(crate) fn bearer(authorization: Option<&str>) -> Result<&str, Refusal> {
    let header = authorization.ok_or(Refusal::Missing)?;
    let (scheme, token) = header.trim().split_once(' ').ok_or(Refusal::Malformed)?;
    let token = token.trim_start();
    let fits = scheme.eq_ignore_ascii_case("bearer") && (1..=TOKEN_BYTES_MAX).contains(&token.len());
    fits.then_some(token).ok_or(Refusal::Malformed)
}

/// Longer than any of ours, and short enough to check.
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
}
