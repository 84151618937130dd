//! Cuts of any bytes are those of the draft's loop, however the bytes arrive.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use testkit::{corpus, twin};
use xet::chunk::{self, Chunker};

/// Longer than two of the longest chunks; what lies behind can bring nothing new.
const DATA_BYTES_MAX: usize = 300_000;

/// 64 bytes after which a cut may fall, found by trying.
const TRIGGER: [u8; 64] = [
    0x80, 0xc9, 0xc6, 0xa8, 0x11, 0x6a, 0xf3, 0xe1, 0x68, 0x19, 0x38, 0xce, 0x87, 0x6f, 0x68, 0x63, //
    0x2e, 0xfb, 0x62, 0x28, 0xe4, 0xd8, 0x4d, 0x02, 0xff, 0x7c, 0x27, 0x55, 0x5a, 0x40, 0x08, 0xb4, //
    0xa1, 0x73, 0xc3, 0x52, 0x35, 0xf3, 0xba, 0x60, 0xd9, 0x8a, 0xfb, 0x03, 0x72, 0x8a, 0x01, 0x49, //
    0x47, 0x1f, 0x1d, 0x68, 0xe4, 0xbf, 0x6b, 0xa4, 0x80, 0xdf, 0xd9, 0x5b, 0xa8, 0xbd, 0xa0, 0x09,
];

fuzz_target!(|input: &[u8]| {
    let mut u = Unstructured::new(input);
    let mut number = || usize::from(u.arbitrary::<u16>().unwrap_or_default());
    // Two lengths of pieces, used in turn.
    let steps = [number() + 1, number() + 1];
    let data = expand(u);

    let expected = twin::cuts(&data);
    assert_eq!(chunk::cut(&data), expected);

    let borders = borders(data.len(), steps);
    let (mut chunker, mut cuts) = (Chunker::new(), Vec::new());
    for piece in borders.windows(2) {
        chunker.push(&data[piece[0]..piece[1]], &mut cuts);
        assert_eq!(chunker.start(), cuts.last().copied().unwrap_or_default());
    }
    cuts.extend(chunker.finish());
    assert!(cuts.iter().copied().eq(expected.iter().map(|cut| *cut as u64)));

    // The first candidate decides the first cut, unless it falls before the shortest chunk ends.
    if let Some(first) = chunk::first_candidate(&data).filter(|first| *first >= 8 * 1024) {
        assert_eq!(Some(&first.min(131_072)), expected.first());
    }
});

/// A long buffer from a short input: runs of bytes, of noise, of triggers, and repetitions of earlier bytes.
fn expand(mut u: Unstructured<'_>) -> Vec<u8> {
    let mut data = Vec::new();
    while !u.is_empty() && data.len() < DATA_BYTES_MAX {
        let kind: u8 = u.arbitrary().unwrap_or_default();
        let len = usize::from(u.arbitrary::<u16>().unwrap_or_default());
        let byte: u8 = u.arbitrary().unwrap_or_default();
        match kind % 5 {
            0 => data.extend(u.bytes(len.min(u.len())).unwrap_or_default()),
            1 => data.resize(data.len() + len, byte),
            2 => data.extend(corpus::noise(u64::from(byte), len)),
            3 => data.extend(TRIGGER),
            _ => {
                let tail = data.len().saturating_sub(usize::from(byte) + 1);
                let pattern = data[tail..].to_vec();
                data.extend(pattern.iter().cycle().take(len));
            }
        }
    }
    data.truncate(DATA_BYTES_MAX);
    data
}

/// Where pieces of those lengths end, from 0 to `len`.
fn borders(len: usize, steps: [usize; 2]) -> Vec<usize> {
    let mut borders = vec![0];
    let mut at = 0;
    for step in steps.iter().cycle() {
        if at >= len {
            break;
        }
        // Many tiny pieces would only cost time.
        at = len.min(at + step.max(&(len / 2000)));
        borders.push(at);
    }
    borders
}
