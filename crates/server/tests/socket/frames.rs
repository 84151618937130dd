//! `/v2/shards` when registering takes long: frames, heartbeats, the end of each kind, and clients that leave.

use std::time::Duration;

use server::StreamTiming;
use testkit::http::{Begun, RequestBody};
use testkit::upload::{Upload, last_frame};
use xet::FileHash;
use xet::wire::routes::TokenScope;
use xet::wire::shards::{ShardResult, Stage};
use xet::wire::{Frame, FrameReader};

use crate::hub::{Hub, sample, until};

/// Answers begin at once and speak often, so that no test waits for seconds.
fn quick() -> StreamTiming {
    let soon = Duration::from_millis(5);
    StreamTiming { patience: soon, step: soon, heartbeat: Duration::from_millis(20) }
}

fn hub() -> (Hub, Upload) {
    let hub = Hub::with(|_| {}, quick());
    let upload = sample(1).1;
    let cas = hub.cas("a");
    upload.xorbs.iter().for_each(|xorb| cas.put_xorb(xorb).unwrap());
    (hub, upload)
}

/// Sends the shard; the answer has begun when this returns.
fn begin(hub: &Hub, upload: &Upload) -> Begun {
    let authorization = format!("Bearer {}", hub.token(TokenScope::Write, "a"));
    let shard = upload.shard();
    let sent = hub.http.begin(
        "POST",
        "/v2/shards",
        &[("authorization", &authorization)],
        RequestBody::Whole(&shard),
    );
    let begun = sent.unwrap().head().unwrap();
    let header =
        |name: &str| begun.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!((begun.status, header("content-type")), (200, Some("application/x-ndjson")));
    assert_eq!((header("cache-control"), header("transfer-encoding")), (Some("no-cache"), Some("chunked")));
    begun
}

/// The next frame; a frame is never split over pieces, for each is sent by itself.
fn next(begun: &mut Begun) -> Frame {
    let piece = begun.piece().unwrap();
    FrameReader::new().read(&mut &piece[..]).unwrap().expect("a whole frame")
}

/// Operations of a registration: the rows of its xorbs, its object, its rows. Footers are cached.
const LOOKUP: u64 = 1;
const PUT: u64 = 2;
const COMMIT: u64 = 3;

#[test]
fn the_last_frame_is_repeated_until_something_changes() {
    let (hub, upload) = hub();
    hub.faults.hold_from(LOOKUP);
    let mut begun = begin(&hub, &upload);
    for _ in 0..3 {
        assert_eq!(next(&mut begun), Frame::Validating { verified: 0, total: 0 });
    }
    // Counted anew: the next is the object, and the one after it, the commit, waits.
    hub.faults.hold_from(2);
    let total = upload.files.iter().map(|file| file.terms.len()).sum::<usize>() as u64;
    let mut frames = vec![next(&mut begun)];
    while frames.iter().filter(|frame| matches!(frame, Frame::Committing { .. })).count() < 3 {
        frames.push(next(&mut begun));
    }
    for pair in frames.windows(2) {
        let order = |frame: &Frame| match frame {
            Frame::Validating { verified, total: of } => {
                assert!(*verified < total && (*of == total || *of == 0), "{frame:?}");
                (0, *verified)
            }
            Frame::Committing { stage: Stage::Uploading } => (1, 0),
            other => panic!("{other:?}"),
        };
        assert!(order(&pair[0]) <= order(&pair[1]), "{pair:?}");
    }
    assert_eq!(
        hub.block_on(store::testing::counts(&hub.catalog)).unwrap().files,
        0,
        "nothing is visible before the end"
    );
    hub.faults.release();
    let rest = begun.finish().unwrap();
    assert_eq!(last_frame(&rest.body).unwrap(), Frame::Result { result: Some(ShardResult::Registered) });
    assert_eq!(hub.cas("a").file(&upload.files[0].hash).unwrap().unwrap(), sample(1).0[0]);
}

#[test]
fn a_slow_shard_that_is_here_already_is_a_success_too() {
    let (hub, upload) = hub();
    hub.cas("a").put_shard("/v2/shards", &upload.shard()).unwrap();
    hub.faults.hold_from(COMMIT);
    let mut begun = begin(&hub, &upload);
    next(&mut begun);
    hub.faults.release();
    let rest = begun.finish().unwrap();
    assert_eq!(last_frame(&rest.body).unwrap(), Frame::Result { result: Some(ShardResult::Exists) });
}

