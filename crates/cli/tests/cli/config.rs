//! `drystone config check`.

use testkit::command::Call;

use super::token::Server;
use super::{Folder, drystone, json, text};

fn check(args: &[&str]) -> Call {
    drystone(["config", "check"].iter().chain(args).copied())
}

#[test]
fn settings_are_printed_with_their_source_and_without_passwords() {
    let folder = Folder::new();
    let file = folder.put("hub.toml", "url_ttl_s = 100\nlisten = '127.0.0.1:1'\n");
    let data = folder.at("data");
    let output = check(&["--config", &file, "--data", &data, "--listen", "127.0.0.1:2"])
        .env("DRYSTONE_OBJECTS", "file:///nowhere/hunter2")
        .env("DRYSTONE_DEDUP", "repo")
        .run()
        .ok();
    for line in ["listen                127.0.0.1:2  (from --listen)", "(from DRYSTONE_DEDUP)", "hub.toml)"] {
        assert!(output.contains(line), "{line} is not in\n{output}");
    }
    assert!(folder.names() == ["hub.toml"], "nothing is made");

    let ended =
        check(&["--data", &data, "--catalog", "postgres://ada:hunter2@127.0.0.1:1/hub", "--json"]).run();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let output = String::from_utf8(ended.stdout).unwrap();
    assert!(!output.contains("hunter2") && output.contains("postgres://...@127.0.0.1:1/hub"), "{output}");
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let wrong: Vec<_> =
        checks.iter().filter(|check| check["ok"] == false).map(|check| text(check, "what")).collect();
    assert_eq!(wrong, ["catalog"]);
}

#[test]
fn what_cannot_be_used_ends_with_one_and_wrong_flags_with_two() {
    let folder = Folder::new();
    let data = folder.at("data");
    let (cert, key) = (folder.put("cert.pem", "x"), folder.put("key.pem", "y"));
    let tls = folder.put("tls.toml", format!("tls_cert = '{cert}'\ntls_key = '{key}'\n"));
    let ended = check(&["--config", &tls, "--data", &data]).run();
    assert_eq!(ended.code, Some(1));
    assert!(String::from_utf8(ended.stdout).unwrap().contains("WRONG certificate"));
    let file = folder.put("file", "");
    let ended = check(&["--data", &format!("{file}/data")]).run();
    assert_eq!(ended.code, Some(1), "a file is no folder");

    let slip = folder.put("slip.toml", "lisen = 1");
    assert!(check(&["--config", &slip]).run().fails(1).contains("did you mean listen?"));
    check(&["--no-such-flag"]).run().fails(2);
}

#[test]
fn a_running_server_passes() {
    let folder = Folder::new();
    let data = folder.at("data");
    let _server = Server::start(&["--data", &data]);
    let report = json(check(&["--data", &data, "--json"]));
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 4);
    assert!(
        checks.iter().all(|check| check["ok"] == true && !text(check, "message").contains("will be made")),
        "{report}"
    );
}
