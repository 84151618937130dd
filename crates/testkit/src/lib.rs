//! What tests share: input recipes, golden vectors, slow twins of the specification, damage, a counting allocator.
//!
//! A dev-dependency only, and never a user of the code it tests: a twin that called the original would prove nothing.
//! (`faulty` and `upload` are none: they wrap what the `store` crate is given and make what a server is sent, for the
//! integration tests of those.)
//! Everything here panics where a test should fail.

pub mod alloc;
pub mod command;
pub mod corpus;
pub mod damage;
#[cfg(feature = "store")]
pub mod faulty;
pub mod http;
#[cfg(feature = "store")]
pub mod origin;
pub mod postgres;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod recipe;
#[cfg(feature = "s3")]
pub mod s3;
pub mod twin;
#[cfg(feature = "store")]
pub mod upload;
pub mod vectors;

pub use recipe::Recipe;
pub use vectors::Vectors;

/// The bytes that hexadecimal digits spell, in plain order.
///
/// # Panics
///
/// If `text` is not an even number of hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| match (c as char).to_digit(16) {
        Some(value) => u8::try_from(value).expect("a digit is below 16"),
        None => panic!("not hexadecimal: {text:?}"),
    };
    assert!(text.len().is_multiple_of(2), "an odd number of digits: {text:?}");
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// [`unhex`] of exactly 32 bytes: keys, digests and hashes in plain order.
///
/// # Panics
///
/// If `text` is not 64 hexadecimal digits.
pub fn unhex32(text: &str) -> [u8; 32] {
    unhex(text).try_into().unwrap_or_else(|_| panic!("not 64 digits: {text:?}"))
}

/// Plain lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ordinary SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_there_and_back() {
        assert_eq!(unhex("00ffA5"), [0, 255, 0xa5]);
        assert_eq!(hex(&unhex("00ffa5")), "00ffa5");
        assert_eq!(
            hex(&sha256(b"some data")),
            "1307990e6ba5ca145eb35e99182a9bec46531bc54ddf656a602c780fa0240dee"
        );
    }
}
