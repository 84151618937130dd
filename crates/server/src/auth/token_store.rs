//! Personal tokens: their rows, owners and repositories, read from the catalog and cached for [`CACHE_TTL`].
//!
//! A token that was just revoked may still open something for that long.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use store::Store;
use store::hub::{Bound, NamespaceState, TokenRow};
use store::ids::RepoId;
use xet::wire::repo::RepoName;
use xet::wire::routes::TokenScope;

use crate::auth::Refusal;
use crate::auth::access::Access;
use crate::auth::cas_token::{Claims, Origin};
use crate::auth::personal_token::TokenHash;
use crate::auth::principal::{Owner, Principal, TokenReach};

/// How long an answer of the catalog is cached.
pub const CACHE_TTL: Duration = Duration::from_secs(2);

/// Reads tokens. Clones share one cache.
#[derive(Debug, Clone)]
pub(crate) struct TokenStore {
    store: Store,
    /// By digest of the token, unknown ones too.
    tokens: Cache<TokenHash, Option<Arc<TokenHolder>>>,
    /// What CAS tokens of one origin may do in one repository.
    accesses: Cache<AccessKey, Loaded>,
}

/// Origin of a CAS token, and the id and name of the repository that it names.
type AccessKey = (Origin, Option<RepoId>, RepoName);

/// What was read from the catalog; `None` for no access.
#[derive(Debug, Clone)]
struct Loaded {
    access: Option<Access>,
    loaded_s: u64,
}

/// A token with its owner, live or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenHolder {
    /// The row of the token.
    pub(crate) token: TokenRow,
    /// The caller who sends the token.
    pub(crate) principal: Principal,
    /// Whether the owner is neither disabled nor deleted.
    is_active: bool,
}

impl TokenHolder {
    /// Refuses a token that opens nothing now.
    fn require_live(&self, now_s: u64) -> Result<(), Refusal> {
        match self.token.revoked_s {
            Some(_) => Err(Refusal::Revoked),
            None if !self.token.is_live(now_s) => Err(Refusal::Expired),
            None if !self.is_active => Err(Refusal::Disabled),
            None => Ok(()),
        }
    }
}

impl TokenStore {
    /// The tokens of a store.
    pub(crate) fn new(store: Store) -> Self {
        let tokens = Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(CACHE_TTL).build();
        let accesses = Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(CACHE_TTL).build();
        Self { store, tokens, accesses }
    }

    /// The holder of a token, if it opens anything now. The outer error is the catalog's. With `fresh`, a token for a name
    /// without repository is read again: the repository may have been created a moment ago.
    pub(crate) async fn holder(
        &self,
        token: &str,
        now_s: u64,
        fresh: bool,
    ) -> store::Result<Result<Arc<TokenHolder>, Refusal>> {
        let Some(hash) = TokenHash::of(token) else { return Ok(Err(Refusal::Malformed)) };
        let load = self.load_token(hash, now_s);
        let mut found = self.tokens.try_get_with(hash, load).await.map_err(|error| shared_error(&error))?;
        let is_unbound = |holder: &Arc<TokenHolder>| matches!(holder.principal.reach, TokenReach::Unbound(_));
        if fresh && found.as_ref().is_some_and(is_unbound) {
            found = self.load_token(hash, now_s).await?;
            self.tokens.insert(hash, found.clone()).await;
        }
        let live = |holder: Arc<TokenHolder>| holder.require_live(now_s).map(|()| holder);
        Ok(found.ok_or(Refusal::Unknown).and_then(live))
    }

    /// What a CAS token may do now, if that includes `needed`: `None` when the access that it was issued for has ended.
    pub(crate) async fn access(
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
    pub(crate) async fn open_access(
        &self,
        id: RepoId,
        name: &RepoName,
        now_s: u64,
    ) -> store::Result<Option<Access>> {
        let key = (Origin::Open, Some(id), name.clone());
        if let Some(loaded) = self.accesses.get(&key).await {
            return Ok(loaded.access);
        }
        let access = Access::load(&self.store, None, Some(id), name).await?;
        self.accesses.insert(key, Loaded { access: access.clone(), loaded_s: now_s }).await;
        Ok(access)
    }

    async fn load_access(&self, (origin, id, name): AccessKey, now_s: u64) -> store::Result<Loaded> {
        let nothing = Loaded { access: None, loaded_s: now_s };
        let principal = match origin {
            Origin::Anonymous => None,
            Origin::Open => return Ok(nothing),
            Origin::Token(id) => {
                let Some(row) = self.store.hub().tokens().by_id(&id).await? else { return Ok(nothing) };
                let holder = self.load_holder(row).await?;
                match holder.require_live(now_s) {
                    Ok(()) => Some(holder.principal),
                    Err(_) => return Ok(nothing),
                }
            }
        };
        let access = Access::load(&self.store, principal.as_ref(), id, &name).await?;
        Ok(Loaded { access, ..nothing })
    }

    async fn load_token(&self, hash: TokenHash, now_s: u64) -> store::Result<Option<Arc<TokenHolder>>> {
        let tokens = self.store.hub().tokens();
        let Some(row) = tokens.by_digest(hash.as_bytes()).await? else { return Ok(None) };
        let is_noted = row.used_s.is_some_and(|used_s| now_s < used_s.saturating_add(USE_INTERVAL_S));
        // A use that could not be noted must not lock the caller out.
        if !is_noted
            && row.is_live(now_s)
            && let Err(error) = tokens.note_use(&row.id, now_s).await
        {
            tracing::warn!(%error, token = row.id, "the use of a token was not noted");
        }
        self.load_holder(row).await.map(|holder| Some(Arc::new(holder)))
    }

    /// The owner and the reach of a token, from the catalog as it is now.
    async fn load_holder(&self, token: TokenRow) -> store::Result<TokenHolder> {
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
        let principal = Principal::new(&token, owner, reach, memberships, opened_by.as_deref());
        Ok(TokenHolder { token, principal, is_active })
    }
}

/// The error of a load, for each of those who waited for it.
fn shared_error(error: &store::Error) -> store::Error {
    store::Error::new(error.kind(), error.to_string())
}

/// Least time between two notes of the use of a token: a busy token would be written all the time.
const USE_INTERVAL_S: u64 = 3600;
/// Entries of each cache; some megabytes.
const ENTRIES_MAX: u64 = 10_000;
