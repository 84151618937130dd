//! Access of CAS tokens: what the access that a token was issued for allows now.

use store::hub::Rights;
use store::ids::RepoId;
use store::{Scope, Store};
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;

use crate::auth::principal::{Principal, TokenReach};
use crate::auth::scope_of;

/// What a caller may do with the content of one repository, or of one name that has no repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    /// The content as the store names it now.
    pub(crate) scope: Scope,
    reads: bool,
    writes: bool,
    /// When the token behind the access expires, Unix seconds.
    pub(crate) expires_s: Option<u64>,
    /// Sender of what is uploaded; see [`Principal::sender`].
    pub(crate) sender: Option<String>,
}

impl Access {
    /// Whether the access includes this.
    pub(crate) fn allows(&self, needed: TokenScope) -> bool {
        match needed {
            TokenScope::Read => self.reads,
            TokenScope::Write => self.writes,
        }
    }

    /// Reads from the catalog what a principal, or with `None` an anonymous caller, may do with the content of the repository of
    /// this id, or without one of this name.
    pub(crate) async fn load(
        store: &Store,
        principal: Option<&Principal>,
        id: Option<RepoId>,
        name: &RepoName,
    ) -> store::Result<Option<Self>> {
        // The repository of a name may have been created since: the token of the name is bound to it now.
        let id = match (id, principal.map(|principal| &principal.reach)) {
            (Some(id), _) => id,
            (None, Some(TokenReach::Repo(id, _))) => *id,
            (None, _) => return Self::of_name(store, principal, name).await,
        };
        let Some(repo) = store.hub().repo_of(id).await?.filter(|repo| repo.reclaim_s.is_none()) else {
            return Ok(None);
        };
        let may = |needed| principal.is_some_and(|principal| principal.may(needed, &repo.name, Some(id)));
        Ok(Some(Self {
            scope: repo.name.scope()?,
            reads: !repo.private || may(Rights::Read),
            writes: may(Rights::Write),
            expires_s: principal.and_then(|principal| principal.expires_s),
            sender: principal.map(Principal::sender),
        }))
    }

    async fn of_name(
        store: &Store,
        principal: Option<&Principal>,
        name: &RepoName,
    ) -> store::Result<Option<Self>> {
        let Some(principal) = principal else { return Ok(None) };
        let scope = scope_of(name)?;
        let is_covered = match &principal.reach {
            TokenReach::Unbound(own) => *own == scope,
            // Buckets have no owners yet.
            TokenReach::Everywhere => name.kind != RepoKind::Bucket || principal.is_admin(),
            TokenReach::Namespace(own) => name.kind != RepoKind::Bucket && *own == scope.namespace(),
            TokenReach::Repo(..) | TokenReach::Nothing => false,
        };
        if !is_covered {
            return Ok(None);
        }
        if store.hub().tokens().repo_of_scope(&scope).await?.is_some() {
            return Ok(None);
        }
        let may = |needed| principal.require(needed).is_ok() && principal.owner_may(needed, &name.namespace);
        let (reads, writes) = (may(Rights::Read), may(Rights::Write));
        Ok(Some(Self {
            scope,
            reads,
            writes,
            expires_s: principal.expires_s,
            sender: Some(principal.sender()),
        }))
    }
}
