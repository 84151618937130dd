//! Maintenance from the command line: gc, verify, rebuild and stats, with and without a running server; all of them killed.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use serde_json::{Value, json};
use testkit::command::Call;
use testkit::corpus::{self, SplitMix64};
use testkit::http::RequestBody;
use testkit::upload::{Cas, Failed, Upload};
use xet::FileHash;
use xet::compress::Policy;

const DRYSTONE: &str = env!("CARGO_BIN_EXE_drystone");

#[test]
fn a_store_is_swept_verified_healed_and_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data);
    maintain(&data, ["admin", "repo", "create", "ann/model"]).ok();
    let hub = Hub::new(&server, &data);
    let (committed, lost) = (Upload::of(&[&corpus::noise(1, 200_000)], 2, Policy::Auto), upload(2));
    hub.cas.upload(&committed, "/v1/shards").unwrap();
    hub.cas.upload(&lost, "/v1/shards").unwrap();
    hub.commit("kept.bin", &committed).unwrap();

    // Beside the server.
    assert_eq!(code(&maintain(&data, ["verify"])), 0);
    let stats = value(&maintain(&data, ["stats", "--json"]));
    assert_eq!((&stats["files"], &stats["top"][0]["files"]), (&json!(2), &json!(2)), "{stats}");
    let dry = value(&maintain(&data, ["gc", "--dry-run", "--json"]));
    assert_eq!((&dry["files"], &dry["reclaimable_bytes"]), (&json!(0), &json!(0)), "{dry}");
    let short = maintain(&data, ["gc", "--grace", "1s"]);
    assert_eq!(short.code, 1);
    assert!(short.stderr.contains("too short beside servers"), "{}", short.stderr);
    let swept = value(&maintain(&data, ["gc", "--json"]));
    assert_eq!((&swept["files"], &swept["deleted"]), (&json!(0), &json!(0)), "all is young: {swept}");

    // No other process uses the store: what was not committed is deleted at once.
    server.kill();
    let dry = value(&maintain(&data, ["gc", "--offline", "--grace", "0", "--dry-run", "--json"]));
    assert_eq!((&dry["files"], &dry["xorbs"]), (&json!(1), &json!(lost.xorbs.len())), "{dry}");
    let swept = value(&maintain(&data, ["gc", "--offline", "--grace", "0", "--json"]));
    // Its xorbs and its shard.
    let gone = json!(lost.xorbs.len() + 1);
    assert_eq!(
        (&swept["files"], &swept["condemned"], &swept["deleted"]),
        (&json!(1), &gone, &gone),
        "{swept}"
    );
    assert_eq!(code(&maintain(&data, ["verify", "--deep"])), 0);

    // One byte is flipped: it is named, and an upload heals it.
    let xorb = objects(&data, "xorbs").remove(0);
    let mut bytes = fs::read(&xorb).unwrap();
    bytes[100] ^= 1;
    fs::write(&xorb, &bytes).unwrap();
    assert_eq!(code(&maintain(&data, ["verify"])), 0, "a glance does not see it");
    let found = maintain(&data, ["verify", "--deep", "--repair", "--json"]);
    assert_eq!(found.code, 1);
    let damage: Value = serde_json::from_str(found.stdout.lines().next().unwrap()).unwrap();
    assert!(xorb.to_str().unwrap().ends_with(damage["damaged"].as_str().unwrap()), "{damage}");
    assert_eq!(damage["files"], json!([committed.files[0].hash.to_string()]));
    assert_eq!(damage["repositories"], json!(["ann/models/model"]));
    let mut server = Server::start(&data);
    let hub = Hub::new(&server, &data);
    hub.cas.upload(&committed, "/v1/shards").unwrap();
    assert_eq!(code(&maintain(&data, ["verify", "--deep"])), 0);
    server.kill();

    // The catalog is lost; tokens are lost with it, files and commits are not.
    for file in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()) {
        if file.file_name().unwrap().to_str().unwrap().starts_with("catalog.db") {
            fs::remove_file(file).unwrap();
        }
    }
    let rebuilt = value(&maintain(&data, ["rebuild", "--json"]));
    assert_eq!((&rebuilt["repositories"], &rebuilt["files"]), (&json!(1), &json!(1)), "{rebuilt}");
    assert_eq!(code(&maintain(&data, ["rebuild"])), 1, "the catalog is no longer empty");
    assert_eq!(code(&maintain(&data, ["verify", "--deep"])), 0);
    let server = Server::start(&data);
    let hub = Hub::new(&server, &data);
    assert_eq!(hub.cas.file(&committed.files[0].hash).unwrap().unwrap(), corpus::noise(1, 200_000));
    assert_eq!(hub.paths(), ["kept.bin"]);
}

