//! The plain loop: what every kernel must agree with, and what finishes a block where lanes end.

use super::{is_candidate, step};
use crate::suite::GEAR_WINDOW;

/// See [`super::candidates`].
pub(super) fn candidates(data: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
    let warm_up = data.get(from.saturating_sub(GEAR_WINDOW - 1)..from).unwrap_or_default();
    let mut hash = super::hash(warm_up);
    for (i, byte) in data.get(from..to).unwrap_or_default().iter().enumerate() {
        hash = step(hash, *byte);
        if is_candidate(hash) {
            found.push(from + i + 1);
        }
    }
}
