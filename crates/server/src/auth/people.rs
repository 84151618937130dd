//! Personal tokens: their rows, owners and repositories, looked up in the catalog.
//!
//! What was looked up is cached for [`BELIEVED`]: so long a token that was just revoked may still open something.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use store::Store;
use store::hub::{Bound, MemberRow, NamespaceState, Rights, TokenRow};
use store::ids::RepoId;
use xet::wire::routes::TokenScope;

use super::access::{Access, Place};
use super::identity::{Owner, TokenReach};
use super::{Claims, Identity, Origin, Refusal, Repository, TokenHash};

/// How long an answer of the catalog is cached.
pub const BELIEVED: Duration = Duration::from_secs(2);

/// Looks up tokens. Clones share one cache.
#[derive(Debug, Clone)]
pub struct People {
    store: Store,
    /// By digest of the token, unknown ones too.
    seen: Cache<TokenHash, Option<Arc<Principal>>>,
    /// What CAS tokens of one origin may do in one place.
    accesses: Cache<AccessKey, Loaded>,
}

/// Origin of a CAS token, and the id and name of the repository that it names.
type AccessKey = (Origin, Option<RepoId>, Repository);

/// What was read from the catalog; `None` for no access.
#[derive(Debug, Clone)]
struct Loaded {
    access: Option<Access>,
    loaded_s: u64,
}

impl People {
    /// The tokens of a store.
    pub fn new(store: Store) -> Self {
        let seen = Cache::builder().max_capacity(SEEN_MAX).time_to_live(BELIEVED).build();
        let accesses = Cache::builder().max_capacity(SEEN_MAX).time_to_live(BELIEVED).build();
        Self { store, seen, accesses }
    }

    /// Whose token this is, if it opens anything now. The outer error is the catalog's. With `fresh`, a token for a name
    /// without repository is looked up again: the repository may have been created a moment ago.
    pub async fn of(&self, token: &str, now_s: u64, fresh: bool) -> store::Result<Result<Person, Refusal>> {
        let Some(hash) = TokenHash::of(token) else { return Ok(Err(Refusal::Malformed)) };
        let mut found = self
            .seen
            .try_get_with(hash, self.look_up(hash, now_s))
            .await
            .map_err(|error| shared_error(&error))?;
        let is_unbound = |principal: &Arc<Principal>| matches!(principal.reach, TokenReach::Unbound(_));
        if fresh && found.as_ref().is_some_and(is_unbound) {
            found = self.look_up(hash, now_s).await?;
            self.seen.insert(hash, found.clone()).await;
        }
        Ok(found.ok_or(Refusal::Unknown).and_then(|principal| Person::new(principal, now_s)))
    }

    /// What a CAS token may do now, if that includes `needed`: `None` when the access that it was issued for has ended.
    pub async fn access(
        &self,
        claims: &Claims,
        needed: TokenScope,
        now_s: u64,
    ) -> store::Result<Option<Access>> {
        // Issued while access control was off.
        if claims.origin == Origin::Open {
            return Ok(None);
        }
        // With the name: a token that was issued after a rename has content under the new name at once.
        let key = (claims.origin.clone(), claims.repo_id, claims.repo.clone());
        let allowed = |loaded: &Loaded| {
            let access = loaded.access.as_ref().filter(|access| access.allows(needed));
            access.filter(|access| access.expires_s.is_none_or(|expires_s| now_s < expires_s)).cloned()
        };
        let loaded = match self.accesses.get(&key).await {
            Some(loaded) => loaded,
            None => {
                let load = self.load_access(key.clone(), now_s);
                self.accesses.try_get_with(key.clone(), load).await.map_err(|error| shared_error(&error))?
            }
        };
        if let Some(access) = allowed(&loaded) {
            return Ok(Some(access));
        }
        if claims.iat < loaded.loaded_s {
            return Ok(None);
        }
        // The token is as new as what is cached: the access may have been granted in between.
        let loaded = self.load_access(key.clone(), now_s).await?;
        self.accesses.insert(key, loaded.clone()).await;
        Ok(allowed(&loaded))
    }

    /// Access to a repository where access control is off; `None` when there is none of this id.
    pub async fn open_access(
        &self,
        id: RepoId,
        name: &Repository,
        now_s: u64,
    ) -> store::Result<Option<Access>> {
        let key = (Origin::Open, Some(id), name.clone());
        if let Some(loaded) = self.accesses.get(&key).await {
            return Ok(loaded.access);
        }
        let access = Access::load(&self.store, None, &Place::Repo(id)).await?;
        self.accesses.insert(key, Loaded { access: access.clone(), loaded_s: now_s }).await;
        Ok(access)
    }

    async fn load_access(&self, (origin, id, name): AccessKey, now_s: u64) -> store::Result<Loaded> {
        let nothing = Loaded { access: None, loaded_s: now_s };
        let person = match origin {
            Origin::Anonymous => None,
            Origin::Open => return Ok(nothing),
            Origin::Token(id) => {
                let Some(row) = self.store.hub().tokens().by_id(&id).await? else { return Ok(nothing) };
                match Person::new(Arc::new(self.principal(row).await?), now_s) {
                    Ok(person) => Some(person),
                    Err(_) => return Ok(nothing),
                }
            }
        };
        let place = id.map_or(Place::Name(name), Place::Repo);
        let access = Access::load(&self.store, person.as_ref(), &place).await?;
        Ok(Loaded { access, ..nothing })
    }

