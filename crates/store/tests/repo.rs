//! Repositories from create to squash, with git itself as the judge of what is stored.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod common;

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use common::TestStore;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sha2::Digest as _;
use store::hub::refs::{HEADS, MAIN, TAGS};
use store::hub::{Bundle, Entry, Mode, Operation, Page, RepoQuery, RepoRow, Request, Tree};
use store::ids::{ObjectKind, Oid};
use store::names::{Kind, RepoName};
use store::objects::Folder;
use store::{Catalog, ErrorKind, Grant, Options, Store};
use xet::Sha256;

fn name(text: &str) -> RepoName {
    let (namespace, name) = text.split_once('/').unwrap();
    RepoName::new(Kind::Model, namespace, name).unwrap()
}

async fn repo(fixture: &TestStore, text: &str) -> RepoRow {
    fixture.store.hub().create_repo(&name(text), false, "ann").await.unwrap()
}

fn put(path: &str, content: &str) -> Operation {
    Operation::Put { path: path.to_owned(), content: Bytes::copy_from_slice(content.as_bytes()) }
}

fn request(message: &str, operations: Vec<Operation>) -> Request {
    Request { ref_name: MAIN.into(), parent: None, author: "ann".into(), message: message.into(), operations }
}

async fn commit(fixture: &TestStore, repo: &RepoRow, operations: Vec<Operation>) -> Oid {
    fixture.store.hub().commit(repo, &request("a commit", operations)).await.unwrap().oid
}

async fn main_of(fixture: &TestStore, repo: &RepoRow) -> Oid {
    fixture.store.hub().ref_target(repo.id, MAIN).await.unwrap().unwrap()
}

async fn paths(fixture: &TestStore, repo: &RepoRow, at: Oid) -> Vec<String> {
    let page = Page { recursive: true, after: None, limit: 1000 };
    let listing = fixture.store.hub().list_folder(repo.id, at, "", &page).await.unwrap().unwrap();
    assert_eq!(listing.next, None);
    listing.items.into_iter().filter(|item| !item.is_folder()).map(|item| item.path).collect()
}

/// Runs git with some input; what it prints, without the line end.
fn git(folder: &std::path::Path, arguments: &[&str], input: &[u8]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "ann")
            .env(format!("GIT_{who}_EMAIL"), "ann@users.invalid")
            .env(format!("GIT_{who}_DATE"), format!("{} +0000", common::NOW_S));
    }
    let mut git = git.spawn().unwrap();
    git.stdin.take().unwrap().write_all(input).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[tokio::test]
async fn blobs_trees_and_commits_have_the_ids_git_gives_them() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"], b"");
    let blob = git(folder.path(), &["hash-object", "-w", "--stdin"], b"some text\n");
    assert_eq!(Oid::of(ObjectKind::Blob, b"some text\n").to_string(), blob);

    let inner = git(folder.path(), &["mktree"], format!("100644 blob {blob}\tz\n").as_bytes());
    // In an order git would not store them in.
    let lines = format!(
        "040000 tree {inner}\ta\n100644 blob {blob}\ta.txt\n100755 blob {blob}\ta0\n100644 blob {blob}\tg\u{fc}n\n"
    );
    let root = git(folder.path(), &["mktree"], lines.as_bytes());
    let entry =
        |mode, name: &str, oid: &str| Entry { mode, name: name.to_owned(), oid: oid.parse().unwrap() };
    let mut tree = Tree::default();
    tree.put(entry(Mode::File, "g\u{fc}n", &blob));
    tree.put(entry(Mode::Other(0o100_755), "a0", &blob));
    tree.put(entry(Mode::Folder, "a", &inner));
    tree.put(entry(Mode::File, "a.txt", &blob));
    assert_eq!(Oid::of(ObjectKind::Tree, &tree.encode()).to_string(), root);

    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let first = main_of(&fixture, &repo).await;
    let operations = vec![put("a/z", "some text\n"), put("a.txt", "some text\n")];
    let second =
        fixture.store.hub().commit(&repo, &request("a title\n\nand why", operations)).await.unwrap().oid;
    // The same by git, from the same beginning.
    let attributes = fixture.store.hub().find_path(repo.id, first, ".gitattributes").await.unwrap().unwrap();
    let text = fixture.store.hub().git_body(repo.id, attributes.row.as_ref().unwrap()).await.unwrap();
    let attributes = git(folder.path(), &["hash-object", "-w", "--stdin"], &text);
    let tree =
        git(folder.path(), &["mktree"], format!("100644 blob {attributes}\t.gitattributes\n").as_bytes());
    let by_git = git(folder.path(), &["commit-tree", &tree], b"initial commit\n");
    assert_eq!(first.to_string(), by_git);
    let lines = format!(
        "100644 blob {attributes}\t.gitattributes\n040000 tree {inner}\ta\n100644 blob {blob}\ta.txt\n"
    );
    let tree = git(folder.path(), &["mktree"], lines.as_bytes());
    let by_git = git(folder.path(), &["commit-tree", &tree, "-p", &by_git], b"a title\n\nand why\n");
    assert_eq!(second.to_string(), by_git);
}

