//! Kernels: which implementations the hot loops run.
//!
//! A kernel for some processors has a portable twin that gives the same bytes. Programs may choose the twins once, when they start
//! ([`select`]): where a kernel is slower than its twin, or is suspected of being wrong. Like the detection of processor features,
//! that is state of the process; it changes speed, and never a result.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::chunk;
use crate::compress::{Compressor, Policy, Scheme, bg4};
use crate::hash::ChunkHash;
use crate::sha256;

/// Which implementations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// What the processor has instructions for.
    Native,
    /// The portable twins.
    Portable,
}

impl Choice {
    const ALL: [Self; 2] = [Self::Native, Self::Portable];

    /// The name in settings and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Portable => "portable",
        }
    }
}

/// What runs unless a program says otherwise. With the feature `portable` the tests run the twins.
const DEFAULT: Choice = if cfg!(feature = "portable") { Choice::Portable } else { Choice::Native };

static CHOICE: OnceLock<Choice> = OnceLock::new();

/// Chooses for the whole process. Only the first choice counts: later ones return it as an error when it was another.
pub fn select(choice: Choice) -> Result<(), Choice> {
    match *CHOICE.get_or_init(|| choice) {
        first if first == choice => Ok(()),
        first => Err(first),
    }
}

/// What was chosen, or the default.
pub fn choice() -> Choice {
    CHOICE.get().copied().unwrap_or(DEFAULT)
}

/// Whether kernels for this processor may be used.
pub(crate) fn use_native() -> bool {
    choice() == Choice::Native
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let known = Self::ALL.into_iter().find(|choice| choice.name() == text);
        known.ok_or_else(|| ChoiceError(text.chars().take(80).collect()))
    }
}

/// Text that names no choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("should be native or portable, found {0:?}")]
pub struct ChoiceError(String);

/// A hot loop, for comparing a kernel with its twin. Each function goes over all bytes once and returns a number that depends on
/// the result; the choice of the process does not matter to them.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// What it computes.
    pub name: &'static str,
    /// What this processor would use.
    pub native: &'static str,
    /// Runs that.
    pub run_native: fn(&[u8]) -> u64,
    /// Runs the portable twin; none where the implementation is a library's, and the same for all choices.
    pub run_portable: Option<fn(&[u8]) -> u64>,
}

/// All of them.
pub fn all() -> [Kernel; 5] {
    [
        Kernel {
            name: "gear search",
            native: chunk::native_search(),
            run_native: |bytes| chunk::sum_of_candidates(bytes, true),
            run_portable: Some(|bytes| chunk::sum_of_candidates(bytes, false)),
        },
        Kernel {
            name: "SHA-256 of many",
            native: sha256::native_lanes(),
            run_native: |bytes| sum_of_digests(bytes, true),
            run_portable: Some(|bytes| sum_of_digests(bytes, false)),
        },
        Kernel {
            name: "byte grouping",
            native: bg4::native_grouping(),
            run_native: |bytes| sum_of_groups(bytes, true),
            run_portable: Some(|bytes| sum_of_groups(bytes, false)),
        },
        Kernel { name: "LZ4", native: "lz4_flex", run_native: sum_of_lz4, run_portable: None },
        Kernel { name: "BLAKE3", native: "blake3", run_native: sum_of_hashes, run_portable: None },
    ]
}

fn sum_of_digests(bytes: &[u8], native: bool) -> u64 {
    let messages: Vec<&[u8]> = bytes.chunks(MESSAGE_BYTES).collect();
    let digests = sha256::digest_all_with(&messages, native);
    digests.iter().map(|digest| sum_of_words(digest.as_bytes(), 8)).fold(0, u64::wrapping_add)
}

fn sum_of_groups(bytes: &[u8], native: bool) -> u64 {
    let mut grouped = vec![0; MESSAGE_BYTES];
    let mut raw = vec![0; MESSAGE_BYTES];
    let sum = |chunk: &[u8]| {
        let (Some(grouped), Some(raw)) = (grouped.get_mut(..chunk.len()), raw.get_mut(..chunk.len())) else {
            return 0;
        };
        bg4::group_with(chunk, grouped, native);
        bg4::ungroup_with(grouped, raw, native);
        sum_of_words(grouped, 1024).wrapping_add(sum_of_words(raw, 1024))
    };
    bytes.chunks(MESSAGE_BYTES).map(sum).fold(0, u64::wrapping_add)
}

fn sum_of_lz4(bytes: &[u8]) -> u64 {
    let (mut compressor, mut out) = (Compressor::new(), Vec::new());
    for chunk in bytes.chunks(MESSAGE_BYTES) {
        compressor.compress(Policy::Always(Scheme::Lz4), chunk, &mut out);
    }
    out.len() as u64
}

fn sum_of_hashes(bytes: &[u8]) -> u64 {
    bytes.chunks(MESSAGE_BYTES).map(|chunk| ChunkHash::of(chunk).0.prefix()).fold(0, u64::wrapping_add)
}

/// The sum of one word in every `stride` bytes.
fn sum_of_words(bytes: &[u8], stride: usize) -> u64 {
    let words = bytes.chunks(stride).filter_map(|bytes| bytes.first_chunk());
    words.map(|word| u64::from_le_bytes(*word)).fold(0, u64::wrapping_add)
}

/// Bytes of one message or chunk.
const MESSAGE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use testkit::corpus::noise;

    use super::*;

    #[test]
    fn every_kernel_gives_what_its_twin_gives() {
        for len in [0, 1, 1000, 3 * MESSAGE_BYTES + 17, 1 << 20] {
            let data = noise(len as u64, len);
            for kernel in all() {
                let Some(portable) = kernel.run_portable else { continue };
                assert_eq!((kernel.run_native)(&data), portable(&data), "{}, {len} bytes", kernel.name);
            }
        }
    }

    #[test]
    fn choices_have_names_and_others_are_refused() {
        for choice in Choice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "Portable".parse::<Choice>().unwrap_err();
        assert_eq!(error.to_string(), "should be native or portable, found \"Portable\"");
    }

    /// Every test is a process of its own: what this one chooses concerns no other.
    #[test]
    fn the_first_choice_counts() {
        assert_eq!(choice(), DEFAULT);
        assert_eq!(select(Choice::Portable), Ok(()));
        assert_eq!(choice(), Choice::Portable);
        assert_eq!(select(Choice::Portable), Ok(()));
        assert_eq!(select(Choice::Native), Err(Choice::Portable));
        assert_eq!(crate::chunk::cut(&noise(1, 1 << 20)), testkit::twin::cuts(&noise(1, 1 << 20)));
    }
}
