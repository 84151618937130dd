//! SHA-256 of many messages at once.
//!
//! One stream cannot be made faster than a library makes it: every block needs the state after the one before. Many
//! streams can. Where the processor has AVX-512, sixteen messages advance side by side, one to a lane; what
//! is too little for that, and all on other processors, goes through `sha2`, one message after another.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", test))]
mod lanes;
#[cfg(test)]
mod tests;

use sha2::Digest;

use crate::hash::Sha256;
use crate::kernel_choice::use_native;

/// The digest of each message, in the order of the messages.
pub fn digest_all(messages: &[&[u8]]) -> Vec<Sha256> {
    digest_all_with(messages, use_native())
}

/// The same, by the kernel of this processor or one by one, whatever the process chose.
pub(crate) fn digest_all_with(messages: &[&[u8]], native: bool) -> Vec<Sha256> {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = native;
    #[cfg(target_arch = "x86_64")]
    if native
        && messages.len() >= lanes::BUSY_MIN
        && let Some(kernel) = avx512::Kernel::detect()
    {
        return lanes::digest_all(messages, |states, blocks| kernel.compress(states, blocks));
    }
    one_by_one(messages)
}

/// Name of the kernel that this processor uses for many messages.
pub(crate) fn native_lanes() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if avx512::Kernel::detect().is_some() {
        return "AVX-512";
    }
    "sha2"
}

fn one_by_one(messages: &[&[u8]]) -> Vec<Sha256> {
    messages.iter().map(|message| Sha256::new(sha2::Sha256::digest(message).into())).collect()
}

#[cfg(any(target_arch = "x86_64", test))]
/// Blocks after the whole blocks of a message: the rest of it, padding and its length. And how many these are.
fn tail(rest: &[u8], message_bytes: u64) -> ([Block; 2], usize) {
    let mut tail = [[0; 64]; 2];
    for (byte, value) in tail.as_flattened_mut().iter_mut().zip(rest.iter().chain(&[0x80])) {
        *byte = *value;
    }
    // The length stands in the last eight bytes of a block.
    let tail_len = if rest.len() < 64 - 8 { 1 } else { 2 };
    if let Some(length) = tail.get_mut(tail_len - 1).and_then(|block| block.last_chunk_mut()) {
        *length = message_bytes.wrapping_mul(8).to_be_bytes();
    }
    (tail, tail_len)
}

fn digest_of(state: State) -> Sha256 {
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    Sha256::new(digest)
}

type Block = [u8; 64];
type State = [u32; 8];

/// The state before the first block.
const START: State =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The round constants, in four times sixteen.
#[cfg(target_arch = "x86_64")]
static K: [[u32; 16]; 4] = [
    [
        0x428a_2f98,
        0x7137_4491,
        0xb5c0_fbcf,
        0xe9b5_dba5,
        0x3956_c25b,
        0x59f1_11f1,
        0x923f_82a4,
        0xab1c_5ed5,
        0xd807_aa98,
        0x1283_5b01,
        0x2431_85be,
        0x550c_7dc3,
        0x72be_5d74,
        0x80de_b1fe,
        0x9bdc_06a7,
        0xc19b_f174,
    ],
    [
        0xe49b_69c1,
        0xefbe_4786,
        0x0fc1_9dc6,
        0x240c_a1cc,
        0x2de9_2c6f,
        0x4a74_84aa,
        0x5cb0_a9dc,
        0x76f9_88da,
        0x983e_5152,
        0xa831_c66d,
        0xb003_27c8,
        0xbf59_7fc7,
        0xc6e0_0bf3,
        0xd5a7_9147,
        0x06ca_6351,
        0x1429_2967,
    ],
    [
        0x27b7_0a85,
        0x2e1b_2138,
        0x4d2c_6dfc,
        0x5338_0d13,
        0x650a_7354,
        0x766a_0abb,
        0x81c2_c92e,
        0x9272_2c85,
        0xa2bf_e8a1,
        0xa81a_664b,
        0xc24b_8b70,
        0xc76c_51a3,
        0xd192_e819,
        0xd699_0624,
        0xf40e_3585,
        0x106a_a070,
    ],
    [
        0x19a4_c116,
        0x1e37_6c08,
        0x2748_774c,
        0x34b0_bcb5,
        0x391c_0cb3,
        0x4ed8_aa4a,
        0x5b9c_ca4f,
        0x682e_6ff3,
        0x748f_82ee,
        0x78a5_636f,
        0x84c8_7814,
        0x8cc7_0208,
        0x90be_fffa,
        0xa450_6ceb,
        0xbef9_a3f7,
        0xc671_78f2,
    ],
];
