//! `drystone push`, `pull`, `ls`, `cat` and `rm` with a server, as people call them.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use testkit::command::Call;
use testkit::corpus::noise;

use super::cas::Server;
use super::{Folder, drystone, json, number, text};

/// A server, and a folder for what clients have.
pub(super) struct Site {
    pub(super) folder: Folder,
    pub(super) server: Server,
    admin: String,
}

impl Site {
    pub(super) fn start() -> Self {
        let folder = Folder::new();
        let server = Server::start(&folder.at("data"));
        let admin = fs::read_to_string(folder.at("data/admin.token")).unwrap().trim().to_owned();
        Self { folder, server, admin }
    }

    /// A command with the admin token.
    pub(super) fn call(&self, args: &[&str]) -> Call {
        self.call_with(&self.admin, args)
    }

    fn call_with(&self, token: &str, args: &[&str]) -> Call {
        let call =
            drystone(args).timeout(Duration::from_secs(300)).env("DRYSTONE_ENDPOINT", &self.server.url);
        let call = call.env("DRYSTONE_TOKEN", token).env("DRYSTONE_CACHE_DIR", self.folder.at("cache"));
        call.env("XDG_CONFIG_HOME", self.folder.at("no-config"))
    }

    /// Writes a file below the folder and tells the folder's path.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn counts(totals: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| number(totals, name)).collect()
}

/// Every kind: empty, one byte, text, binary, large, in folders, with a name that URLs must escape.
const FILES: [(&str, usize); 7] = [
    ("README.md", 5_000),
    ("empty.bin", 0),
    ("one.bin", 1),
    ("deep/er/model.safetensors", 3_000_000),
    ("deep/noise.dat", 200_000),
    ("deep/über & 100%.txt", 2_000),
    ("deep/huge.txt", 2_000_000),
];

fn content(n: usize, name: &str, bytes: usize) -> Vec<u8> {
    match name.ends_with(".txt") || name.ends_with(".md") {
        true => format!("line {n} of {name}\n").into_bytes().into_iter().cycle().take(bytes).collect(),
        false => noise(n as u64, bytes),
    }
}

#[test]
fn a_folder_goes_into_a_repository_and_comes_back() {
    let site = Site::start();
    for (n, (name, bytes)) in FILES.iter().enumerate() {
        site.write(&format!("in/{name}"), content(n, name, *bytes));
    }
    site.write("in/.git/config", "not for the hub");
    let (from, all) = (site.folder.at("in"), FILES.iter().map(|(_, bytes)| *bytes as u64).sum::<u64>());
    let missing = site.call(&["push", &from, "ann/model"]).run().fails(1);
    assert!(missing.contains("no such repository") && missing.contains("--create"), "{missing}");

    let push = |more: &[&str]| json(site.call(&[&["push", "--json", &from, "ann/model"], more].concat()));
    let first = push(&["--create", "--private", "-m", "the first"]);
    assert_eq!(counts(&first, &["files", "unchanged", "commits", "logical_bytes"]), [7, 0, 1, all]);
    assert_eq!(first["failed"], 0);
    let again = push(&[]);
    assert_eq!(counts(&again, &["files", "unchanged", "commits", "new_bytes"]), [0, 7, 0, 0]);
    assert_eq!(again["saved_percent"], 100.0);

    let out = site.folder.at("out");
    let pull = |place: &str| json(site.call(&["pull", "--json", place, &out]));
    let pulled = pull("ann/model");
    // The hub's own .gitattributes is the eighth.
    assert_eq!(counts(&pulled, &["files", "unchanged", "failed"]), [8, 0, 0]);
    assert_eq!(text(&pulled, "commit"), text(&first["commit"], "oid"));
    for (n, (name, bytes)) in FILES.iter().enumerate() {
        assert!(site.folder.read(&format!("out/{name}")) == content(n, name, *bytes), "{name}");
    }
    assert!(!site.folder.path().join("out/.git").exists());
    assert_eq!(counts(&pull("ann/model"), &["files", "unchanged", "fetched_bytes"]), [0, 8, 0]);

    // One file changes: only that travels, there and back.
    let mut edited = content(3, "deep/er/model.safetensors", 3_000_000);
    edited.splice(1_000_000..1_000_000, *b"something new");
    site.write("in/deep/er/model.safetensors", &edited);
    let second = push(&[]);
    assert_eq!(counts(&second, &["files", "unchanged", "commits"]), [1, 6, 1]);
    assert!(number(&second, "new_bytes") < 400_000, "{second}");
    let pulled = pull("ann/model");
    assert_eq!(counts(&pulled, &["files", "unchanged"]), [1, 7]);
    assert!(number(&pulled, "fetched_bytes") < 400_000, "{pulled}");
    assert!(site.folder.read("out/deep/er/model.safetensors") == edited);
    let old = format!("ann/model@{}:deep/er/model.safetensors", text(&first["commit"], "oid"));
    site.call(&["pull", &old, &site.folder.at("old.bin")]).run().ok();
    assert!(site.folder.read("old.bin") == content(3, "deep/er/model.safetensors", 3_000_000));
}

