//! Small bodies: the response to a xorb upload, the token response, the telemetry report.

use serde::{Deserialize, Serialize};

/// Answers a xorb upload. Both values are success: uploads may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XorbUploaded {
    /// Whether the xorb is new here.
    pub was_inserted: bool,
}

/// A token for the CAS routes. Some clients read it from here and some from the headers of the same answer: see
/// [`routes::header`](crate::wire::routes::header).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenAnswer {
    /// Address of the CAS routes; clients append paths as they are, so it ends without a slash.
    pub cas_url: String,
    /// The bearer token.
    pub access_token: String,
    /// When the token expires, in seconds since 1970.
    pub exp: u64,
}

impl std::fmt::Debug for TokenAnswer {
    /// Leaves out the token: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cas_url, access_token: _, exp } = self;
        f.debug_struct("TokenAnswer").field("cas_url", cas_url).field("exp", exp).finish_non_exhaustive()
    }
}

/// Report of a client about a transfer. Nothing depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    /// When, as RFC 3339 text.
    pub time: String,
    /// Name of the event, such as `xet_upload_summary`.
    pub event: String,
    /// The session it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The client; early ones spelled the field in camel case. Both spellings at once are an error.
    #[serde(default, alias = "userAgent", skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Flat numbers and texts by name.
    #[serde(default)]
    pub metrics: serde_json::Map<String, serde_json::Value>,
}
