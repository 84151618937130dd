//! The `drystone` command as a user meets it: arguments in, text, JSON, files and exit codes out.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod admin;
#[cfg(unix)]
mod backup;
mod cas;
mod check;
mod config;
mod demo;
mod doctor;
mod get;
mod hash;
mod inspect;
mod network;
#[cfg(unix)]
mod replicas;
mod repo;
#[cfg(unix)]
mod repo_kill;
mod shard;
mod store_id;
mod token;
mod usage;
mod xorb;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;
use testkit::command::Call;

/// A call of the command we built.
fn drystone<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Call {
    Call::new(env!("CARGO_BIN_EXE_drystone")).args(args)
}

/// What a call printed, as JSON.
fn json(call: Call) -> Value {
    let text = call.run().ok();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A folder of its own for a test, gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and tells where it is.
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path().join(name), bytes).unwrap();
        self.at(name)
    }

    /// Where a file of that name is, or would be.
    fn at(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }

    /// The names of everything in it, sorted. A temporary file left behind would be among them.
    fn names(&self) -> Vec<String> {
        let entries: io::Result<Vec<_>> = fs::read_dir(self.path()).unwrap().collect();
        let mut names: Vec<_> =
            entries.unwrap().into_iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The path of a file the manifest names, as an argument.
fn vector(vectors: &testkit::Vectors, file: &str) -> String {
    let path: PathBuf = vectors.root.join(file);
    path.to_str().unwrap().to_owned()
}

/// The text of a field that must be there.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {value}"))
}
