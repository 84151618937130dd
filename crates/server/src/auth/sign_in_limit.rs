//! Limit on password attempts: counted before the password is checked, by address and by name.
//!
//! Failures of one address lock that address out, not the name: a user who signs in from elsewhere is not affected. The
//! limit of a name over all addresses is far higher and only slows down guessing from many addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::net::rate::network;

/// Counts password attempts in windows of `WINDOW`.
#[derive(Debug, Default)]
pub(crate) struct SignInLimit {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    of: HashMap<Key, Count>,
    /// When counts of past windows were last looked for: with all of them in use, not for every attempt.
    purged: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// All attempts of an address.
    Address(IpAddr),
    /// Attempts of an address for one name.
    Pair(IpAddr, String),
    /// Attempts for one name, of all addresses.
    Name(String),
}

#[derive(Debug, Clone, Copy)]
struct Count {
    began: Duration,
    attempts: u32,
}

/// A counted attempt.
#[derive(Debug)]
#[must_use]
pub(crate) struct Attempt([Key; 3]);

impl SignInLimit {
    /// Counts an attempt before its password is checked, at the time `now` of a clock that does not step back; or returns
    /// how long to wait. An attempt that is refused is not counted.
    pub(crate) fn begin(&self, address: IpAddr, name: &str, now: Duration) -> Result<Attempt, Duration> {
        let address = network(address);
        // A name that no user can have needs no more memory than one of a user.
        let name: String = name.chars().take(NAME_CHARACTERS_MAX).collect();
        let keys = [Key::Address(address), Key::Pair(address, name.clone()), Key::Name(name)];
        // A panic elsewhere leaves the numbers as good as they were.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.of.len() + keys.len() > COUNTS_MAX && now >= counts.purged + PURGE {
            counts.purged = now;
            counts.of.retain(|_, count| now < count.began + WINDOW);
        }
        let counts = &mut counts.of;
        let is_full = counts.len() + keys.len() > COUNTS_MAX;
        for key in &keys {
            match counts.get(key).filter(|count| now < count.began + WINDOW) {
                Some(count) if count.attempts >= key.attempts_max() => {
                    return Err((count.began + WINDOW).saturating_sub(now));
                }
                // Without room to count, nothing new is checked.
                None if is_full => return Err(WINDOW),
                _ => {}
            }
        }
        for key in &keys {
            let count = counts.entry(key.clone()).or_insert(Count { began: now, attempts: 0 });
            if now >= count.began + WINDOW {
                *count = Count { began: now, attempts: 0 };
            }
            count.attempts += 1;
        }
        Ok(Attempt(keys))
    }

    /// Takes back an attempt whose password was right.
    pub(crate) fn succeed(&self, attempt: &Attempt) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &attempt.0 {
            if let Some(count) = counts.of.get_mut(key) {
                count.attempts = count.attempts.saturating_sub(1);
            }
        }
    }
}

impl Key {
    const fn attempts_max(&self) -> u32 {
        match self {
            Self::Pair(..) => 10,
            Self::Address(_) => 50,
            Self::Name(_) => 200,
        }
    }
}

const WINDOW: Duration = Duration::from_secs(60);
/// Least time between two searches for counts of past windows.
const PURGE: Duration = Duration::from_secs(5);
const NAME_CHARACTERS_MAX: usize = 100;
/// Some megabytes of counts.
const COUNTS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failures_of_one_address_lock_that_address_and_not_the_name() {
        let limit = SignInLimit::default();
        let tried = (0..150).filter(|_| limit.begin(A, "ann", seconds(1)).is_ok()).count();
        assert_eq!(tried, 10, "however many come at once");
        assert_eq!(limit.begin(A, "ann", seconds(31)).unwrap_err(), seconds(30));
        assert!(limit.begin(B, "ann", seconds(1)).is_ok(), "ann signs in from elsewhere");
        assert!(limit.begin(A, "ann", seconds(61)).is_ok(), "a minute later");
    }

    #[test]
    fn an_address_tries_many_names_only_so_often() {
        let limit = SignInLimit::default();
        let tried = (0..500).filter(|n| limit.begin(A, &format!("user{n}"), seconds(0)).is_ok()).count();
        assert_eq!(tried, 50);
    }

    #[test]
    fn many_addresses_try_one_name_only_so_often() {
        let limit = SignInLimit::default();
        let address = |n: u8| IpAddr::V4(std::net::Ipv4Addr::new(10, 1, n, 1));
        let tried = (0..=255).filter(|n| limit.begin(address(*n), "ann", seconds(0)).is_ok()).count();
        assert_eq!(tried, 200);
    }

    #[test]
    fn right_passwords_use_up_nothing() {
        let limit = SignInLimit::default();
        for _ in 0..1000 {
            let attempt = limit.begin(A, "ann", seconds(0)).unwrap();
            limit.succeed(&attempt);
        }
        assert!(limit.begin(A, "ann", seconds(0)).is_ok());
    }

    #[test]
    fn the_number_of_counts_is_bounded() {
        let limit = SignInLimit::default();
        for n in 0..COUNTS_MAX as u32 {
            let address = IpAddr::V4(std::net::Ipv4Addr::from(n << 4));
            let _ = limit.begin(address, &n.to_string(), seconds(0));
        }
        assert!(limit.counts.lock().unwrap().of.len() <= COUNTS_MAX);
        assert!(limit.begin(A, "ann", seconds(60)).is_ok(), "room comes back");
    }
}
