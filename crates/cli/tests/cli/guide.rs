//! The guide shows what was tried: every command of it is run again.

use std::path::Path;

use testkit::command::Call;
use testkit::vectors::repository;

use super::Folder;

#[test]
fn every_command_of_the_guide_prints_what_the_guide_shows() {
    let guide = std::fs::read_to_string(repository().join("docs/guide/format-tools.md")).unwrap();
    let folder = Folder::new();
    let programs = Path::new(env!("CARGO_BIN_EXE_drystone")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let sessions = sessions(&guide);
    assert!(sessions.len() > 20, "{}", sessions.len());
    for (command, shown) in sessions {
        let script = format!("exec 2>&1; {command}");
        let call = Call::new("/usr/bin/env").args(["bash", "-c", &script]).env("PATH", &path);
        let ended = call.dir(folder.path()).run();
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), shown, "$ {command}");
    }
}

/// The commands in `console` blocks, each with the lines below it.
fn sessions(guide: &str) -> Vec<(String, String)> {
    let mut sessions: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in guide.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            sessions.push((command.to_owned(), String::new()));
        } else if inside {
            let (_, shown) = sessions.last_mut().unwrap();
            *shown += line;
            *shown += "\n";
        }
    }
    sessions
}
