use proptest::prelude::*;

use super::*;

/// All frames of `stream`, fed in pieces of `step` bytes, and whether it told its outcome.
fn read_all(stream: &[u8], step: usize) -> Result<(Vec<Frame>, bool), FormatError> {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    for mut piece in stream.chunks(step) {
        while let Some(frame) = reader.read(&mut piece)? {
            frames.push(frame);
        }
        assert!(piece.is_empty());
    }
    let end = reader.finish()?;
    frames.extend(end.frame);
    Ok((frames, end.terminated))
}

/// Typed from the reference.
const STREAM: &str = concat!(
    r#"{"type":"validating","verified":1,"total":3}"#,
    "\n\n",
    r#"{"type":"committing","stage":"uploading"}"#,
    "\r\n",
    r#"{"type":"committing","stage":"syncing"}"#,
    "\n",
    r#"{"type":"heartbeat","of":{"what":[1,2]}}"#,
    "\n  \n",
    r#"{"type":"result","result":1}"#,
);

#[test]
fn frames_do_not_depend_on_pieces() {
    let expected = vec![
        Frame::Validating { verified: 1, total: 3 },
        Frame::Committing { stage: Stage::Uploading },
        Frame::Committing { stage: Stage::Syncing },
        Frame::Unknown,
        Frame::Result { result: Some(ShardResult::Registered) },
    ];
    for step in [1, 2, 3, 7, 50, 1000] {
        assert_eq!(read_all(STREAM.as_bytes(), step).unwrap(), (expected.clone(), true), "{step}");
    }
}

#[test]
fn fields_that_may_be_missing_may_be_missing() {
    let one = |line: &str| read_all(line.as_bytes(), 9).map(|(frames, _)| frames[0].clone());
    assert_eq!(one(r#"{"type":"result"}"#).unwrap(), Frame::Result { result: None });
    assert_eq!(one(r#"{"type":"result","result":9}"#).unwrap(), Frame::Result { result: None });
    assert_eq!(one(r#"{"type":"result","result":null}"#).unwrap(), Frame::Result { result: None });
    let fatal = Frame::Error { message: "no".into(), retryable: false };
    assert_eq!(one(r#"{"type":"error","message":"no"}"#).unwrap(), fatal);
    let later = Frame::Error { message: "busy".into(), retryable: true };
    assert_eq!(one(r#"{"message":"busy","retryable":true,"type":"error","after":3}"#).unwrap(), later);
    let stage = Frame::Committing { stage: Stage::Unknown };
    assert_eq!(one(r#"{"type":"committing","stage":"polishing"}"#).unwrap(), stage);
    assert!(one(r#"{"verified":1}"#).is_err());
    assert!(one(r#"{"type":"validating"}"#).is_err());
    assert!(one("[]").is_err());
}

#[test]
fn a_stream_without_an_outcome_says_so() {
    assert_eq!(read_all(b"", 1).unwrap(), (vec![], false));
    assert!(!read_all(b"{\"type\":\"validating\",\"verified\":0,\"total\":0}\n", 5).unwrap().1);
    assert!(read_all(b"{\"type\":\"error\"}\n{\"type\":\"new\"}\n", 5).unwrap().1);
}

#[test]
fn errors_name_the_offset_in_the_stream() {
    let error = read_all(b"{\"type\":\"result\"}\n{\"type\":nonsense}\n", 4).unwrap_err();
    assert!((18..36).contains(&error.at()), "{error}");
}

#[test]
fn an_overlong_line_is_refused_before_it_is_buffered() {
    let mut line = vec![b' '; limits::FRAME_BYTES_MAX];
    assert_eq!(read_all(&line, 1 << 16).unwrap(), (vec![], false));
    line.push(b' ');
    for step in [1 << 16, line.len()] {
        assert!(matches!(read_all(&line, step), Err(FormatError::Range { what: "bytes of a frame", .. })));
    }
}

#[test]
fn no_message_makes_a_frame_too_long() {
    let message = "\u{1}é".repeat(limits::FRAME_BYTES_MAX);
    let line = Frame::Error { message, retryable: true }.encode();
    assert!(line.len() <= limits::FRAME_BYTES_MAX);
    let (frames, terminated) = read_all(&line, 1 << 16).unwrap();
    assert!(terminated && matches!(&frames[..], [Frame::Error { retryable: true, .. }]));
}

#[test]
fn version_1_answers_with_a_number() {
    for (json, result) in
        [(r#"{"result":0}"#, ShardResult::Exists), (r#"{"result":1}"#, ShardResult::Registered)]
    {
        assert_eq!(parse_json::<ShardUploaded>(json.as_bytes()).unwrap().result, result);
        assert_eq!(encode_json(&ShardUploaded { result }), json.as_bytes());
    }
    assert!(parse_json::<ShardUploaded>(br#"{"result":2}"#).is_err());
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let result =
        prop_oneof![Just(None), Just(Some(ShardResult::Exists)), Just(Some(ShardResult::Registered))];
    prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(verified, total)| Frame::Validating { verified, total }),
        prop_oneof![Just(Stage::Uploading), Just(Stage::Syncing)]
            .prop_map(|stage| Frame::Committing { stage }),
        result.prop_map(|result| Frame::Result { result }),
        (any::<String>(), any::<bool>()).prop_map(|(message, retryable)| Frame::Error { message, retryable }),
        Just(Frame::Unknown),
    ]
}

proptest! {
    #[test]
    fn frames_round_trip(frames in prop::collection::vec(any_frame(), 0..6), step in 1..90_usize) {
        let stream: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        let terminated = frames.iter().any(Frame::is_terminal);
        prop_assert_eq!(read_all(&stream, step).unwrap(), (frames, terminated));
    }

    #[test]
    fn no_stream_panics(stream in "(\\{\"type\":\"|result|error|\"|\\}|\n|,|[a-z\\[]|\\{){0,30}", step in 1..9_usize) {
        let _ = read_all(stream.as_bytes(), step);
    }
}