#[test]
fn quotas_audit_and_restoring_deleted_files_work_offline_and_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data);
    maintain(&data, ["admin", "repo", "create", "ann/model"]).ok();
    let hub = Hub::new(&server, &data);
    let lines = |ended: &Ended| {
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    let afar = |args: &[&str]| {
        let mut command = Command::new(DRYSTONE);
        quiet(&mut command);
        let token = fs::read_to_string(data.join("admin.token")).unwrap();
        command.args(["admin", "--json", "--endpoint", &server.url, "--token", token.trim()]).args(args);
        let output = command.output().unwrap();
        let code = output.status.code().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Ended { code, stdout, stderr }
    };

    // A file is uploaded, a quota set beside the running server, and the next one is refused.
    let first = upload(1);
    hub.cas.upload(&first, "/v1/shards").unwrap();
    hub.commit("a.bin", &first).unwrap();
    let set =
        ["admin", "quota", "set", "ann/model", "--logical", "40KB", "--soft-physical", "1KiB", "--json"];
    let quota = lines(&maintain(&data, set)).remove(0);
    assert_eq!((&quota["of"], &quota["logicalHard"]), (&json!("ann/model"), &json!(40_000)), "{quota}");
    // Servers remember quotas for some seconds; what came meanwhile would not be refused again.
    let mut uploads = (2..).map(upload);
    let refused = loop {
        match hub.cas.upload(&uploads.next().unwrap(), "/v1/shards") {
            Ok(()) => thread::sleep(Duration::from_millis(500)),
            Err(failed) => break failed,
        }
    };
    let Failed::Refused { status: 413, message, .. } = refused else { panic!("{refused:?}") };
    assert!(message.contains("quota of ann/model: 40000 logical bytes"), "{message}");
    assert_eq!(lines(&afar(&["quota", "list"]))[0]["of"], json!("ann/model"));
    let stats = value(&maintain(&data, ["stats", "--json"]));
    assert_eq!(stats["quotas"][0]["logicalHard"], json!(40_000), "{stats}");
    let shown = maintain(&data, ["admin", "quota", "list"]).stdout;
    assert!(shown.starts_with("ann/model  logical ") && shown.contains("warns at 1.0 KiB"), "{shown}");
    afar(&["quota", "remove", "ann/model"]).ok();
    assert_eq!(lines(&maintain(&data, ["admin", "quota", "list", "--json"])), [] as [Value; 0]);

    // Squashed away and had back.
    hub.commit("b.bin", &first).unwrap();
    hub.squash().unwrap();
    let left = lines(&afar(&["undelete", "ann/model", "--list"])).remove(0);
    assert_eq!(left["ref"], json!("refs/heads/main"));
    assert!(maintain(&data, ["admin", "undelete", "ann/model", "--list"]).stdout.contains(" until 2"));
    let old = left["revision"].as_str().unwrap();
    maintain(&data, ["admin", "undelete", "ann/model", "--revision", old, "--as", "old"]).ok();
    let missing = maintain(&data, ["admin", "undelete", "ann/model", "nothing.bin"]);
    assert_eq!(missing.code, 1, "{}", missing.stdout);

    // Who did it.
    let log = lines(&maintain(&data, ["admin", "audit", "--since", "1h", "--json"]));
    let event =
        |action: &str| log.iter().find(|row| row["action"] == action).unwrap_or_else(|| panic!("{action}"));
    assert_eq!(event("quota.remove")["who"], json!("admin token \"first admin token\""));
    assert!(event("repo.create")["who"].as_str().unwrap().contains("command line"));
    assert_eq!(event("ref.create")["target"], json!("ann/model refs/heads/old"));
    assert_eq!(lines(&afar(&["audit"])), log);
}

