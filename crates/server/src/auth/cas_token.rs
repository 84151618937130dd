//! CAS tokens: JWT, HS256, bound to one repository and ref.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use store::ids::RepoId;
use xet::wire::repo::RepoName;
use xet::wire::routes::TokenScope;

use crate::auth::Refusal;
use crate::secret::{KeyRing, Secret, hex, random};

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who it was given to.
    pub sub: String,
    /// What it allows. Writing includes reading.
    #[serde(with = "scope")]
    pub scope: TokenScope,
    /// Name of the repository when the token was issued.
    #[serde(with = "repo_name")]
    pub repo: RepoName,
    /// Id of the repository; `None` for content of a name that has no repository on the Hub side.
    #[serde(with = "repo_id")]
    pub repo_id: Option<RepoId>,
    /// Access that the token was issued for. The token is void when that ends.
    pub origin: Origin,
    /// The branch, tag or commit that it was requested for; a bucket has none.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When it expires, in Unix seconds.
    pub exp: u64,
    /// When it was given, in Unix seconds.
    pub iat: u64,
    /// Names this token in logs, where the token itself must not stand.
    pub jti: String,
}

impl Claims {
    /// Claims that hold for `ttl_s` from now, under a new id, about a name without repository.
    pub fn new(
        sub: impl Into<String>,
        origin: Origin,
        scope: TokenScope,
        repo: RepoName,
        now_s: u64,
        ttl_s: u64,
    ) -> Self {
        let (sub, exp, jti) = (sub.into(), now_s.saturating_add(ttl_s), hex(&random::<16>()));
        Self { sub, scope, repo, repo_id: None, origin, revision: None, exp, iat: now_s, jti }
    }

    /// The same about the repository with this id.
    #[must_use]
    pub(crate) fn for_repo(self, id: RepoId) -> Self {
        Self { repo_id: Some(id), ..self }
    }

    /// Refuses writing with a token that reads.
    pub(crate) fn allow(&self, needed: TokenScope) -> Result<(), Refusal> {
        match (needed, self.scope) {
            (TokenScope::Write, TokenScope::Read) => Err(Refusal::Scope),
            _ => Ok(()),
        }
    }
}

/// Access that a CAS token was issued for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A public repository, read without a token.
    Anonymous,
    /// A server without access control (`auth = false`).
    Open,
    /// The personal token or browser session with this id.
    Token(String),
}

/// A new token.
#[derive(Debug, Clone)]
pub struct Issued {
    /// What the client sends.
    pub token: Secret<String>,
    /// When it expires, in Unix seconds.
    pub expires_s: u64,
}

/// Issues and checks CAS tokens.
#[derive(Clone)]
pub struct CasTokens {
    signing: EncodingKey,
    signing_id: String,
    known: Vec<(String, DecodingKey)>,
    validation: Validation,
    /// Tokens whose signature was checked: a client sends the same one with each of its thousand requests.
    checked: Arc<Mutex<HashMap<String, Claims>>>,
}

impl std::fmt::Debug for CasTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CasTokens").field("signing_id", &self.signing_id).finish_non_exhaustive()
    }
}

impl CasTokens {
    /// Signs with the current key of the ring and believes all of it.
    pub fn new(keys: &KeyRing) -> Self {
        // Already installed is as good: features allow only this one.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let keys = keys.derive("cas tokens");
        let (signing_id, secret) = keys.first().expect("a ring has a current key");
        let (signing, signing_id) = (EncodingKey::from_secret(secret.expose()), signing_id.clone());
        let known =
            keys.iter().map(|(id, secret)| (id.clone(), DecodingKey::from_secret(secret.expose()))).collect();
        let mut validation = Validation::new(Algorithm::HS256);
        // Expiry is ours to check: the library reads the system's clock and is lenient by a minute.
        validation.validate_exp = false;
        validation.validate_aud = false;
        Self { signing, signing_id, known, validation, checked: Arc::default() }
    }

    /// A token that says this.
    pub fn issue(&self, claims: &Claims) -> Issued {
        let header = Header { kid: Some(self.signing_id.clone()), ..Header::new(Algorithm::HS256) };
        let token = jsonwebtoken::encode(&header, claims, &self.signing)
            .expect("plain claims under a secret of bytes");
        Issued { token: Secret::new(token), expires_s: claims.exp }
    }

