//! The answer of the token route: a body for some clients and headers for others, saying the same.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, header};
use axum::response::IntoResponse;
use xet::wire::routes::{content_type, header as names};
use xet::wire::{ErrorCode, TokenAnswer, encode_json};

use super::error::Refused;
use crate::auth::Issued;

/// Hands a token to whoever asked for it.
pub fn answer(base_url: &str, issued: &Issued) -> Response<Body> {
    let token = issued.token.expose();
    let headers = (|| {
        let mut secret = HeaderValue::from_str(token).ok()?;
        // Kept out of compression tables and of what libraries print.
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
        return Refused::new(ErrorCode::Internal, "the public URL cannot stand in a header").into_response();
    };
    let body =
        TokenAnswer { cas_url: base_url.to_owned(), access_token: token.clone(), exp: issued.expires_s };
    (headers, encode_json(&body)).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use xet::wire::parse_json;

    use super::*;
    use crate::secret::Secret;

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