    async fn look_up(&self, hash: TokenHash, now_s: u64) -> store::Result<Option<Arc<Principal>>> {
        let tokens = self.store.hub().tokens();
        let Some(row) = tokens.by_digest(hash.as_bytes()).await? else { return Ok(None) };
        let is_noted = row.used_s.is_some_and(|used_s| now_s < used_s.saturating_add(NOTED_S));
        // A use that could not be noted must not lock the caller out.
        if !is_noted
            && row.is_live(now_s)
            && let Err(error) = tokens.note_use(&row.id, now_s).await
        {
            tracing::warn!(%error, token = row.id, "the use of a token was not noted");
        }
        self.principal(row).await.map(|principal| Some(Arc::new(principal)))
    }

    /// The owner and the reach of a token, from the catalog as it is now.
    async fn principal(&self, token: TokenRow) -> store::Result<Principal> {
        let hub = self.store.hub();
        let found = hub.namespace(&token.subject).await?;
        let owner = match &found {
            Some(row) if row.is_organisation => Owner::Organisation,
            Some(_) => Owner::User,
            None => Owner::Name,
        };
        let is_active = found.is_none_or(|row| row.state == NamespaceState::Active);
        let memberships = match owner {
            Owner::User => hub.memberships(&token.subject).await?,
            _ => Vec::new(),
        };
        let reach = match (&token.bound, token.repo_id) {
            (Bound::Everywhere, _) => TokenReach::Everywhere,
            (Bound::Namespace(namespace), _) => TokenReach::Namespace(namespace.clone()),
            (Bound::Repo(_), Some(id)) => {
                match hub.repo_of(id).await?.filter(|repo| repo.reclaim_s.is_none()) {
                    Some(repo) => TokenReach::Repo(id, repo.name.scope()?),
                    None => TokenReach::Nothing,
                }
            }
            (Bound::Repo(scope), None) => {
                match self.store.hub().tokens().repo_of_scope(scope).await? {
                    // It came by its name otherwise than by creation.
                    Some(_) => TokenReach::Nothing,
                    None => TokenReach::Unbound(scope.clone()),
                }
            }
        };
        // A session acts in the name of the token that opened it.
        let opened_by = match token.id.rsplit_once('.') {
            Some((by, _)) if token.session.is_some() => {
                self.store.hub().tokens().by_id(by).await?.map(|row| row.label)
            }
            _ => None,
        };
        Ok(Principal { token, owner, is_active, memberships, reach, opened_by })
    }
}

/// The one error is shared by all who waited for the answer.
fn shared_error(error: &store::Error) -> store::Error {
    store::Error::new(error.kind(), error.to_string())
}

/// A token with its owner and its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The row of the token.
    pub token: TokenRow,
    /// Kind of owner.
    pub owner: Owner,
    /// Whether the owner is neither disabled nor deleted.
    pub is_active: bool,
    /// Organisations of a user.
    pub memberships: Vec<MemberRow>,
    /// Part of the server that the token is for.
    pub reach: TokenReach,
    /// Label of the token that opened a session.
    pub opened_by: Option<String>,
}

/// A caller whose token opens something now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person(Arc<Principal>);

impl Person {
    /// The caller who shows this token.
    pub fn new(principal: Arc<Principal>, now_s: u64) -> Result<Self, Refusal> {
        match principal.token.revoked_s {
            Some(_) => Err(Refusal::Revoked),
            None if !principal.token.is_live(now_s) => Err(Refusal::Expired),
            None if !principal.is_active => Err(Refusal::Disabled),
            None => Ok(Self(principal)),
        }
    }

    /// The token and its owner.
    pub fn principal(&self) -> &Principal {
        &self.0
    }

    /// The token's row.
    pub fn token(&self) -> &TokenRow {
        &self.0.token
    }

    /// Sender of what is uploaded with the token: the user, where the token allows all that the user may do, else the token.
    /// What a sender sent to one repository it may refer to in another; a token for one repository must not refer to what its
    /// owner sent to others.
    pub fn sender(&self) -> String {
        let identity = Identity::from(self.principal());
        match (identity.owner, &identity.reach) {
            (Owner::User, TokenReach::Everywhere) => format!("user/{}", identity.name),
            _ => self.token().id.clone(),
        }
    }

    /// Refuses a token without these rights.
    pub fn allow_anywhere(&self, needed: Rights) -> Result<(), Refusal> {
        match (needed, self.token().rights) {
            (needed, has) if needed <= has => Ok(()),
            (Rights::Admin, _) => Err(Refusal::Admin),
            _ => Err(Refusal::Scope),
        }
    }

    /// The one scope of content that the token opens by itself.
    pub fn only_scope(&self, needed: Rights) -> Result<&store::Scope, Refusal> {
        self.allow_anywhere(needed)?;
        let identity = super::Identity::from(self.principal());
        match &self.0.reach {
            TokenReach::Repo(_, scope) | TokenReach::Unbound(scope) => {
                match identity.owner_may(needed, scope.namespace(), &self.0.memberships) {
                    true => Ok(scope),
                    false => Err(Refusal::Repository),
                }
            }
            TokenReach::Nothing => Err(Refusal::Void),
            TokenReach::Everywhere | TokenReach::Namespace(_) => Err(Refusal::NoRepository),
        }
    }
}

/// Rights that a scope of the protocol takes.
pub fn rights_for(scope: TokenScope) -> Rights {
    match scope {
        TokenScope::Read => Rights::Read,
        TokenScope::Write => Rights::Write,
    }
}

/// A use is noted once in so long: a busy token would be written all the time.
const NOTED_S: u64 = 3600;
/// Entries of each cache; some megabytes.
const SEEN_MAX: u64 = 10_000;
