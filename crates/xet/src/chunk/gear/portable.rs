//! Portable kernel: the plain loop that every kernel must agree with; it also finishes a block where lanes end.

use super::{is_candidate, step};
use crate::constants::GEAR_WINDOW;

/// See [`super::first`].
pub(super) fn first(data: &[u8], from: usize, to: usize) -> Option<usize> {
    let mut hash = super::hash(warm_up(data, from));
    let mut bytes = data.get(from..to)?.iter();
    let met = bytes.position(|byte| {
        hash = step(hash, *byte);
        is_candidate(hash)
    });
    met.map(|at| from + at + 1)
}

/// Hash of the bytes before the first place.
fn warm_up(data: &[u8], from: usize) -> &[u8] {
    data.get(from.saturating_sub(GEAR_WINDOW - 1)..from).unwrap_or_default()
}

/// See [`super::candidates`].
pub(super) fn candidates(data: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
    let mut hash = super::hash(warm_up(data, from));
    for (i, byte) in data.get(from..to).unwrap_or_default().iter().enumerate() {
        hash = step(hash, *byte);
        if is_candidate(hash) {
            found.push(from + i + 1);
        }
    }
}
