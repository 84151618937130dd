//! Audit: who changed what, written down in the transaction that changes it.
//!
//! Whoever begins a piece of work says who they are with [`by`]; what is noted on the way there carries their name. Tokens
//! never get here: a token is named by its id.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

tokio::task_local! {
    static ACTOR: Actor;
}

/// Who works.
#[derive(Debug, Clone, Default)]
pub struct Actor {
    who: Arc<OnceLock<String>>,
    request: String,
}

impl Actor {
    /// Somebody with a name.
    pub fn named(who: impl Into<String>) -> Self {
        Self { who: Arc::new(OnceLock::from(who.into())), request: String::new() }
    }

    /// Somebody behind a request; their name is told by [`name`] when it is known.
    pub fn of_request(id: impl Into<String>) -> Self {
        Self { who: Arc::default(), request: id.into() }
    }
}

/// Does work in the name of somebody.
pub async fn by<T>(actor: Actor, work: impl Future<Output = T>) -> T {
    ACTOR.scope(actor, work).await
}

/// Names whoever is at work here, once.
pub fn name(who: &str) {
    ACTOR.try_with(|actor| actor.who.set(who.to_owned()).ok()).ok();
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// What sort: `repo.create`, `ref.move`, `member.set`.
    pub action: String,
    /// To what.
    pub target: String,
    /// What else there is to say.
    pub detail: String,
}

impl Deed {
    /// A deed.
    pub fn new(action: &str, target: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { action: action.to_owned(), target: target.into(), detail: detail.into() }
    }

    /// The columns of the log: time, who, action, target, detail, request.
    pub(crate) fn columns(&self) -> (i64, String, &str, &str, &str, String) {
        let (who, request) =
            ACTOR.try_with(|actor| (actor.who.get().cloned(), actor.request.clone())).unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let who = who.unwrap_or_else(|| if request.is_empty() { STORE } else { ANONYMOUS }.to_owned());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        (now, who, &self.action, &self.target, &self.detail, request)
    }
}

/// Actor of background work.
const STORE: &str = "store";
/// Actor of a request without a token.
const ANONYMOUS: &str = "anonymous";
