//! Fills a catalog with many repositories, and one with many files in one folder, for measuring what pages cost.
//!
//! ```text
//! fill_pages CATALOG_FILE REPOS FILES    repositories ann/repo-000000 and so on; ann/many with FILES in its root
//! ```

use std::path::Path;
use std::process::ExitCode;

use store::content::LinkedFile;
use store::hub::pointer::Pointer;
use store::hub::{Commit, Entry, GitRow, Mode, RefRow, RepoRow, Signature, Tree, refs};
use store::ids::{ObjectKind, Oid, RepoId};
use store::names::{Kind, RepoName};
use store::{Catalog, testing};
use xet::{FileHash, Sha256};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, repos, files] = args.as_slice() else {
        eprintln!("usage: fill_pages CATALOG_FILE REPOS FILES");
        return ExitCode::from(2);
    };
    let (Ok(repos), Ok(files)) = (repos.parse(), files.parse()) else {
        eprintln!("fill_pages: REPOS and FILES are numbers");
        return ExitCode::from(2);
    };
    match fill(Path::new(file), repos, files).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fill_pages: {error}");
            ExitCode::from(1)
        }
    }
}

async fn fill(file: &Path, repos: u64, files: u64) -> store::Result<()> {
    let catalog = Catalog::open_file(file).await?;
    let empty = git_row(ObjectKind::Tree, Tree::default().encode(), None);
    for number in 0..repos {
        let kind = if number % 3 == 0 { Kind::Dataset } else { Kind::Model };
        make(&catalog, number, kind, &format!("repo-{number:06}"), vec![empty.clone()]).await?;
    }
    let mut tree = Tree::default();
    let mut rows = Vec::new();
    for number in 0..files {
        let linked = LinkedFile {
            sha256: Sha256::new(name_bytes("sha256", number)),
            bytes: 34_000,
            file: FileHash::new(name_bytes("file", number)),
        };
        let pointer = Pointer { sha256: linked.sha256, bytes: linked.bytes }.encode();
        // The files themselves do not exist: a listing needs no more than this.
        let row = git_row(ObjectKind::Blob, pointer.into_bytes(), Some(linked));
        tree.put(Entry { mode: Mode::File, name: format!("part-{number:08}.safetensors"), oid: row.oid });
        rows.push(row);
    }
    rows.push(git_row(ObjectKind::Tree, tree.encode(), None));
    make(&catalog, repos, Kind::Model, "many", rows).await
}

/// A repository whose one commit has the last of these objects for its root.
async fn make(
    catalog: &Catalog,
    number: u64,
    kind: Kind,
    name: &str,
    mut rows: Vec<GitRow>,
) -> store::Result<()> {
    let id = RepoId::new(*name_bytes("repo", number).first_chunk().expect("32 bytes"));
    let name = RepoName::new(kind, "ann", name)?;
    let time_s = 1_700_000_000 + number;
    let row = RepoRow { id, name, private: false, created_s: time_s, updated_s: time_s, reclaim_s: None };
    let tree = rows.last().expect("there is a root").oid;
    let commit = Commit {
        tree,
        parents: Vec::new(),
        author: Signature::new("ann", time_s),
        message: "all".to_owned(),
    };
    let commit = GitRow { depth: 1, ..git_row(ObjectKind::Commit, commit.encode(), None) };
    let main = RefRow { name: refs::MAIN.to_owned(), target: commit.oid };
    rows.push(commit);
    assert!(testing::create_repo(catalog, &row, &rows, &[main]).await?, "the catalog is new");
    Ok(())
}

fn git_row(kind: ObjectKind, body: Vec<u8>, linked: Option<LinkedFile>) -> GitRow {
    let oid = Oid::of(kind, &body);
    let bytes = body.len() as u64;
    GitRow { oid, kind, bytes, body: Some(body), bundle: oid, offset: 0, parent: None, depth: 0, linked }
}

/// Thirty-two bytes that look like a hash, the same on every run.
fn name_bytes(kind: &str, number: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes()).update(&number.to_le_bytes());
    *hasher.finalize().as_bytes()
}
