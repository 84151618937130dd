//! Who a token of the Hub side belongs to: the one place where a token's text becomes somebody.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xet::wire::routes::TokenScope;

use super::{Refusal, Repository, bearer};
use crate::state::AppState;

/// What somebody may do at most; where, their names and memberships decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Everything, everywhere.
    Admin,
}

impl Role {
    /// As clients are told.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write | Self::Admin => "write",
        }
    }
}

/// Somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Their name, which is also their namespace.
    pub name: String,
    /// What they may do at most.
    pub role: Role,
    /// Where the token opens something.
    pub bound: Bound,
}

/// Where a token opens something by itself. Members of organisations have their rights besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// In every repository.
    Everywhere,
    /// In the repositories of one namespace.
    Namespace(String),
    /// In one repository, and nowhere else.
    Repo(Repository),
}

impl Bound {
    /// Whether it opens something in this repository.
    pub fn covers(&self, repo: &Repository) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Namespace(namespace) => *namespace == repo.namespace,
            Self::Repo(only) => only == repo,
        }
    }
}

impl AppState {
    /// Who a token belongs to.
    // Waits for nothing yet; tokens in the catalog will.
    #[allow(clippy::unused_async)]
    pub async fn identify(&self, token: &str) -> Result<Identity, Refusal> {
        // huggingface.js sends no token that does not begin so: people put it before ours.
        let token = token.strip_prefix("hf_").unwrap_or(token);
        if self.admin.is_some_and(|admin| admin.matches(token)) {
            return Ok(Identity { name: ADMIN.to_owned(), role: Role::Admin, bound: Bound::Everywhere });
        }
        if super::personal::is_token(token) {
            return Err(Refusal::Signature);
        }
        // A token for the content of one repository opens the rest of that repository too.
        let claims = self.tokens.verify(token, self.now_s())?;
        let role = match claims.scope {
            TokenScope::Read => Role::Read,
            TokenScope::Write => Role::Write,
        };
        Ok(Identity { name: claims.sub, role, bound: Bound::Repo(claims.repo) })
    }

    /// Who sent a request; `None` for somebody without a token.
    pub async fn who(&self, headers: &HeaderMap) -> Result<Option<Identity>, Refusal> {
        if !self.config.auth {
            return Ok(Some(Identity {
                name: ANYONE.to_owned(),
                role: Role::Admin,
                bound: Bound::Everywhere,
            }));
        }
        let Some(header) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
        let text = header.to_str().map_err(|_| Refusal::Malformed)?;
        match basic_password(text) {
            Some(password) => self.identify(&password).await.map(Some),
            None => self.identify(bearer(Some(text))?).await.map(Some),
        }
    }
}

/// The password of a `Basic` header, which is how git sends a token.
fn basic_password(header: &str) -> Option<String> {
    let (scheme, encoded) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    Some(decoded.split_once(':')?.1.to_owned())
}

/// Whoever keeps the server.
pub const ADMIN: &str = "admin";
/// Everyone, where tokens are off.
const ANYONE: &str = "anyone";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::RepoKind;

    #[test]
    fn a_token_covers_what_it_is_bound_to() {
        let repo = |namespace: &str| Repository {
            kind: RepoKind::Models,
            namespace: namespace.into(),
            name: "a".into(),
        };
        assert!(Bound::Everywhere.covers(&repo("ann")));
        assert!(Bound::Namespace("ann".into()).covers(&repo("ann")));
        assert!(!Bound::Namespace("ann".into()).covers(&repo("bob")));
        assert!(Bound::Repo(repo("ann")).covers(&repo("ann")));
        assert!(!Bound::Repo(repo("ann")).covers(&repo("bob")));
    }

    #[test]
    fn git_sends_a_token_as_a_password() {
        assert_eq!(basic_password("Basic YW5uOmRzX3g6eQ==").as_deref(), Some("ds_x:y"));
        for other in ["Bearer YW5uOmRzX3g=", "Basic", "Basic !", "Basic YW5u"] {
            assert_eq!(basic_password(other), None, "{other}");
        }
    }
}
