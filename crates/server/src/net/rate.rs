//! Limit on the requests of one address: a rate, after a burst.
//!
//! For each address one number is kept: when its requests so far would be over, had they come at the allowed rate. A
//! request passes while that lies no further ahead than the burst. Addresses that have been quiet are forgotten.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Counts requests by address, or by another key of the caller.
pub(crate) struct RateLimit<K = IpAddr> {
    /// The time one request stands for.
    interval: Duration,
    /// How far ahead an address may be.
    burst: Duration,
    addresses_max: usize,
    ahead_until: Mutex<HashMap<K, Duration>>,
}

impl RateLimit<IpAddr> {
    /// Counts a request at the time `now` of any clock that does not step back; else says how long to wait.
    pub(crate) fn admit(&self, address: IpAddr, now: Duration) -> Result<(), Duration> {
        self.admit_key(network(address), now)
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    /// A limit of `requests_per_s`, after ten times as many at once; `None` for a rate of 0, which is no limit.
    pub(crate) fn new(requests_per_s: u32) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(requests_per_s)?;
        let burst = interval * (requests_per_s.saturating_mul(BURST_S) - 1);
        Some(Self { interval, burst, addresses_max: ADDRESSES_MAX, ahead_until: Mutex::new(HashMap::new()) })
    }

    /// The same for a key.
    pub(crate) fn admit_key(&self, key: K, now: Duration) -> Result<(), Duration> {
        // A panic elsewhere leaves the numbers as good as they were.
        let mut ahead_until = self.ahead_until.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead_until.len() >= self.addresses_max && !ahead_until.contains_key(&key) {
            ahead_until.retain(|_, until| *until > now);
            // A client with this many addresses is not held by a limit on each; others should not suffer for it.
            if ahead_until.len() >= self.addresses_max {
                return Ok(());
            }
        }
        let until = ahead_until.entry(key).or_insert(now);
        let from = (*until).max(now);
        let ahead = from.saturating_sub(now);
        if ahead > self.burst {
            return Err(ahead.saturating_sub(self.burst));
        }
        *until = from + self.interval;
        Ok(())
    }
}

impl<K> fmt::Debug for RateLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// What counts as one address: with IPv6, the network that one customer has.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

/// A burst is what the rate allows in this many seconds.
const BURST_S: u32 = 10;
/// Some megabytes of addresses.
const ADDRESSES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn seconds(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn after_the_burst_come_so_many_per_second_and_not_per_minute() {
        let limit = RateLimit::<IpAddr>::new(5).unwrap();
        let burst = (0..100).filter(|_| limit.admit(A, seconds(1.0)).is_ok()).count();
        assert_eq!(burst, 50);
        let wait = limit.admit(A, seconds(1.0)).unwrap_err();
        assert!((0.19..=0.21).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(limit.admit(A, seconds(1.0) + wait).is_ok(), "waiting as told is enough");

        // Asking every 10 ms for a minute: the rate is what passes, give or take one.
        let passed =
            (0..6000).filter(|i| limit.admit(A, seconds(2.0 + f64::from(*i) / 100.0)).is_ok()).count();
        assert!((295..=310).contains(&passed), "{passed}");
    }

    #[test]
    fn addresses_do_not_share_and_a_quiet_one_has_its_burst_again() {
        let limit = RateLimit::<IpAddr>::new(1).unwrap();
        let burst = |address, now| (0..100).filter(|_| limit.admit(address, seconds(now)).is_ok()).count();
        assert_eq!((burst(A, 0.0), burst(B, 0.0), burst(A, 0.0), burst(A, 100.0)), (10, 10, 0, 10));
    }

    #[test]
    fn a_customer_with_many_addresses_is_one() {
        let limit = RateLimit::<IpAddr>::new(1).unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let ok =
            (0..100).filter(|i| limit.admit(address(&format!("2001:db8:1:1::{i}")), seconds(0.0)).is_ok());
        assert_eq!(ok.count(), 10);
        assert!(limit.admit(address("2001:db8:1:2::1"), seconds(0.0)).is_ok());
        assert!((0..10).all(|_| limit.admit(A, seconds(0.0)).is_ok()));
        assert!(limit.admit(address("::ffff:10.0.0.1"), seconds(0.0)).is_err(), "the same as in IPv4");
    }

    #[test]
    fn memory_is_bounded_and_the_quiet_are_forgotten() {
        let limit = RateLimit { addresses_max: 2, ..RateLimit::<IpAddr>::new(1).unwrap() };
        let c = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));
        assert!(limit.admit(A, seconds(0.0)).is_ok() && limit.admit(B, seconds(0.0)).is_ok());
        assert!((0..100).all(|_| limit.admit(c, seconds(0.0)).is_ok()));
        assert_eq!(limit.ahead_until.lock().unwrap().len(), 2);
        assert!(limit.admit(c, seconds(50.0)).is_ok());
        assert_eq!(limit.ahead_until.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_rate_of_nothing_is_no_limit() {
        assert!(RateLimit::<IpAddr>::new(0).is_none());
        assert!(RateLimit::<IpAddr>::new(u32::MAX).is_some());
    }
}
