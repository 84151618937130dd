//! Identity of a caller on the Hub side, and what it may do.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use store::Scope;
use store::hub::{Bound, MemberRow, Rights};
use store::ids::RepoId;
use store::names::RepoName;

use super::people::Principal;
use super::{Origin, Refusal, bearer};
use crate::http::error::Refused;
use crate::state::AppState;

/// Most that a token allows; where, its bound and its owner decide.
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

/// Part of the server that a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenReach {
    /// Every repository.
    Everywhere,
    /// The repositories of one namespace.
    Namespace(String),
    /// One repository, whatever it is named.
    Repo(RepoId, Scope),
    /// A name without repository, which it may create.
    Unbound(Scope),
    /// Nothing: the repository it was for was deleted, or another one has its name.
    Nothing,
}

/// Kind of owner that a token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A user: the token allows at most what the user may do.
    User,
    /// An organisation: a service token, limited by its bound alone.
    Organisation,
    /// A name that is neither: limited by its bound alone.
    Name,
}

/// A caller with a personal token or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the owner: the namespace of what it names without one.
    pub name: String,
    /// Most that the token allows.
    pub role: Role,
    /// Part of the server that the token is for.
    pub reach: TokenReach,
    /// Kind of owner.
    pub owner: Owner,
    /// What CAS tokens for this caller are issued for.
    pub origin: Origin,
    /// When the token expires, Unix seconds.
    pub expires_s: Option<u64>,
    /// Actor in the audit log.
    pub actor: String,
}

impl Identity {
    /// Identity of every caller where access control is off.
    pub fn anyone() -> Self {
        Self {
            name: ANYONE.to_owned(),
            role: Role::Admin,
            reach: TokenReach::Everywhere,
            owner: Owner::Name,
            origin: Origin::Open,
            expires_s: None,
            actor: ANYONE.to_owned(),
        }
    }

    /// Name of the author of commits and the like: that of an organisation says that it is no person.
    pub fn author(&self) -> String {
        match self.owner {
            Owner::Organisation => format!("{} (service token)", self.name),
            Owner::User | Owner::Name => self.name.clone(),
        }
    }

    /// Whether the token and its owner may do this in the repository of this name and id, or in one of this name that is
    /// to be created. `memberships` are those of the owner.
    pub fn may(
        &self,
        needed: Rights,
        name: &RepoName,
        id: Option<RepoId>,
        memberships: &[MemberRow],
    ) -> bool {
        let has = match self.role {
            Role::Read => Rights::Read,
            Role::Write => Rights::Write,
            Role::Admin => Rights::Admin,
        };
        needed <= has && self.is_for(name, id) && self.owner_may(needed, &name.namespace, memberships)
    }

    /// Whether the token is for this repository.
    pub fn is_for(&self, name: &RepoName, id: Option<RepoId>) -> bool {
        let has_name = |scope: &Scope| name.scope().is_ok_and(|of_name| of_name == *scope);
        match (&self.reach, id) {
            (TokenReach::Everywhere, _) => true,
            (TokenReach::Namespace(namespace), _) => *namespace == name.namespace,
            (TokenReach::Repo(own, _), Some(id)) => *own == id,
            (TokenReach::Repo(_, scope) | TokenReach::Unbound(scope), None) => has_name(scope),
            (TokenReach::Unbound(_), Some(_)) | (TokenReach::Nothing, _) => false,
        }
    }

    /// Whether the owner of the token may do this in a namespace.
    pub fn owner_may(&self, needed: Rights, namespace: &str, memberships: &[MemberRow]) -> bool {
        let is_member =
            |row: &MemberRow| row.namespace == namespace && (needed == Rights::Read || row.writes);
        match self.owner {
            _ if self.role == Role::Admin => true,
            Owner::User => self.name == namespace || memberships.iter().any(is_member),
            Owner::Organisation | Owner::Name => true,
        }
    }

    /// Namespaces whose private repositories the caller may list; `None` for all.
    pub fn listed_namespaces(&self, memberships: &[MemberRow]) -> Option<Vec<String>> {
        let own = || memberships.iter().map(|row| row.namespace.clone()).chain([self.name.clone()]);
        let is_limited = self.owner == Owner::User && self.role != Role::Admin;
        match &self.reach {
            TokenReach::Everywhere if is_limited => Some(own().collect()),
            TokenReach::Everywhere => None,
            TokenReach::Namespace(bound) if is_limited => Some(own().filter(|own| own == bound).collect()),
            TokenReach::Namespace(bound) => Some(vec![bound.clone()]),
            // A token of one repository lists no others.
            TokenReach::Repo(..) | TokenReach::Unbound(_) | TokenReach::Nothing => Some(Vec::new()),
        }
    }

    /// The bound of tokens that the caller may make for itself.
    pub fn bound(&self) -> Bound {
        match &self.reach {
            // Everything that the user may do, or the namespace of a name that is no user.
            TokenReach::Everywhere if self.owner == Owner::User => Bound::Everywhere,
            TokenReach::Everywhere | TokenReach::Nothing => Bound::Namespace(self.name.clone()),
            TokenReach::Namespace(namespace) => Bound::Namespace(namespace.clone()),
            TokenReach::Repo(_, scope) | TokenReach::Unbound(scope) => Bound::Repo(scope.clone()),
        }
    }
}

impl From<&Principal> for Identity {
    fn from(principal: &Principal) -> Self {
        let row = &principal.token;
        let role = match row.rights {
            Rights::Read => Role::Read,
            Rights::Write => Role::Write,
            Rights::Admin => Role::Admin,
        };
        let owner = principal.owner;
        let mut identity = Self {
            name: row.subject.clone(),
            role,
            reach: principal.reach.clone(),
            owner,
            origin: Origin::Token(row.id.clone()),
            expires_s: row.expires_s,
            actor: String::new(),
        };
        identity.actor = match (role, owner) {
            (Role::Admin, Owner::Organisation | Owner::Name) => {
                let label = principal.opened_by.as_deref().unwrap_or(&row.label);
                format!("admin token \"{label}\"")
            }
            _ => identity.author(),
        };
        identity
    }
}

impl AppState {
    /// Identity of the caller who shows this token. A CAS token has none: it opens content only.
    pub async fn identify(&self, token: &str) -> Result<Identity, Refused> {
        // huggingface.js sends no token that does not begin so: people put it before ours.
        let token = token.strip_prefix("hf_").unwrap_or(token);
        if super::personal::is_token(token) {
            let person = self.known(token, true).await?;
            return Ok(Identity::from(person.principal()));
        }
        self.tokens.verify(token, self.now_s())?;
        Err(Refusal::CasToken.into())
    }

    /// Identity of the caller who sent a request; `None` without a token.
    pub async fn who(&self, headers: &HeaderMap) -> Result<Option<Identity>, Refused> {
        if !self.config.auth {
            return Ok(Some(Identity::anyone()));
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

/// Name of every caller where access control is off.
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
