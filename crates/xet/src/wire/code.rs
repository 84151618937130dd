//! Error codes for programs, each with its HTTP status, in one table.
//!
//! Genuine clients act on the status alone, so the status decides what they do next: 404 on a `v2` route makes them
//! try `v1`; 416 on a reconstruction means the end of the file, so an unknown file must never get it; 403 on a data
//! URL makes them request a new one; 408, 429 and 5xx but 501 are tried again; all else is final.

use serde::{Deserialize, Serialize};

/// The body of every refusal. `error` is text because Hub clients print that field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Message for people; may change.
    pub error: String,
    /// Code for programs.
    pub code: ErrorCode,
}

/// Error code for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The request or its bytes are wrong.
    Invalid,
    /// A shard names a xorb that the server does not have. Upload it, then the shard again.
    MissingXorb,
    /// The uploaded content does not have the hash it was sent under.
    HashMismatch,
    /// No token, or one that is unknown or expired.
    Unauthorized,
    /// The token does not allow this.
    Forbidden,
    /// A data URL is too old, or was signed for other bytes. Request the reconstruction again.
    UrlExpired,
    /// It does not exist, or the caller may not see it.
    NotFound,
    /// The resource exists but does not allow this method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    Timeout,
    /// Another request changed it first. Read it again.
    Conflict,
    /// The body is longer than what is accepted.
    TooLarge,
    /// A quota is used up. Not 507: clients would send it again and again.
    QuotaExceeded,
    /// The range begins at or after the end.
    RangeNotSatisfiable,
    /// Too many requests. Wait.
    TooManyRequests,
    /// A fault of the server.
    Internal,
    /// Bytes the server stored are damaged.
    Corrupt,
    /// Not now: starting, stopping, or something behind the server is away. Wait.
    Unavailable,
    /// No space to store more.
    StorageFull,
    /// A code that this version does not know; the status still says what to do.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// Every code we send.
    pub const ALL: &[Self] = &[
        Self::Invalid,
        Self::MissingXorb,
        Self::HashMismatch,
        Self::Unauthorized,
        Self::Forbidden,
        Self::UrlExpired,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::Conflict,
        Self::TooLarge,
        Self::QuotaExceeded,
        Self::RangeNotSatisfiable,
        Self::TooManyRequests,
        Self::Internal,
        Self::Corrupt,
        Self::Unavailable,
        Self::StorageFull,
    ];

    /// The code as it is sent.
    pub const fn as_str(self) -> &'static str {
        self.entry().0
    }

    /// The HTTP status it is sent with.
    pub const fn status(self) -> u16 {
        self.entry().1
    }

    const fn entry(self) -> (&'static str, u16) {
        match self {
            Self::Invalid => ("invalid", 400),
            Self::MissingXorb => ("missing_xorb", 400),
            Self::HashMismatch => ("hash_mismatch", 400),
            Self::Unauthorized => ("unauthorized", 401),
            Self::Forbidden => ("forbidden", 403),
            Self::UrlExpired => ("url_expired", 403),
            Self::NotFound => ("not_found", 404),
            Self::MethodNotAllowed => ("method_not_allowed", 405),
            Self::Timeout => ("timeout", 408),
            Self::Conflict => ("conflict", 409),
            Self::TooLarge => ("too_large", 413),
            Self::QuotaExceeded => ("quota_exceeded", 413),
            Self::RangeNotSatisfiable => ("range_not_satisfiable", 416),
            Self::TooManyRequests => ("too_many_requests", 429),
            Self::Internal => ("internal", 500),
            Self::Corrupt => ("corrupt", 500),
            Self::Unavailable => ("unavailable", 503),
            Self::StorageFull => ("storage_full", 507),
            Self::Unknown => ("unknown", 500),
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a request that got this status may succeed when sent again as it is.
pub const fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=599)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{encode_json, parse_json};

    #[test]
    fn every_code_reads_back_and_names_an_error_status() {
        for code in ErrorCode::ALL {
            let body = ErrorBody { error: "no such file".into(), code: *code };
            let json = encode_json(&body);
            assert_eq!(
                String::from_utf8_lossy(&json),
                format!(r#"{{"error":"no such file","code":"{code}"}}"#)
            );
            assert_eq!(parse_json::<ErrorBody>(&json).unwrap(), body);
            assert!((400..600).contains(&code.status()));
        }
    }

    #[test]
    fn a_code_from_the_future_is_unknown() {
        let body: ErrorBody = parse_json(br#"{"error":"x","code":"out_of_cheese","hint":1}"#).unwrap();
        assert_eq!(body.code, ErrorCode::Unknown);
    }

    #[test]
    fn retrying_follows_the_reference() {
        for (status, retry) in [
            (408, true),
            (429, true),
            (500, true),
            (501, false),
            (503, true),
            (400, false),
            (403, false),
            (416, false),
            (301, false),
        ] {
            assert_eq!(is_retryable(status), retry, "{status}");
        }
    }
}
