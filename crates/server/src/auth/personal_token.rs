//! The tokens people keep: random, recognisable by their prefix, and stored only as a hash.
//!
//! 32 random bytes cannot be guessed, so a plain SHA-256 protects them as well as a slow password hash would.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use store::hub::{Bound, Rights, TokenRow};

use crate::secret::{Secret, hex, random};

/// What every such token begins with, so that people and scanners know one when they see it.
pub(crate) const PREFIX: &str = "ds_";

/// A new token, to be shown once.
pub fn make() -> Secret<String> {
    of(&random())
}

/// The token of these bytes, which must be as hard to guess as random ones.
pub(crate) fn of(bytes: &[u8; 32]) -> Secret<String> {
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What a new token is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// What its maker calls it.
    pub label: String,
    /// Whose it is.
    pub subject: String,
    /// What it allows.
    pub rights: Rights,
    /// Where.
    pub bound: Bound,
    /// From when on it opens nothing, Unix seconds.
    pub expires_s: Option<u64>,
}

impl NewToken {
    /// The row of `token` under a new id.
    ///
    /// # Panics
    ///
    /// When the text is no token.
    pub fn row(self, token: &Secret<String>, now_s: u64) -> TokenRow {
        let Self { label, subject, rights, bound, expires_s } = self;
        let digest = *TokenHash::of(token.expose()).expect("a token has the form of one").as_bytes();
        TokenRow {
            id: hex(&random::<6>()),
            label,
            digest,
            subject,
            rights,
            bound,
            created_s: now_s,
            expires_s,
            used_s: None,
            revoked_s: None,
            repo_id: None,
            session: None,
        }
    }
}

/// What is stored of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token; `None` when the text has not the form of one.
    pub fn of(token: &str) -> Option<Self> {
        is_token(token).then(|| Self(Sha256::digest(token).into()))
    }

    /// Takes a stored hash.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash, to be stored.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether this is the hash of the token. Compares all bytes, whatever the first ones are.
    pub(crate) fn matches(&self, token: &str) -> bool {
        let Some(Self(other)) = Self::of(token) else { return false };
        let differences = self.0.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differences) == 0
    }
}

/// Whether text has the form of a token: to tell ours from others' before asking the catalog.
pub(crate) fn is_token(text: &str) -> bool {
    let body = text.strip_prefix(PREFIX);
    body.is_some_and(|body| {
        body.len() == 43 && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_its_own_hash_only() {
        let (a, b) = (make(), make());
        let hash = TokenHash::of(a.expose()).unwrap();
        assert!(hash.matches(a.expose()));
        assert!(TokenHash::new(*hash.as_bytes()).matches(a.expose()));
        assert!(!hash.matches(b.expose()));
        assert!(!hash.matches(""));
        assert!(!hash.matches(&format!("{}x", a.expose())));
    }

    #[test]
    fn a_token_is_recognised_by_its_form() {
        let token = make();
        assert!(token.expose().starts_with("ds_") && token.expose().len() == 46);
        assert!(is_token(token.expose()));
        for other in [
            "",
            "ds_",
            "hf_abcdef",
            &token.expose()[3..],
            &token.expose()[..45],
            &token.expose().replace("ds_", "DS_"),
        ] {
            assert!(!is_token(other), "{other}");
            assert_eq!(TokenHash::of(other), None);
        }
        assert!(!format!("{token:?}").contains("ds_"));
    }
}
