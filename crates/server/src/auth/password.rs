//! Passwords: what people sign in to the pages with. Slow to check, so that they are slow to guess.

use std::net::IpAddr;
use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use store::Store;
use store::hub::NamespaceState;
use tokio::sync::Semaphore;

use crate::http::error::Refused;
use crate::state::AppState;

/// The shortest password somebody may choose.
pub const CHARACTERS_MIN: usize = 10;
/// Longer ones would be a way to keep the server busy.
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

impl AppState {
    /// Whether this is the password of a user who is not disabled. Every other name costs as much as a user's. The attempt
    /// counts for its address before it is checked; a caller without one is a test.
    pub(crate) async fn is_password(
        &self,
        store: &Store,
        address: IpAddr,
        name: &str,
        password: &str,
    ) -> Result<bool, Refused> {
        let attempt = self.sign_ins.begin(address, name, self.started.elapsed());
        let attempt = attempt.map_err(|wait| {
            Refused::too_many("too many attempts to sign in from this address: wait a minute", wait)
        })?;
        let found = store.hub().tokens().password(name).await?;
        let user = store.hub().namespace(name).await?;
        let is_active =
            user.is_some_and(|user| user.state == NamespaceState::Active && !user.is_organisation);
        let is_known = found.is_some() && is_active;
        let hash = found.unwrap_or_else(|| NOBODYS.clone());
        let password = password.to_owned();
        let _turn = CHECKS.acquire().await;
        let checked = tokio::task::spawn_blocking(move || is_right(&password, &hash)).await;
        let is_right = is_known && checked.unwrap_or(false);
        if is_right {
            self.sign_ins.succeed(&attempt);
        }
        Ok(is_right)
    }
}

/// A hash that no password has.
static NOBODYS: LazyLock<String> =
    LazyLock::new(|| hash(&crate::secret::hex(&crate::secret::random::<32>())).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_right_or_not_and_short_ones_cannot_be_chosen() {
        let kept = hash("correct horse").unwrap();
        assert!(kept.starts_with("$argon2id$") && !kept.contains("horse"));
        assert!(is_right("correct horse", &kept));
        for other in ["", "correct hors", "correct horse ", &"x".repeat(5000)] {
            assert!(!is_right(other, &kept), "{other}");
        }
        assert!(!is_right("correct horse", "no hash"));
        assert!(hash("short").unwrap_err().contains("10 characters"));
        assert!(hash(&"x".repeat(1001)).is_err());
        assert_ne!(hash("correct horse").unwrap(), kept, "salted");
    }
}
