//! Signatures of LFS URLs: for one action on one object of one repository, until a time.

use xet::Sha256;
use xet::hash::parse_hex;

use crate::auth::Origin;
use crate::secret::{KeyRing, Secret, hex, mac, mac_matches};

/// What a URL is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Upload,
    Verify,
    Download,
    /// One part, counted from 1, of a file in parts of this length.
    Part {
        number: u64,
        part_bytes: u64,
    },
    /// All parts are there.
    Join {
        part_bytes: u64,
    },
}

/// Everything a signature covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) action: Action,
    pub(crate) repo: String,
    /// Access that the URL was made for: it is void when that ends.
    pub(crate) origin: Origin,
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    pub(crate) expires_s: u64,
}

/// Signs LFS URLs.
#[derive(Debug)]
pub(crate) struct LfsSigner {
    /// The first signs; all are believed.
    keys: Vec<Secret<[u8; 32]>>,
}

impl LfsSigner {
    pub(crate) fn new(keys: &KeyRing) -> Self {
        Self { keys: keys.derive("lfs urls").into_iter().map(|(_, key)| key).collect() }
    }

    pub(crate) fn sign(&self, signed: &Signed) -> String {
        let key = self.keys.first().expect("a ring has a current key");
        hex(&mac(key.expose(), &[signed.message().as_bytes()]))
    }

    pub(crate) fn is_good(&self, signed: &Signed, tag: &str, now_s: u64) -> bool {
        let Some(tag) = parse_hex::<32>(tag) else { return false };
        let message = signed.message();
        let matches = self.keys.iter().any(|key| mac_matches(key.expose(), &[message.as_bytes()], &tag));
        matches && now_s < signed.expires_s
    }
}

impl Signed {
    fn message(&self) -> String {
        let Self { action, repo, origin, sha256, bytes, expires_s } = self;
        let action = match action {
            Action::Upload => "upload".to_owned(),
            Action::Verify => "verify".to_owned(),
            Action::Download => "download".to_owned(),
            Action::Part { number, part_bytes } => format!("part {number} {part_bytes}"),
            Action::Join { part_bytes } => format!("join {part_bytes}"),
        };
        // None of them has spaces, so no two messages are alike.
        let origin = origin_text(origin);
        format!("{action} {repo} {origin} {} {bytes} {expires_s}", hex(sha256.as_bytes()))
    }
}

/// An origin as URLs have it.
pub(crate) fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Anonymous => "anonymous".to_owned(),
        Origin::Open => "open".to_owned(),
        Origin::Token(id) => format!("token.{id}"),
    }
}

/// Reads what [`origin_text`] writes.
pub(crate) fn parse_origin(text: &str) -> Option<Origin> {
    match text {
        "anonymous" => Some(Origin::Anonymous),
        "open" => Some(Origin::Open),
        _ => {
            let id = text.strip_prefix("token.")?;
            let is_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            id.bytes().all(is_id).then(|| Origin::Token(id.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Key;

    #[test]
    fn a_signature_is_for_one_object_and_one_time() {
        let signer = LfsSigner::new(&KeyRing::new(Key::new([7; 32])));
        let signed = Signed {
            action: Action::Download,
            repo: "ann/model".into(),
            origin: Origin::Token("a1".into()),
            sha256: Sha256::new([1; 32]),
            bytes: 5,
            expires_s: 100,
        };
        let tag = signer.sign(&signed);
        assert!(signer.is_good(&signed, &tag, 99));
        assert!(!signer.is_good(&signed, &tag, 100));
        assert!(!signer.is_good(&signed, "", 99));
        for other in [
            Signed { action: Action::Upload, ..signed.clone() },
            Signed { action: Action::Part { number: 1, part_bytes: 5 }, ..signed.clone() },
            Signed { repo: "ann/other".into(), ..signed.clone() },
            Signed { origin: Origin::Token("a2".into()), ..signed.clone() },
            Signed { origin: Origin::Anonymous, ..signed.clone() },
            Signed { sha256: Sha256::new([2; 32]), ..signed.clone() },
            Signed { bytes: 6, ..signed.clone() },
            Signed { expires_s: 101, ..signed.clone() },
        ] {
            assert!(!signer.is_good(&other, &tag, 99), "{other:?}");
        }
        for origin in [Origin::Anonymous, Origin::Open, Origin::Token("0a.1b".into())] {
            assert_eq!(parse_origin(&origin_text(&origin)), Some(origin));
        }
        assert_eq!(parse_origin("token.a b"), None);
        let elsewhere = LfsSigner::new(&KeyRing::new(Key::new([8; 32])));
        assert!(!elsewhere.is_good(&signed, &tag, 99));
    }
}