/// All objects of all bundles, written out, are a repository in which git finds nothing wrong.
#[tokio::test]
async fn bundles_hold_everything_git_needs() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let large = "x".repeat(100_000);
    commit(&fixture, &repo, vec![put("a/b/c.txt", "1"), put("large.txt", &large)]).await;
    commit(&fixture, &repo, vec![put("a/b/c.txt", "2"), Operation::Delete { path: "large.txt".into() }])
        .await;
    let head = fixture.store.hub().squash(&repo, MAIN, "ann", "squashed").await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"], b"");
    let listed: Vec<_> = fixture.store.objects().list(Folder::Commits).try_collect().await.unwrap();
    assert_eq!(listed.len(), 4);
    for object in listed {
        let bundle =
            Bundle::parse(&fixture.store.objects().whole(&object.key.unwrap()).await.unwrap()).unwrap();
        assert_eq!((bundle.repo.as_str(), bundle.ref_name.as_str()), ("ann/model", MAIN));
        for (kind, body, _) in &bundle.objects {
            let oid =
                git(folder.path(), &["hash-object", "-w", "-t", kind.name(), "--stdin", "--literally"], body);
            assert_eq!(Oid::of(*kind, body).to_string(), oid);
        }
        assert_eq!(bundle.objects.last().unwrap().0, ObjectKind::Commit);
    }
    git(folder.path(), &["update-ref", MAIN, &head.to_string()], b"");
    git(folder.path(), &["fsck", "--full", "--strict"], b"");
    assert_eq!(git(folder.path(), &["show", &format!("{head}:a/b/c.txt")], b""), "2");
    assert_eq!(git(folder.path(), &["rev-list", "--count", &head.to_string()], b""), "1");
}