/// What fails behind the server may succeed next time, and the frame says so; it does not say what is behind the server.
#[test]
fn a_failure_in_the_middle_is_a_retryable_frame_and_a_retry_succeeds() {
    let mut seen = [Vec::new(), Vec::new()];
    for after in [false, true] {
        for step in 1.. {
            let (hub, upload) = hub();
            match after {
                true => hub.faults.fail_after(step),
                false => hub.faults.fail_before(step),
            }
            hub.faults.hold_from(1);
            let mut begun = begin(&hub, &upload);
            assert_eq!(next(&mut begun), Frame::Validating { verified: 0, total: 0 });
            hub.faults.release();
            let rest = begun.finish().unwrap();
            match last_frame(&rest.body).unwrap() {
                Frame::Error { message, retryable: true } => {
                    assert!(message.contains("the store") && !message.contains("on purpose"), "{message}");
                }
                // There are fewer steps.
                _ if step > COMMIT + 3 => break,
                other => panic!("step {step}: {other:?}"),
            }
            hub.faults.disarm();
            if hub.cas("a").file(&upload.files[0].hash).unwrap().is_some() {
                seen[usize::from(after)].push(step);
            }
            hub.cas("a").put_shard("/v2/shards", &upload.shard()).unwrap();
            assert_eq!(hub.cas("a").file(&upload.files[1].hash).unwrap().unwrap(), sample(1).0[1]);
        }
    }
    // Nothing is seen before the step that commits, and all of it from there on.
    let [before, after] = seen;
    let commit = *after.first().expect("some step commits");
    assert!(commit > COMMIT && before.iter().all(|step| *step > commit), "{before:?} {after:?}");
    assert!(after.iter().copied().eq(commit..commit + after.len() as u64), "{after:?}");
}

/// What is wrong with the shard stays wrong, also when that is found out late.
#[test]
fn a_shard_that_is_wrong_is_a_final_frame_and_leaves_nothing() {
    let (hub, mut upload) = hub();
    upload.files[0].hash = FileHash::new([1; 32]);
    let before = hub.stored();
    hub.faults.hold_from(LOOKUP);
    let mut begun = begin(&hub, &upload);
    next(&mut begun);
    hub.faults.release();
    let rest = begun.finish().unwrap();
    match last_frame(&rest.body).unwrap() {
        Frame::Error { message, retryable: false } => assert!(message.contains("file hash"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(hub.stored(), before);
}

/// A client that leaves learns nothing, but what it began is done or not begun, and asking again finds it.
#[test]
fn a_client_that_leaves_in_the_middle_loses_nothing() {
    for (step, path) in
        [(LOOKUP, "/v2/shards"), (PUT, "/v2/shards"), (COMMIT, "/v2/shards"), (COMMIT, "/v1/shards")]
    {
        let (hub, upload) = hub();
        hub.faults.hold_from(step);
        let authorization = format!("Bearer {}", hub.token(TokenScope::Write, "a"));
        let shard = upload.shard();
        let headers = [("authorization", authorization.as_str())];
        let sent = hub.http.begin("POST", path, &headers, RequestBody::Whole(&shard)).unwrap();
        until("the held operation", || hub.faults.waiting() == 1);
        drop(sent);
        // The server notices at its next frame; either way it goes on.
        std::thread::sleep(Duration::from_millis(50));
        hub.faults.disarm();
        until("the shard", || hub.block_on(store::testing::counts(&hub.catalog)).unwrap().shards == 1);
        assert_eq!(hub.cas("a").file(&upload.files[0].hash).unwrap().unwrap(), sample(1).0[0]);
        until("the memory", || hub.state.budget.usage().in_use_bytes == 0);
        let again = hub.cas("a").post("/v1/shards", &shard).unwrap();
        assert_eq!((again.status, again.text().as_str()), (200, r#"{"result":0}"#), "step {step}");
    }
}

/// A xorb whose sender leaves before it is acknowledged may be here or not, but never as half a one.
#[test]
fn a_client_that_leaves_while_its_xorb_is_stored_can_send_it_again() {
    let upload = sample(1).1;
    let xorb = &upload.xorbs[0];
    // Another lookup whether it exists, its object, its row. The lookups of the quota and whether it exists come before the
    // body is read, when nobody can notice that the client is gone.
    for step in 3..=5 {
        let hub = Hub::with(|_| {}, quick());
        hub.faults.hold_from(step);
        let authorization = format!("Bearer {}", hub.token(TokenScope::Write, "a"));
        let path = format!("/v1/xorbs/default/{}", xorb.info.hash());
        let sent = hub.http.begin(
            "POST",
            &path,
            &[("authorization", &authorization)],
            RequestBody::Whole(&xorb.bytes),
        );
        until("the held operation", || hub.faults.waiting() == 1);
        drop(sent.unwrap());
        // A client that has gone looks like one that has sent all and still reads: the upload goes on to its end.
        hub.faults.release();
        hub.faults.disarm();
        until("the memory", || hub.state.budget.usage().in_use_bytes == 0);
        hub.cas("a").upload(&upload, "/v2/shards").unwrap();
        assert_eq!(hub.cas("a").file(&upload.files[0].hash).unwrap().unwrap(), sample(1).0[0]);
    }
}
