//! Error codes for programs, each with its HTTP status, in one table.
//!
//! Genuine clients act on the status alone, so the status decides what they do next: 404 on a `v2` route makes them
//! try `v1`; 416 on a reconstruction means the end of the file, so an unknown file must never get it; 403 on a data
//! URL makes them ask for a new one; 408, 429 and 5xx but 501 are tried again; all else is final.

use serde::{Deserialize, Serialize};

/// The body of every refusal. `error` is text because Hub clients print that field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// For people; may change.
    pub error: String,
    /// For programs.
    pub code: ErrorCode,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $status:literal)*) => {
        /// What went wrong, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
            /// A code that this version does not know; the status still says what to do.
            #[serde(other, rename = "unknown")]
            Unknown,
        }

        impl ErrorCode {
            /// Every code we send.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as it is sent.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Unknown => "unknown",
                }
            }

            /// The HTTP status it is sent with.
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                    Self::Unknown => 500,
                }
            }
        }
    };
}

codes! {
    /// The request or its bytes are wrong.
    Invalid "invalid" 400
    /// A shard names a xorb that is not here. Upload it, then the shard again.
    MissingXorb "missing_xorb" 400
    /// What was sent does not have the hash it was sent under.
    HashMismatch "hash_mismatch" 400
    /// No token, or one that is unknown or expired.
    Unauthorized "unauthorized" 401
    /// The token does not allow this.
    Forbidden "forbidden" 403
    /// A data URL is too old, or was signed for other bytes. Ask for the reconstruction again.
    UrlExpired "url_expired" 403
    /// There is no such thing, or it may not be seen.
    NotFound "not_found" 404
    /// The thing is here but not this way of asking for it.
    MethodNotAllowed "method_not_allowed" 405
    /// The body did not arrive in time.
    Timeout "timeout" 408
    /// Someone else changed it first. Read it again.
    Conflict "conflict" 409
    /// The body is longer than what is accepted.
    TooLarge "too_large" 413
    /// A quota is used up. Not 507: clients would send it again and again.
    QuotaExceeded "quota_exceeded" 413
    /// The range begins at or after the end.
    RangeNotSatisfiable "range_not_satisfiable" 416
    /// Too many requests. Wait.
    TooManyRequests "too_many_requests" 429
    /// A fault of the server.
    Internal "internal" 500
    /// Bytes the server stored are damaged.
    Corrupt "corrupt" 500
    /// Not now: starting, stopping, or something behind the server is away. Wait.
    Unavailable "unavailable" 503
    /// No space to store more.
    StorageFull "storage_full" 507
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
