//! Retries: how many, and how long to wait in between.

use std::future::Future;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::progress::Counter;

/// How often to try, and how long to wait.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Attempts in all; at least one is made.
    pub attempts_max: u32,
    /// The longest wait before the second attempt. Each later one may be twice as long.
    pub wait: Duration,
    /// No wait of our own is longer.
    pub wait_max: Duration,
    /// The longest wait that a server may demand with `Retry-After`; if it demands more, the request fails.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    /// Rides out a restart of the server: up to about two minutes.
    fn default() -> Self {
        Self {
            attempts_max: 8,
            wait: Duration::from_millis(500),
            wait_max: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Does `work` until it succeeds, fails for good, or was tried often enough. `retries` counts attempts after the first.
    pub(crate) async fn run<T, F>(&self, retries: &Counter, mut work: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut attempt = 1;
        loop {
            let error = match work().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(wait) = self.pause(attempt, &error) else { return Err(error) };
            tokio::time::sleep(wait).await;
            retries.add(1);
            attempt += 1;
        }
    }

    /// How long to wait after the attempt of this number, from 1; `None` to give up.
    pub(crate) fn pause(&self, attempt: u32, error: &Error) -> Option<Duration> {
        self.wait_after(attempt, error, random_fraction())
    }

    /// The same, by a number that is random. `fraction` is in `0.0..1.0`.
    fn wait_after(&self, attempt: u32, error: &Error, fraction: f64) -> Option<Duration> {
        if error.kind() != ErrorKind::Unavailable || attempt >= self.attempts_max {
            return None;
        }
        if let Some(requested) = error.retry_after() {
            // A little later than asked, and not all at the same moment.
            let spread = self.wait.mul_f64(fraction);
            return (requested <= self.retry_after_max).then(|| requested + spread);
        }
        let longest = self.wait.saturating_mul(1 << (attempt - 1).min(20)).min(self.wait_max);
        // Never less than half: many clients that failed together must not come back together, nor at once.
        Some(longest.mul_f64(0.5 + fraction / 2.0))
    }
}

/// Evenly from `0.0..1.0`.
fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness the waits are merely all alike.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn quick() -> RetryPolicy {
        RetryPolicy { attempts_max: 4, wait: Duration::from_millis(1), ..RetryPolicy::default() }
    }

    fn away() -> Error {
        Error::new(ErrorKind::Unavailable, "away")
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
        for (kind, attempts) in [(ErrorKind::Unavailable, 4), (ErrorKind::Invalid, 1), (ErrorKind::Denied, 1)]
        {
            let (count, retries) = (Cell::new(0), Counter::default());
            let result: Result<()> = quick()
                .run(&retries, || {
                    count.set(count.get() + 1);
                    async move { Err(Error::new(kind, "no")) }
                })
                .await;
            assert_eq!(result.unwrap_err().kind(), kind);
            assert_eq!((count.get(), retries.value()), (attempts, attempts - 1));
        }
    }

    #[tokio::test]
    async fn success_ends_it() {
        let (count, retries) = (Cell::new(0), Counter::default());
        let work = || {
            count.set(count.get() + 1);
            let n = count.get();
            async move { if n < 3 { Err(away()) } else { Ok(n) } }
        };
        assert_eq!(quick().run(&retries, work).await.unwrap(), 3);
    }

    #[test]
    fn waits_grow_to_their_limit_and_heed_the_other_side() {
        let policy = RetryPolicy::default();
        let ms = |attempt, fraction| policy.wait_after(attempt, &away(), fraction).unwrap().as_millis();
        assert_eq!(
            [ms(1, 0.0), ms(1, 1.0), ms(2, 1.0), ms(3, 1.0), ms(7, 1.0)],
            [250, 500, 1000, 2000, 30_000]
        );
        assert_eq!(policy.wait_after(8, &away(), 0.0), None);
        let after = |seconds| away().with_retry_after(Some(Duration::from_secs(seconds)));
        assert_eq!(policy.wait_after(1, &after(7), 0.0), Some(Duration::from_secs(7)));
        assert_eq!(policy.wait_after(1, &after(301), 0.0), None);
    }
}
