//! SHA-256 of many messages at once: the files of a commit that has many small ones.
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

/// The digest of each message, in the order of the messages.
pub fn digest_all(messages: &[&[u8]]) -> Vec<Sha256> {
    #[cfg(target_arch = "x86_64")]
    if messages.len() >= lanes::BUSY_MIN
        && let Some(kernel) = avx512::Kernel::detect()
    {
        return lanes::digest_all(messages, |states, blocks| kernel.compress(states, blocks));
    }
    one_by_one(messages)
}

fn one_by_one(messages: &[&[u8]]) -> Vec<Sha256> {
    messages.iter().map(|message| Sha256::new(sha2::Sha256::digest(message).into())).collect()
}
