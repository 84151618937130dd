//! Damage: systematic ways to spoil bytes, each with a sentence that says what was done.
//!
//! Every iterator makes one case at a time, so a large file does not become thousands of copies at once.

use std::ops::Range;

/// One spoiled copy and what was done to it.
pub type Damaged = (String, Vec<u8>);

/// Every shorter prefix, from empty to one byte short.
pub fn truncations(bytes: &[u8]) -> impl Iterator<Item = Damaged> + '_ {
    (0..bytes.len()).map(|len| (format!("cut to {len} of {} bytes", bytes.len()), bytes[..len].to_vec()))
}

/// Every byte inverted, and every byte with its lowest bit inverted.
pub fn flips(bytes: &[u8]) -> impl Iterator<Item = Damaged> + '_ {
    flips_in(bytes, 0..bytes.len())
}

/// [`flips`] of the bytes in `range` only.
pub fn flips_in(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = Damaged> + '_ {
    range.flat_map(|at| [0xff, 0x01].map(|mask| (at, mask))).map(|(at, mask)| {
        let mut copy = bytes.to_vec();
        copy[at] ^= mask;
        (format!("byte {at} xor {mask:#04x}"), copy)
    })
}

/// A few bytes appended: one zero, one that is not, and a copy of the whole.
pub fn extensions(bytes: &[u8]) -> impl Iterator<Item = Damaged> + '_ {
    let extend = |what: &str, tail: &[u8]| (format!("{what} appended"), [bytes, tail].concat());
    [extend("a zero byte", &[0]), extend("a byte 0xff", &[0xff]), extend("a second copy", bytes)].into_iter()
}

/// Lies of the little-endian field of 1 to 8 bytes at `at`: 0, one more, one less, double, half of all, all bits set.
///
/// # Panics
///
/// If the field is not inside `bytes`, or is empty or longer than 8 bytes.
pub fn lies(bytes: &[u8], at: usize, field_bytes: usize) -> impl Iterator<Item = Damaged> + '_ {
    assert!((1..=8).contains(&field_bytes), "a field has 1 to 8 bytes");
    let mut wide = [0; 8];
    wide[..field_bytes].copy_from_slice(&bytes[at..at + field_bytes]);
    let truth = u64::from_le_bytes(wide);
    let max = u64::MAX >> (64 - 8 * field_bytes);
    let mut values = vec![truth];
    let candidates = [
        0,
        truth.wrapping_add(1) & max,
        truth.wrapping_sub(1) & max,
        truth.wrapping_mul(2) & max,
        max / 2,
        max,
    ];
    for lie in candidates {
        if !values.contains(&lie) {
            values.push(lie);
        }
    }
    values.into_iter().skip(1).map(move |lie| {
        let mut copy = bytes.to_vec();
        copy[at..at + field_bytes].copy_from_slice(&lie.to_le_bytes()[..field_bytes]);
        (format!("field at {at} says {lie} instead of {truth}"), copy)
    })
}

/// [`lies`] of a three-byte field.
pub fn lies_u24(bytes: &[u8], at: usize) -> impl Iterator<Item = Damaged> + '_ {
    lies(bytes, at, 3)
}

/// [`lies`] of a four-byte field.
pub fn lies_u32(bytes: &[u8], at: usize) -> impl Iterator<Item = Damaged> + '_ {
    lies(bytes, at, 4)
}

/// [`lies`] of an eight-byte field.
pub fn lies_u64(bytes: &[u8], at: usize) -> impl Iterator<Item = Damaged> + '_ {
    lies(bytes, at, 8)
}

/// [`lies_u32`] at every aligned or unaligned offset: for formats whose fields need not be listed one by one.
pub fn lies_everywhere(bytes: &[u8]) -> impl Iterator<Item = Damaged> + '_ {
    (0..bytes.len().saturating_sub(3)).flat_map(|at| lies_u32(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_differs_from_the_original() {
        let bytes = [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let cases: Vec<_> = truncations(&bytes)
            .chain(flips(&bytes))
            .chain(extensions(&bytes))
            .chain(lies_u32(&bytes, 0))
            .chain(lies_u32(&bytes, 4))
            .chain(lies_u64(&bytes, 0))
            .collect();
        for (what, case) in &cases {
            assert_ne!(case, &bytes, "{what}");
        }
        assert_eq!(truncations(&bytes).count(), 8);
        assert_eq!(flips(&bytes).count(), 16);
    }

    #[test]
    fn a_lie_stays_in_its_field() {
        let bytes = [9, 5, 0, 0, 9];
        let values: Vec<_> = lies_u24(&bytes, 1).map(|(_, case)| case).collect();
        let field = |low, mid, high| vec![9, low, mid, high, 9];
        let expected = vec![
            field(0, 0, 0),
            field(6, 0, 0),
            field(4, 0, 0),
            field(10, 0, 0),
            field(0xff, 0xff, 0x7f),
            field(0xff, 0xff, 0xff),
        ];
        assert_eq!(values, expected);
    }
}
