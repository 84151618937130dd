//! Who is signed in: a token of its own for each browser, in a cookie no script can read, for a day's work.
//!
//! What changes something needs more than the cookie: a word that only the server's own pages know, and a browser that says
//! the request comes from them.

use std::net::{IpAddr, Ipv4Addr};

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use percent_encoding::percent_decode_str;
use store::hub::{Bound, Rights, TokenRow};
use store::ids::RepoId;
use xet::wire::ErrorCode;

use crate::auth::personal_token::{self, NewToken, TokenHash};
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::session_cookie::COOKIE;
use crate::http::upload::read_small_body;
use crate::net::listener::Peer;
use crate::state::AppState;
use crate::web::csrf::{require_form_token, require_same_origin};
use crate::web::forms;
use crate::web::page::{Frame, answer};
use crate::web::visit::Visit;

/// How long a user stays signed in.
const SESSION_S: u64 = 12 * 3600;
/// What a session's token is called in lists.
pub(super) const LABEL: &str = "browser session";
/// The same where a password opened it.
const LABEL_BY_PASSWORD: &str = "browser session by password";

/// Whether a token is that of a browser.
pub(super) fn is_session(row: &TokenRow) -> bool {
    row.session.as_ref() == Some(&row.id)
}

/// Refuses callers with only a token: it must not become more than it is, such as one that never ends, or a password.
pub(super) async fn require_password_session(visit: &Visit) -> Result<(), ApiError> {
    if visit.require_admin().is_ok() {
        return Ok(());
    }
    let row = match visit.session.as_deref().and_then(TokenHash::of) {
        Some(hash) => visit.store.hub().tokens().by_digest(hash.as_bytes()).await?,
        None => None,
    };
    // Any token can be labelled so; only a session has an id of one.
    let is_by_password =
        |row: TokenRow| row.label == LABEL_BY_PASSWORD && row.session.as_ref() == Some(&row.id);
    match row.is_some_and(is_by_password) {
        true => Ok(()),
        false => Err(ApiError::new(
            ErrorCode::Forbidden,
            "sign in with your password to change this; an administrator gives you the first one",
        )),
    }
}

/// Id of the session of a request, if it has one.
pub(super) async fn id(visit: &Visit) -> Result<Option<String>, ApiError> {
    let Some(hash) = visit.session.as_deref().and_then(TokenHash::of) else { return Ok(None) };
    let row = visit.store.hub().tokens().by_digest(hash.as_bytes()).await?;
    Ok(row.and_then(|row| row.session))
}

/// The longest form.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// A form that a page of the server sent for the user who is signed in.
pub(super) struct SubmittedForm {
    pub(super) visit: Visit,
    /// Where the form came from.
    pub(super) address: IpAddr,
    pub(super) form: Query,
}

impl SubmittedForm {
    /// A field that must be filled in.
    pub(super) fn field(&self, name: &str) -> Result<&str, ApiError> {
        let value = self.form.value(name).map(str::trim).filter(|value| !value.is_empty());
        value.ok_or_else(|| ApiError::invalid(format!("{name} is missing")))
    }
}

impl FromRequest<AppState> for SubmittedForm {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let address = address(parts.extensions.get().cloned().map(Extension));
        let form = Query::form(&read_small_body(body, FORM_BYTES_MAX).await?);
        let visit = Visit::by_session(&mut parts, state).await?;
        require_form_token(&parts.headers, visit.session.as_deref(), form.value("word"))?;
        forms::check(parts.uri.path(), &form)?;
        Ok(Self { visit, address, form })
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    next: String,
    name: String,
    problem: Option<String>,
}

/// `GET /-/sign-in`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let next = own_path(visit.query.value("next"));
    let frame = Frame::new(&visit, "", "Sign in");
    Ok(answer(&SignIn { frame, next, name: String::new(), problem: None }))
}