    /// What a token says, if we gave it and it has not expired. See `Claims::allow` for what it then opens.
    pub fn verify(&self, token: &str, now_s: u64) -> Result<Claims, Refusal> {
        let known = self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned();
        let claims = match known {
            Some(claims) => claims,
            None => {
                let claims = self.check(token)?;
                let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
                if checked.len() >= CHECKED_MAX {
                    checked.clear();
                }
                checked.insert(token.to_owned(), claims.clone());
                claims
            }
        };
        if now_s >= claims.exp {
            return Err(Refusal::Expired);
        }
        Ok(claims)
    }

    /// What a token says, if we gave it.
    fn check(&self, token: &str) -> Result<Claims, Refusal> {
        // An algorithm we do not know is an error here, one we do not use an error below.
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refusal::Malformed)?;
        let kid = header.kid.ok_or(Refusal::Malformed)?;
        let (_, key) = self.known.iter().find(|(id, _)| *id == kid).ok_or(Refusal::Signature)?;
        let decoded = jsonwebtoken::decode::<Claims>(token, key, &self.validation);
        let claims = decoded.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => Refusal::Signature,
            _ => Refusal::Malformed,
        })?;
        Ok(claims.claims)
    }
}

/// Tokens in the cache. Each is at most 8 KiB long.
const CHECKED_MAX: usize = 1024;

/// A repository in a token, with its kind as paths have it.
mod repo_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use xet::wire::repo::{RepoKind, RepoName};

    #[derive(Serialize, Deserialize)]
    struct Parts {
        kind: RepoKind,
        namespace: String,
        name: String,
    }

    pub(super) fn serialize<S: Serializer>(name: &RepoName, serializer: S) -> Result<S::Ok, S::Error> {
        let RepoName { kind, namespace, name } = name.clone();
        Parts { kind, namespace, name }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RepoName, D::Error> {
        let Parts { kind, namespace, name } = Parts::deserialize(deserializer)?;
        Ok(RepoName { kind, namespace, name })
    }
}

/// The id of a repository is text, empty for none. A token without the field is malformed.
mod repo_id {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use store::ids::RepoId;

    pub(crate) fn serialize<S: Serializer>(id: &Option<RepoId>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&id.map(|id| id.to_string()).unwrap_or_default())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<RepoId>, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "" => Ok(None),
            id => id.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

/// A scope is one word in a token.
mod scope {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use xet::wire::routes::TokenScope;

    pub(crate) fn serialize<S: Serializer>(scope: &TokenScope, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match scope {
            TokenScope::Read => "read",
            TokenScope::Write => "write",
        })
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TokenScope, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "read" => Ok(TokenScope::Read),
            "write" => Ok(TokenScope::Write),
            _ => Err(D::Error::custom("expected read or write")),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use xet::wire::repo::RepoKind;

    use crate::secret::{Key, mac};

    const NOW: u64 = 1_800_000_000;

    fn ring() -> KeyRing {
        KeyRing::new(Key::new([7; 32]))
    }

    fn repo(name: &str) -> RepoName {
        RepoName { kind: RepoKind::Model, namespace: "org".into(), name: name.into() }
    }

    fn claims(scope: TokenScope) -> Claims {
        let origin = Origin::Token("t1".into());
        let claims = Claims::new("ada", origin, scope, repo("a"), NOW, 600).for_repo(RepoId::new([5; 16]));
        Claims { revision: Some("refs/pr/1".into()), ..claims }
    }

    /// A token with this header and these claims, rightly signed with the key for tokens.
    fn forge(header: &Value, claims: &Value, key: &[u8; 32]) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let tag = mac(key, &[message.as_bytes()]);
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    #[test]
    fn a_token_reads_back_until_it_expires() {
        let tokens = CasTokens::new(&ring());
        let claims = claims(TokenScope::Write);
        let issued = tokens.issue(&claims);
        assert_eq!(issued.expires_s, NOW + 600);
        let token = issued.token.expose();
        assert_eq!(tokens.verify(token, NOW), Ok(claims.clone()));
        assert_eq!(tokens.verify(token, NOW + 599), Ok(claims));
        assert_eq!(tokens.verify(token, NOW + 600), Err(Refusal::Expired));
    }

    #[test]
    fn writing_includes_reading_and_not_the_other_way() {
        let (read, write) = (claims(TokenScope::Read), claims(TokenScope::Write));
        assert_eq!(write.allow(TokenScope::Read), Ok(()));
        assert_eq!(write.allow(TokenScope::Write), Ok(()));
        assert_eq!(read.allow(TokenScope::Read), Ok(()));
        assert_eq!(read.allow(TokenScope::Write), Err(Refusal::Scope));
    }

