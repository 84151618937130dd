//! The golden vectors: finds them, reads their manifest, hands out their files.

pub mod model;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{env, fs};

use model::{Chunk, Input, Manifest, Published};

use crate::Recipe;

/// A set of golden vectors on disk.
#[derive(Debug, Clone)]
pub struct Vectors {
    /// Its folder.
    pub root: PathBuf,
    /// How much of it is here.
    pub kind: Kind,
    /// What is in it.
    pub manifest: Manifest,
}

/// How much of the golden set is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything: found by `DRYSTONE_VECTORS` or next to the repository.
    Full,
    /// The selection in the repository.
    Committed,
}

impl Vectors {
    /// Opens the best set there is: `DRYSTONE_VECTORS`, `../shared/vectors` next to the repository, or the committed
    /// selection. Prints which, once.
    ///
    /// # Panics
    ///
    /// If there is none, or its manifest is not what we know.
    pub fn open() -> Self {
        let (root, kind) = find();
        let vectors = Self::at(root, kind);
        static PRINTED: Once = Once::new();
        PRINTED.call_once(|| {
            // Straight to the stream: what a test prints by `eprintln` is hidden when it passes.
            let _ = writeln!(std::io::stderr(), "{}", vectors.summary());
        });
        vectors
    }

    /// Opens the selection committed to the repository, whatever else there is.
    ///
    /// # Panics
    ///
    /// If it is missing or damaged.
    pub fn committed() -> Self {
        Self::at(repository().join(COMMITTED), Kind::Committed)
    }

    fn at(root: PathBuf, kind: Kind) -> Self {
        let bytes = read(&root.join(MANIFEST));
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("{}: {error}", root.join(MANIFEST).display()));
        assert_eq!(manifest.format, 1, "the format of {}", root.join(MANIFEST).display());
        Self { root, kind, manifest }
    }

    /// The bytes of a file the manifest names.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn read(&self, path: &str) -> Vec<u8> {
        read(&self.root.join(path))
    }

    /// The bytes a recipe makes, with this manifest's words.
    pub fn make(&self, recipe: &Recipe) -> Vec<u8> {
        recipe.bytes(&self.manifest.text_words)
    }

    /// The chunks of an input, wherever they are listed.
    ///
    /// # Panics
    ///
    /// If they are listed nowhere, or not as many as announced.
    pub fn chunks(&self, input: &Input) -> Vec<Chunk> {
        let chunks = match (&input.chunks, &input.chunks_file) {
            (Some(chunks), None) => chunks.clone(),
            (None, Some(file)) => self.chunks_file(file),
            _ => panic!("{}: chunks must be listed in one place", input.name),
        };
        assert_eq!(chunks.len(), input.num_chunks, "{}", input.name);
        chunks
    }

    /// The lines `<hash> <length>` of a `.chunks` file.
    ///
    /// # Panics
    ///
    /// If it cannot be read or a line is otherwise.
    pub fn chunks_file(&self, path: &str) -> Vec<Chunk> {
        let text = String::from_utf8(self.read(path)).expect("chunk lists are text");
        let parse = |line: &str| {
            let (hash, len) = line.split_once(' ')?;
            Some((hash.to_owned(), len.parse().ok()?))
        };
        text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("{path}: {line:?}"))).collect()
    }

    /// The values printed in the reference's own tests; none in the committed set.
    ///
    /// # Panics
    ///
    /// If they are named but unreadable.
    pub fn published(&self) -> Option<Published> {
        let path = &self.manifest.official.as_ref()?.published_values;
        let published = serde_json::from_slice(&self.read(path));
        Some(published.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    fn summary(&self) -> String {
        let m = &self.manifest;
        format!(
            "golden vectors: {} set at {}: {} inputs, {} merkle, {} keyed hashes, {} groupings, {} records, \
             {} xorb files, {} shard files, {} adversarial",
            match self.kind {
                Kind::Full => "full",
                Kind::Committed => "committed",
            },
            self.root.display(),
            m.inputs.len(),
            m.merkle.len(),
            m.keyed_hash.len(),
            m.byte_grouping.len(),
            m.chunk_records.len(),
            m.xorbs.iter().map(|xorb| xorb.files.len()).sum::<usize>(),
            m.shards.iter().map(|shard| shard.files.len()).sum::<usize>(),
            m.adversarial.len(),
        )
    }
}

const MANIFEST: &str = "manifest.json";
const BESIDE: &str = "../shared/vectors";
const COMMITTED: &str = "testdata/vectors";

fn find() -> (PathBuf, Kind) {
    if let Some(root) = env::var_os("DRYSTONE_VECTORS") {
        return (root.into(), Kind::Full);
    }
    let beside = repository().join(BESIDE);
    if beside.join(MANIFEST).is_file() {
        return (beside, Kind::Full);
    }
    let committed = repository().join(COMMITTED);
    assert!(committed.join(MANIFEST).is_file(), "no golden vectors: set DRYSTONE_VECTORS to their folder");
    (committed, Kind::Committed)
}

/// The root of the repository, two folders above this crate.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/testkit lies in the repository").to_path_buf()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
