//! Digests of any messages, taken together, are those that a library gives one by one, in their order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::Digest;
use xet::sha256;

/// Enough to fill all lanes several times.
const MESSAGES_MAX: usize = 100;
const MESSAGE_BYTES_MAX: usize = 8191;

// Every two bytes are the length of a message, in 13 bits; its bytes are those of the input, over and over.
fuzz_target!(|input: &[u8]| {
    let (lens, _) = input.as_chunks();
    let lens = &lens[..lens.len().min(MESSAGES_MAX)];
    let data: Vec<u8> = input.iter().copied().cycle().take(MESSAGE_BYTES_MAX + lens.len()).collect();
    let lens = lens.iter().map(|len| usize::from(u16::from_le_bytes(*len)) & MESSAGE_BYTES_MAX);
    let messages: Vec<&[u8]> = lens.enumerate().map(|(i, len)| &data[i..][..len]).collect();

    let digests = sha256::digest_all(&messages);
    assert_eq!(digests.len(), messages.len());
    for (digest, message) in digests.iter().zip(messages) {
        assert_eq!(digest.as_bytes()[..], sha2::Sha256::digest(message)[..]);
    }
});