    #[test]
    fn only_hs256_under_a_known_key_is_believed() {
        let tokens = CasTokens::new(&ring());
        let body = serde_json::to_value(claims(TokenScope::Write)).unwrap();
        let id = Key::new([7; 32]).id().to_owned();
        let secret = *ring().derive("cas tokens")[0].1.expose();

        let good = forge(&json!({"alg": "HS256", "kid": id}), &body, &secret);
        assert!(tokens.verify(&good, NOW).is_ok(), "the forge works");

        for alg in ["none", "None", "NONE", "HS384", "HS512", "RS256", "ES256", "EdDSA", ""] {
            let token = forge(&json!({"alg": alg, "kid": id, "typ": "JWT"}), &body, &secret);
            assert_eq!(tokens.verify(&token, NOW), Err(Refusal::Malformed), "{alg}");
            let (unsigned, _) = token.rsplit_once('.').unwrap();
            assert!(tokens.verify(&format!("{unsigned}."), NOW).is_err(), "{alg}");
            assert!(tokens.verify(unsigned, NOW).is_err(), "{alg}");
        }
        for header in [json!({"alg": "HS256"}), json!({"kid": id})] {
            assert_eq!(tokens.verify(&forge(&header, &body, &secret), NOW), Err(Refusal::Malformed));
        }
        let other_kid = forge(&json!({"alg": "HS256", "kid": "00000000"}), &body, &secret);
        assert_eq!(tokens.verify(&other_kid, NOW), Err(Refusal::Signature));
        let other_key = forge(&json!({"alg": "HS256", "kid": id}), &body, &[1; 32]);
        assert_eq!(tokens.verify(&other_key, NOW), Err(Refusal::Signature));
        // Data URLs are signed under the same ring, but not with the same key.
        let url_key = *ring().derive("data urls")[0].1.expose();
        let confused = forge(&json!({"alg": "HS256", "kid": id}), &body, &url_key);
        assert_eq!(tokens.verify(&confused, NOW), Err(Refusal::Signature));
    }

    #[test]
    fn claims_that_miss_something_are_malformed() {
        let tokens = CasTokens::new(&ring());
        let header = json!({"alg": "HS256", "kid": Key::new([7; 32]).id()});
        let secret = *ring().derive("cas tokens")[0].1.expose();
        let whole = serde_json::to_value(claims(TokenScope::Read)).unwrap();
        for name in ["sub", "scope", "repo", "repo_id", "origin", "exp", "iat", "jti"] {
            let mut body = whole.clone();
            body.as_object_mut().unwrap().remove(name);
            assert_eq!(
                tokens.verify(&forge(&header, &body, &secret), NOW),
                Err(Refusal::Malformed),
                "{name}"
            );
        }
        for (name, value) in [
            ("exp", json!("soon")),
            ("exp", json!(-1)),
            ("scope", json!("admin")),
            ("repo", json!("x")),
            ("repo_id", json!("x")),
            ("origin", json!("operator")),
        ] {
            let mut body = whole.clone();
            body[name] = value;
            assert_eq!(
                tokens.verify(&forge(&header, &body, &secret), NOW),
                Err(Refusal::Malformed),
                "{name}"
            );
        }
    }

    #[test]
    fn a_replaced_key_is_believed_for_one_more_turn() {
        let token = CasTokens::new(&ring()).issue(&claims(TokenScope::Read)).token;
        let turned = CasTokens::new(&KeyRing::new(Key::new([8; 32])).with_previous(Key::new([7; 32])));
        assert!(turned.verify(token.expose(), NOW).is_ok());
        let gone = CasTokens::new(&KeyRing::new(Key::new([8; 32])));
        assert_eq!(gone.verify(token.expose(), NOW), Err(Refusal::Signature));
    }

    #[test]
    fn neither_token_nor_key_is_printed() {
        let tokens = CasTokens::new(&ring());
        let issued = tokens.issue(&claims(TokenScope::Read));
        let text = format!("{issued:?} {tokens:?}");
        assert!(!text.contains(issued.token.expose()) && !text.contains("eyJ"), "{text}");
    }

    proptest! {
        #[test]
        fn no_text_panics_or_passes(text in "[A-Za-z0-9_.=-]{0,200}", at in 0..400_usize, by in any::<u8>()) {
            let tokens = CasTokens::new(&ring());
            prop_assert!(tokens.verify(&text, NOW).is_err());
            let token = tokens.issue(&claims(TokenScope::Read)).token.expose().clone();
            let mut bytes = token.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = by;
            if let Ok(changed) = String::from_utf8(bytes) && changed != token {
                prop_assert!(tokens.verify(&changed, NOW).is_err());
            }
        }
    }
}
