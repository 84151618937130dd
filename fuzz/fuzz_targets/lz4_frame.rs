//! Feeds arbitrary stored bytes to the decompressor; whatever decodes must survive being compressed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::compress::{Compressor, Decompressor, Policy, Scheme};

fuzz_target!(|input: &[u8]| {
    let Some((choice, stored)) = input.split_first() else { return };
    let Ok(scheme) = Scheme::parse(0, choice % 3) else { return };
    // Short lengths near those of the input, and the longest chunk there is.
    let raw_len = match choice / 3 {
        84.. => 131_072,
        83 => stored.len(),
        step => usize::from(step) * 5,
    };
    let mut raw = vec![0; raw_len];
    let mut decompressor = Decompressor::new();
    if decompressor.decompress(0, scheme, stored, &mut raw).is_err() {
        return;
    }

    let mut compressor = Compressor::new();
    for policy in [Policy::Auto, Policy::Always(Scheme::Lz4), Policy::Always(Scheme::GroupedLz4)] {
        let mut again = Vec::new();
        let scheme = compressor.compress(policy, &raw, &mut again);
        assert!(again.len() <= raw.len());
        let mut back = vec![0; raw.len()];
        decompressor.decompress(0, scheme, &again, &mut back).expect("we wrote it");
        assert!(back == raw, "{policy}");
    }
});
