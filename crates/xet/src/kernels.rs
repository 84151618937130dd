//! Kernels: the hot loops, each with its portable twin, to compare and measure.
//!
//! A kernel for some processors has a portable twin that gives the same bytes. Programs may choose the twins once, when they start
//! ([`select`]): where a kernel is slower than its twin, or is suspected of being wrong.

use crate::chunk;
use crate::compress::{Compressor, Policy, Scheme};
use crate::hash::ChunkHash;
use crate::sha256;

pub use crate::kernel_choice::{Choice, ChoiceError, choice, select};

/// A hot loop, for comparing a kernel with its twin. Each function goes over all bytes once and returns a number that depends on
/// the result; the choice of the process does not matter to them.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Name of the computation.
    pub name: &'static str,
    /// Name of the kernel that this processor uses.
    pub native: &'static str,
    /// Runs that.
    pub run_native: fn(&[u8]) -> u64,
    /// Runs the portable twin; none where the implementation is a library's, and the same for all choices.
    pub run_portable: Option<fn(&[u8]) -> u64>,
}

/// All of them.
pub fn all() -> [Kernel; 4] {
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
        Kernel { name: "LZ4", native: "lz4_flex", run_native: sum_of_lz4, run_portable: None },
        Kernel { name: "BLAKE3", native: "blake3", run_native: sum_of_hashes, run_portable: None },
    ]
}

fn sum_of_digests(bytes: &[u8], native: bool) -> u64 {
    let messages: Vec<&[u8]> = bytes.chunks(MESSAGE_BYTES).collect();
    let digests = sha256::digest_all_with(&messages, native);
    digests.iter().map(|digest| sum_of_words(digest.as_bytes(), 8)).fold(0, u64::wrapping_add)
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
}
