//! Values that must not be printed, and the keys among them.

use std::fmt;
pub(crate) use xet::hash::hex;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Holds a value that no `Debug` shows and nothing serializes. [`Secret::expose`] is the way to it.
#[derive(Clone)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, to use and not to keep.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A key of the server, under a name that follows from its bytes: the same key has the same name everywhere.
#[derive(Debug, Clone)]
pub struct Key {
    id: String,
    bytes: Secret<[u8; 32]>,
}

impl Key {
    /// Takes the bytes of a key.
    pub fn new(bytes: [u8; 32]) -> Self {
        let [a, b, c, d, ..] = mac(&bytes, &[b"drystone key id"]);
        Self { id: hex(&[a, b, c, d]), bytes: Secret::new(bytes) }
    }

    /// A new key from the system's random numbers.
    pub fn random() -> Self {
        Self::new(random())
    }

    /// Its name, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The bytes, to be stored where only the server reads.
    pub fn bytes(&self) -> &Secret<[u8; 32]> {
        &self.bytes
    }

    /// The key for one purpose. What is signed for one cannot be used as if it were signed for another.
    pub(crate) fn derive(&self, purpose: &str) -> Secret<[u8; 32]> {
        Secret::new(mac(self.bytes.expose(), &[b"drystone key for ", purpose.as_bytes()]))
    }
}

/// The key that signs, and the one before it, which is still believed: so a key can be replaced while servers run.
#[derive(Debug, Clone)]
pub struct KeyRing {
    current: Key,
    previous: Option<Key>,
}

impl KeyRing {
    /// A ring of one key.
    pub fn new(current: Key) -> Self {
        Self { current, previous: None }
    }

    /// Believes one more key.
    #[must_use]
    pub fn with_previous(mut self, previous: Key) -> Self {
        self.previous = Some(previous);
        self
    }

    /// The bytes of the key that signs, to be stored where only servers read.
    pub(crate) fn current_bytes(&self) -> Secret<[u8; 32]> {
        self.current.bytes().clone()
    }

    /// What each key is for this purpose, by key id; the one that signs comes first.
    pub(crate) fn derive(&self, purpose: &str) -> Vec<(String, Secret<[u8; 32]>)> {
        let keys = std::iter::once(&self.current).chain(&self.previous);
        keys.map(|key| (key.id.clone(), key.derive(purpose))).collect()
    }
}

/// HMAC-SHA256 with parts fed one after another.
pub(crate) fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    keyed(key, parts).finalize().into_bytes().into()
}

/// Whether `tag` is the HMAC-SHA256 of the parts; takes the same time whatever the answer.
pub(crate) fn mac_matches(key: &[u8; 32], parts: &[&[u8]], tag: &[u8]) -> bool {
    keyed(key, parts).verify_slice(tag).is_ok()
}

fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// Random bytes from the system.
///
/// # Panics
///
/// When the system has none, in which case nothing safe can be done.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use xet::hash::parse_hex;

    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let key = Key::new([0x61; 32]);
        for text in
            [format!("{:?}", Secret::new("hunter2")), format!("{key:?}"), format!("{:?}", KeyRing::new(key))]
        {
            assert!(!text.contains("hunter2") && !text.contains("97") && !text.contains("aaaa"), "{text}");
        }
    }

    #[test]
    fn keys_differ_by_bytes_and_by_purpose() {
        let (a, b) = (Key::new([1; 32]), Key::new([2; 32]));
        assert_ne!(a.id(), b.id());
        assert_eq!(a.id().len(), 8);
        assert_ne!(a.derive("urls").expose(), a.derive("tokens").expose());
        assert_ne!(a.derive("urls").expose(), b.derive("urls").expose());
        assert_ne!(Key::random().id(), Key::random().id());
    }

    #[test]
    fn the_mac_is_the_one_of_rfc_4231() {
        // Test case 2 has a short key, which HMAC pads with zeros: the same as 32 bytes that end in zeros.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let tag = mac(&key, &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&tag), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(mac_matches(&key, &[b"what do ya want for nothing?"], &tag));
        assert!(!mac_matches(&key, &[b"what do ya want for nothing!"], &tag));
        assert!(!mac_matches(&key, &[b"what do ya want for nothing?"], &tag[..31]));
    }

    #[test]
    fn hexadecimal_has_one_spelling() {
        let text = "00ff".repeat(16);
        assert_eq!(hex(&parse_hex::<32>(&text).unwrap()), text);
        for bad in [
            text.to_uppercase(),
            text[..62].to_owned(),
            format!("{text}00"),
            format!("{}é", &text[..62]),
            String::new(),
        ] {
            assert_eq!(parse_hex::<32>(&bad), None, "{bad}");
        }
    }
}
