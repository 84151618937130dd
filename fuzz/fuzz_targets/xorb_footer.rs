//! Any end of a xorb is a footer or is refused; what parses is consistent and encodes to the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::xorb::{Footer, Form};
use xet::{limits, merkle};

fuzz_target!(|data: &[u8]| {
    // The first three bytes say where in the xorb the others begin.
    let Some(([a, b, c], tail)) = data.split_first_chunk() else { return };
    let base = u64::from(u32::from_le_bytes([*a, *b, *c, 0]));
    let Ok(footer) = Footer::parse(tail, base) else { return };

    let count = u32::try_from(footer.chunks.len()).unwrap();
    assert!((1..=limits::XORB_CHUNKS_MAX).contains(&count));
    let needed = Footer::tail_bytes(tail, base).unwrap();
    assert_eq!(needed, footer.form.footer_bytes(count));
    assert!(footer.chunks.is_sorted_by(|a, b| a.stored_end < b.stored_end && a.raw_end <= b.raw_end));

    let (form, nonce) = (footer.form, footer.nonce);
    let Some(info) = footer.clone().into_info() else {
        assert_eq!(form, Form::V0);
        return;
    };
    let leaves = (0..count).map(|i| (info.chunks()[i as usize].hash, u64::from(info.chunk_len(i).unwrap())));
    assert_eq!(merkle::xorb_hash(leaves), info.hash());
    assert_eq!(info.stored_bytes() + needed, base + tail.len() as u64);

    let mut again = Vec::new();
    info.encode_footer(form, &mut again);
    let parsed = Footer::parse(&again, info.stored_bytes()).unwrap();
    assert_eq!(parsed, Footer { nonce: [0; 4], ..footer });
    let same = tail.len() - again.len();
    assert_eq!(again[..again.len() - 20], tail[same..tail.len() - 20]);
    assert_eq!(nonce, tail[tail.len() - 20..tail.len() - 16]);
});
