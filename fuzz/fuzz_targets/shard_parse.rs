//! Parses anything as a shard, and encodes again what was one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::shard::{Shard, build, check};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(shard) = Shard::parse_upload(bytes) {
        let again = build::encode(&shard.files, &shard.xorbs, &build::Form::Upload).expect("it was parsed");
        let again = Shard::parse_upload(&again).expect("it was encoded");
        assert_eq!((&again.files, &again.xorbs), (&shard.files, &shard.xorbs));
        let _ = check::check(&shard);
    }

    if let Ok(shard) = Shard::parse_stored(bytes) {
        // Totals, reserved bytes and the order of equal keys are ours the second time; then nothing changes any more.
        let encoded = shard.encode().expect("it was parsed");
        let again = Shard::parse_stored(&encoded).expect("it was encoded");
        assert_eq!((&again.files, &again.xorbs), (&shard.files, &shard.xorbs));
        assert_eq!(again.encode().expect("it was parsed"), encoded);
        let _ = check::check(&shard);
    }
});
