//! Any bytes as a stream of frames: no panic, and the pieces it arrives in change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::FormatError;
use xet::wire::{Frame, FrameReader};

fn read(stream: &[u8], step: usize) -> (Vec<Frame>, Result<bool, FormatError>) {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    for mut piece in stream.chunks(step) {
        loop {
            match reader.read(&mut piece) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    match reader.finish() {
        Ok(end) => {
            frames.extend(end.frame);
            (frames, Ok(end.terminated))
        }
        Err(error) => (frames, Err(error)),
    }
}

fuzz_target!(|data: &[u8]| {
    let (step, stream) =
        data.split_first().map_or((1, data), |(step, rest)| (usize::from(*step).max(1), rest));
    let whole = read(stream, stream.len().max(1));
    assert_eq!(read(stream, step), whole);

    let written: Vec<u8> =
        whole.0.iter().filter(|frame| **frame != Frame::Unknown).flat_map(Frame::encode).collect();
    let (again, end) = read(&written, step);
    assert_eq!(end, Ok(whole.0.iter().any(Frame::is_terminal)));
    assert!(again.iter().eq(whole.0.iter().filter(|frame| **frame != Frame::Unknown)));
});