/// `POST /-/sign-in`: a token, or a name and a password.
pub(super) async fn enter(
    mut visit: Visit,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    require_same_origin(&headers)?;
    let form = Query::form(&read_small_body(body, FORM_BYTES_MAX).await?);
    let value = |name: &str| form.value(name).map(str::trim).unwrap_or_default().to_owned();
    forms::check("/-/sign-in", &form)?;
    let (token, name) = (value("token"), value("name"));
    let has_password = form.value("password").is_some_and(|password| !password.is_empty());
    if !token.is_empty() && (has_password || !name.is_empty()) {
        return Err(ApiError::invalid("token: sign in with a token, or with a name and a password"));
    }
    let next = own_path(form.value("next"));
    let state = visit.state.clone();
    let entered = match token.is_empty() {
        false => by_token(&state, &token).await,
        true => {
            let password = form.value("password").unwrap_or_default();
            let name = visit.store.hub().spelled_namespace(&name).await?;
            let is_right = state.auth.is_password(&visit.store, address(peer), &name, password).await?;
            is_right.then(|| Opened {
                actor: name.clone(),
                subject: name.clone(),
                rights: Rights::Write,
                // What the user may do, and no more.
                bound: Bound::Everywhere,
                repo_id: None,
                ends_s: None,
                by: None,
            })
        }
    };
    let Some(Opened { actor, subject, rights, bound, repo_id, ends_s, by }) = entered else {
        tracing::info!(name, "a sign-in failed");
        let problem = if token.is_empty() {
            "This name and password do not match."
        } else {
            "This token opens nothing here."
        };
        visit.forget();
        let frame = Frame::new(&visit, "", "Sign in");
        let mut response = answer(&SignIn { frame, next, name, problem: Some(problem.to_owned()) });
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(response);
    };
    let session = personal_token::make();
    // Not longer than what opened it.
    let expires_s = Some(state.now_s().saturating_add(SESSION_S).min(ends_s.unwrap_or(u64::MAX)));
    let label = if token.is_empty() { LABEL_BY_PASSWORD } else { LABEL };
    let new_token = NewToken { label: label.to_owned(), subject, rights, bound, expires_s };
    let mut row = new_token.row(&session, state.now_s());
    if let Some(by) = by {
        // So that it ends when that token is revoked.
        row.id = format!("{by}.{}", row.id);
    }
    row.session = Some(row.id.clone());
    row.repo_id = repo_id;
    store::audit::name(&actor);
    visit.store.hub().tokens().add(&row).await?;
    let mut response = see_other(&next);
    set_cookie(&state, &mut response, session.expose(), SESSION_S);
    Ok(response)
}

/// What a new session may do.
struct Opened {
    actor: String,
    subject: String,
    rights: Rights,
    bound: Bound,
    repo_id: Option<RepoId>,
    ends_s: Option<u64>,
    /// The id of the token that was shown.
    by: Option<String>,
}

/// The address of the client; one for all where none is known, as in tests.
pub(super) fn address(peer: Option<Extension<ConnectInfo<Peer>>>) -> IpAddr {
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(ConnectInfo(Peer(address)))| address.ip())
}

/// What a token that people keep opens.
async fn by_token(state: &AppState, token: &str) -> Option<Opened> {
    if !personal_token::is_token(token) {
        return None;
    }
    let holder = state.auth.authenticate(token, true).await.ok()?;
    let row = &holder.token;
    Some(Opened {
        actor: holder.principal.actor.clone(),
        subject: row.subject.clone(),
        rights: row.rights,
        bound: row.bound.clone(),
        repo_id: row.repo_id,
        ends_s: row.expires_s,
        by: Some(row.id.clone()),
    })
}

/// `POST /-/sign-out`.
pub(super) async fn leave(sent: SubmittedForm) -> Result<Response<Body>, ApiError> {
    let tokens = sent.visit.store.hub().tokens();
    if let Some(hash) = sent.visit.session.as_deref().and_then(TokenHash::of)
        && let Some(row) = tokens.by_digest(hash.as_bytes()).await?
    {
        tokens.revoke(&row.id, sent.visit.state.now_s()).await?;
    }
    let mut response = see_other("/");
    set_cookie(&sent.visit.state, &mut response, "", 0);
    Ok(response)
}

