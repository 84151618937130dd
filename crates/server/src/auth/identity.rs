//! Who a token of the Hub side belongs to: the one place where a token's text becomes somebody.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use store::catalog::tokens::{Bound, Rights};
use xet::wire::routes::TokenScope;

use super::{Refusal, Repository, bearer};
use crate::http::error::Refused;
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
    /// Where the token opens something by itself. Members of organisations have their rights besides.
    pub bound: Bound,
}

impl Identity {
    /// Whether the token opens something in this repository by itself.
    pub fn covers(&self, repo: &Repository) -> bool {
        // A name the store cannot hold is nobody's.
        repo.scope().is_ok_and(|scope| self.bound.covers(&scope))
    }
}

impl AppState {
    /// Who a token belongs to.
    pub async fn identify(&self, token: &str) -> Result<Identity, Refused> {
        // huggingface.js sends no token that does not begin so: people put it before ours.
        let token = token.strip_prefix("hf_").unwrap_or(token);
        if super::personal::is_token(token) {
            let person = self.known(token).await?;
            let row = person.token();
            let role = match row.rights {
                Rights::Read => Role::Read,
                Rights::Write => Role::Write,
                Rights::Admin => Role::Admin,
            };
            return Ok(Identity { name: row.subject.clone(), role, bound: row.bound.clone() });
        }
        // A token for the content of one repository opens the rest of that repository too.
        let claims = self.tokens.verify(token, self.now_s())?;
        self.admit(&claims.jti)?;
        let role = match claims.scope {
            TokenScope::Read => Role::Read,
            TokenScope::Write => Role::Write,
        };
        Ok(Identity { name: claims.sub, role, bound: Bound::Repo(claims.repo.scope()?) })
    }

    /// Who sent a request; `None` for somebody without a token.
    pub async fn who(&self, headers: &HeaderMap) -> Result<Option<Identity>, Refused> {
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

/// Everyone, where tokens are off.
const ANYONE: &str = "anyone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_sends_a_token_as_a_password() {
        assert_eq!(basic_password("Basic YW5uOmRzX3g6eQ==").as_deref(), Some("ds_x:y"));
        for other in ["Bearer YW5uOmRzX3g=", "Basic", "Basic !", "Basic YW5u"] {
            assert_eq!(basic_password(other), None, "{other}");
        }
    }
}
