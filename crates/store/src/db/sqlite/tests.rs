use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use super::{Sqlite, open_writer};
use crate::db::{Catalog, Engine as _, Sql, is_collision};
use crate::error::ErrorKind;

async fn open(file: &Path) -> Catalog {
    let db = Catalog::new(Arc::new(Sqlite::open(file).unwrap()));
    db.write_one("create", Sql::new("CREATE TABLE IF NOT EXISTS items (id BIGINT)")).await.unwrap();
    db
}

async fn add(db: &Catalog) -> crate::error::Result<u64> {
    let insert = Sql::new("INSERT INTO items (id) VALUES ($1)").bind(1_u64);
    Ok(db.write_one("add", insert).await?.changed)
}

async fn count(db: &Catalog) -> u64 {
    db.read_one("count", Sql::new("SELECT COUNT(*) FROM items")).await.unwrap().unwrap()
}

#[tokio::test]
async fn every_write_of_any_connection_changes_the_token_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let (ours, theirs) = (open(&path).await, open(&path).await);
    let mut last = ours.change_token().expect("the database is there");
    for n in 0..50 {
        add(if n % 2 == 0 { &ours } else { &theirs }).await.unwrap();
        let now = ours.change_token().unwrap();
        assert_ne!(now, last, "write {n}");
        last = now;
        count(&ours).await;
        count(&theirs).await;
        assert_eq!(ours.change_token(), Some(last), "reads after write {n}");
    }
}

#[tokio::test]
async fn another_process_changes_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let db = open(&path).await;
    let before = db.change_token().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "db::sqlite::tests::writes_for_another_process", "--ignored"])
        .env("CHANGE_TOKEN_DATABASE", &path)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    assert_eq!(count(&db).await, 1);
    assert_ne!(db.change_token().unwrap(), before);
}

#[tokio::test]
#[ignore = "child process of another_process_changes_the_token"]
async fn writes_for_another_process() {
    let path = std::path::PathBuf::from(std::env::var_os("CHANGE_TOKEN_DATABASE").unwrap());
    add(&open(&path).await).await.unwrap();
}

/// SQLite's locks belong to the process: any descriptor of its files that we close drops them.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_concurrent_readers_leave_the_locks_of_the_database_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let db = open(&path).await;
    add(&db).await.unwrap();
    let inode = std::fs::metadata(folder.path().join("catalog.db-shm")).unwrap().ino();
    // The byte that every process with the database open holds a lock on. The list is read in pieces, and misses lines while
    // other processes lock and unlock: what is not seen at once is looked for again. A lock that is gone stays gone.
    let is_listed = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains(&format!(":{inode} ")) && line.contains(" 128 128"))
    };
    let is_held = || {
        (0..200).any(|_| {
            is_listed() || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                false
            }
        })
    };
    assert!(is_held());
    for _ in 0..50 {
        let other = Arc::new(Sqlite::open(&path).unwrap());
        let barrier = Arc::new(Barrier::new(16));
        let threads = (0..16).map(|_| {
            let (other, barrier) = (other.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                other.change_token()
            })
        });
        let tokens: Vec<_> = threads.collect::<Vec<_>>().into_iter().map(|it| it.join().unwrap()).collect();
        assert!(tokens.iter().all(|token| token.is_some() && *token == tokens[0]), "{tokens:?}");
        drop(other);
        assert!(is_held(), "the lock of the database is gone");
    }
}

#[test]
fn no_code_of_ours_names_the_files_beside_a_database() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("db/sqlite/tests.rs") && !path.ends_with("src/upkeep/backup.rs") {
                // A backup removes what an unfinished snapshot of its own left, and opens nothing.
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("-shm") && !text.contains("-wal"), "{}", path.display());
            }
        }
    }
}

/// Resolving a revision asks once for each request.
#[tokio::test]
async fn asking_for_changes_takes_microseconds() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("catalog.db")).await;
    db.change_token().unwrap();
    let begin = Instant::now();
    for _ in 0..10_000 {
        db.change_token().unwrap();
    }
    let each = begin.elapsed() / 10_000;
    println!("{each:?} each");
    // Far above what it takes, for machines that are busy.
    assert!(each.as_micros() < 500, "{each:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_the_disk_and_for_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let db = open(&path).await;
    let connection = open_writer(&path).unwrap();
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((number("synchronous"), number("busy_timeout")), (2, 10_000));
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");

    // As another process would.
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let refused = super::translated(other.execute_batch("BEGIN IMMEDIATE").unwrap_err());
    assert!(is_collision(&refused));
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let waiting = tokio::spawn({
        let db = db.clone();
        async move { add(&db).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
}

#[test]
fn a_file_that_is_no_database_is_corrupt_and_a_missing_folder_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/catalog.db");
    assert_eq!(Sqlite::open(&missing).unwrap_err().kind(), ErrorKind::Unavailable);
    let file = folder.path().join("catalog.db");
    std::fs::write(&file, [7; 5000]).unwrap();
    assert_eq!(Sqlite::open(&file).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_url_names_a_file_and_nothing_else() {
    let file = |url| super::file_of(url).map(|path| path.display().to_string()).map_err(|error| error.kind());
    assert_eq!(file("sqlite:///a/b%20c.db"), Ok("/a/b c.db".to_owned()));
    assert_eq!(file("sqlite://a.db"), Ok("a.db".to_owned()));
    assert_eq!(file("sqlite:a.db"), Ok("a.db".to_owned()));
    for wrong in ["sqlite://", "sqlite::memory:", "sqlite:///a?mode=ro", "postgres://x"] {
        assert_eq!(file(wrong), Err(ErrorKind::Invalid), "{wrong}");
    }
}
