//! Byte grouping without any processor feature: handles the tails of the kernels, and everything elsewhere.

use std::iter::zip;

/// Deals the bytes of `raw` to the four groups in turn.
pub(super) fn group(raw: &[u8], groups: [&mut [u8]; 4]) {
    let (words, rest) = raw.as_chunks::<4>();
    let [a, b, c, d] = groups;
    {
        let firsts = zip(zip(a.iter_mut(), b.iter_mut()), zip(c.iter_mut(), d.iter_mut()));
        for (&[w, x, y, z], ((a, b), (c, d))) in zip(words, firsts) {
            (*a, *b, *c, *d) = (w, x, y, z);
        }
    }
    // At most three bytes are left: one more for each of the first groups.
    for (byte, group) in zip(rest, [a, b, c]) {
        if let Some(last) = group.get_mut(words.len()) {
            *last = *byte;
        }
    }
}

/// Takes bytes from the four groups in turn until `raw` is full.
pub(super) fn ungroup(groups: [&[u8]; 4], raw: &mut [u8]) {
    let [a, b, c, d] = groups;
    let (words, rest) = raw.as_chunks_mut::<4>();
    let words_len = words.len();
    for (word, ((a, b), (c, d))) in zip(words, zip(zip(a, b), zip(c, d))) {
        *word = [*a, *b, *c, *d];
    }
    for (byte, group) in zip(rest, [a, b, c]) {
        if let Some(last) = group.get(words_len) {
            *byte = *last;
        }
    }
}
