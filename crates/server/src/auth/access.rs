//! Access of CAS tokens: what the access that a token was issued for allows now.

use store::hub::Rights;
use store::ids::RepoId;
use store::{Scope, Store};
use xet::wire::routes::TokenScope;

use super::identity::{Role, TokenReach};
use super::people::{Person, rights_for};
use super::{Identity, RepoKind, Repository};

/// Part of the content store that a CAS token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The content of a repository.
    Repo(RepoId),
    /// The content of a name that has no repository.
    Name(Repository),
}

/// What a caller may do with the content of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The place as the store names it now.
    pub scope: Scope,
    reads: bool,
    writes: bool,
    /// When the token behind the access expires, Unix seconds.
    pub(super) expires_s: Option<u64>,
    /// Sender of what is uploaded; see [`Person::sender`].
    pub(crate) sender: Option<String>,
}

impl Access {
    /// Whether the access includes this.
    pub fn allows(&self, needed: TokenScope) -> bool {
        match needed {
            TokenScope::Read => self.reads,
            TokenScope::Write => self.writes,
        }
    }

    /// Reads from the catalog what a person, or with `None` an anonymous caller, may do in a place.
    pub(super) async fn load(
        store: &Store,
        person: Option<&Person>,
        place: &Place,
    ) -> store::Result<Option<Self>> {
        let principal = person.map(Person::principal);
        // The repository of a name may have been created since: the token of the name is bound to it now.
        let id = match (place, principal.map(|principal| &principal.reach)) {
            (Place::Repo(id), _) | (Place::Name(_), Some(TokenReach::Repo(id, _))) => *id,
            (Place::Name(name), _) => return Self::of_name(store, person, name).await,
        };
        let Some(repo) = store.hub().repo_of(id).await?.filter(|repo| repo.reclaim_s.is_none()) else {
            return Ok(None);
        };
        let may = |needed: Rights| {
            principal.is_some_and(|principal| {
                Identity::from(principal).may(needed, &repo.name, Some(id), &principal.memberships)
            })
        };
        let (reads, writes) = (!repo.private || may(Rights::Read), may(Rights::Write));
        let expires_s = principal.and_then(|principal| principal.token.expires_s);
        let sender = person.map(Person::sender);
        Ok(Some(Self { scope: repo.name.scope()?, reads, writes, expires_s, sender }))
    }

    async fn of_name(
        store: &Store,
        person: Option<&Person>,
        name: &Repository,
    ) -> store::Result<Option<Self>> {
        let Some(principal) = person.map(Person::principal) else { return Ok(None) };
        let identity = Identity::from(principal);
        let scope = name.scope()?;
        let is_covered = match &identity.reach {
            TokenReach::Unbound(own) => *own == scope,
            // Buckets have no owners yet.
            TokenReach::Everywhere => name.kind != RepoKind::Buckets || identity.role == Role::Admin,
            TokenReach::Namespace(own) => name.kind != RepoKind::Buckets && *own == scope.namespace(),
            TokenReach::Repo(..) | TokenReach::Nothing => false,
        };
        if !is_covered {
            return Ok(None);
        }
        if store.hub().tokens().repo_of_scope(&scope).await?.is_some() {
            return Ok(None);
        }
        let may = |scope: TokenScope| {
            let needed = rights_for(scope);
            person.is_some_and(|person| person.allow_anywhere(needed).is_ok())
                && identity.owner_may(needed, &name.namespace, &principal.memberships)
        };
        let (reads, writes) = (may(TokenScope::Read), may(TokenScope::Write));
        let sender = person.map(Person::sender);
        Ok(Some(Self { scope, reads, writes, expires_s: principal.token.expires_s, sender }))
    }
}
