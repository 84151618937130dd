//! The `shardpack` command as a user meets it: arguments in, text, JSON, files and exit codes out.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod change;
mod convert;
mod create;
mod damage;
mod output;
mod remote;
mod usage;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::command::Call;

/// A call of the command we built.
fn shardpack<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Call {
    Call::new(env!("CARGO_BIN_EXE_shardpack")).args(args)
}

/// What a call printed, as JSON.
fn json<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Value {
    let text = shardpack(args).run().ok();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A folder of its own for a test, gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with the files of a stereo dataset under `in`, and a pack of them.
    fn with_pack() -> Self {
        let folder = Self::new();
        folder.put_all("in", &files());
        shardpack(["create", "--input", &folder.at("in"), "--output", &folder.at("a.shardpack")]).run().ok();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        self.at(name)
    }

    fn put_all(&self, below: &str, files: &BTreeMap<String, Vec<u8>>) {
        for (name, data) in files {
            self.put(&format!("{below}/{name}"), data);
        }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }

    /// All files below a folder by their names.
    fn all(&self, below: &str) -> BTreeMap<String, Vec<u8>> {
        let root = self.path().join(below);
        let mut found = BTreeMap::new();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path: PathBuf = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        found
    }
}

/// Twelve samples of two or three files, and one without a dot.
fn files() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for n in 0..12_u64 {
        let key = format!("images{}/image{n:03}", n % 3);
        files.insert(format!("{key}.left.jpg"), testkit::corpus::noise(n, 300 + 17 * n as usize));
        files.insert(
            format!("{key}.meta.json"),
            format!("{{\"n\":{n},\"x\":\"{}\"}}", "ab ".repeat(200)).into_bytes(),
        );
        if n % 2 == 0 {
            files.insert(format!("{key}.depth.bin"), vec![u8::try_from(n).unwrap(); 100]);
        }
    }
    files.insert("README".into(), b"no dot".to_vec());
    files
}

fn keys(pack: &str) -> Vec<String> {
    shardpack(["list", pack]).run().ok().lines().map(str::to_owned).collect()
}