#[tokio::test]
async fn a_bundle_that_is_cut_is_refused_or_loses_whole_objects() {
    let fixture = TestStore::new().await;
    repo(&fixture, "ann/model").await;
    let listed: Vec<_> = fixture.store.objects().list(Folder::Commits).try_collect().await.unwrap();
    let whole = fixture.store.objects().whole(&listed[0].key.unwrap()).await.unwrap();
    let objects = Bundle::parse(&whole).unwrap().objects.len();
    let read = (0..whole.len()).filter_map(|len| Bundle::parse(&whole.slice(..len)).ok());
    assert_eq!(read.map(|bundle| bundle.objects.len()).collect::<Vec<_>>(), (0..objects).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_commit_puts_copies_and_deletes() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let first = commit(&fixture, &repo, vec![put("a/1", "1"), put("a/2", "2"), put("b/c/3", "3")]).await;
    let operations = vec![
        Operation::Copy { from: "a/1".into(), revision: None, to: "copy".into() },
        Operation::Delete { path: "a/2".into() },
        Operation::DeleteFolder { path: "b".into() },
        put("a/1/now-a-folder", "4"),
    ];
    let second = commit(&fixture, &repo, operations).await;
    assert_eq!(paths(&fixture, &repo, second).await, [".gitattributes", "a/1/now-a-folder", "copy"]);
    assert_eq!(paths(&fixture, &repo, first).await, [".gitattributes", "a/1", "a/2", "b/c/3"]);
    let back = vec![Operation::Copy { from: "b/c/3".into(), revision: Some(first), to: "b".into() }];
    let third = commit(&fixture, &repo, back).await;
    assert_eq!(paths(&fixture, &repo, third).await, [".gitattributes", "a/1/now-a-folder", "b", "copy"]);
    for (operation, kind) in [
        (Operation::Delete { path: "nothing".into() }, ErrorKind::NotFound),
        (Operation::Delete { path: "a".into() }, ErrorKind::NotFound),
        (Operation::DeleteFolder { path: "nothing".into() }, ErrorKind::NotFound),
        (Operation::Copy { from: "x".into(), revision: None, to: "y".into() }, ErrorKind::NotFound),
        (put("../up", "5"), ErrorKind::Invalid),
        (put(".git/config", "5"), ErrorKind::Invalid),
    ] {
        let error = fixture.store.hub().commit(&repo, &request("no", vec![operation])).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert_eq!(main_of(&fixture, &repo).await, third);
    let all = vec![Operation::DeleteFolder { path: "".into() }];
    let empty = commit(&fixture, &repo, all).await;
    assert!(paths(&fixture, &repo, empty).await.is_empty());
}

#[tokio::test]
async fn a_commit_can_be_repeated() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let parent = main_of(&fixture, &repo).await;
    let same = request("once", vec![put("a", "1")]);
    let made = fixture.store.hub().commit(&repo, &same).await.unwrap();
    fixture.clock.advance(60);
    let again = fixture.store.hub().commit(&repo, &same).await.unwrap();
    assert_eq!((made.was_made, again.was_made, again.oid), (true, false, made.oid));
    // Also where the answer to a commit with a parent got lost.
    let with_parent = Request { parent: Some(parent), ..same.clone() };
    assert_eq!(fixture.store.hub().commit(&repo, &with_parent).await.unwrap().oid, made.oid);
    let other = Request { parent: Some(parent), ..request("another", vec![put("a", "2")]) };
    let error = fixture.store.hub().commit(&repo, &other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(fixture.store.hub().history(repo.id, made.oid, 0, 10).await.unwrap().1, 2);
}

/// The cached head of a branch is never older than the last write, through this store or past it.
#[tokio::test]
async fn the_head_of_a_branch_is_cached_until_the_next_write() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/a").await;
    let other = Catalog::open_file(&fixture.database_file()).await.unwrap();
    let (objects, clock) = (fixture.store.objects().clone(), fixture.clock.clone());
    let other = Store::new(objects, Arc::new(other), clock, &Options::default());
    let head = async || {
        let (row, resolved) = fixture.store.hub().repo_at(&repo.name, "main").await.unwrap().unwrap();
        (row.private, resolved.map(|resolved| resolved.commit))
    };
    for n in 0..20 {
        let one = request("a commit", vec![put("a", &n.to_string())]);
        let store = if n % 2 == 0 { &fixture.store } else { &other };
        let made = store.hub().commit(&repo, &one).await.unwrap().oid;
        assert_eq!(head().await, (false, Some(made)), "commit {n}");
        let requested = fixture.faults.operations();
        assert_eq!(head().await, (false, Some(made)), "commit {n}, asked again");
        assert_eq!(fixture.faults.operations(), requested, "commit {n} is cached");
    }
    other.hub().set_private(&repo, true).await.unwrap();
    assert!(head().await.0, "another process made it private");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_at_once_follow_each_other() {
    let fixture = Arc::new(TestStore::new().await);
    let repo = Arc::new(repo(&fixture, "ann/model").await);
    let start = main_of(&fixture, &repo).await;
    let tasks = (0..8).map(|n| {
        let (fixture, repo) = (fixture.clone(), repo.clone());
        tokio::spawn(async move {
            let parent = if n == 0 { Some(start) } else { None };
            let one = Request { parent, ..request(&n.to_string(), vec![put(&format!("f/{n}"), "x")]) };
            fixture.store.hub().commit(&repo, &one).await.map(|made| made.oid)
        })
    });
    let done = futures::future::join_all(tasks).await;
    let failed = done.into_iter().map(Result::unwrap).filter_map(Result::err).collect::<Vec<_>>();
    assert!(failed.iter().all(|error| error.kind() == ErrorKind::Conflict), "{failed:?}");
    assert!(failed.len() <= 1, "only who names a parent may be too late");
    let head = main_of(&fixture, &repo).await;
    let made = 8 - failed.len();
    assert_eq!(paths(&fixture, &repo, head).await.len(), made + 1);
    let (past, total) = fixture.store.hub().history(repo.id, head, 0, 100).await.unwrap();
    assert_eq!((past.len(), total), (made + 1, made as u64 + 1));
}

/// Two who ask for the same at the same time make one commit, and its bytes stay.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_commit_at_once_is_one_commit() {
    let fixture = Arc::new(TestStore::new().await);
    let repo = Arc::new(repo(&fixture, "ann/model").await);
    let large = "y".repeat(50_000);
    let tasks = (0..4).map(|_| {
        let (fixture, repo, large) = (fixture.clone(), repo.clone(), large.clone());
        tokio::spawn(async move { commit(&fixture, &repo, vec![put("large", &large)]).await })
    });
    let made: Vec<_> = futures::future::join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    let head = main_of(&fixture, &repo).await;
    assert!(made.iter().all(|oid| *oid == head), "{made:?}");
    let item = fixture.store.hub().find_path(repo.id, head, "large").await.unwrap().unwrap();
    let body = fixture.store.hub().git_body(repo.id, item.row.as_ref().unwrap()).await.unwrap();
    assert!(body == large.as_bytes());
}

#[tokio::test]
async fn a_file_that_was_not_uploaded_here_cannot_be_committed() {
    let fixture = TestStore::new().await;
    let (one, two) = (repo(&fixture, "ann/one").await, repo(&fixture, "ann/two").await);
    let data = testkit::corpus::noise(5, 300_000);
    let sha256 = Sha256::new(sha2::Sha256::digest(&data).into());
    let grant = Grant::write(one.name.scope().unwrap());
    let pieces = data.chunks(70_001).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>();
    let taken =
        fixture.store.content().put_file(&grant, sha256, 300_000, stream::iter(pieces)).await.unwrap();
    let linked = |bytes| Operation::PutLinked { path: "w.bin".into(), sha256, bytes };
    let error = fixture.store.hub().commit(&two, &request("no", vec![linked(None)])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = fixture.store.hub().commit(&one, &request("no", vec![linked(Some(5))])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let at = commit(&fixture, &one, vec![linked(None)]).await;
    let item = fixture.store.hub().find_path(one.id, at, "w.bin").await.unwrap().unwrap();
    assert_eq!((item.bytes, item.linked.unwrap().file), (300_000, taken.file));

    let read = Grant::read(one.name.scope().unwrap());
    for range in [0..300_000_u64, 0..0, 0..1, 299_999..300_000, 123_456..234_567, 65_536..131_072] {
        let pieces = fixture.store.content().read_file(&read, taken.file, range.clone()).await.unwrap();
        let bytes: Vec<Bytes> = pieces.try_collect().await.unwrap();
        assert!(bytes.concat() == data[range.start as usize..range.end as usize], "{range:?}");
    }
    let elsewhere = Grant::read(two.name.scope().unwrap());
    let error =
        fixture.store.content().read_file(&elsewhere, taken.file, 0..1).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);

    // Renamed, it takes what it may read with it; deleted, it leaves nothing to the next owner of the name.
    fixture.store.hub().rename_repo(&one, &name("bob/one")).await.unwrap();
    let moved = fixture.store.hub().repo(&name("bob/one")).await.unwrap().unwrap();
    let scope = moved.name.scope().unwrap();
    assert!(fixture.store.content().read_file(&Grant::read(scope.clone()), taken.file, 0..1).await.is_ok());
    assert!(fixture.store.content().read_file(&read, taken.file, 0..1).await.is_err());
    fixture.store.hub().delete_repo(&moved).await.unwrap();
    assert!(fixture.store.hub().repo(&name("bob/one")).await.unwrap().is_none());
    assert!(fixture.store.content().read_file(&Grant::read(scope), taken.file, 0..1).await.is_err());
}

#[tokio::test]
async fn what_is_taken_in_is_cut_proven_and_deduplicated() {
    let fixture = TestStore::new().await;
    let grant = Grant::write("ann/models/a".parse().unwrap());
    let data = testkit::corpus::noise(6, 40_000_000);
    let take = |data: Vec<u8>, sha256: Sha256| {
        let (store, grant) = (fixture.store.clone(), grant.clone());
        async move {
            let pieces: Vec<_> =
                data.chunks(1 << 20).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            store.content().put_file(&grant, sha256, data.len() as u64, stream::iter(pieces)).await
        }
    };
    let digest = |data: &[u8]| Sha256::new(sha2::Sha256::digest(data).into());
    let taken = take(data.clone(), digest(&data)).await.unwrap();
    assert_eq!((taken.bytes, taken.new_bytes), (40_000_000, 40_000_000));
    let again = take(data.clone(), digest(&data)).await.unwrap();
    assert_eq!((again.file, again.new_bytes), (taken.file, 0));
    let mut edited = data.clone();
    edited.splice(20_000_000..20_000_010, *b"an insertion");
    let changed = take(edited.clone(), digest(&edited)).await.unwrap();
    assert!(changed.new_bytes < 1_000_000, "{}", changed.new_bytes);
    let pieces =
        fixture.store.content().read_file(&grant, changed.file, 0..edited.len() as u64).await.unwrap();
    let bytes: Vec<Bytes> = pieces.try_collect().await.unwrap();
    assert!(bytes.concat() == edited);

    let error = take(data[..1000].to_vec(), digest(&data)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let empty = take(Vec::new(), digest(b"")).await.unwrap();
    let read: Vec<Bytes> = fixture
        .store
        .content()
        .read_file(&grant, empty.file, 0..0)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(read.is_empty());
    let reader = Grant::read("ann/models/a".parse().unwrap());
    let error =
        fixture.store.content().put_file(&reader, digest(b""), 0, stream::empty().boxed()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn listings_come_in_pages_of_any_size() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let names = ["a", "a.b/x", "a0", "b/c/d/1", "b/c/d/2", "b/c-d", "b/c/e", "z/y/x"];
    let at = commit(&fixture, &repo, names.iter().map(|name| put(name, name)).collect()).await;
    let whole = Page { recursive: true, after: None, limit: 1000 };
    for folder in ["", "b", "b/c"] {
        let all = fixture.store.hub().list_folder(repo.id, at, folder, &whole).await.unwrap().unwrap().items;
        for limit in 1..=all.len() + 1 {
            let mut page = Page { recursive: true, after: None, limit };
            let mut found = Vec::new();
            loop {
                let listing =
                    fixture.store.hub().list_folder(repo.id, at, folder, &page).await.unwrap().unwrap();
                assert!(listing.items.len() <= limit);
                found.extend(listing.items);
                page.after = listing.next;
                if page.after.is_none() {
                    break;
                }
            }
            assert_eq!(found, all, "{folder} by {limit}");
        }
    }
    let flat = Page { recursive: false, after: None, limit: 100 };
    let items = fixture.store.hub().list_folder(repo.id, at, "b", &flat).await.unwrap().unwrap().items;
    let found: Vec<_> = items.iter().map(|item| (item.path.as_str(), item.is_folder())).collect();
    assert_eq!(found, [("b/c-d", false), ("b/c", true)]);
    assert!(
        fixture.store.hub().list_folder(repo.id, at, "a", &flat).await.unwrap().is_none(),
        "a file is no folder"
    );
    assert!(fixture.store.hub().list_folder(repo.id, at, "none", &flat).await.unwrap().is_none());
}

#[tokio::test]
async fn the_history_has_the_last_change_of_each_path() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let mut made = HashMap::new();
    for n in 0..7 {
        fixture.clock.advance(1);
        let one = request(&format!("commit {n}"), vec![put(&format!("f{}", n % 3), &n.to_string())]);
        made.insert(n, fixture.store.hub().commit(&repo, &one).await.unwrap().oid);
    }
    let (past, total) = fixture.store.hub().history(repo.id, made[&6], 2, 3).await.unwrap();
    assert_eq!(total, 8);
    let titles: Vec<_> = past.iter().map(|past| past.commit.title()).collect();
    assert_eq!(titles, ["commit 4", "commit 3", "commit 2"]);
    let requested: Vec<String> = ["f0", "f1", "f2", ".gitattributes"].map(str::to_owned).to_vec();
    let changes = fixture.store.hub().last_changes(repo.id, made[&6], &requested).await.unwrap();
    let title = |path: &str| changes[path].commit.title().to_owned();
    assert_eq!(
        [title("f0"), title("f1"), title("f2"), title(".gitattributes")],
        ["commit 6", "commit 4", "commit 5", "initial commit"]
    );
}

#[tokio::test]
async fn branches_and_tags_point_at_commits() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let first = main_of(&fixture, &repo).await;
    fixture.store.hub().create_ref(repo.id, HEADS, "feat/x", first).await.unwrap();
    fixture.store.hub().create_ref(repo.id, TAGS, "v1", first).await.unwrap();
    let error = fixture.store.hub().create_ref(repo.id, TAGS, "v1", first).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let on_branch = Request { ref_name: format!("{HEADS}feat/x"), ..request("x", vec![put("a", "1")]) };
    let second = fixture.store.hub().commit(&repo, &on_branch).await.unwrap().oid;
    let resolve = |text: &'static str| {
        let (store, id) = (fixture.store.clone(), repo.id);
        async move { store.hub().resolve(id, text).await.unwrap().map(|found| found.commit) }
    };
    assert_eq!(resolve("feat/x").await, Some(second));
    assert_eq!(
        (resolve("main").await, resolve("v1").await, resolve("HEAD").await),
        (Some(first), Some(first), Some(first))
    );
    assert_eq!((resolve("refs/tags/v1").await, resolve("none").await), (Some(first), None));
    assert_eq!(
        fixture.store.hub().resolve(repo.id, &second.to_string()).await.unwrap().unwrap().commit,
        second
    );
    fixture.store.hub().delete_ref(repo.id, HEADS, "feat/x").await.unwrap();
    assert_eq!(resolve("feat/x").await, None);
    assert_eq!(
        fixture.store.hub().delete_ref(repo.id, HEADS, "main").await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    for bad in ["", "a b", "a..b", "/a", "a/", "-a", "a.lock", "refs/heads/a", "HEAD", &first.to_string()] {
        let error = fixture.store.hub().create_ref(repo.id, TAGS, bad, first).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad:?}");
    }
}

#[tokio::test]
async fn a_name_is_taken_once() {
    let fixture = TestStore::new().await;
    let one = repo(&fixture, "ann/model").await;
    let error = fixture.store.hub().create_repo(&one.name, false, "ann").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let two = repo(&fixture, "ann/other").await;
    let error = fixture.store.hub().rename_repo(&two, &one.name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let dataset = RepoName::new(Kind::Dataset, "ann", "model").unwrap();
    fixture.store.hub().create_repo(&dataset, true, "ann").await.unwrap();
    let query = RepoQuery {
        kind: Kind::Dataset,
        namespace: None,
        search: Some("N/MOD".into()),
        private_of: Some(Vec::new()),
        after: None,
        limit: 10,
    };
    assert!(fixture.store.hub().list_repos(&query).await.unwrap().is_empty(), "private");
    let mine = RepoQuery { private_of: Some(vec!["ann".into()]), ..query };
    assert_eq!(fixture.store.hub().list_repos(&mine).await.unwrap().len(), 1);
    for (namespace, name) in
        [("datasets", "a"), ("API", "a"), ("ann", "a.git"), ("", "a"), ("ann", "-a"), ("a/b", "c")]
    {
        assert!(RepoName::new(Kind::Model, namespace, name).is_err(), "{namespace}/{name}");
    }
}

/// Every step of a commit may fail, before or after it was done: what was acknowledged stays, trying again succeeds.
#[tokio::test]
async fn a_commit_that_fails_anywhere_can_be_tried_again() {
    for after in [false, true] {
        let mut moved = false;
        for step in 1.. {
            let fixture = TestStore::new().await;
            let repo = repo(&fixture, "ann/model").await;
            let retained = commit(&fixture, &repo, vec![put("kept", "1")]).await;
            match after {
                true => fixture.faults.fail_after(step),
                false => fixture.faults.fail_before(step),
            }
            let result = fixture.store.hub().commit(&repo, &request("new", vec![put("a/new", "2")])).await;
            let met = fixture.faults.operations() >= step;
            fixture.faults.disarm();
            if !met {
                assert!(step > 4 && result.is_ok(), "a commit has several steps");
                break;
            }
            assert!(step > 2 || !moved, "objects come before the branch");
            let head = main_of(&fixture, &repo).await;
            // What was acknowledged is there. What was not is there whole from the step on that moves the branch, and
            // before it not at all.
            if let Ok(done) = result {
                assert_eq!(done.oid, head, "step {step}");
            }
            assert!(head != retained || !moved, "step {step} comes after the branch was moved");
            moved = head != retained;
            if moved {
                assert_eq!(
                    paths(&fixture, &repo, head).await,
                    [".gitattributes", "a/new", "kept"],
                    "step {step}"
                );
            }
            let at = commit(&fixture, &repo, vec![put("a/new", "2")]).await;
            assert_eq!(paths(&fixture, &repo, at).await, [".gitattributes", "a/new", "kept"]);
            assert_eq!(fixture.store.hub().history(repo.id, at, 0, 9).await.unwrap().1, 3, "made once");
        }
    }
}

#[tokio::test]
async fn a_hundred_thousand_files_are_one_commit() {
    let fixture = TestStore::new().await;
    let repo = repo(&fixture, "ann/model").await;
    let grant = Grant::write(repo.name.scope().unwrap());
    let sha256 = Sha256::new(sha2::Sha256::digest(b"content").into());
    let pieces = stream::iter([Ok(Bytes::from_static(b"content"))]);
    fixture.store.content().put_file(&grant, sha256, 7, pieces).await.unwrap();
    let operation = |n: u32| match n % 2 {
        0 => put(&format!("folder-{}/{n:06}.txt", n % 100), &n.to_string()),
        _ => Operation::PutLinked { path: format!("flat/{n:06}.bin"), sha256, bytes: Some(7) },
    };
    let at = commit(&fixture, &repo, (0..100_000).map(operation).collect()).await;
    let page = Page { recursive: true, after: Some("flat/099990.bin".into()), limit: 1000 };
    let listing = fixture.store.hub().list_folder(repo.id, at, "", &page).await.unwrap().unwrap();
    assert_eq!(listing.items[0].path, "flat/099991.bin");
    let next = commit(&fixture, &repo, vec![put("flat/000001.bin", "changed")]).await;
    let item = fixture.store.hub().find_path(repo.id, next, "flat/000001.bin").await.unwrap().unwrap();
    assert_eq!((item.bytes, item.linked), (7, None));
}