/// With the server gone: listings, large and small files come from the cache, and what is not there is named.
#[test]
fn what_was_pulled_once_needs_no_hub() {
    let mut site = Site::start();
    for (n, (name, bytes)) in FILES.iter().enumerate() {
        site.write(&format!("in/{name}"), content(n, name, *bytes));
    }
    let from = site.folder.at("in");
    let pushed = json(site.call(&["push", "--json", "--create", &from, "ann/model"]));
    site.call(&["push", "--create", &from, "ann/other"]).run().ok();
    let early = site.call(&["pull", "--offline", "ann/model", &site.folder.at("early")]).run().fails(1);
    assert!(early.contains("ann/model@main") && early.contains("without --offline"), "{early}");
    site.call(&["pull", "ann/model", &site.folder.at("out")]).run().ok();
    site.call(&["cat", "ann/other:README.md"]).run().ok();
    let listed = site.call(&["ls", "ann/model:deep"]).run().ok();
    site.server.stop();

    let offline = |args: &[&str]| site.call(&[&args[..1], &["--offline"], &args[1..]].concat());
    let pulled = json(offline(&["pull", "--json", "ann/model", &site.folder.at("again")]));
    assert_eq!(counts(&pulled, &["files", "failed", "fetched_bytes"]), [8, 0, 0]);
    assert_eq!(number(&pulled, "from_cache_bytes"), number(&pulled, "bytes"));
    assert_eq!(text(&pulled, "commit"), text(&pushed["commit"], "oid"));
    for (n, (name, bytes)) in FILES.iter().enumerate() {
        assert!(site.folder.read(&format!("again/{name}")) == content(n, name, *bytes), "{name}");
    }
    // A folder and a single file are found in the listing of everything, by branch and by commit.
    let commit = format!("ann/model@{}:deep", text(&pushed["commit"], "oid"));
    let deep = json(offline(&["pull", "--json", &commit, &site.folder.at("deep")]));
    assert_eq!(counts(&deep, &["files", "failed"]), [4, 0]);
    assert_eq!(offline(&["ls", "ann/model:deep"]).run().ok(), listed);
    assert_eq!(
        offline(&["ls", "-r", "ann/model"]).run().ok().lines().filter(|line| !line.ends_with('/')).count(),
        8
    );
    assert_eq!(offline(&["cat", "ann/model:README.md"]).run().ok().len(), 5_000);
    let range = offline(&["cat", "ann/model:deep/huge.txt", "--range", "1000-1024"]).run().ok();
    assert_eq!(range.as_bytes(), &content(6, "deep/huge.txt", 2_000_000)[1000..1024]);
    // Of the other repository one file was read.
    assert_eq!(offline(&["cat", "ann/other:README.md"]).run().ok().len(), 5_000);
    let output = offline(&["cat", "ann/other:one.bin"]).run().fails(1);
    assert!(output.contains("ann/other@main"), "{output}");
    let output = offline(&["cat", "ann/model:none.bin"]).run().fails(1);
    assert!(output.contains("no file or folder"), "{output}");
    let online = ["pull", "ann/model", &site.folder.at("online"), "--deadline", "2"];
    let output = site.call(&online).run().fails(1);
    assert!(output.contains("cannot reach") || output.contains("not done after 2 s"), "{output}");
    // Connections get no answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let output = site.call(&[&online[..], &["--endpoint", &url]].concat()).run().fails(1);
    assert!(output.contains("not done after 2 s"), "{output}");
    let output =
        drystone(["pull", "--offline", "ann/model", "x", "--endpoint", &site.server.url]).run().fails(1);
    assert!(output.contains("--cache-dir"), "{output}");

    // Damaged answers and files are not believed.
    let cache = site.folder.path().join("cache/chunks");
    for kind in ["blobs", "answers"] {
        let folders = fs::read_dir(cache.join(kind)).unwrap();
        for entry in folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap()) {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            bytes[0] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        let output = offline(&["cat", "ann/model:README.md"]).run().fails(1);
        assert!(output.contains("without --offline"), "{kind}: {output}");
    }
}

