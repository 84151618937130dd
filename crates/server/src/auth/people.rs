//! Whose token it is: the tokens people keep, looked up in the catalog.
//!
//! What was looked up is believed for [`BELIEVED`]: so long a token that was just revoked may still open something, and
//! so seldom is the catalog asked.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use store::Store;
use store::catalog::tokens::{Bound, Rights, TokenRow};
use xet::wire::routes::TokenScope;

use super::{Refusal, Repository, TokenHash};

/// How long an answer of the catalog is believed.
pub const BELIEVED: Duration = Duration::from_secs(2);

/// Looks up tokens. Clones share what they know.
#[derive(Debug, Clone)]
pub struct People {
    store: Store,
    /// What the catalog said of a digest, also that it knows none.
    seen: Cache<TokenHash, Option<Arc<TokenRow>>>,
}

impl People {
    /// The people of a store.
    pub fn new(store: Store) -> Self {
        let seen = Cache::builder().max_capacity(SEEN_MAX).time_to_live(BELIEVED).build();
        Self { store, seen }
    }

    /// Whose token this is, if it opens anything now. The outer error is the catalog's.
    pub async fn of(&self, token: &str, now_s: u64) -> store::Result<Result<Person, Refusal>> {
        let Some(hash) = TokenHash::of(token) else { return Ok(Err(Refusal::Malformed)) };
        let found = self.seen.try_get_with(hash, self.look_up(hash, now_s)).await;
        // The one error is shared by all who waited for the answer.
        let found =
            found.map_err(|error: Arc<store::Error>| store::Error::new(error.kind(), error.to_string()))?;
        Ok(found.ok_or(Refusal::Unknown).and_then(|row| Person::new(row, now_s)))
    }

    async fn look_up(&self, hash: TokenHash, now_s: u64) -> store::Result<Option<Arc<TokenRow>>> {
        let tokens = self.store.catalog().tokens();
        let Some(row) = tokens.by_digest(hash.as_bytes()).await? else { return Ok(None) };
        let is_noted = row.used_s.is_some_and(|used_s| now_s < used_s.saturating_add(NOTED_S));
        // That somebody could not be noted must not lock them out.
        if !is_noted
            && row.is_live(now_s)
            && let Err(error) = tokens.note_use(&row.id, now_s).await
        {
            tracing::warn!(%error, token = row.id, "the use of a token was not noted");
        }
        Ok(Some(Arc::new(row)))
    }
}

/// Somebody who showed a token that opens something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person(Arc<TokenRow>);

impl Person {
    /// Whoever shows this token.
    pub fn new(row: Arc<TokenRow>, now_s: u64) -> Result<Self, Refusal> {
        match row.revoked_s {
            Some(_) => Err(Refusal::Revoked),
            None if !row.is_live(now_s) => Err(Refusal::Expired),
            None => Ok(Self(row)),
        }
    }

    /// The token's row.
    pub fn token(&self) -> &TokenRow {
        &self.0
    }

    /// Whether they may do this in a repository.
    pub fn allow(&self, needed: Rights, repo: &Repository) -> Result<(), Refusal> {
        // A name the store cannot hold is nobody's.
        let covered = repo.scope().is_ok_and(|scope| self.0.bound.covers(&scope));
        self.allow_anywhere(needed)?;
        covered.then_some(()).ok_or(Refusal::Repository)
    }

    /// Whether they may do this at all.
    pub fn allow_anywhere(&self, needed: Rights) -> Result<(), Refusal> {
        match (needed, self.0.rights) {
            (needed, has) if needed <= has => Ok(()),
            (Rights::Admin, _) => Err(Refusal::Admin),
            _ => Err(Refusal::Scope),
        }
    }

    /// The one repository the token is bound to, as the store names it.
    pub fn only_repo(&self) -> Result<&store::Scope, Refusal> {
        match &self.0.bound {
            Bound::Repo(scope) => Ok(scope),
            _ => Err(Refusal::NoRepository),
        }
    }
}

/// What a scope of the protocol takes.
pub fn rights_for(scope: TokenScope) -> Rights {
    match scope {
        TokenScope::Read => Rights::Read,
        TokenScope::Write => Rights::Write,
    }
}

/// A use is noted once in so long: a busy token would be written all the time.
const NOTED_S: u64 = 3600;
/// Tokens that are remembered; some megabytes.
const SEEN_MAX: u64 = 10_000;
