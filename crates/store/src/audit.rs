//! Audit log: who changed what, written in the transaction that makes the change.
//!
//! The entry point of an operation names its actor with [`by`]; events logged within it carry that name. Tokens are never
//! logged: a token is named by its id.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::Result;

tokio::task_local! {
    static ACTOR: Actor;
}

/// The user or background task that an operation runs for.
#[derive(Debug, Clone, Default)]
pub struct Actor {
    who: Arc<OnceLock<String>>,
    request: String,
}

impl Actor {
    /// An actor with a known name.
    pub fn named(who: impl Into<String>) -> Self {
        Self { who: Arc::new(OnceLock::from(who.into())), request: String::new() }
    }

    /// The actor of a request; [`name`] sets the name once the request is authenticated.
    pub fn of_request(id: impl Into<String>) -> Self {
        Self { who: Arc::default(), request: id.into() }
    }
}

/// Runs `work` with `actor` as the actor of its audit events.
pub async fn by<T>(actor: Actor, work: impl Future<Output = T>) -> T {
    ACTOR.scope(actor, work).await
}

/// Sets the name of the current actor; later calls change nothing.
pub fn name(who: &str) {
    ACTOR.try_with(|actor| actor.who.set(who.to_owned()).ok()).ok();
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Kind of change: `repo.create`, `ref.move`, `member.set`.
    pub action: String,
    /// What was changed.
    pub target: String,
    /// Further details.
    pub detail: String,
}

impl AuditEvent {
    /// Creates an event.
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

/// Logs an event in a transaction of its own.
pub(crate) async fn log_event(db: &Catalog, event: &AuditEvent) -> Result<()> {
    db.write("log an audit event", |mut tx| async move {
        append_event(&mut tx, event).await?;
        tx.commit().await
    })
    .await
}

/// Audit events, newest first.
pub(crate) async fn events(db: &Catalog, query: &AuditQuery) -> Result<Vec<AuditRow>> {
    let select = "SELECT id, time_s, who, request, action, target, detail FROM audit \
        WHERE time_s >= $1 AND id < $2";
    let mut select = Sql::new(select).bind(query.since_s).bind(query.before.unwrap_or(u64::MAX));
    if query.is_upkeep {
        // Spelled as in the condition of the partial index, which is not used otherwise.
        select.push(" AND action IN ('sweep', 'verify')");
    }
    select.push(" ORDER BY id DESC LIMIT ").push_bind(query.limit);
    db.read("read the audit log", select).await
}

/// Deletes events before a time; returns how many.
pub(crate) async fn delete_events(db: &Catalog, before_s: u64) -> Result<u64> {
    let delete = Sql::new("DELETE FROM audit WHERE time_s < $1").bind(before_s);
    Ok(db.write_one("delete audit events", delete).await?.changed)
}

/// Appends an event to the audit log within a transaction.
pub(crate) async fn append_event(tx: &mut Tx, event: &AuditEvent) -> Result<()> {
    let (time_s, who, action, target, detail, request) = event.columns();
    let insert = "INSERT INTO audit (time_s, who, action, target, detail, request) \
        VALUES ($1, $2, $3, $4, $5, $6)";
    let insert = Sql::new(insert).bind(time_s).bind(who).bind(action).bind(target).bind(detail).bind(request);
    tx.run(insert).await.map(|_| ())
}

/// Filter for audit events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Not before this time, Unix seconds.
    pub since_s: u64,
    /// Older than the one of this number.
    pub before: Option<u64>,
    /// Maximum number of results.
    pub limit: u64,
    /// Only what was done to the store itself: sweeps and verifications.
    pub is_upkeep: bool,
}

/// An event as stored in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Counts up.
    pub id: u64,
    /// When, Unix seconds.
    pub time_s: u64,
    /// By whom.
    pub who: String,
    /// In which request; empty for a command.
    pub request: String,
    /// What.
    pub event: AuditEvent,
}

impl FromRow for AuditRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (id, time_s) = (row.number("number")?, row.number("time")?);
        let (who, request) = (row.text("name of an actor")?, row.text("request")?);
        let (action, target, detail) = (row.text("action")?, row.text("target")?, row.text("detail")?);
        Ok(Self { id, time_s, who, request, event: AuditEvent { action, target, detail } })
    }
}