#[test]
fn a_push_is_given_up_after_its_deadline() {
    let folder = Folder::new();
    let file = folder.put("file.bin", noise(1, 100_000));
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for args in [&["push", &file, "ann/m"][..], &["cas", "put", "--token", "x", &file], &["cat", "ann/m:x"]] {
        let args = [args, &["--deadline", "1", "--no-cache", "--endpoint", &url]].concat();
        let output = drystone(args).timeout(Duration::from_secs(60)).run().fails(1);
        assert!(output.contains("not done after 1 s"), "{output}");
    }
}

#[test]
fn files_are_listed_shown_and_deleted() {
    let site = Site::start();
    let data = noise(9, 1_000_000);
    site.write("in/data/big.bin", &data);
    site.write("in/data/notes.txt", "some words\n");
    site.write("in/top.txt", "top\n");
    let from = site.folder.at("in");
    site.call(&["push", "--create", &from, "datasets/ann/words@draft"]).run().ok();
    let lines = |args: &[&str]| site.call(args).run().ok();
    assert_eq!(lines(&["ls", "datasets/ann/words@draft"]).lines().count(), 3);
    let below = lines(&["ls", "-r", "datasets/ann/words@draft:data"]);
    assert_eq!(
        below.split_whitespace().collect::<Vec<_>>(),
        ["1000000", "data/big.bin", "11", "data/notes.txt"]
    );
    let listed = json(site.call(&["ls", "--json", "datasets/ann/words@draft:data/big.bin"]));
    assert_eq!((text(&listed[0], "type"), number(&listed[0], "size")), ("file", 1_000_000));
    assert_eq!(
        text(&listed[0], "hash"),
        drystone(["hash", &site.folder.at("in/data/big.bin")]).run().ok().split(' ').next().unwrap()
    );
    assert_eq!(json(site.call(&["ls", "--json", "datasets/ann/words@main:"])).as_array().unwrap().len(), 1);

    let cat = |place: &str, more: &[&str]| site.call(&[&["cat", place], more].concat()).run();
    let big = "datasets/ann/words@draft:data/big.bin";
    assert!(cat(big, &[]).stdout == data);
    assert!(cat(big, &["--range", "500000-500010"]).stdout == data[500_000..500_010]);
    assert!(cat(big, &["--range", "999990-"]).stdout == data[999_990..]);
    let notes = "datasets/ann/words@draft:data/notes.txt";
    assert_eq!(cat(notes, &[]).ok(), "some words\n");
    assert_eq!(cat(notes, &["--range", "5-9"]).ok(), "word");
    assert!(cat(notes, &["--range", "12-"]).fails(1).contains("11 bytes"));
    assert!(cat("datasets/ann/words@draft:data", &[]).fails(1).contains("folder"));
    assert!(cat("datasets/ann/words", &[]).fails(1).contains("which file"));

    let rm = |args: &[&str]| site.call(&[&["rm"], args].concat()).run();
    assert!(rm(&["datasets/ann/words@draft:data"]).fails(1).contains("--recursive"));
    assert!(
        rm(&[notes, "datasets/ann/words@draft:none"]).fails(1).contains("none"),
        "and nothing is deleted"
    );
    assert!(rm(&[notes, "ann/other:x"]).fails(1).contains("one repository"));
    rm(&["--dry-run", notes]).ok();
    assert_eq!(cat(notes, &[]).code, Some(0));
    rm(&[notes, "datasets/ann/words@draft:top.txt"]).ok();
    assert_eq!(
        lines(&["ls", "-r", "datasets/ann/words@draft"]).lines().count(),
        3,
        ".gitattributes, data, data/big.bin"
    );
    let report = json(site.call(&["rm", "-r", "--json", "datasets/ann/words@draft:data/"]));
    assert_eq!((report["deleted"][0].as_str(), text(&report["commit"], "oid").len()), (Some("data"), 40));
    assert_eq!(lines(&["ls", "-r", "datasets/ann/words@draft"]).lines().count(), 1);
}

