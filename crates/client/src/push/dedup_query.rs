//! Dedup queries: how many a push may make, and what the server answered.

use std::time::Duration;

use xet::shard::Shard;

/// Budget of dedup queries: at first free, then in step with the bytes read and with how often queries helped.
pub(super) struct QueryBudget {
    left: u32,
    credit_bytes: u64,
    failures: u32,
}

impl Default for QueryBudget {
    fn default() -> Self {
        Self { left: QUERIES_AT_ONCE, credit_bytes: 0, failures: 0 }
    }
}

/// Result of a dedup query.
pub(super) enum QueryOutcome {
    Failed,
    Nothing,
    Shard(bytes::Bytes, Box<Shard>),
}

impl QueryOutcome {
    pub(super) fn parse(answer: Option<Option<bytes::Bytes>>) -> Self {
        match answer {
            None => Self::Failed,
            Some(None) => Self::Nothing,
            // Untrusted input: parsed and checked before anything in it is believed.
            Some(Some(bytes)) => match Shard::parse_stored(&bytes) {
                Ok(shard) => Self::Shard(bytes, Box::new(shard)),
                Err(_) => Self::Failed,
            },
        }
    }
}

impl QueryBudget {
    /// How many of `requested` queries may be made, now that `read_bytes` more bytes were read.
    pub(super) fn grant(&mut self, requested: usize, read_bytes: u64) -> usize {
        self.credit_bytes += read_bytes;
        let earned = u32::try_from(self.credit_bytes / QUERY_BYTES).unwrap_or(u32::MAX);
        self.credit_bytes %= QUERY_BYTES;
        self.left = self.left.saturating_add(earned).min(QUERIES_AT_ONCE);
        if self.failures >= QUERY_FAILURES_MAX {
            return 0;
        }
        let granted = requested.min(self.left as usize);
        self.left -= u32::try_from(granted).unwrap_or(self.left);
        granted
    }

    pub(super) fn observe(&mut self, answer: &QueryOutcome) {
        match answer {
            QueryOutcome::Failed => self.failures += 1,
            QueryOutcome::Nothing => self.failures = 0,
            // Where one chunk was known, its neighbours may be.
            QueryOutcome::Shard(..) => (self.failures, self.left) = (0, (self.left + 4).min(QUERIES_AT_ONCE)),
        }
    }
}

/// Queries that may be made before any bytes were read; many small new files soon make none.
const QUERIES_AT_ONCE: u32 = 32;
/// Bytes read for each further query.
const QUERY_BYTES: u64 = 4 * 1024 * 1024;
/// Failures in a row after which no more queries are made.
const QUERY_FAILURES_MAX: u32 = 3;
/// How long one query may take.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_free_at_first_then_spaced_and_end_when_none_is_answered() {
        let mut queries = QueryBudget::default();
        assert_eq!(queries.grant(1000, 0), 32);
        assert_eq!(queries.grant(1, QUERY_BYTES - 1), 0);
        assert_eq!(queries.grant(5, 1), 1);
        queries.observe(&QueryOutcome::Nothing);
        assert_eq!(queries.grant(5, 3 * QUERY_BYTES), 3);
        (0..3).for_each(|_| queries.observe(&QueryOutcome::Failed));
        assert_eq!(queries.grant(5, 100 * QUERY_BYTES), 0);
    }
}
