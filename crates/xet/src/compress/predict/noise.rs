//! Noise detection: is every part of a chunk as random as the next?

/// Whether no sample of `chunk`, which is at least [`BYTES_MIN`] long, differs from noise.
///
/// A window of noise has one byte in 256 that equals its neighbour at a given distance; windows of text, numbers, holes
/// and tables have many. An island is seen where a single window has too many, a slight skew in the sum of all.
pub(super) fn is_random(chunk: &[u8]) -> bool {
    let step = chunk.len().saturating_sub(WINDOW_BYTES) / (WINDOWS - 1);
    let mut all = 0;
    for number in 0..WINDOWS {
        let window = chunk.get(step * number..).and_then(<[u8]>::first_chunk::<WINDOW_BYTES>);
        let equal = window.map_or(0, equal_neighbours);
        if equal > WINDOW_EQUAL_MAX {
            return false;
        }
        all += equal;
    }
    all <= ALL_EQUAL_MAX
}

/// How often two bytes are equal, one of them in the first part of the window, the other 1, 2, 4 or 8 bytes after it.
/// No branches and fixed lengths: 16 comparisons of 16 bytes each.
fn equal_neighbours(window: &[u8; WINDOW_BYTES]) -> u32 {
    let mut lanes = [0_u8; 16];
    for distance in DISTANCES {
        let (firsts, _) = window.as_chunks::<16>();
        let (seconds, _) = window.get(distance..).unwrap_or_default().as_chunks::<16>();
        for (first, second) in firsts.iter().take(PARTS).zip(seconds) {
            for ((lane, a), b) in lanes.iter_mut().zip(first).zip(second) {
                *lane += u8::from(a == b);
            }
        }
    }
    lanes.iter().copied().map(u32::from).sum()
}

/// Nearer neighbours matter in text and tables, those at 2, 4 and 8 in numbers of these widths.
const DISTANCES: [usize; 4] = [1, 2, 4, 8];
const WINDOWS: usize = 64;
/// Sixteen bytes each.
const PARTS: usize = 4;
const WINDOW_BYTES: usize = PARTS * 16 + 8;

/// Equal bytes expected in a window of noise: one.
const _: () = assert!(PARTS * 16 * DISTANCES.len() == 256);
/// More come by chance in one of 15 000 chunks; text has 16, a hole 256.
const WINDOW_EQUAL_MAX: u32 = 8;
/// 64 are expected, and the standard deviation is 8.
const ALL_EQUAL_MAX: u32 = 100;

/// The least length for which windows do not overlap.
pub(super) const BYTES_MIN: usize = WINDOWS * WINDOW_BYTES;
