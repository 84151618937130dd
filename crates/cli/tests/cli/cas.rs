//! `drystone cas put` into a folder and to the server, as people call it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use testkit::corpus::noise;

use super::{Folder, drystone, json, number, text};

/// `drystone serve` on a folder, at a free port.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
}

impl Server {
    pub(super) fn start(data: &str) -> Self {
        Self::start_with(data, &[])
    }

    /// The same, with variables.
    pub(super) fn start_with(data: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drystone"))
            .envs(variables.iter().copied())
            .args(["serve", "--listen", "127.0.0.1:0", "--data", data])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.find_map(|line| line.unwrap().strip_prefix("listening on ").map(str::to_owned)).unwrap();
        Self { child, url }
    }

    /// Ends it; nobody answers at its address any more.
    pub(super) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn a_store_directory_takes_files_once() {
    let folder = Folder::new();
    let (file, copy) = (folder.put("file", noise(1, 300_000)), folder.put("copy", noise(1, 300_000)));
    let (store, cache) = (folder.at("store"), folder.at("cache"));
    let put =
        || json(drystone(["cas", "put", "--json", "--store", &store, "--cache-dir", &cache, &file, &copy]));
    let first = put();
    let [one, two] = &first["files"].as_array().unwrap()[..] else { panic!("{first}") };
    let hash = drystone(["hash", "--sha256", &file]).run().ok();
    assert_eq!(hash.trim(), format!("{} {} 300000 {file}", text(one, "hash"), text(one, "sha256")));
    assert_eq!((one["hash"].clone(), number(one, "size")), (two["hash"].clone(), 300_000));
    let totals = |report: &serde_json::Value| {
        ["logical_bytes", "new_bytes", "deduplicated_bytes", "xorbs", "shards"]
            .map(|name| number(report, name))
    };
    assert_eq!(totals(&first), [600_000, 300_000, 300_000, 1, 1]);
    assert!(number(&first, "sent_bytes") > 300_000 && first["seconds"].is_f64());
    let again = put();
    assert_eq!(totals(&again), [600_000, 0, 600_000, 0, 1]);
    assert_eq!(again["files"], first["files"]);
    // Another client, with an empty cache.
    let elsewhere = json(drystone(["cas", "put", "--json", "--store", &store, "--no-cache", &file]));
    assert_eq!(totals(&elsewhere), [300_000, 0, 300_000, 0, 1]);
}

#[test]
fn a_server_takes_files_with_a_token_of_its_repository() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let file = folder.put("file", noise(1, 300_000));
    let token = |scope: &str| {
        drystone(["token", "create", "--data", &data, "--scope", scope, "--repo", "ann/a"])
            .run()
            .ok()
            .trim()
            .to_owned()
    };
    let put = |token: &str, more: &[&str]| {
        let call = drystone(["cas", "put", "--no-cache", &file]).args(more);
        call.env("DRYSTONE_ENDPOINT", &server.url).env("DRYSTONE_TOKEN", token)
    };
    let lines = put(&token("write"), &[]).run().ok();
    assert_eq!(lines, drystone(["hash", &file]).run().ok());
    drystone(["admin", "repo", "create", "ann/a", "--private", "--data", &data]).run().ok();
    // The admin token is exchanged for one of the repository.
    let admin = std::fs::read_to_string(format!("{data}/admin.token")).unwrap();
    let report = json(put(admin.trim(), &["--json", "--repo", "ann/a"]));
    assert_eq!(number(&report, "deduplicated_bytes"), 300_000);

    let complaint = put(&token("read"), &[]).run().fails(1);
    assert!(complaint.contains("does not allow writing") && complaint.contains("request "), "{complaint}");
    let complaint = put("nonsense", &[]).run().fails(1);
    assert!(complaint.contains("401") && !complaint.contains("nonsense"), "{complaint}");
    let complaint =
        drystone(["cas", "put", "--endpoint", "http://hub.example.com", "--token", "t", &file]).run();
    assert!(complaint.fails(1).contains("only sent over https"));
}

#[test]
fn a_dry_run_leaves_no_objects_and_a_missing_file_is_named() {
    let folder = Folder::new();
    let (file, store) = (folder.put("file", noise(1, 100_000)), folder.at("store"));
    let report =
        json(drystone(["cas", "put", "--dry-run", "--json", "--no-cache", "--store", &store, &file]));
    assert_eq!(number(&report, "new_bytes"), 100_000);
    assert!(!std::path::Path::new(&store).join("objects/xorbs").exists());
    let missing = folder.at("missing");
    let ended = drystone(["cas", "put", "--no-cache", "--store", &store, &missing, &file]).run();
    assert!(String::from_utf8_lossy(&ended.stdout).contains(&file), "the other file is there");
    assert!(ended.fails(1).contains(&missing));
    assert!(drystone(["cas", "put", &file]).run().fails(1).contains("--endpoint"));
}

#[test]
fn a_store_whose_parts_are_elsewhere_is_named_part_by_part() {
    let folder = Folder::new();
    let (file, store, out) = (folder.put("file", noise(1, 100_000)), folder.at("store"), folder.at("out"));
    std::fs::create_dir(folder.at("objects")).unwrap();
    let (objects, catalog) =
        (format!("file://{}", folder.at("objects")), format!("sqlite:{}", folder.at("catalog.db")));
    let at = ["--no-cache", "--store", &store, "--objects", &objects, "--catalog", &catalog];
    let put = json(drystone([&["cas", "put", "--json", &file], &at[..]].concat()));
    let hash = text(&put["files"][0], "hash");
    drystone([&["cas", "get", hash, "-o", &out], &at[..]].concat()).run().ok();
    assert!(folder.read("out") == noise(1, 100_000));
    assert!(folder.names().contains(&"catalog.db".to_owned()));
    drystone(["cas", "get", hash, "-o", &folder.at("other"), "--no-cache", "--store", &store]).run().fails(1);
    let usage = drystone(["cas", "put", "--objects", &objects, &file]).run().fails(2);
    assert!(usage.contains("--store"), "{usage}");
}

/// Killed while it sends; started again, it sends what is missing.
#[cfg(unix)]
#[test]
fn a_killed_push_goes_on_where_it_stopped() {
    let folder = Folder::new();
    let data = noise(1, 200 << 20);
    let file = folder.put("file", &data);
    let (store, cache) = (folder.at("store"), folder.at("cache"));
    let args = ["cas", "put", "--json", "--store", &store, "--cache-dir", &cache, &file];
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_drystone")).args(args).stdout(Stdio::null()).spawn().unwrap();
    // As soon as one xorb is noted; a push that is faster than this look has nothing left to prove.
    let noted = || {
        let folders = std::fs::read_dir(&cache).into_iter().flatten();
        folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap()).count() > 0
    };
    while !noted() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let report = json(drystone(args));
    assert!(number(&report, "deduplicated_bytes") >= 60 << 20, "{report}");
    assert_eq!(number(&report, "logical_bytes"), 200 << 20);
    let again = json(drystone(args));
    assert_eq!(number(&again, "new_bytes"), 0);
}