/// `DRYSTONE_KILLS=100` goes on for longer.
#[test]
fn kills_in_the_middle_of_commits_and_sweeps_lose_nothing() {
    let rounds = env::var("DRYSTONE_KILLS").map_or(10, |text| text.parse().expect("a number"));
    let seed = match env::var("DRYSTONE_TEST_SEED") {
        Ok(text) => text.parse().expect("DRYSTONE_TEST_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64,
    };
    eprintln!("DRYSTONE_TEST_SEED={seed} does this again, as far as timing allows");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut there: HashMap<String, (FileHash, u64)> = HashMap::new();
    let mut deleted = 0;
    for round in 0..rounds {
        let mut server = Server::start(&data);
        if round == 0 {
            maintain(&data, ["admin", "repo", "create", "ann/model"]).ok();
        }
        let hub = Hub::new(&server, &data);
        for (path, (file, content)) in &there {
            let found = hub.cas.file(file).unwrap();
            assert!(found == Some(content_of(*content)), "round {round}: {path} was acknowledged");
        }
        let committed = Mutex::new(HashMap::new());
        let wait_ms = 30 + random.below(400);
        thread::scope(|scope| {
            scope.spawn(|| work(&hub, random.word(), &committed));
            thread::sleep(Duration::from_millis(wait_ms));
            server.kill();
        });
        there.extend(committed.into_inner().unwrap());
        // A sweep that is killed, then one that is not, most of the time.
        let mut sweep = Command::new(DRYSTONE)
            .args(["gc", "--offline", "--grace", "0", "--allow-large-deletion", "--json", "--data"])
            .arg(&data)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(random.below(80)));
        sweep.kill().unwrap();
        sweep.wait().unwrap();
        let found = maintain(&data, ["verify", "--deep"]);
        assert_eq!(found.code, 0, "round {round}: {}{}", found.stdout, found.stderr);
        if random.below(3) > 0 {
            let gc = ["gc", "--offline", "--grace", "0", "--allow-large-deletion", "--json"];
            let swept = value(&maintain(&data, gc));
            assert_eq!(swept["skipped"], json!([]), "{swept}");
            deleted += swept["deleted"].as_u64().unwrap();
        }
    }
    let found = maintain(&data, ["verify", "--deep"]);
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    let server = Server::start(&data);
    let hub = Hub::new(&server, &data);
    for (path, (file, content)) in &there {
        assert!(hub.cas.file(file).unwrap() == Some(content_of(*content)), "{path} was acknowledged");
    }
    eprintln!("{rounds} rounds: {} paths there, {deleted} objects deleted", there.len());
}

fn content_of(seed: u64) -> Vec<u8> {
    corpus::noise(seed, 20_000 + (seed % 7) as usize * 9000)
}

fn upload(seed: u64) -> Upload {
    Upload::of(&[&content_of(seed)], 2, Policy::Auto)
}