/// Goes on to a page, by asking for it.
pub(super) fn see_other(path: &str) -> Response<Body> {
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

fn set_cookie(state: &AppState, response: &mut Response<Body>, value: &str, seconds: u64) {
    let secure = if state.base_url.starts_with("https:") { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// A path of this server to go on to, never another server's.
fn own_path(next: Option<&str>) -> String {
    next.filter(|next| is_own_path(next)).unwrap_or("/").to_owned()
}

/// Whether a browser that is sent there stays at this server. Browsers drop tabs and line ends from URLs, and take a
/// backslash for a slash; servers and proxies may decode once more.
fn is_own_path(next: &str) -> bool {
    let is_plain = |text: &str, first: u8| {
        let is_good = |byte| (first..=0x7e).contains(&byte) && byte != b'\\';
        text.starts_with('/') && !text.starts_with("//") && text.bytes().all(is_good)
    };
    if !is_plain(next, b'!') {
        return false;
    }
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let mut decoded = path.to_owned();
    for _ in 0..DECODED_MAX {
        // An encoded blank is one of a name.
        if !is_plain(&decoded, b' ') {
            return false;
        }
        let once = decode(&decoded);
        if once == decoded {
            let origin = url::Url::parse("http://own.invalid/").ok();
            let target = origin.as_ref().and_then(|origin| origin.join(next).ok());
            return target.is_some_and(|target| Some(target.origin()) == origin.map(|own| own.origin()));
        }
        decoded = once;
    }
    false
}

/// Text with its percent escapes decoded; what is no text then is none of a path.
fn decode(text: &str) -> String {
    // A name of a file may have any letter: only what steers browsers is of interest.
    percent_decode_str(text).map(|byte| if byte.is_ascii() { char::from(byte) } else { 'x' }).collect()
}

/// How often a path may be encoded.
const DECODED_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::session_cookie::session_token;
    use crate::web::csrf::form_token;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let token = personal_token::make();
        let value = format!("a=b; {COOKIE}={}; c=d", token.expose());
        let mut found = headers(&[("cookie", "x=y")]);
        found.append("cookie", HeaderValue::from_str(&value).unwrap());
        assert_eq!(session_token(&found).as_deref(), Some(token.expose().as_str()));
        assert_eq!(session_token(&headers(&[("cookie", "drystone-session=nonsense")])), None);
        assert_eq!(session_token(&headers(&[("cookie", "other_drystone-session=x")])), None);
    }

    #[test]
    fn what_another_site_sends_is_refused() {
        let word = form_token(Some("s"));
        let good = |pairs: &[(&'static str, &'static str)]| {
            require_form_token(&headers(pairs), Some("s"), Some(&word)).is_ok()
        };
        assert!(good(&[("sec-fetch-site", "same-origin")]));
        assert!(good(&[("origin", "http://hub:1"), ("host", "hub:1")]));
        assert!(good(&[]));
        assert!(!good(&[("sec-fetch-site", "cross-site")]));
        assert!(!good(&[("sec-fetch-site", "same-site"), ("origin", "http://hub:1"), ("host", "hub:1")]));
        assert!(!good(&[("origin", "http://evil"), ("host", "hub:1")]));
        assert!(!good(&[("origin", "null"), ("host", "hub:1")]));
        assert!(
            require_form_token(&HeaderMap::new(), Some("t"), Some(&word)).is_err(),
            "another session's word"
        );
        assert!(require_form_token(&HeaderMap::new(), Some("s"), None).is_err());
    }

    #[test]
    fn nobody_is_sent_to_another_server() {
        for (next, path) in [
            (Some("/ann/model?x=1"), "/ann/model?x=1"),
            (Some("//evil"), "/"),
            (Some("https://evil"), "/"),
            (Some("/\\evil"), "/"),
            (Some("/a\r\nb: c"), "/"),
            (Some("/\t/evil"), "/"),
            (Some("/%09/evil"), "/"),
            (Some("/%2f%2fevil"), "/"),
            (Some("/%2Fevil"), "/"),
            (Some("%2f%2fevil"), "/"),
            (Some("/%252fevil"), "/"),
            (Some("/%5cevil"), "/"),
            (Some("/%0d%0aSet-Cookie: a"), "/"),
            (Some("/\u{7f}/evil"), "/"),
            (Some("/ /evil"), "/"),
            (Some(" //evil"), "/"),
            (Some("\t//evil"), "/"),
            (Some("///evil"), "/"),
            (Some("/\u{2f}/evil"), "/"),
            (Some("/a\u{ff0f}evil"), "/"),
            (Some("http:evil"), "/"),
            (Some("javascript:alert(1)"), "/"),
            (Some("evil"), "/"),
            (Some("@evil"), "/"),
            (Some(""), "/"),
            (
                Some("/ann/m/blob/main/%C3%A4%2Bb.txt?p=%2F%2Fx#a"),
                "/ann/m/blob/main/%C3%A4%2Bb.txt?p=%2F%2Fx#a",
            ),
            (Some("/ann/m/tree/refs%2Fpr%2F1"), "/ann/m/tree/refs%2Fpr%2F1"),
            (Some("/?search=a+b"), "/?search=a+b"),
            (Some("/ann/m/blob/main/a%20b"), "/ann/m/blob/main/a%20b"),
            (None, "/"),
        ] {
            assert_eq!(own_path(next), path);
        }
    }
}
