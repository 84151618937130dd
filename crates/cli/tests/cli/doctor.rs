//! `drystone doctor`: what is well, what is not, and what it says to do.

use std::net::TcpListener;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use testkit::command::Call;
use testkit::postgres::Postgres;
use testkit::s3::S3;

use super::token::Server;
use super::{Folder, drystone, text};

fn doctor(args: &[&str]) -> Call {
    drystone(["doctor", "--json"].iter().chain(args).copied())
}

/// What it ended with, and the findings.
fn findings(call: Call) -> (i32, Vec<Value>) {
    let ended = call.run();
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    assert_eq!(report["well"] == true, ended.code == Some(0));
    (ended.code.unwrap(), report["findings"].as_array().unwrap().clone())
}

/// What failed. Everything that is not well says what to do.
fn failed(call: Call) -> Vec<String> {
    let (code, findings) = findings(call);
    let failed: Vec<_> = findings.iter().filter(|finding| finding["state"] == "fail").collect();
    assert_eq!(code, i32::from(!failed.is_empty()), "{findings:?}");
    for finding in &findings {
        assert_eq!(finding["state"] == "ok", finding["advice"].is_null(), "{finding}");
    }
    failed.into_iter().map(|finding| text(finding, "what").to_owned()).collect()
}

fn found<'a>(findings: &'a [Value], what: &str) -> &'a str {
    let finding = findings.iter().find(|finding| finding["what"] == what);
    text(finding.unwrap_or_else(|| panic!("nothing about {what} in {findings:?}")), "found")
}

#[test]
fn a_folder_is_well_before_and_beside_a_server_and_nothing_is_made() {
    let folder = Folder::new();
    let data = folder.at("data");
    let (code, before) = findings(doctor(&["--data", &data, "--listen", "127.0.0.1:0"]));
    assert_eq!(code, 0, "{before:?}");
    assert!(found(&before, "data folder").contains("will be made"));
    assert!(found(&before, "fsync").contains(" ms"));
    assert!(folder.names().is_empty());

    let server = Server::start(&["--data", &data]);
    let (code, beside) = findings(doctor(&["--data", &data, "--listen", &server.address]));
    assert_eq!(code, 0, "{beside:?}");
    assert!(found(&beside, "port").contains("answers"), "{beside:?}");
    assert!(found(&beside, "catalog").contains("tables of version"), "{beside:?}");
    let lines = drystone(["doctor", "--data", &data, "--listen", &server.address]).run().ok();
    assert!(lines.contains("ok    data folder: ") && lines.ends_with(" 0 failed\n"), "{lines}");
}

#[test]
fn kernels_are_named_and_measured_and_the_environment_chooses_them() {
    let folder = Folder::new();
    let data = folder.at("data");
    let report = |choice: &str| -> Value {
        let ended =
            doctor(&["--data", &data, "--listen", "127.0.0.1:0"]).env("DRYSTONE_KERNELS", choice).run();
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
    };
    let (native, portable) = (report("native"), report("portable"));
    for name in ["gear search", "SHA-256 of many", "LZ4", "BLAKE3", "CRC-32C"] {
        let kernel = |report: &Value| {
            let kernels = report["kernels"].as_array().unwrap().clone();
            kernels.into_iter().find(|kernel| kernel["name"] == name).unwrap()
        };
        let (native, portable) = (kernel(&native), kernel(&portable));
        assert_eq!(native["in_use"], native["native"], "{native}");
        assert!(native["native_gb_per_s"].as_f64().unwrap() > 0.0 && native["agree"] == true, "{native}");
        let has_twin = !native["portable_gb_per_s"].is_null();
        assert_eq!(portable["in_use"] == "portable", has_twin, "{portable}");
        assert!(found(report("native")["findings"].as_array().unwrap(), name).contains("GB/s"));
    }
    for call in [doctor(&["--data", &data]), drystone(["hash", "-"]), drystone(["push", "x", "a/b"])] {
        let complaint = call.env("DRYSTONE_KERNELS", "fast").run().fails(1);
        let expected = "DRYSTONE_KERNELS should be native or portable, found \"fast\"";
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn what_a_server_could_not_use_is_named() {
    let folder = Folder::new();
    let file = folder.put("file", "");
    let free = ["--listen", "127.0.0.1:0"];
    let at = |args: &[&str]| doctor(&[&free[..], args].concat());
    assert_eq!(failed(at(&["--data", &format!("{file}/data")])), ["data folder"]);

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    // A program that closes connections at once is not a Drystone server.
    std::thread::spawn(move || while other.accept().is_ok() {});
    let data = folder.at("data");
    assert_eq!(failed(doctor(&["--data", &data, "--listen", &taken])), ["port"]);

    let nobody = ["--data", &data, "--catalog", "postgres://ada:hunter2@127.0.0.1:1/hub"];
    let ended = at(&nobody).run();
    assert!(!String::from_utf8_lossy(&ended.stdout).contains("hunter2"));
    assert_eq!(failed(at(&nobody)), ["catalog"]);
    assert_eq!(failed(at(&["--data", &data]).env("DRYSTONE_MEMORY_BYTES", "16000GiB")), ["memory"]);
    assert_eq!(
        failed(at(&["--data", &data]).env("DRYSTONE_DISK_FREE_BYTES_MIN", "16000GiB")),
        ["free space"]
    );
    drystone(["doctor", "--no-such-flag"]).run().fails(2);
}

#[test]
fn a_certificate_is_good_ends_soon_has_ended_or_is_of_another_key() {
    let folder = Folder::new();
    let make = |not_after| {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = not_after;
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let state = |(cert, key): (String, String)| {
        let (cert, key) = (folder.put("cert.pem", cert), folder.put("key.pem", key));
        let call = doctor(&["--listen", "127.0.0.1:0", "--data", &folder.at("data")]);
        let (_, findings) = findings(call.env("DRYSTONE_TLS_CERT", cert).env("DRYSTONE_TLS_KEY", key));
        let finding = findings.iter().find(|finding| finding["what"] == "certificate").unwrap();
        (text(finding, "state").to_owned(), text(finding, "found").to_owned())
    };
    let good = make(date_time_ymd(4000, 1, 1));
    // Files of a test may be read by everyone, which is worth a warning of its own.
    assert!(state(good.clone()).1.contains("may read"));
    let (state_then, found) = state(make(date_time_ymd(2020, 1, 1)));
    assert_eq!(state_then, "fail", "{found}");
    assert!(found.contains("expired"), "{found}");
    assert_eq!(state((good.0, make(date_time_ymd(4000, 1, 1)).1)).0, "fail");
}

#[test]
fn a_bucket_and_a_database_are_tried_and_a_wrong_key_is_named() {
    let Some(postgres) = Postgres::start() else { return };
    let s3 = S3::start();
    let (bucket, database) = (s3.fresh_bucket(), postgres.fresh_database());
    let folder = Folder::new();
    let data = folder.at("data");
    let call = || {
        let args = ["--data", &data, "--listen", "127.0.0.1:0", "--objects", &bucket, "--catalog", &database];
        s3.environment().iter().fold(doctor(&args), |call, (name, value)| call.env(name, value))
    };
    let (code, well) = findings(call());
    assert_eq!(code, 0, "{well:?}");
    assert!(found(&well, "signed URLs").contains("no other"), "{well:?}");
    assert!(found(&well, "clock").contains("the catalog"), "{well:?}");
    assert_eq!(failed(call().env("AWS_SECRET_ACCESS_KEY", "wrong")), ["bucket"]);
}
