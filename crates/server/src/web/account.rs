//! The account page of a user: tokens and password.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{Bound, Rights, TokenRow};

use crate::auth::personal_token::{self, NewToken};
use crate::auth::principal::TokenReach;
use crate::auth::{Origin, password};
use crate::data_dir::DataDir;
use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::session::{self, SubmittedForm, see_other};
use crate::web::text;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "account.html")]
struct Account {
    frame: Frame,
    now_s: u64,
    tokens: Vec<TokenRow>,
    /// A token that was just made: it is shown this once.
    made: Option<String>,
    notice: Option<&'static str>,
    has_password: bool,
}

/// `GET /-/account`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    page(&visit, None).await
}

async fn page(visit: &Visit, made: Option<String>) -> Result<Response<Body>, ApiError> {
    let name = visit.name()?;
    let tokens = visit.store.hub().tokens();
    let has_password = tokens.password(name).await?.is_some();
    // A token that is for less than its owner sees itself only.
    let who = visit.who.as_ref();
    let sees_all = who.is_none_or(|who| match &who.reach {
        TokenReach::Everywhere => true,
        TokenReach::Namespace(namespace) => *namespace == who.name,
        _ => false,
    });
    let is_own = |row: &TokenRow| who.is_some_and(|who| who.origin == Origin::Token(row.id.clone()));
    let tokens = tokens.all().await?.into_iter();
    let tokens = tokens.filter(|row| row.subject == name && (sees_all || is_own(row)));
    let now_s = visit.state.now_s();
    let tokens = tokens.filter(|row| row.is_live(now_s)).collect();
    let notice = visit.query.is_set("changed").then_some("Your password was changed.");
    let frame = Frame::new(visit, "account", name);
    Ok(answer(&Account { frame, now_s, tokens, made, notice, has_password }))
}

/// `POST /-/account/{action}`.
pub(super) async fn act(sent: SubmittedForm) -> Result<Response<Body>, ApiError> {
    let visit = &sent.visit;
    session::require_password_session(visit).await?;
    let name = visit.name()?.to_owned();
    let (store, now_s) = (&visit.store, visit.state.now_s());
    match visit.param("action") {
        "token" => {
            let who = visit.who.as_ref().ok_or(crate::auth::Refusal::Missing)?;
            let rights = match sent.field("rights")? {
                "write" if who.rights >= Rights::Write => Rights::Write,
                "read" => Rights::Read,
                "write" => return Err(ApiError::invalid("rights: you may not write")),
                _ => return Err(ApiError::invalid("rights should be read or write")),
            };
            let label = sent.field("label")?.chars().take(LABEL_MAX).collect();
            let days = days(&sent)?;
            let expires_s = (days > 0).then(|| now_s.saturating_add(days.min(DAYS_MAX) * 86_400));
            let token = personal_token::make();
            let new_token = NewToken { label, subject: name, rights, bound: who.bound(), expires_s };
            let mut row = new_token.row(&token, now_s);
            row.session = session::id(visit).await?;
            store.hub().tokens().add(&row).await?;
            page(visit, Some(token.expose().clone())).await
        }
        "revoke" => {
            let id = sent.field("id")?;
            let rows = store.hub().tokens().all().await?;
            if !rows.iter().any(|row| row.id == id && row.subject == name) {
                return Err(ApiError::invalid("no such token of yours"));
            }
            if let Some(revoked) = store.hub().tokens().revoke(id, now_s).await? {
                DataDir::new(&visit.state.config.data).forget_admin_token(&revoked);
            }
            Ok(see_other("/-/account"))
        }
        "password" => {
            let tokens = store.hub().tokens();
            if tokens.password(&name).await?.is_some()
                && !visit.state.auth.is_password(store, sent.address, &name, sent.field("old")?).await?
            {
                return Err(ApiError::invalid("the old password is another"));
            }
            let hash = password::hash(sent.field("new")?).map_err(ApiError::invalid)?;
            let session = session::id(visit).await?;
            store.hub().set_password(&name, Some(&hash), session.as_deref()).await?;
            Ok(see_other("/-/account?changed"))
        }
        _ => Err(ApiError::invalid("no such action")),
    }
}

impl Account {
    fn is_session(&self, row: &TokenRow) -> bool {
        session::is_session(row)
    }
}

/// Days until a token ends; 0 for never.
pub(super) fn days(sent: &SubmittedForm) -> Result<u64, ApiError> {
    let text = sent.form.value("days").map(str::trim).unwrap_or_default();
    let expected =
        || ApiError::invalid(format!("days: expected a number from 0, which means never, to {DAYS_MAX}"));
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().ok().filter(|days| *days <= DAYS_MAX).ok_or_else(expected)
}

/// Where a token opens something, as people read it.
pub(super) fn bound(row: &TokenRow) -> String {
    match &row.bound {
        Bound::Everywhere => "everywhere".to_owned(),
        Bound::Namespace(namespace) => format!("in {namespace}"),
        Bound::Repo(scope) => format!("in {scope}"),
    }
}

/// Characters of a token's name.
pub(super) const LABEL_MAX: usize = 60;
/// The longest life of a token that ends, in days.
pub(super) const DAYS_MAX: u64 = 3650;
