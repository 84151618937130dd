//! The answer of the token route: a body for some clients and headers for others, saying the same.

use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{HeaderName, HeaderValue, Response, header};
use axum::response::IntoResponse;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::{TokenScope, content_type, header as names};
use xet::wire::{ErrorCode, TokenAnswer, encode_json};

use crate::auth::{Claims, Issued, Origin, Principal, Refusal};
use crate::http::error::{ApiError, Dialect};
use crate::http::router::nothing_here;
use crate::hub::request::{self, wire_name};
use crate::state::AppState;

/// The response with a token: a body for some clients and headers for others.
fn answer(base_url: &str, issued: &Issued) -> Response<Body> {
    let token = issued.token.expose();
    let headers = (|| {
        let mut secret = HeaderValue::from_str(token).ok()?;
        // LogBuffer out of compression tables and of what libraries print.
        secret.set_sensitive(true);
        Some([
            (HeaderName::from_static(names::XET_CAS_URL), HeaderValue::from_str(base_url).ok()?),
            (HeaderName::from_static(names::XET_ACCESS_TOKEN), secret),
            (HeaderName::from_static(names::XET_TOKEN_EXPIRATION), HeaderValue::from(issued.expires_s)),
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type::JSON)),
            (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
        ])
    })();
    let Some(headers) = headers else {
        return ApiError::new(ErrorCode::Internal, "the public URL cannot stand in a header")
            .with_dialect(Dialect::Cas)
            .into_response();
    };
    let body =
        TokenAnswer { cas_url: base_url.to_owned(), access_token: token.clone(), exp: issued.expires_s };
    (headers, encode_json(&body)).into_response()
}

/// `GET /api/{kind}/{namespace}/{name}/xet-{read|write}-token/{revision}`: issues a CAS token to callers who may
/// read, or write, the repository.
pub(crate) async fn issue(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let token = TokenPath::parse(request.uri().path()).ok_or_else(nothing_here)?;
    let (mut parts, _) = request.into_parts();
    let hub = request::HubRequest::from_request_parts(&mut parts, &state).await?;
    let who = hub.who.as_ref();
    let (repo, repo_id) = if token.repo.kind == RepoKind::Bucket {
        // Buckets have no owners yet: they are for administrators.
        match who {
            None => return Err(Refusal::Missing.into()),
            Some(who) if who.is_admin() => {}
            Some(_) => return Err(Refusal::Repository.into()),
        }
        (token.repo, None)
    } else {
        let repo = match token.scope {
            TokenScope::Write => hub.require_write().await?,
            TokenScope::Read => {
                let repo = hub.require_read().await?;
                hub.require_revision(&repo).await?;
                repo
            }
        };
        // As it is spelled, in whatever case the path has it.
        (wire_name(&repo.name), Some(repo.id))
    };
    let claims = Claims { repo_id, revision: token.revision, ..claims_for(&state, who, token.scope, repo) };
    Ok(answer(&state.base_url, &state.cas_tokens().issue(&claims)))
}

/// Claims for a caller, or with `None` an anonymous one. They expire with the token that they are issued for.
pub(crate) fn claims_for(
    state: &AppState,
    who: Option<&Principal>,
    scope: TokenScope,
    repo: RepoName,
) -> Claims {
    let (sub, origin) = match who {
        Some(who) => (who.actor.as_str(), who.origin.clone()),
        None => ("anonymous", Origin::Anonymous),
    };
    let mut claims = Claims::new(sub, origin, scope, repo, state.now_s(), state.config.token_ttl_s);
    if let Some(expires_s) = who.and_then(|who| who.expires_s) {
        claims.exp = claims.exp.min(expires_s);
    }
    claims
}

/// The paths of the route: one for each kind and scope, with a revision or, for buckets, without.
pub(crate) fn paths() -> impl Iterator<Item = String> {
    let scopes = [TokenScope::Read.segment(), TokenScope::Write.segment()];
    RepoKind::ALL.into_iter().flat_map(move |kind| {
        scopes.into_iter().flat_map(move |scope| {
            let base = format!("/api/{}/{{namespace}}/{{name}}/{scope}", kind.plural());
            [format!("{base}/{{revision}}"), base]
        })
    })
}

/// Parts of a path of the route.
#[derive(Debug, PartialEq, Eq)]
struct TokenPath {
    scope: TokenScope,
    repo: RepoName,
    revision: Option<String>,
}

impl TokenPath {
    fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix("/api/")?.split('/');
        let kind = segments.next()?;
        let kind = RepoKind::from_plural(kind)?;
        let (namespace, name, token) = (segments.next()?, segments.next()?, segments.next()?);
        let revision = segments.next().map(str::to_owned);
        let scope =
            [TokenScope::Read, TokenScope::Write].into_iter().find(|scope| scope.segment() == token)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains('%');
        let fits = is_name(namespace) && is_name(name) && segments.next().is_none();
        let repo = RepoName { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        fits.then_some(Self { scope, repo, revision })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use xet::wire::parse_json;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_path_names_kind_repository_and_scope() {
        let token = TokenPath::parse("/api/datasets/org/a/xet-write-token/refs%2Fpr%2F1").unwrap();
        assert_eq!((token.scope, token.repo.to_string().as_str()), (TokenScope::Write, "datasets/org/a"));
        assert_eq!(token.revision.as_deref(), Some("refs%2Fpr%2F1"));
        assert_eq!(TokenPath::parse("/api/buckets/org/a/xet-read-token").unwrap().revision, None);
        for bad in [
            "/api/cars/org/a/xet-read-token",
            "/api/models/org/a/token/main",
            "/api/models//a/xet-read-token",
        ] {
            assert_eq!(TokenPath::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn headers_and_body_say_the_same() {
        let issued = Issued { token: Secret::new("eyJ.a.b".to_owned()), expires_s: 1_848_535_668 };
        let response = answer("https://hub.example", &issued);
        let headers = response.headers().clone();
        assert!(!format!("{response:?}").contains("eyJ"));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body: TokenAnswer = parse_json(&bytes).unwrap();
        assert_eq!(headers[names::XET_CAS_URL], body.cas_url);
        assert_eq!(headers[names::XET_ACCESS_TOKEN], body.access_token);
        assert_eq!(headers[names::XET_TOKEN_EXPIRATION], body.exp.to_string());
        assert_eq!((body.access_token.as_str(), body.exp), ("eyJ.a.b", 1_848_535_668));
        assert_eq!(headers["cache-control"], "private, no-store");
    }
}
