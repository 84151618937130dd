//! What breaks around servers, with real processes: replicas, their database and bucket, the disk, memory, descriptors.
//! The table of `docs/operations/faults.md` lists the promises.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod limits;
mod load;
mod replicas;
mod wires;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;
use testkit::upload::Cas;

const DRYSTONE: &str = env!("CARGO_BIN_EXE_drystone");

/// A command without what the environment of the tests says.
fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_str().unwrap_or_default();
        if text.starts_with("DRYSTONE_") || text.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
}

/// How to start a server, again and again in the same place.
#[derive(Clone)]
struct Plan {
    data: PathBuf,
    listen: String,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    /// Before the program: `prlimit …`.
    wrapper: Vec<String>,
}

impl Plan {
    fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            flags: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.push((format!("DRYSTONE_{}", name.to_uppercase()), value.to_owned()));
        self
    }

    fn start(&self) -> Server {
        let words: Vec<&str> = self.wrapper.iter().map(String::as_str).chain([DRYSTONE]).collect();
        let mut command = quiet(words[0]);
        command.args(&words[1..]).args(["serve", "--listen", &self.listen, "--data"]).arg(&self.data);
        command.args(&self.flags).envs(self.environment.iter().cloned());
        fs::create_dir_all(&self.data).unwrap();
        let log = fs::OpenOptions::new().append(true).create(true).open(self.log_file()).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
        let url = url.unwrap_or_else(|| panic!("{:?}: {}", child.wait(), self.log()));
        // A process blocks when nobody reads the pipe it prints to.
        thread::spawn(move || lines.for_each(drop));
        Server { child, url }
    }

    /// Beside the data, which may be on a full disk.
    fn log_file(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// A client of `ann/model` at this address.
    fn client(&self, url: &str) -> Cas {
        let args =
            ["token", "create", "--scope", "write", "--repo", "ann/model", "--cas", "--json", "--data"];
        let catalog = self.flags.iter().skip_while(|flag| *flag != "--catalog").take(2);
        let made = quiet(DRYSTONE).args(args).arg(&self.data).args(catalog).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        Cas::new(url, made["token"].as_str().unwrap())
    }

    /// Runs a verb on the stopped store; what it printed.
    fn maintain(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = quiet(DRYSTONE);
        command.args(args).arg("--data").arg(&self.data).envs(self.environment.iter().cloned());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// A running server; ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    fn terminate(&mut self) -> ExitStatus {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds; machines may be slow, not broken.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
