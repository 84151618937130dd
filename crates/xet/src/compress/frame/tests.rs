use super::*;
use proptest::prelude::*;
use testkit::corpus::noise;

/// A frame as another encoder might write it.
#[derive(Debug, Clone, Copy)]
struct Shape {
    independent: bool,
    block_sums: bool,
    content_len: Option<u64>,
    content_sum: bool,
    code: u8,
    /// Raw bytes in each block.
    step: usize,
    /// Store every block as it is.
    stored: bool,
}

const PLAIN: Shape = Shape {
    independent: true,
    block_sums: false,
    content_len: None,
    content_sum: false,
    code: 4,
    step: 65_536,
    stored: false,
};

fn build(raw: &[u8], shape: Shape) -> Vec<u8> {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let mut descriptor = vec![
        VERSION
            | flag(shape.independent, INDEPENDENT)
            | flag(shape.block_sums, BLOCK_SUMS)
            | flag(shape.content_len.is_some(), CONTENT_LEN)
            | flag(shape.content_sum, CONTENT_SUM),
        shape.code << 4,
    ];
    descriptor.extend(shape.content_len.iter().flat_map(|len| len.to_le_bytes()));
    let mut frame = MAGIC.to_vec();
    frame.extend_from_slice(&descriptor);
    frame.push((XxHash32::oneshot(0, &descriptor) >> 8) as u8);

    for (at, piece) in (0..).step_by(shape.step).zip(raw.chunks(shape.step)) {
        let mut block = vec![0; block::get_maximum_output_size(piece.len())];
        let dictionary = match shape.independent {
            true => &[],
            false => &raw[at - at.min(65_536)..at],
        };
        let len = block::compress_into_with_dict(piece, &mut block, dictionary).unwrap();
        block.truncate(len);
        let mut word = len as u32;
        if shape.stored {
            block = piece.to_vec();
            word = piece.len() as u32 | STORED;
        }
        frame.extend_from_slice(&word.to_le_bytes());
        frame.extend_from_slice(&block);
        if shape.block_sums {
            frame.extend_from_slice(&XxHash32::oneshot(0, &block).to_le_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    if shape.content_sum {
        frame.extend_from_slice(&XxHash32::oneshot(0, raw).to_le_bytes());
    }
    frame
}

/// Recomputes the header checksum after a change to the two fixed fields.
fn with_header(mut frame: Vec<u8>, flags: u8, maximum: u8) -> Vec<u8> {
    frame[4] = flags;
    frame[5] = maximum;
    frame[6] = header_sum(&[flags, maximum]);
    frame
}

fn decode(frame: &[u8], raw_len: usize) -> Result<Vec<u8>, FormatError> {
    let mut raw = vec![0xa5; raw_len];
    read(1000, frame, &mut raw).map(|()| raw)
}

/// Where the error is, counted from the frame's first byte, and what it says.
fn refusal(frame: &[u8], raw_len: usize) -> (u64, String) {
    match decode(frame, raw_len).unwrap_err() {
        FormatError::Payload { at, reason } => {
            (at - 1000, reason.strip_prefix("LZ4 frame: ").unwrap().to_owned())
        }
        other => panic!("not a payload error: {other}"),
    }
}

/// Noise with few values and copies from far back, so that linked blocks really reach into earlier ones.
fn sample(seed: u64, len: usize) -> Vec<u8> {
    let mut data = noise(seed, len);
    for at in (len / 3)..len {
        if at / 100 % 3 != 0 {
            data[at] = data[at - len / 3];
        }
    }
    data
}

const SMALL: &[u8] = b"stone upon stone upon stone upon stone upon stone";

#[test]
fn our_frames_have_the_known_header() {
    for (raw_len, descriptor) in
        [(1, [0x60, 0x40, 0x82]), (65_536, [0x60, 0x40, 0x82]), (65_537, [0x60, 0x50, 0xfb])]
    {
        let mut frame = vec![];
        write(block_code(raw_len).unwrap(), b"block", &mut frame);
        let expected = [&MAGIC[..], &descriptor, &[5, 0, 0, 0], b"block", &[0; 4]].concat();
        assert_eq!(frame, expected);
        assert_eq!(frame.len(), 5 + OVERHEAD_BYTES);
    }
    assert_eq!([262_144, 262_145, 4 << 20, (4 << 20) + 1].map(block_code), [Some(5), Some(6), Some(7), None]);
}

#[test]
fn every_legal_feature_is_read() {
    for len in [0, 1, 13, 100, 65_536, 65_537, 131_072] {
        let raw = sample(7, len);
        for bits in 0..32_u8 {
            let on = |bit: u8| bits & 1 << bit != 0;
            for (code, step) in [(4, 65_536), (4, 1000), (5, 262_144), (6, 70_000), (7, 50_000)] {
                let shape = Shape {
                    independent: on(0),
                    block_sums: on(1),
                    content_len: on(2).then_some(len as u64),
                    content_sum: on(3),
                    stored: on(4),
                    code,
                    step,
                };
                assert!(decode(&build(&raw, shape), len).unwrap() == raw, "{shape:?}, length {len}");
            }
        }
    }
}

#[test]
fn linked_blocks_reach_back_and_independent_ones_do_not() {
    let raw = sample(8, 131_072);
    let shape = Shape { independent: false, step: 20_000, ..PLAIN };
    let linked = build(&raw, shape);
    assert!(linked.len() < build(&raw, Shape { independent: true, ..shape }).len());
    assert!(decode(&linked, raw.len()).unwrap() == raw);
    // The same blocks, called independent, point to where nothing is.
    let claimed = with_header(linked, VERSION | INDEPENDENT, 0x40);
    assert!(refusal(&claimed, raw.len()).1.starts_with("block: "));
}

#[test]
fn empty_blocks_are_legal_and_add_nothing() {
    // One stored block of no bytes, and one compressed block of no literals.
    let frame = build(b"", PLAIN);
    let (header, end) = frame.split_at(7);
    let blocks = [0, 0, 0, 0x80, 1, 0, 0, 0, 0];
    assert_eq!(decode(&[header, &blocks, end].concat(), 0).unwrap(), b"");
}

#[test]
fn headers_that_no_frame_has_are_refused_by_name() {
    let frame = build(SMALL, PLAIN);
    let len = SMALL.len();
    let mut magic = frame.clone();
    magic[0] = 0x03;
    assert_eq!(refusal(&magic, len), (0, "magic should be [04, 22, 4d, 18], found [03, 22, 4d, 18]".into()));
    for (flags, maximum, at, reason) in [
        (0x20, 0x40, 4, "version should be 1, found 0"),
        (0xa0, 0x40, 4, "version should be 1, found 2"),
        (0xe0, 0x40, 4, "version should be 1, found 3"),
        (0x62, 0x40, 4, "the reserved flag is set"),
        (0x61, 0x40, 4, "the frame needs a dictionary; chunks have none"),
        (0x60, 0x30, 5, "block maximum should be 0x40 to 0x70, found 0x30"),
        (0x60, 0x00, 5, "block maximum should be 0x40 to 0x70, found 0x00"),
        (0x60, 0xc0, 5, "block maximum should be 0x40 to 0x70, found 0xc0"),
        (0x60, 0x41, 5, "block maximum should be 0x40 to 0x70, found 0x41"),
    ] {
        let bad = with_header(frame.clone(), flags, maximum);
        assert_eq!(refusal(&bad, len), (at, reason.into()));
    }
    let mut sum = frame.clone();
    sum[6] = 0x83;
    assert_eq!(refusal(&sum, len), (6, "header checksum should be 0x82, found 0x83".into()));
    // Kinds of frames that a stream may hold and a chunk may not.
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    let legacy = [0x02, 0x21, 0x4c, 0x18];
    for first in [&skippable[..], &legacy] {
        assert!(refusal(&[first, &frame].concat(), len).1.starts_with("magic should be"));
    }
}

#[test]
fn wrong_checksums_are_refused_where_they_stand() {
    let shape = Shape { block_sums: true, content_sum: true, ..PLAIN };
    let frame = build(SMALL, shape);
    let mut block_sum = frame.clone();
    let at = frame.len() - 12;
    block_sum[at] ^= 1;
    let (found_at, reason) = refusal(&block_sum, SMALL.len());
    assert_eq!(found_at, at as u64);
    assert!(reason.starts_with("block checksum should be 0x"), "{reason}");
    let mut content_sum = frame.clone();
    let at = frame.len() - 4;
    content_sum[at] ^= 1;
    let (found_at, reason) = refusal(&content_sum, SMALL.len());
    assert_eq!(found_at, at as u64);
    assert!(reason.starts_with("content checksum should be 0x"), "{reason}");
}

#[test]
fn content_of_another_length_is_refused() {
    let len = SMALL.len();
    for lie in [0, len as u64 - 1, len as u64 + 1, u64::MAX] {
        let frame = build(SMALL, Shape { content_len: Some(lie), ..PLAIN });
        assert_eq!(refusal(&frame, len), (6, format!("content length should be {len}, found {lie}")));
    }
    for step in [10, 65_536] {
        for stored in [false, true] {
            let frame = build(SMALL, Shape { stored, step, ..PLAIN });
            let short = refusal(&frame, len + 1);
            assert_eq!(
                short,
                (frame.len() as u64 - 4, format!("content should be 50 bytes, ended at {len}"))
            );
            let long = refusal(&frame, len - 1).1;
            assert!(long.contains("room"), "{long}");
        }
    }
}

#[test]
fn blocks_beyond_their_maximum_are_refused() {
    let raw = vec![9; 70_000];
    // Decodes to more than 64 KiB.
    let frame = build(&raw, Shape { step: 70_000, ..PLAIN });
    assert_eq!(refusal(&frame, 70_000), (11, "block decodes to more than the 65536 bytes of room".into()));
    // Is longer than 64 KiB itself.
    let frame = build(&raw, Shape { step: 70_000, stored: true, ..PLAIN });
    assert_eq!(refusal(&frame, 70_000), (7, "block length should be at most 65536, found 70000".into()));
}

#[test]
fn every_truncation_and_every_longer_frame_is_refused() {
    let whole = Shape {
        block_sums: true,
        content_sum: true,
        content_len: Some(SMALL.len() as u64),
        step: 20,
        ..PLAIN
    };
    for shape in [PLAIN, whole, Shape { independent: false, stored: true, ..whole }] {
        let frame = build(SMALL, shape);
        for len in 0..frame.len() {
            let (at, reason) = refusal(&frame[..len], SMALL.len());
            assert!(at <= len as u64 && reason.contains("left"), "{len}: {at} {reason}");
        }
        let (at, reason) = refusal(&[&frame[..], &[0]].concat(), SMALL.len());
        assert_eq!((at, reason.as_str()), (frame.len() as u64, "1 bytes follow the end of the frame"));
        let (_, reason) = refusal(&[&frame[..], &frame[..]].concat(), SMALL.len());
        assert!(reason.ends_with("follow the end of the frame"), "{reason}");
    }
}

#[test]
fn a_changed_byte_is_refused_or_harmless_when_checksums_stand_guard() {
    let shape = Shape {
        block_sums: true,
        content_sum: true,
        content_len: Some(SMALL.len() as u64),
        step: 20,
        ..PLAIN
    };
    let frame = build(SMALL, shape);
    for at in 0..frame.len() {
        for flip in 1..=255 {
            let mut bad = frame.clone();
            bad[at] ^= flip;
            if let Ok(raw) = decode(&bad, SMALL.len()) {
                assert_eq!(raw, SMALL, "byte {at} changed by {flip:#04x}");
            }
        }
    }
}

#[test]
fn a_changed_header_byte_is_refused_without_other_checksums() {
    let frame = build(SMALL, PLAIN);
    for at in 0..7 {
        for flip in 1..=255 {
            let mut bad = frame.clone();
            bad[at] ^= flip;
            assert!(
                decode(&bad, SMALL.len()).is_err_and(|e| e.at() >= 1000),
                "byte {at} changed by {flip:#04x}"
            );
        }
    }
    // Behind the header anything may decode; nothing may panic.
    for at in 7..frame.len() {
        for flip in 1..=255 {
            let mut bad = frame.clone();
            bad[at] ^= flip;
            let _ = decode(&bad, SMALL.len());
        }
    }
}

proptest! {
    /// A valid header lets arbitrary bytes reach the block decoder.
    #[test]
    fn any_bytes_behind_a_valid_header_are_safe(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        bits in 0..16_u8, code in 4..=7_u8, raw_len in 0..200_usize, len_right: bool,
    ) {
        let shape = Shape { independent: bits & 1 != 0, block_sums: false, content_sum: bits & 2 != 0, code, ..PLAIN };
        let mut frame = build(b"", shape)[..7].to_vec();
        if len_right {
            frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        }
        frame.extend_from_slice(&body);
        frame.extend_from_slice(&[0; 4]);
        let _ = decode(&frame, raw_len);
    }

    #[test]
    fn blocks_of_any_size_come_back(seed: u64, len in 0..100_000_usize, step in 1..65_536_usize, independent: bool) {
        // Many tiny blocks say nothing new and take long.
        let step = step.max(len / 200);
        let raw = sample(seed, len);
        let frame = build(&raw, Shape { independent, step: step.min(65_536), ..PLAIN });
        prop_assert!(decode(&frame, len).unwrap() == raw);
    }
}