#[test]
fn single_files_are_named_and_patterns_choose() {
    let site = Site::start();
    for name in ["a.bin", "b.txt", "sub/c.bin", "sub/d.txt"] {
        site.write(&format!("in/{name}"), name);
    }
    let (from, file) = (site.folder.at("in"), site.folder.at("in/b.txt"));
    let names = |place: &str| -> Vec<String> {
        let listed = json(site.call(&["ls", "-r", "--json", place]));
        let is_file = |entry: &&Value| entry["type"] == "file" && entry["path"] != ".gitattributes";
        listed
            .as_array()
            .unwrap()
            .iter()
            .filter(is_file)
            .map(|entry| text(entry, "path").to_owned())
            .collect()
    };
    let dry = site.call(&["push", "--create", "--dry-run", "--exclude", "*.txt", &from, "ann/a"]).run();
    assert_eq!(String::from_utf8_lossy(&dry.stdout), "5 a.bin\n9 sub/c.bin\n");
    assert!(
        site.call(&["ls", "ann/a"]).run().fails(1).contains("no such repository"),
        "a dry run makes none"
    );

    site.call(&["push", "--create", "--include", "*.txt", "--exclude", "sub/", &from, "ann/a"]).run().ok();
    assert_eq!(names("ann/a"), ["b.txt"]);
    let dry = site.call(&["push", "--dry-run", &from, "ann/a"]).run();
    assert_eq!(String::from_utf8_lossy(&dry.stdout), "5 a.bin\n9 sub/c.bin\n9 sub/d.txt\n");
    assert_eq!(names("ann/a"), ["b.txt"]);
    site.call(&["push", &file, "ann/a:renamed.txt"]).run().ok();
    site.call(&["push", &file, "ann/a:kept/"]).run().ok();
    site.call(&["push", &from, &file, "ann/a:both"]).run().fails(1);
    assert_eq!(
        names("ann/a"),
        [
            "b.txt",
            "both/a.bin",
            "both/b.txt",
            "both/sub/c.bin",
            "both/sub/d.txt",
            "kept/b.txt",
            "renamed.txt"
        ],
        "the file that was named twice is there once, and the exit code says so"
    );

    let (dest, dir) = (site.folder.at("dest"), site.folder.at("dir"));
    fs::create_dir(&dir).unwrap();
    site.call(&["pull", "ann/a:kept/b.txt", &dest]).run().ok();
    assert_eq!(site.folder.read("dest"), b"b.txt");
    site.call(&["pull", "ann/a:kept/b.txt", &dir]).run().ok();
    assert_eq!(site.folder.read("dir/b.txt"), b"b.txt");
    assert!(site.call(&["pull", "ann/a:kept", &dest]).run().fails(1).contains("is a file"));
    site.call(&["pull", "ann/a:both/sub", &dir, "--include", "*.bin"]).run().ok();
    let mut found: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["b.txt", "c.bin"]);
    let dry = site.call(&["pull", "--dry-run", "ann/a:both", &dir]).run();
    assert_eq!(String::from_utf8_lossy(&dry.stdout).lines().count(), 3, "b.txt is there");
}

#[test]
fn a_private_repository_opens_to_its_own_tokens_alone() {
    let site = Site::start();
    let file = site.folder.put("file", noise(1, 100_000));
    site.call(&["push", "--create", "--private", &file, "ann/secret"]).run().ok();
    let token = |scope: &str, repo: &str| {
        let data = site.folder.at("data");
        drystone(["token", "create", "--data", &data, "--scope", scope, "--repo", repo])
            .run()
            .ok()
            .trim()
            .to_owned()
    };
    let out = site.folder.at("out");
    for wrong in ["ds_nonsense", &token("write", "bob/other"), ""] {
        for args in [&["pull", "ann/secret", &out][..], &["ls", "ann/secret"], &["push", &file, "ann/secret"]]
        {
            let complaint = site.call_with(wrong, args).run().fails(1);
            assert!(wrong.is_empty() || !complaint.contains(wrong), "{complaint}");
            assert!(complaint.contains("40"), "{complaint}");
        }
        assert!(!site.folder.names().contains(&"out".to_owned()));
    }
    let reader = token("read", "ann/secret");
    site.call_with(&reader, &["pull", "ann/secret:file", &out]).run().ok();
    assert!(site.folder.read("out") == noise(1, 100_000));
    let other = site.folder.put("other", noise(2, 1000));
    assert!(site.call_with(&reader, &["push", &other, "ann/secret"]).run().fails(1).contains("(status 403)"));
    let call = drystone(["ls", "--endpoint", "http://hub.example.com", "--token", "t", "ann/secret"]).run();
    assert!(call.fails(1).contains("only sent over https"));
    let usage = drystone(["ls", "nothing"]).run().fails(2);
    assert!(usage.contains("names no repository"), "{usage}");
}

