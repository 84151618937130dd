//! The page for administrators: users, organisations, tokens, the trash.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::audit::{AuditQuery, AuditRow};
use store::content::{Limit, QuotaOf, QuotaRow, Usage};
use store::hub::{Bound, MemberRow, NamespaceRow, RepoRow, Rights, TokenRow};
use store::names::RepoName;

use crate::auth::password;
use crate::auth::personal_token::{self, NewToken};
use crate::data_dir::DataDir;
use crate::http::error::ApiError;
use crate::web::account::{DAYS_MAX, LABEL_MAX, bound, days};
use crate::web::page::{Frame, answer};
use crate::web::session::{self, SubmittedForm, see_other};
use crate::web::text;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "admin.html")]
struct Admin {
    frame: Frame,
    now_s: u64,
    users: Vec<NamespaceRow>,
    orgs: Vec<(NamespaceRow, Vec<MemberRow>)>,
    tokens: Vec<TokenRow>,
    sessions: u64,
    trash: Vec<RepoRow>,
    quotas: Vec<(QuotaRow, Usage)>,
    /// A token that was just made, and whose: it is shown this once.
    made: Option<(String, String)>,
}

/// `GET /-/admin`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    page(&visit, None).await
}

async fn page(visit: &Visit, made: Option<(String, String)>) -> Result<Response<Body>, ApiError> {
    visit.require_admin()?;
    let (store, now_s) = (&visit.store, visit.state.now_s());
    let users = store.hub().namespaces(false).await?;
    let mut orgs = Vec::new();
    for org in store.hub().namespaces(true).await? {
        let members = store.hub().members(&org.name).await?;
        orgs.push((org, members));
    }
    let live = store.hub().tokens().all().await?.into_iter().filter(|row| row.is_live(now_s));
    let (sessions, tokens): (Vec<_>, Vec<_>) = live.partition(session::is_session);
    let trash = store.hub().trash().await?;
    let quotas = store.content().quota_usage().await?;
    let frame = Frame::new(visit, "admin", "Administration");
    let sessions = sessions.len() as u64;
    Ok(answer(&Admin { frame, now_s, users, orgs, tokens, sessions, trash, quotas, made }))
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    frame: Frame,
    events: Vec<AuditRow>,
    /// The page after this one begins below this number.
    next: Option<u64>,
}

/// `GET /-/admin/audit`: who changed what, the newest first.
pub(super) async fn audit(visit: Visit) -> Result<Response<Body>, ApiError> {
    visit.require_admin()?;
    let before = visit.query.number("before");
    let query = AuditQuery { before, limit: EVENTS_MAX, ..AuditQuery::default() };
    let events = visit.store.hub().audit_events(&query).await?;
    let next = events.last().filter(|_| events.len() as u64 == EVENTS_MAX).map(|last| last.id);
    Ok(answer(&Audit { frame: Frame::new(&visit, "admin", "Audit log"), events, next }))
}

