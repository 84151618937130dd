//! Fills a catalog with files of one term, through the catalog itself: for measuring whether its size costs anything.
//!
//! ```text
//! fill CATALOG_FILE NAMESPACE REPO FILES SAMPLE    prints SAMPLE of the file hashes, spread over all of them
//! fill CATALOG_FILE NAMESPACE models/NAME FILES SAMPLE FILES_IN_XORB    the same, and commits them to a new repository
//! ```
//!
//! The files share xorbs that are rows only: reconstructions can be requested, their bytes cannot.

use std::path::Path;
use std::process::ExitCode;

use store::content::{
    DedupRow, FileRow, LinkedFile, RecipeBuilder, Registration, ShardRow, XorbRow, XorbState,
};
use store::hub::pointer::Pointer;
use store::hub::{Commit, Entry, GitRow, Mode, RefChange, RepoRow, Signature, Tree};
use store::ids::{ObjectKind, Oid, RepoId};
use store::names::{Kind, RepoName};
use store::{Catalog, Digest, Scope, XorbKey, testing};
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, namespace, repo, numbers @ ..] = args.as_slice() else {
        eprintln!("usage: fill CATALOG_FILE NAMESPACE REPO FILES SAMPLE [FILES_IN_XORB]");
        return ExitCode::from(2);
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|text| text.parse()).collect();
    let (files, sample, files_in_xorb) = match numbers.as_deref() {
        Ok([files, sample]) => (*files, *sample, None),
        Ok([files, sample, files_in_xorb @ 1..=1000]) => (*files, *sample, Some(*files_in_xorb)),
        _ => {
            eprintln!("fill: FILES, SAMPLE and FILES_IN_XORB are numbers, the last from 1 to 1000");
            return ExitCode::from(2);
        }
    };
    let filled = async {
        fill(Path::new(file), namespace, repo, files, sample, files_in_xorb.unwrap_or(1000)).await?;
        match files_in_xorb {
            Some(_) => commit(Path::new(file), namespace, repo, files).await,
            None => Ok(()),
        }
    };
    match filled.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fill: {error}");
            ExitCode::from(1)
        }
    }
}

async fn fill(
    file: &Path,
    namespace: &str,
    repo: &str,
    files: u64,
    sample: u64,
    files_in_xorb: u64,
) -> store::Result<()> {
    let catalog = Catalog::open_file(file).await?;
    let scope = Scope::new(namespace, repo)?;
    let xorbs: Vec<XorbRow> = (0..files.div_ceil(files_in_xorb)).map(xorb).collect();
    for rows in xorbs.chunks(1000) {
        testing::add_xorbs(&catalog, rows).await?;
    }
    let step = (files / sample.max(1)).max(1);
    for first in (0..files).step_by(FILES_AT_ONCE) {
        let numbers = first..(first + FILES_AT_ONCE as u64).min(files);
        let mut used: Vec<_> = numbers.clone().map(|number| xorb(number / files_in_xorb).key.hash).collect();
        used.dedup();
        let registration = Registration {
            scope: scope.clone(),
            shard: ShardRow {
                hash: ShardHash::new(name_bytes("shard", first)),
                object_bytes: 1,
                created_s: 1,
            },
            xorbs: used,
            files: numbers.clone().map(|number| file_row(number, files_in_xorb)).collect(),
            sha256s: numbers
                .clone()
                .map(|number| (Sha256::new(name_bytes("sha256", number)), hash(number)))
                .collect(),
            dedup: numbers.clone().map(|number| dedup_row(number, files_in_xorb)).collect(),
            now_s: 1,
        };
        testing::register_shard(&catalog, &registration).await?;
        for number in numbers.filter(|number| number % step == 0) {
            println!("{}", hash(number));
        }
    }
    Ok(())
}

const FILES_AT_ONCE: usize = 10_000;

