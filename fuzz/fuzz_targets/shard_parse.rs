//! Parses anything as a shard, whole and in pieces, and encodes again what was one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::shard::{Event, Shard, ShardParser, build, check};

fuzz_target!(|bytes: &[u8]| {
    // The length decides the pieces, so that every shard is an input as it is.
    let step = 1 + bytes.len() % 61;
    let whole = Shard::parse_upload(bytes);

    let mut parser = ShardParser::default();
    let mut files = Vec::new();
    let mut xorbs = Vec::new();
    let mut ended = Ok(());
    for piece in bytes.chunks(step) {
        ended = parser.push(piece, |event| match event {
            Event::File { file, .. } => files.push(file),
            Event::Xorb { xorb, .. } => xorbs.push(xorb),
            _ => {}
        });
        if ended.is_err() {
            break;
        }
    }
    let ended = ended.and_then(|()| parser.finish().map(|_| ()));
    match &whole {
        Ok(shard) => {
            assert_eq!(ended, Ok(()));
            assert_eq!((&shard.files, &shard.xorbs), (&files, &xorbs));
            let again =
                build::encode(&shard.files, &shard.xorbs, &build::Form::Upload).expect("it was parsed");
            let again = Shard::parse_upload(&again).expect("it was encoded");
            assert_eq!((again.files, again.xorbs), (files, xorbs));
            let _ = check::check(shard);
        }
        Err(error) => assert_eq!(ended.as_ref(), Err(error)),
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