/// `POST /-/admin/{action}`.
pub(super) async fn act(sent: SubmittedForm) -> Result<Response<Body>, ApiError> {
    let visit = &sent.visit;
    visit.require_admin()?;
    let (store, now_s) = (&visit.store, visit.state.now_s());
    match visit.param("action") {
        "user" => {
            store.hub().add_namespace(sent.field("name")?, false).await?;
        }
        "org" => {
            store.hub().add_namespace(sent.field("name")?, true).await?;
        }
        "member" => {
            let writes = match sent.field("role")? {
                "read" => false,
                "write" => true,
                _ => return Err(ApiError::invalid("role should be read or write")),
            };
            store.hub().set_member(sent.field("org")?, sent.field("user")?, writes).await?;
        }
        "remove-member" => store.hub().remove_member(sent.field("org")?, sent.field("user")?).await?,
        "disable-user" => drop(store.hub().disable_user(sent.field("user")?).await?),
        "enable-user" => drop(store.hub().enable_user(sent.field("user")?).await?),
        "delete-user" => store.hub().delete_namespace(confirmed(&sent, "user")?, false).await?,
        "delete-org" => store.hub().delete_namespace(confirmed(&sent, "org")?, true).await?,
        "password" => {
            let name = &store.hub().spelled_namespace(sent.field("user")?).await?;
            let hash = match sent.form.value("password").unwrap_or_default() {
                "" => None,
                chosen => Some(password::hash(chosen).map_err(ApiError::invalid)?),
            };
            let session = (visit.name()? == name).then_some(session::id(visit).await?).flatten();
            store.hub().set_password(name, hash.as_deref(), session.as_deref()).await?;
        }
        "token" => {
            let user = store.hub().spelled_namespace(sent.field("user")?).await?;
            let (mut new_token, token) = (token_of_form(&sent, user, now_s)?, personal_token::make());
            let owner = store.hub().namespace(&new_token.subject).await?;
            // A user's token is limited by what the user may do; any other name needs a bound.
            if owner.is_some_and(|owner| !owner.is_organisation) {
                new_token.bound = Bound::Everywhere;
            }
            let subject = new_token.subject.clone();
            store.hub().tokens().add(&new_token.row(&token, now_s)).await?;
            return page(visit, Some((subject, token.expose().clone()))).await;
        }
        "revoke" => {
            let revoked = store.hub().tokens().revoke(sent.field("id")?, now_s).await?;
            let revoked = revoked.ok_or_else(|| ApiError::invalid("no such token"))?;
            DataDir::new(&sent.visit.state.config.data).forget_admin_token(&revoked);
        }
        "restore" => {
            let row = store.hub().trashed_repo(sent.field("id")?.parse()?).await?;
            let name = match sent.form.value("name").map(str::trim).unwrap_or_default() {
                "" => row.name.clone(),
                other => RepoName::parse(other)?,
            };
            store.hub().restore_repo(&row, &name).await?;
        }
        "quota" => {
            let of: QuotaOf = sent.field("of")?.parse()?;
            let limit = |name: &str| -> Result<Limit, ApiError> {
                Ok(Limit {
                    soft: gigabytes(&sent, &format!("{name}_soft"))?,
                    hard: gigabytes(&sent, &format!("{name}_hard"))?,
                })
            };
            let row = QuotaRow { of, logical: limit("logical")?, physical: limit("physical")? };
            store.hub().set_quota(&row).await?;
        }
        "remove-quota" => store.hub().remove_quota(&sent.field("of")?.parse()?).await?,
        "reclaim" => {
            let row = store.hub().trashed_repo(sent.field("id")?.parse()?).await?;
            store.hub().delete_repo(&row).await?;
        }
        _ => return Err(ApiError::invalid("no such action")),
    }
    tracing::info!(who = visit.name()?, action = visit.param("action"), "administration by a page");
    Ok(see_other("/-/admin"))
}

/// A name that was typed once more to confirm what cannot be undone.
fn confirmed<'a>(sent: &'a SubmittedForm, field: &str) -> Result<&'a str, ApiError> {
    let name = sent.field(field)?;
    match sent.form.value("confirm").map(str::trim) == Some(name) {
        true => Ok(name),
        false => Err(ApiError::invalid(format!("type {name} to confirm that it is to be deleted"))),
    }
}

/// A number of gigabytes in a form, as bytes; `None` for no limit.
fn gigabytes(sent: &SubmittedForm, name: &str) -> Result<Option<u64>, ApiError> {
    let text = sent.form.value(name).map(str::trim).unwrap_or_default();
    match text.parse::<f64>() {
        _ if text.is_empty() => Ok(None),
        Ok(value) if (0.0..=GIGABYTES_MAX).contains(&value) => Ok(Some((value * 1e9).round() as u64)),
        _ => Err(ApiError::invalid(format!(
            "{name}: expected gigabytes from 0 to {GIGABYTES_MAX}, or nothing"
        ))),
    }
}

/// What a column of the catalog can hold.
const GIGABYTES_MAX: f64 = 9e9;

/// A limit as people read it.
fn limit(bytes: &Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), text::bytes)
}

/// Lines of the audit log on a page.
const EVENTS_MAX: u64 = 100;

/// The token of a form.
fn token_of_form(sent: &SubmittedForm, subject: String, now_s: u64) -> Result<NewToken, ApiError> {
    let (rights, everywhere) = match sent.field("rights")? {
        "read" => (Rights::Read, false),
        "write" => (Rights::Write, false),
        "admin" => (Rights::Admin, true),
        _ => return Err(ApiError::invalid("rights should be read, write or admin")),
    };
    let days = days(sent)?;
    Ok(NewToken {
        label: sent.field("label")?.chars().take(LABEL_MAX).collect(),
        bound: if everywhere { Bound::Everywhere } else { Bound::Namespace(subject.clone()) },
        subject,
        rights,
        expires_s: (days > 0).then(|| now_s.saturating_add(days.min(DAYS_MAX) * 86_400)),
    })
}
