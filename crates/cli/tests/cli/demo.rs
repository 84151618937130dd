//! `drystone demo`, with a model small enough to wait for.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use testkit::command::Call;

use super::{Folder, drystone, json, number, text};

fn demo(args: &[&str], temporary: &str) -> Call {
    let call = drystone(["demo", "--model-mib", "8"].iter().chain(args).copied());
    call.env("TMPDIR", temporary).timeout(Duration::from_secs(300))
}

#[test]
fn a_demo_saves_most_of_the_second_push_and_leaves_nothing() {
    let folder = Folder::new();
    let report = json(demo(&["--json"], folder.path().to_str().unwrap()));
    let pushes = report["pushes"].as_array().unwrap();
    let whats: Vec<_> = pushes.iter().map(|push| text(push, "what")).collect();
    assert_eq!(whats, ["model", "1 % changed", "pictures"]);
    let (first, second) = (&pushes[0], &pushes[1]);
    assert!(number(first, "pushed_bytes") >= 8_380_000, "{first}");
    assert!(number(second, "sent_bytes") * 10 < number(first, "sent_bytes"), "{report}");
    assert_eq!(
        number(second, "logical_bytes"),
        number(first, "pushed_bytes") + number(second, "pushed_bytes")
    );
    assert!(number(&pushes[2], "stored_bytes") > number(second, "stored_bytes"));
    let commands = report["commands"].as_array().unwrap();
    for start in ["drystone serve", "drystone pull", "shardpack create", "shardpack cat http://"] {
        assert!(
            commands.iter().any(|command| command.as_str().unwrap().starts_with(start)),
            "{start}: {report}"
        );
    }
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_demo_can_leave_its_files() {
    let folder = Folder::new();
    let directory = folder.at("kept");
    let output = demo(&["--keep", &directory], folder.path().to_str().unwrap()).run().ok();
    for part in
        ["$ drystone push --json after/ demo/model", "in repositories", " %\n", "drystone serve --data"]
    {
        assert!(output.contains(part), "{part} is not in\n{output}");
    }
    drystone(["verify", "--deep", "--data", &format!("{directory}/hub")]).run().ok();
    assert_eq!(folder.read("kept/after/model.safetensors"), folder.read("kept/copy/model.safetensors"));
    let refused = demo(&["--keep", &directory], folder.path().to_str().unwrap()).run().fails(1);
    assert!(refused.contains("not empty"), "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_demo_that_is_interrupted_cleans_up() {
    let folder = Folder::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_drystone"));
    child.args(["demo", "--model-mib", "128"]).env("TMPDIR", folder.path());
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    let wait = |what: &str, done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(Instant::now() < end, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let has_server = || {
        let hub = folder.names().first().map(|name| folder.path().join(name).join("hub/admin.token"));
        hub.is_some_and(|token| fs::metadata(token).is_ok())
    };
    wait("the server is there", &mut || has_server());
    Call::new("/bin/sh").args(["-c", &format!("kill -INT {}", child.id())]).run().ok();
    let mut code = None;
    wait("the demo ends", &mut || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(1));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    // Whatever it started worked in its folder.
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let left = processes.filter(|process| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder.path()))
    });
    assert_eq!(left.count(), 0, "the server is gone");
}
