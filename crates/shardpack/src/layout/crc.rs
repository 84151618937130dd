//! CRC-32C of everything in a pack.
#![allow(unsafe_code)] // one call of an instruction, once the processor said that it has it; ADR 11 says why

/// The CRC of `parts` one after another.
#[inline]
pub fn crc(parts: &[&[u8]]) -> u32 {
    if let [all] = parts {
        return crc_fast::crc32_iscsi(all);
    }
    let mut sum = CrcSum::default();
    parts.iter().for_each(|part| sum.push(part));
    sum.finish()
}

/// Name of the CRC implementation on this processor.
pub fn crc_target() -> String {
    crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Iscsi)
}

/// A CRC of bytes that come piece by piece.
#[derive(Debug)]
pub(crate) struct CrcSum(crc_fast::Digest);

impl Default for CrcSum {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl CrcSum {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a CRC of 32 bits")
    }
}

/// The CRC of two parts. Headers are short, and every record has several: the processor's own instruction, eight bytes at a
/// time, is done before others have begun.
#[inline]
pub(crate) fn crc_of_two(first: &[u8], second: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if first.len() + second.len() <= SHORT_BYTES_MAX && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return !unsafe { short(short(!0, first), second) };
    }
    crc(&[first, second])
}

/// Longer ones are faster in several lanes.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES_MAX: usize = 256;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let wide = words.iter().fold(u64::from(crc), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    let mut crc = u32::try_from(wide).expect("the upper half is always zero");
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*word));
    }
    rest.iter().fold(crc, |crc, &byte| _mm_crc32_u8(crc, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crc_is_the_same_however_the_bytes_are_split() {
        assert_eq!(crc(&[b"123456789"]), 0xe306_9283);
        let data: Vec<u8> = (0..600_u32).map(|n| ((n * n) >> 3) as u8).collect();
        for len in 0..data.len() {
            let whole = crc(&[&data[..len]]);
            for split in [0, 1, 7, 8, 12, 20, len / 2, len] {
                let (first, second) = data[..len].split_at(split.min(len));
                assert_eq!(crc_of_two(first, second), whole, "{len} {split}");
                assert_eq!(crc(&[first, second]), whole, "{len} {split}");
            }
        }
    }
}
