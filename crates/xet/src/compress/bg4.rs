//! Byte grouping: all first bytes of the four-byte words, then all second ones, third ones, fourth ones.
//!
//! Group `g` holds bytes `g`, `g + 4`, `g + 8`, ... of the chunk. When the length is no multiple of four the first
//! `len % 4` groups hold one byte more. In numbers the sign and exponent bytes then stand side by side, and repeat.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::kernels::use_native;

/// Writes the bytes of `raw`, grouped, to `grouped`.
///
/// # Panics
/// When the lengths differ.
pub fn group(raw: &[u8], grouped: &mut [u8]) {
    group_with(raw, grouped, use_native());
}

/// The same, by the kernel of this processor or by the portable twin, whatever the process chose.
pub(crate) fn group_with(raw: &[u8], grouped: &mut [u8], native: bool) {
    assert_eq!(raw.len(), grouped.len(), "grouping keeps the length");
    let groups = groups_mut(grouped);
    #[cfg(target_arch = "x86_64")]
    let (raw, groups) = match x86::Level::avx512().or_else(x86::Level::avx2) {
        Some(level) if native => level.group(raw, groups),
        _ => (raw, groups),
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = native;
    portable::group(raw, groups);
}

/// Undoes [`group`].
///
/// # Panics
/// When the lengths differ.
pub fn ungroup(grouped: &[u8], raw: &mut [u8]) {
    ungroup_with(grouped, raw, use_native());
}

/// The same, by the kernel of this processor or by the portable twin, whatever the process chose.
pub(crate) fn ungroup_with(grouped: &[u8], raw: &mut [u8], native: bool) {
    assert_eq!(raw.len(), grouped.len(), "grouping keeps the length");
    let groups = groups(grouped);
    #[cfg(target_arch = "x86_64")]
    let (groups, raw) = match x86::Level::avx2() {
        Some(level) if native => level.ungroup(groups, raw),
        _ => (groups, raw),
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = native;
    portable::ungroup(groups, raw);
}

/// What this processor would use.
pub(crate) fn native_grouping() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    match (x86::Level::avx512(), x86::Level::avx2()) {
        (Some(_), _) => return "AVX-512 VBMI",
        (None, Some(_)) => return "AVX2",
        (None, None) => {}
    }
    "portable"
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

    /// Every way to group that runs here, by name.
    fn all_grouped(raw: &[u8], into: &mut [u8]) -> Vec<(&'static str, Vec<u8>)> {
        let mut all = vec![];
        into.fill(0xa5);
        group(raw, into);
        all.push(("dispatched", into.to_vec()));
        into.fill(0xa5);
        portable::group(raw, groups_mut(into));
        all.push(("portable", into.to_vec()));
        #[cfg(target_arch = "x86_64")]
        for (name, level) in [("avx2", x86::Level::avx2()), ("avx512", x86::Level::avx512())] {
            let Some(level) = level else { continue };
            into.fill(0xa5);
            let (rest, groups) = level.group(raw, groups_mut(into));
            portable::group(rest, groups);
            all.push((name, into.to_vec()));
        }
        all
    }

    fn all_ungrouped(grouped: &[u8], into: &mut [u8]) -> Vec<(&'static str, Vec<u8>)> {
        let mut all = vec![];
        into.fill(0xa5);
        ungroup(grouped, into);
        all.push(("dispatched", into.to_vec()));
        into.fill(0xa5);
        portable::ungroup(groups(grouped), into);
        all.push(("portable", into.to_vec()));
        #[cfg(target_arch = "x86_64")]
        for (name, level) in [("avx2", x86::Level::avx2()), ("avx512", x86::Level::avx512())] {
            let Some(level) = level else { continue };
            into.fill(0xa5);
            let (groups, rest) = level.ungroup(groups(grouped), into);
            portable::ungroup(groups, rest);
            all.push((name, into.to_vec()));
        }
        all
    }

    #[test]
    fn every_kernel_groups_every_short_length_as_the_draft_does() {
        let data = noise(1, 600);
        let mut into = vec![0; 600];
        for len in 0..=600 {
            let expected = byte_group_4(&data[..len]);
            for (name, grouped) in all_grouped(&data[..len], &mut into[..len]) {
                assert_eq!(grouped, expected, "{name}, length {len}");
            }
            assert_eq!(byte_ungroup_4(&expected, len), &data[..len]);
            for (name, raw) in all_ungrouped(&expected, &mut into[..len]) {
                assert_eq!(raw, &data[..len], "{name}, length {len}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_kernel_groups_as_the_draft_does_at_any_alignment(
            seed: u64, len in 0..5000_usize, from in 0..64_usize, to in 0..64_usize,
        ) {
            let data = noise(seed, from + len);
            let raw = &data[from..];
            let mut into = vec![0; to + len];
            let expected = byte_group_4(raw);
            for (name, grouped) in all_grouped(raw, &mut into[to..]) {
                prop_assert_eq!(&grouped, &expected, "{}", name);
            }
            let shifted = [&data[..from], &expected].concat();
            for (name, back) in all_ungrouped(&shifted[from..], &mut into[to..]) {
                prop_assert_eq!(back.as_slice(), raw, "{}", name);
            }
        }
    }

    #[test]
    #[should_panic(expected = "grouping keeps the length")]
    fn a_target_of_another_length_is_a_bug_of_the_caller() {
        group(&[1, 2, 3], &mut [0; 4]);
    }
}
