//! Passwords that users sign in to the pages with. Slow to check, so that they are slow to guess.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use tokio::sync::Semaphore;

/// The shortest password that a user may choose.
pub const CHARACTERS_MIN: usize = 10;
/// Longer ones would be a way to occupy the server.
const BYTES_MAX: usize = 1000;

/// Each check takes some 20 MB and a core for a moment.
static CHECKS: Semaphore = Semaphore::const_new(2);

/// The hash to keep of a password that may be chosen.
pub fn hash(password: &str) -> Result<String, String> {
    if password.chars().count() < CHARACTERS_MIN {
        return Err(format!("a password has at least {CHARACTERS_MIN} characters"));
    }
    if password.len() > BYTES_MAX {
        return Err(format!("a password has at most {BYTES_MAX} bytes"));
    }
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| format!("the password cannot be hashed: {error}"))
}

fn is_right(password: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    password.len() <= BYTES_MAX && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// Whether a password has this hash; one without a hash takes as long to check.
pub(crate) async fn verify(password: &str, hash: Option<String>) -> bool {
    let hash = hash.unwrap_or_else(|| NO_PASSWORD.clone());
    let password = password.to_owned();
    let _turn = CHECKS.acquire().await;
    let checked = tokio::task::spawn_blocking(move || is_right(&password, &hash)).await;
    checked.unwrap_or(false)
}

/// A hash that no password has.
static NO_PASSWORD: LazyLock<String> =
    LazyLock::new(|| hash(&crate::secret::hex(&crate::secret::random::<32>())).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_right_or_not_and_short_ones_cannot_be_chosen() {
        let stored = hash("correct horse").unwrap();
        assert!(stored.starts_with("$argon2id$") && !stored.contains("horse"));
        assert!(is_right("correct horse", &stored));
        for other in ["", "correct hors", "correct horse ", &"x".repeat(5000)] {
            assert!(!is_right(other, &stored), "{other}");
        }
        assert!(!is_right("correct horse", "no hash"));
        assert!(hash("short").unwrap_err().contains("10 characters"));
        assert!(hash(&"x".repeat(1001)).is_err());
        assert_ne!(hash("correct horse").unwrap(), stored, "salted");
    }
}