#[test]
fn settings_come_from_hugging_face_variables_and_a_file() {
    let site = Site::start();
    let file = site.folder.put("file", b"words");
    site.call(&["push", "--create", "--private", &file, "ann/m"]).run().ok();
    let bare = || drystone(["cat", "ann/m:file"]).env("XDG_CONFIG_HOME", site.folder.at("config"));
    assert!(bare().run().fails(1).contains("--endpoint"));
    assert_eq!(bare().env("HF_ENDPOINT", &site.server.url).env("HF_TOKEN", &site.admin).run().ok(), "words");
    let toml = format!("endpoint = '{}'\ntoken = '{}'\n", site.server.url, site.admin);
    site.write("config/drystone/client.toml", toml);
    assert_eq!(bare().run().ok(), "words");
    site.write("config/drystone/client.toml", "endpoint = 5");
    let complaint = bare().run().fails(1);
    assert!(complaint.contains("client.toml"), "{complaint}");
}

#[test]
fn thousands_of_small_files_go_and_come() {
    let site = Site::start();
    for n in 0..2_500_usize {
        let (ending, bytes) = if n.is_multiple_of(5) { ("txt", n % 300) } else { ("bin", n * 37 % 9_000) };
        let name = format!("{:02}/{n}.{ending}", n % 40);
        site.write(&format!("in/{name}"), content(n, &name, bytes));
    }
    let (from, out) = (site.folder.at("in"), site.folder.at("out"));
    let pushed = json(site.call(&["push", "--json", "--create", &from, "datasets/ann/many"]));
    assert_eq!(counts(&pushed, &["files", "failed", "commits"]), [2_500, 0, 1]);
    let pulled = json(site.call(&["pull", "--json", "--no-sync", "datasets/ann/many", &out]));
    assert_eq!(counts(&pulled, &["files", "failed"]), [2_501, 0]);
    for n in (0..2_500).step_by(97) {
        let (ending, bytes) = if n % 5 == 0 { ("txt", n % 300) } else { ("bin", n * 37 % 9_000) };
        let name = format!("{:02}/{n}.{ending}", n % 40);
        assert!(site.folder.read(&format!("out/{name}")) == content(n, &name, bytes), "{name}");
    }
    let names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 41, "40 folders and .gitattributes: {names:?}");
}

/// What verification marked as damaged is sent again, although the repository lists the very file and the client's cache knows its
/// chunks.
#[test]
fn a_push_of_a_file_that_is_damaged_on_the_server_heals_it() {
    let site = Site::start();
    let data = site.folder.at("data");
    let file = site.folder.put("model.bin", noise(5, 400_000));
    site.call(&["push", "--create", &file, "ann/model"]).run().ok();
    let mut xorbs = super::store_id::files_under(&format!("{data}/objects/xorbs"));
    xorbs.retain(|path| fs::metadata(path).unwrap().is_file());
    assert_eq!(xorbs.len(), 1);
    let mut bytes = fs::read(&xorbs[0]).unwrap();
    bytes[5000] ^= 1;
    fs::write(&xorbs[0], bytes).unwrap();
    let verified = drystone(["verify", "--deep", "--repair", "--data", &data]).run();
    assert!(String::from_utf8_lossy(&verified.stdout).contains("marked"), "{verified:?}");

    let pushed = json(site.call(&["push", &file, "ann/model", "--json"]));
    assert_eq!(number(&pushed, "unchanged"), 0, "{pushed}");
    drystone(["verify", "--deep", "--data", &data]).run().ok();
    let read = site.call(&["cat", "ann/model:model.bin", "--cache-dir", &site.folder.at("fresh")]).run();
    assert!(read.stdout == noise(5, 400_000));
    let again = json(site.call(&["push", &file, "ann/model", "--json"]));
    assert_eq!(number(&again, "unchanged"), 1, "{again}");
}
