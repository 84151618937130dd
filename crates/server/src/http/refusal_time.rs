//! Time of refusals: a caller who may not know whether something exists must not learn it from the time of the response.
//!
//! To look up what exists takes some microseconds more or less than to find nothing. So a refusal waits for the next step
//! since the lookup began; the lookup takes a small part of a step.

use std::time::Duration;

use tokio::time::Instant;

/// Waits until a whole number of steps has passed since `begin`.
pub(crate) async fn wait(begin: Instant) {
    let steps = begin.elapsed().as_micros() / STEP.as_micros() + 1;
    tokio::time::sleep_until(begin + STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))).await;
}

/// Long beside the delays of a busy scheduler: with 4 ms, two loaded cores showed which lookups had found something.
const STEP: Duration = Duration::from_millis(20);