/// A repository whose one commit has all files, in folders of two hundred.
async fn commit(file: &Path, namespace: &str, repo: &str, files: u64) -> store::Result<()> {
    let catalog = Catalog::open_file(file).await?;
    let name = RepoName::new(Kind::Model, namespace, repo.trim_start_matches("models/"))?;
    let id = RepoId::new(*name_bytes("repo", 1).first_chunk().expect("32 bytes"));
    let row = RepoRow { id, name, private: false, created_s: 1, updated_s: 1, reclaim_s: None };
    testing::create_repo(&catalog, &row, &[], &[]).await?;
    let mut level = Vec::new();
    for first in (0..files).step_by(FILES_AT_ONCE) {
        let mut rows: Vec<_> = (first..(first + FILES_AT_ONCE as u64).min(files)).map(pointer_row).collect();
        for folder in rows.clone().chunks(FOLDER) {
            let entries = folder.iter().map(|row| (Mode::File, row.oid));
            let tree = tree_row(entries);
            level.push((Mode::Folder, tree.oid));
            rows.push(tree);
        }
        testing::add_git_objects(&catalog, id, &rows, 1).await?;
    }
    while level.len() > 1 {
        let rows: Vec<_> = level.chunks(FOLDER).map(|folder| tree_row(folder.iter().copied())).collect();
        testing::add_git_objects(&catalog, id, &rows, 1).await?;
        level = rows.iter().map(|row| (Mode::Folder, row.oid)).collect();
    }
    let tree = level.first().map(|(_, oid)| *oid).expect("there are files");
    let author = Signature::new("ann", 1);
    let commit = Commit { tree, parents: Vec::new(), author, message: "all".to_owned() }.encode();
    let commit = git_row(ObjectKind::Commit, commit, None);
    let target = commit.oid;
    testing::add_git_objects(&catalog, id, &[GitRow { depth: 1, ..commit }], 1).await?;
    let change = RefChange { name: store::hub::refs::MAIN.to_owned(), from: None, to: Some(target) };
    testing::move_refs(&catalog, id, &[change], 1).await?;
    Ok(())
}

const FOLDER: usize = 200;

fn pointer_row(number: u64) -> GitRow {
    let linked =
        LinkedFile { sha256: Sha256::new(name_bytes("sha256", number)), bytes: 34_000, file: hash(number) };
    let pointer = Pointer { sha256: linked.sha256, bytes: linked.bytes }.encode();
    git_row(ObjectKind::Blob, pointer.into_bytes(), Some(linked))
}

fn tree_row(entries: impl Iterator<Item = (Mode, Oid)>) -> GitRow {
    let mut tree = Tree::default();
    for (n, (mode, oid)) in entries.enumerate() {
        tree.put(Entry { mode, name: format!("{n:05}.bin"), oid });
    }
    git_row(ObjectKind::Tree, tree.encode(), None)
}

fn git_row(kind: ObjectKind, body: Vec<u8>, linked: Option<LinkedFile>) -> GitRow {
    let oid = Oid::of(kind, &body);
    let bytes = body.len() as u64;
    GitRow { oid, kind, bytes, body: Some(body), bundle: oid, offset: 0, parent: None, depth: 0, linked }
}

fn file_row(number: u64, files_in_xorb: u64) -> FileRow {
    let within = u32::try_from(number % files_in_xorb).expect("fewer than a thousand");
    let mut recipe = RecipeBuilder::default();
    let stored = within * 30_000..(within + 1) * 30_000;
    recipe.push(xorb(number / files_in_xorb).recipe_xorb(), within..within + 1, 34_000, stored);
    FileRow { hash: hash(number), recipe: recipe.finish(), created_s: 1 }
}

fn dedup_row(number: u64, files_in_xorb: u64) -> DedupRow {
    let chunk_index = u32::try_from(number % files_in_xorb).expect("fewer than a thousand");
    let xorb = xorb(number / files_in_xorb).key.hash;
    DedupRow { chunk: ChunkHash::new(name_bytes("chunk", number)), xorb, chunk_index }
}

fn xorb(number: u64) -> XorbRow {
    let key = XorbKey {
        hash: XorbHash::new(name_bytes("xorb", number)),
        digest: Digest::new(name_bytes("digest", number)),
    };
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
    FileHash::new(name_bytes("file", number))
}

/// Thirty-two bytes that look like a hash, the same on every run.
fn name_bytes(kind: &str, number: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes()).update(&number.to_le_bytes());
    *hasher.finalize().as_bytes()
}
