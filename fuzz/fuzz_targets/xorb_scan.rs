//! Any bytes are a xorb or are refused, however they arrive; what is accepted once is accepted by its hash.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::FormatError;
use xet::xorb::{Form, ScannedXorb, XorbScanner, verify};

fuzz_target!(|data: &[u8]| {
    // The first byte says in which pieces the others arrive.
    let Some((step, bytes)) = data.split_first() else { return };
    let at_once = verify(bytes, None, false);
    let (in_pieces, raw) = scan(bytes, usize::from(*step) + 1);

    match (&at_once, &in_pieces) {
        // How many bytes follow the end depends on how many have arrived.
        (Err(FormatError::Trailing { at, .. }), Err(FormatError::Trailing { at: same, .. })) => {
            assert_eq!(at, same);
        }
        _ => assert_eq!(at_once, in_pieces),
    }
    let Ok(scanned) = at_once else { return };
    let info = &scanned.info;
    assert_eq!(raw.len() as u64, info.raw_bytes());
    assert_eq!(verify(bytes, Some(info.hash()), scanned.form != Form::Footerless), Ok(scanned.clone()));

    // In whatever form it came, it can be stored.
    let records = usize::try_from(info.stored_bytes()).unwrap();
    for form in [Form::V0, Form::V1] {
        let mut stored = bytes[..records].to_vec();
        info.encode_footer(form, &mut stored);
        let expected = ScannedXorb { info: info.clone(), form, nonce: [0; 4] };
        assert_eq!(verify(&stored, Some(info.hash()), true), Ok(expected));
    }
});

fn scan(bytes: &[u8], step: usize) -> (Result<ScannedXorb, FormatError>, Vec<u8>) {
    let mut scanner = XorbScanner::new(None);
    let mut raw = Vec::<u8>::new();
    for piece in bytes.chunks(step) {
        if let Err(error) = scanner.push_with(piece, &mut |chunk| raw.extend(chunk.raw)) {
            return (Err(error), raw);
        }
    }
    (scanner.finish(), raw)
}
