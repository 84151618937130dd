//! Byte grouping: all first bytes of the four-byte words, then all second, third and fourth ones.
//!
//! Group `g` holds bytes `g`, `g + 4`, `g + 8`, ... of the chunk. When the length is no multiple of four the first
//! `len % 4` groups hold one byte more. In numbers the sign and exponent bytes then stand side by side, and repeat.
//!
//! Whole blocks go through arrays of fixed length, which the compiler turns into vector instructions; ADR 4 has the figures.

use std::array;
use std::iter::zip;

/// Writes the bytes of `raw`, grouped, to `grouped`.
///
/// # Panics
/// When the lengths differ.
pub fn group(raw: &[u8], grouped: &mut [u8]) {
    assert_eq!(raw.len(), grouped.len(), "grouping keeps the length");
    let (blocks, rest) = raw.as_chunks::<{ 4 * BLOCK }>();
    // A group may have a whole block more than the others: it is cut where the last whole block of words ends.
    let [a, b, c, d] = groups_mut(grouped).map(|group| group.split_at_mut(BLOCK * blocks.len()));
    let [heads_a, heads_b, heads_c, heads_d] =
        [a.0, b.0, c.0, d.0].map(|head| head.as_chunks_mut::<BLOCK>().0);
    for (block, ((a, b), (c, d))) in zip(blocks, zip(zip(heads_a, heads_b), zip(heads_c, heads_d))) {
        group_block(block, [a, b, c, d]);
    }
    let mut tails = [a.1, b.1, c.1, d.1];
    for (word, bytes) in rest.chunks(4).enumerate() {
        for (byte, group) in zip(bytes, &mut tails) {
            if let Some(grouped) = group.get_mut(word) {
                *grouped = *byte;
            }
        }
    }
}

/// Undoes [`group`].
///
/// # Panics
/// When the lengths differ.
pub fn ungroup(grouped: &[u8], raw: &mut [u8]) {
    assert_eq!(raw.len(), grouped.len(), "grouping keeps the length");
    let (blocks, rest) = raw.as_chunks_mut::<{ 4 * BLOCK }>();
    let [a, b, c, d] = groups(grouped).map(|group| group.split_at(BLOCK * blocks.len()));
    let [heads_a, heads_b, heads_c, heads_d] = [a.0, b.0, c.0, d.0].map(|head| head.as_chunks::<BLOCK>().0);
    for (block, ((a, b), (c, d))) in zip(blocks, zip(zip(heads_a, heads_b), zip(heads_c, heads_d))) {
        ungroup_block([a, b, c, d], block);
    }
    let tails = [a.1, b.1, c.1, d.1];
    for (word, bytes) in rest.chunks_mut(4).enumerate() {
        for (byte, group) in zip(bytes, &tails) {
            if let Some(grouped) = group.get(word) {
                *byte = *grouped;
            }
        }
    }
}

/// Words taken together.
const BLOCK: usize = 64;

#[allow(clippy::indexing_slicing, reason = "every index is below the length of its array")]
fn group_block(block: &[u8; 4 * BLOCK], [a, b, c, d]: [&mut [u8; BLOCK]; 4]) {
    let words: [u32; BLOCK] = array::from_fn(|i| {
        u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
    });
    *a = words.map(|word| word.to_le_bytes()[0]);
    *b = words.map(|word| word.to_le_bytes()[1]);
    *c = words.map(|word| word.to_le_bytes()[2]);
    *d = words.map(|word| word.to_le_bytes()[3]);
}

/// Joins bytes to halves and halves to words: in two steps the compiler finds the vector instructions, in one it does not.
#[allow(clippy::indexing_slicing, reason = "every index is below the length of its array")]
fn ungroup_block([a, b, c, d]: [&[u8; BLOCK]; 4], block: &mut [u8; 4 * BLOCK]) {
    let low: [u16; BLOCK] = array::from_fn(|i| u16::from_le_bytes([a[i], b[i]]));
    let high: [u16; BLOCK] = array::from_fn(|i| u16::from_le_bytes([c[i], d[i]]));
    for (word, (low, high)) in zip(block.as_chunks_mut::<4>().0, zip(low, high)) {
        *word = (u32::from(low) | u32::from(high) << 16).to_le_bytes();
    }
}

fn groups(grouped: &[u8]) -> [&[u8]; 4] {
    let [a, b, c] = first_lens(grouped.len());
    let (a, rest) = grouped.split_at(a);
    let (b, rest) = rest.split_at(b);
    let (c, d) = rest.split_at(c);
    [a, b, c, d]
}

fn groups_mut(grouped: &mut [u8]) -> [&mut [u8]; 4] {
    let [a, b, c] = first_lens(grouped.len());
    let (a, rest) = grouped.split_at_mut(a);
    let (b, rest) = rest.split_at_mut(b);
    let (c, d) = rest.split_at_mut(c);
    [a, b, c, d]
}

/// Lengths of the first three groups; the fourth has the rest.
fn first_lens(len: usize) -> [usize; 3] {
    [0, 1, 2].map(|group| len / 4 + usize::from(group < len % 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::corpus::noise;
    use testkit::twin::{byte_group_4, byte_ungroup_4};

    #[test]
    fn every_short_length_is_grouped_as_the_draft_does() {
        let data = noise(1, 1200);
        let mut into = vec![0; 1200];
        for len in 0..=1200 {
            let (raw, into) = (&data[..len], &mut into[..len]);
            let expected = byte_group_4(raw);
            into.fill(0xa5);
            group(raw, into);
            assert!(into == expected, "length {len}");
            assert_eq!(byte_ungroup_4(&expected, len), raw);
            into.fill(0xa5);
            ungroup(&expected, into);
            assert!(into == raw, "length {len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_grouped_as_the_draft_does_at_any_alignment(
            seed: u64, len in 0..5000_usize, from in 0..64_usize, to in 0..64_usize,
        ) {
            let data = noise(seed, from + len);
            let raw = &data[from..];
            let mut into = vec![0; to + len];
            let expected = byte_group_4(raw);
            group(raw, &mut into[to..]);
            prop_assert!(into[to..] == expected);
            let shifted = [&data[..from], &expected].concat();
            ungroup(&shifted[from..], &mut into[to..]);
            prop_assert!(&into[to..] == raw);
        }
    }

    #[test]
    #[should_panic(expected = "grouping keeps the length")]
    fn a_target_of_another_length_is_a_bug_of_the_caller() {
        group(&[1, 2, 3], &mut [0; 4]);
    }
}
