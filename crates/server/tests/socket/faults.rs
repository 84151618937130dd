//! Whatever fails behind the server, at whichever step of an upload: the client gets an error that lets it retry, nothing that was
//! acknowledged is missing, and trying again succeeds.

use testkit::upload::Failed;

use crate::hub::{Hub, sample};

#[test]
fn an_upload_by_version_1_survives_a_failure_at_every_step() {
    survives("/v1/shards");
}

#[test]
fn an_upload_by_version_2_survives_a_failure_at_every_step() {
    survives("/v2/shards");
}

fn survives(shards_path: &str) {
    let (data, upload) = sample(1);
    let mut steps = 0;
    for n in 1.. {
        let mut struck = false;
        for after in [false, true] {
            let hub = Hub::new();
            let cas = hub.cas("a");
            match after {
                true => hub.faults.fail_after(n),
                false => hub.faults.fail_before(n),
            }
            let mut acknowledged = Vec::new();
            let mut first = Ok(());
            for xorb in &upload.xorbs {
                first = cas.put_xorb(xorb);
                match &first {
                    Ok(()) => acknowledged.push(xorb.info.hash()),
                    Err(_) => break,
                }
            }
            if first.is_ok() {
                first = cas.put_shard(shards_path, &upload.shard());
            }
            let reached = hub.faults.operations() >= n;
            hub.faults.disarm();
            struck |= reached;
            match &first {
                Ok(()) => assert!(!reached, "{n}: a failure was hidden"),
                Err(Failed::Refused { status, retryable: true, message }) => {
                    assert_eq!(*status, 503, "{n}: {message}");
                    assert!(message.contains("log") && !message.contains("on purpose"), "{n}: {message}");
                }
                Err(other) => panic!("{n}: {other:?}"),
            }
            // Acknowledged xorbs are here, with their objects, and files are all here or none is.
            let rows = hub.block_on(store::testing::xorbs(&hub.catalog, &acknowledged)).unwrap();
            assert_eq!(rows.len(), acknowledged.len(), "{n}");
            for row in rows {
                let key = store::ObjectKey::Xorb(row.key);
                assert_eq!(hub.block_on(hub.store.objects().head(&key)).unwrap(), Some(row.object_bytes));
            }
            let visible: Vec<_> = upload.files.iter().map(|file| cas.file(&file.hash).unwrap()).collect();
            match visible.iter().any(Option::is_some) {
                true => assert_eq!(visible, data.iter().cloned().map(Some).collect::<Vec<_>>(), "{n}"),
                false => assert!(first.is_err(), "{n}: acknowledged and not here"),
            }
            cas.upload(&upload, shards_path).unwrap();
            for (data, file) in data.iter().zip(&upload.files) {
                assert_eq!(cas.file(&file.hash).unwrap().as_ref(), Some(data), "{n}");
            }
        }
        if !struck {
            break;
        }
        steps = n;
    }
    // A look, an object and a row for each xorb; the rows of all, an object and a commit for the shard.
    assert!(steps >= upload.xorbs.len() as u64 * 3 + 3, "only {steps} steps");
}

/// Reading fails the same way: with an answer that makes clients try again, never with a wrong one.
#[test]
fn a_download_survives_a_failure_at_every_step() {
    let hub = Hub::new();
    let (data, upload) = sample(1);
    let cas = hub.cas("a");
    cas.upload(&upload, "/v1/shards").unwrap();
    let (data, file) = (&data[0], &upload.files[0].hash);
    for n in 1.. {
        hub.faults.fail_before(n);
        // What has begun can only break off, and does; what has not is a 503.
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cas.file(file)));
        let reached = hub.faults.operations() >= n;
        hub.faults.disarm();
        match read {
            Ok(Ok(Some(bytes))) => assert!(!reached && bytes == *data, "{n}"),
            Ok(Err(error)) => assert!(reached, "{n}: {error}"),
            Err(_) => assert!(reached, "{n}"),
            Ok(Ok(None)) => panic!("{n}: a fault is reported as a missing file"),
        }
        if !reached {
            assert!(n > 3);
            return;
        }
    }
}