/// Commits to new paths, sends what is never committed, and squashes, until the server is gone.
fn work(hub: &Hub, seed: u64, committed: &Mutex<HashMap<String, (FileHash, u64)>>) {
    let mut random = SplitMix64::new(seed);
    loop {
        let content = random.word();
        let upload = upload(content);
        let path = format!("{content}.bin");
        let done = hub.cas.upload(&upload, "/v1/shards").and_then(|()| match random.below(4) {
            0 => Ok(false),
            1 => hub.squash().and_then(|()| hub.commit(&path, &upload)).map(|()| true),
            _ => hub.commit(&path, &upload).map(|()| true),
        });
        match done {
            Ok(true) => {
                committed.lock().unwrap().insert(path, (upload.files[0].hash, content));
            }
            Ok(false) => {}
            Err(Failed::Broken(_)) => return,
            Err(Failed::Refused { status, message, .. }) => panic!("refused: {status} {message}"),
        }
    }
}

/// The Hub's side of a server.
struct Hub {
    cas: Cas,
    admin: String,
}

impl Hub {
    fn new(server: &Server, data: &Path) -> Self {
        let args =
            ["token", "create", "--scope", "write", "--repo", "ann/model", "--cas", "--json", "--data"];
        let made = Call::new(DRYSTONE).args(args).args([data]).run().ok();
        let made: Value = serde_json::from_str(&made).unwrap();
        let admin = fs::read_to_string(data.join("admin.token")).unwrap();
        Self {
            cas: Cas::new(&server.url, made["token"].as_str().unwrap()),
            admin: format!("Bearer {}", admin.trim()),
        }
    }

    fn post(&self, path: &str, body: &str) -> Result<Value, Failed> {
        let headers = [("authorization", self.admin.as_str()), ("content-type", "application/x-ndjson")];
        let answer = self.cas.http.send("POST", path, &headers, RequestBody::Whole(body.as_bytes()))?;
        match answer.status {
            200 => Ok(serde_json::from_slice(&answer.body).unwrap_or(Value::Null)),
            status => Err(Failed::Refused { status, retryable: false, message: answer.text() }),
        }
    }

    fn commit(&self, path: &str, upload: &Upload) -> Result<(), Failed> {
        let digest = upload.files[0].sha256.unwrap();
        let oid: String = digest.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let header = json!({"key": "header", "value": {"summary": format!("put {path}")}});
        let size = upload.files[0].raw_bytes();
        let file =
            json!({"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": oid, "size": size}});
        self.post("/api/models/ann/model/commit/main", &format!("{header}\n{file}\n")).map(|_| ())
    }

    fn squash(&self) -> Result<(), Failed> {
        self.post("/api/models/ann/model/super-squash/main", "{}").map(|_| ())
    }

    fn paths(&self) -> Vec<String> {
        let headers = [("authorization", self.admin.as_str())];
        let answer = self
            .cas
            .http
            .send("GET", "/api/models/ann/model/tree/main", &headers, RequestBody::Nothing)
            .unwrap();
        let items: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
        let paths = items.iter().filter(|item| item["lfs"].is_object());
        paths.map(|item| item["path"].as_str().unwrap().to_owned()).collect()
    }
}

/// What a call ended with.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn ok(&self) {
        assert_eq!(self.code, 0, "{}", self.stderr);
    }
}

fn maintain<const N: usize>(data: &Path, args: [&str; N]) -> Ended {
    let mut command = Command::new(DRYSTONE);
    quiet(&mut command);
    let output = command.args(args).arg("--data").arg(data).output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn code(ended: &Ended) -> i32 {
    eprintln!("{}{}", ended.stdout, ended.stderr);
    ended.code
}

fn value(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn objects(data: &Path, kind: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(data.join("objects").join(kind)).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// Without what the environment of the tests says.
fn quiet(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("DRYSTONE_")) {
            command.env_remove(name);
        }
    }
}

/// The real server.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut command = Command::new(DRYSTONE);
        quiet(&mut command);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.env("DRYSTONE_LOG_LEVEL", "error");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
        let url = url.unwrap_or_else(|| panic!("the server ended: {:?}", child.wait()));
        Self { child, url }
    }

    /// No handler runs, nothing is flushed: SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
