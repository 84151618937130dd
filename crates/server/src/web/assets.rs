//! Assets: style, script and icon, built into the program. Their URLs name their content, so they are kept for ever.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use sha2::{Digest as _, Sha256};
use xet::wire::ErrorCode;

use crate::http::error::ApiError;
use crate::secret::hex;

/// A file that pages refer to.
struct Asset {
    /// `style.0123456789abcdef.css`.
    name: String,
    media_type: &'static str,
    body: &'static str,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |(stem, ending, media_type, body): (&str, &str, &'static str, &'static str)| {
        let digest = Sha256::digest(body.as_bytes());
        let hash = hex(digest.get(..8).unwrap_or_default());
        Asset { name: format!("{stem}.{hash}.{ending}"), media_type, body }
    };
    let all = [
        ("style", "css", "text/css; charset=utf-8", include_str!("../../assets/style.css")),
        ("page", "js", "text/javascript; charset=utf-8", include_str!("../../assets/page.js")),
        ("upload", "js", "text/javascript; charset=utf-8", include_str!("../../assets/upload.js")),
        ("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
    ];
    all.into_iter().map(asset).collect()
});

/// Where an asset is, by the beginning of its name.
pub(super) fn url(stem: &str) -> String {
    let found = ASSETS.iter().find(|asset| asset.name.split('.').next() == Some(stem));
    format!("/-/assets/{}", found.map_or("", |asset| asset.name.as_str()))
}

/// `GET /-/assets/{asset}`.
pub(super) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return ApiError::new(ErrorCode::NotFound, "there is no such asset")
            .for_reader(&headers)
            .into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    (headers, asset.body).into_response()
}
