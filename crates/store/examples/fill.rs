//! Fills a catalog with files of one term, through the catalog itself: for measuring whether its size costs anything.
//!
//! ```text
//! fill CATALOG_FILE NAMESPACE REPO FILES SAMPLE    prints SAMPLE of the file hashes, spread over all of them
//! ```
//!
//! The files share a few xorbs that are rows only: reconstructions can be asked for, their bytes cannot.

use std::path::Path;
use std::process::ExitCode;

use store::catalog::rows::{DedupRow, FileRow, Registration, ShardRow, XorbRow, XorbState};
use store::catalog::{Catalog, SqliteCatalog};
use store::layout::LayoutBuilder;
use store::{Digest, Scope, XorbKey};
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, namespace, repo, files, sample] = args.as_slice() else {
        eprintln!("usage: fill CATALOG_FILE NAMESPACE REPO FILES SAMPLE");
        return ExitCode::from(2);
    };
    let (Ok(files), Ok(sample)) = (files.parse(), sample.parse()) else {
        eprintln!("fill: FILES and SAMPLE are numbers");
        return ExitCode::from(2);
    };
    match fill(Path::new(file), namespace, repo, files, sample).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fill: {error}");
            ExitCode::from(1)
        }
    }
}

async fn fill(file: &Path, namespace: &str, repo: &str, files: u64, sample: u64) -> store::Result<()> {
    let catalog = SqliteCatalog::open(file).await?;
    let scope = Scope::new(namespace, repo)?;
    let xorbs: Vec<XorbRow> = (0..files.div_ceil(FILES_IN_XORB)).map(xorb).collect();
    for rows in xorbs.chunks(1000) {
        catalog.add_xorbs(rows).await?;
    }
    let step = (files / sample.max(1)).max(1);
    for first in (0..files).step_by(FILES_AT_ONCE) {
        let numbers = first..(first + FILES_AT_ONCE as u64).min(files);
        let mut used: Vec<_> = numbers.clone().map(|number| xorb(number / FILES_IN_XORB).key.hash).collect();
        used.dedup();
        let registration = Registration {
            scope: scope.clone(),
            shard: ShardRow { hash: ShardHash::new(name("shard", first)), object_bytes: 1, created_s: 1 },
            xorbs: used,
            files: numbers.clone().map(file_row).collect(),
            sha256s: numbers
                .clone()
                .map(|number| (Sha256::new(name("sha256", number)), hash(number)))
                .collect(),
            dedup: numbers.clone().map(dedup_row).collect(),
            now_s: 1,
        };
        catalog.register(&registration).await?;
        for number in numbers.filter(|number| number % step == 0) {
            println!("{}", hash(number));
        }
    }
    Ok(())
}

const FILES_IN_XORB: u64 = 1000;
const FILES_AT_ONCE: usize = 10_000;

fn file_row(number: u64) -> FileRow {
    let within = u32::try_from(number % FILES_IN_XORB).expect("fewer than a thousand");
    let mut layout = LayoutBuilder::default();
    let stored = within * 30_000..(within + 1) * 30_000;
    layout.push(xorb(number / FILES_IN_XORB).laid(), within..within + 1, 34_000, stored);
    FileRow { hash: hash(number), layout: layout.finish(), created_s: 1 }
}

fn dedup_row(number: u64) -> DedupRow {
    let chunk_index = u32::try_from(number % FILES_IN_XORB).expect("fewer than a thousand");
    let xorb = xorb(number / FILES_IN_XORB).key.hash;
    DedupRow { chunk: ChunkHash::new(name("chunk", number)), xorb, chunk_index }
}

fn xorb(number: u64) -> XorbRow {
    let key =
        XorbKey { hash: XorbHash::new(name("xorb", number)), digest: Digest::new(name("digest", number)) };
    XorbRow {
        key,
        object_bytes: 30_040_092,
        raw_bytes: 34_000_000,
        chunk_count: 1000,
        state: XorbState::Live,
        created_s: 1,
        referenced_s: 1,
        verified_s: 1,
    }
}

fn hash(number: u64) -> FileHash {
    FileHash::new(name("file", number))
}

/// Thirty-two bytes that look like a hash, the same on every run.
fn name(kind: &str, number: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes()).update(&number.to_le_bytes());
    *hasher.finalize().as_bytes()
}
