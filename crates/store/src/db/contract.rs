//! What every database must do, run on each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::row::{FromRow, Row};
use super::sql::{Sql, Value};
use super::{Catalog, Error, ErrorKind, Hook, Isolation, is_collision, migrations};
use crate::error::Result;

struct Item {
    id: u64,
    name: Option<String>,
    bytes: Vec<u8>,
}

impl FromRow for Item {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { id: row.number("id")?, name: row.optional_text("name")?, bytes: row.bytes("bytes")? })
    }
}

const SELECT: &str = "SELECT id, name, bytes FROM items";

async fn items(db: &Catalog, sql: Sql<'_>) -> Vec<(u64, Option<String>, Vec<u8>)> {
    let items: Vec<Item> = db.read("read items", sql).await.unwrap();
    items.into_iter().map(|item| (item.id, item.name, item.bytes)).collect()
}

async fn add(db: &Catalog, rows: &[(u64, Option<&str>, &[u8])]) -> Result<u64> {
    db.write("add items", |mut tx| async move {
        let rows = rows.iter().map(|(id, name, bytes)| [(*id).into(), (*name).into(), (*bytes).into()]);
        let insert = Sql::new("INSERT INTO items (id, name, bytes) VALUES $1 ON CONFLICT DO NOTHING");
        let added = tx.run(insert.rows(rows)).await?;
        tx.commit().await?;
        Ok(added)
    })
    .await
}

/// Values of every type, lists and rows go in and come out.
async fn values(db: Catalog) {
    assert_eq!(add(&db, &[]).await.unwrap(), 0);
    assert_eq!(add(&db, &[(1, Some("a"), b"x"), (2, None, b""), (1, Some("b"), b"y")]).await.unwrap(), 2);
    // A column of nothing.
    assert_eq!(add(&db, &[(3, None, b"z"), (4, None, b"z")]).await.unwrap(), 2);
    let all = items(&db, Sql::new(format!("{SELECT} ORDER BY id"))).await;
    let names: Vec<_> =
        all.iter().map(|(id, name, bytes)| (*id, name.as_deref(), bytes.as_slice())).collect();
    assert_eq!(names, [(1, Some("a"), &b"x"[..]), (2, None, b""), (3, None, b"z"), (4, None, b"z")]);

    let some = Sql::new(format!("{SELECT} WHERE id IN $1 AND bytes <> $2 ORDER BY id"));
    let some = items(&db, some.list([1_u64, 3, 9]).bind(&b"z"[..])).await;
    assert_eq!(some.iter().map(|item| item.0).collect::<Vec<_>>(), [1]);
    let none = Sql::new(format!("{SELECT} WHERE bytes IN $1")).list(Vec::<Vec<u8>>::new());
    assert!(items(&db, none).await.is_empty());
    let joined = "SELECT id, name, bytes FROM list($1) JOIN items ON items.bytes = list.value ORDER BY id";
    let joined = items(&db, Sql::new(joined).list([b"z".to_vec()])).await;
    assert_eq!(joined.len(), 2);
    let pairs =
        Sql::new(format!("{SELECT} WHERE id > $1 AND (id, bytes) IN (VALUES $2) AND id > $1 ORDER BY id"));
    let pairs = pairs
        .bind(0_u64)
        .rows([[3_u64.into(), b"z".as_slice().into()], [1_u64.into(), b"z".as_slice().into()]]);
    assert_eq!(items(&db, pairs).await.iter().map(|item| item.0).collect::<Vec<_>>(), [3]);

    let mut built = Sql::new(format!("{SELECT} WHERE 1 = 1"));
    built.push(" AND id > ").push_bind(1_u64).push(" AND id IN ").push_list([2_u64, 3]);
    assert_eq!(items(&db, built).await.len(), 2);

    // Nothing, where a name and where a number is expected.
    let set = Sql::new("UPDATE items SET name = $1, size = $2 WHERE id = $3").bind(None::<&str>);
    assert_eq!(db.write_one("change", set.bind(None::<u64>).bind(1_u64)).await.unwrap().changed, 1);
    let set = Sql::new("UPDATE items SET name = $1, size = $2 WHERE id = $3").bind("c");
    assert_eq!(db.write_one("change", set.bind(7_u64).bind(1_u64)).await.unwrap().changed, 1);
    let sizes = Sql::new("SELECT COALESCE(size, -1) FROM items ORDER BY id");
    assert_eq!(db.read::<i64>("sizes", sizes).await.unwrap(), [7, -1, -1, -1]);
    let gone = Sql::new("DELETE FROM items WHERE id IN $1 RETURNING id").list([1_u64, 2, 3, 4]);
    assert_eq!(db.write_one("delete", gone).await.unwrap().rows.len(), 4);
}

/// A transaction that was not committed changed nothing, also after an error.
async fn transactions(db: Catalog) {
    let dropped: Result<()> = db
        .write("drop", |mut tx| async move {
            tx.run(Sql::new("INSERT INTO items (id, bytes) VALUES ($1, $2)").bind(1_u64).bind(vec![1]))
                .await?;
            Ok(())
        })
        .await;
    dropped.unwrap();
    assert!(items(&db, Sql::new(SELECT)).await.is_empty());
    let failed: Result<()> = db
        .write("fail", |mut tx| async move {
            tx.run(Sql::new("INSERT INTO items (id, bytes) VALUES ($1, $2)").bind(1_u64).bind(vec![1]))
                .await?;
            tx.run(Sql::new("INSERT INTO nothing (id) VALUES (1)")).await?;
            tx.commit().await
        })
        .await;
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().starts_with("catalog: fail: "), "{error}");
    assert!(items(&db, Sql::new(SELECT)).await.is_empty());
    assert_eq!(add(&db, &[(1, None, b"x")]).await.unwrap(), 1);
}

/// Two who act on what they do not find: one of them is tried again, and finds it.
async fn collisions(db: Catalog) {
    let tries = Arc::new(AtomicU64::new(0));
    let one = |id: u64| {
        let (db, tries) = (db.clone(), tries.clone());
        tokio::spawn(async move {
            db.write_serializable("count and add", |mut tx| {
                tries.fetch_add(1, Ordering::SeqCst);
                async move {
                    let count: u64 = tx.row(Sql::new("SELECT COUNT(*) FROM items")).await?.unwrap_or(0);
                    let insert = Sql::new("INSERT INTO items (id, size, bytes) VALUES ($1, $2, $3)");
                    tx.run(insert.bind(id).bind(count).bind(vec![])).await?;
                    tx.commit().await
                }
            })
            .await
        })
    };
    let all: Vec<_> = (0..8).map(one).collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    let sizes: Vec<u64> = db.read("sizes", Sql::new("SELECT size FROM items ORDER BY size")).await.unwrap();
    assert_eq!(sizes, (0..8).collect::<Vec<_>>());
    assert!(tries.load(Ordering::SeqCst) >= 8);
    assert!(is_collision(&super::collision("x")));
    assert!(!is_collision(&Error::new(ErrorKind::Unavailable, "x")));
}

/// The n-th statement fails before it happened, or after; the commit is one of them.
async fn faults(db: Catalog) {
    for (n, is_before, expected) in
        [(1, true, 0), (2, true, 0), (3, true, 0), (2, false, 0), (3, false, 1), (4, true, 1)]
    {
        let count = AtomicU64::new(0);
        let strike = move |number: u64, is_now: bool| match is_now && number == n {
            true => Err(Error::new(ErrorKind::Unavailable, "on purpose")),
            false => Ok(number),
        };
        let hooked = db.with_hook(Hook {
            before_call: Box::new(|| Box::pin(std::future::ready(()))),
            before_statement: Box::new(move || strike(count.fetch_add(1, Ordering::SeqCst) + 1, is_before)),
            after_statement: Box::new(move |number| strike(number, !is_before).map(|_| ())),
        });
        // Begin, insert, commit.
        let added = add(&hooked, &[(1, None, b"x")]).await;
        assert_eq!(added.is_ok(), n == 4, "{n} {is_before}");
        assert_eq!(items(&db, Sql::new(SELECT)).await.len(), expected, "{n} {is_before}");
        db.write_one("empty", Sql::new("DELETE FROM items")).await.unwrap();
    }
}

/// Migrations run once; those of a newer program and edited ones are refused.
async fn migrated(db: Catalog, table: &'static str) {
    let one = migrations::Migration {
        version: 1,
        name: "one",
        script: "CREATE TABLE one (id BIGINT); CREATE TABLE uno (id BIGINT)",
    };
    let two = migrations::Migration { version: 2, name: "two", script: "CREATE TABLE two (id BIGINT)" };
    migrations::run(&db, table, &[one]).await.unwrap();
    let both = [one, two];
    let servers = [migrations::run(&db, table, &both), migrations::run(&db, table, &both)];
    for server in futures::future::join_all(servers).await {
        server.unwrap();
    }
    let count = Sql::new("SELECT COUNT(*) FROM one, uno, two");
    assert_eq!(db.read::<u64>("count", count).await.unwrap(), [0]);
    let error = migrations::run(&db, table, &[one]).await.unwrap_err();
    assert!(error.to_string().contains("newer program"), "{error}");
    let edited = migrations::Migration { script: "SELECT 1", ..one };
    let error = migrations::run(&db, table, &[edited, two]).await.unwrap_err();
    assert!(error.to_string().contains("another text"), "{error}");
}

async fn on_each<C, F>(is_with_table: bool, clause: C)
where
    C: Fn(Catalog, &'static str) -> F,
    F: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    let sqlite = super::sqlite::Sqlite::open(&folder.path().join("test.db")).unwrap();
    let mut databases = vec![(Catalog::new(Arc::new(sqlite)), migrations::SQLITE_TABLE)];
    let server = testkit::postgres::Postgres::start();
    if let Some(server) = &server {
        let postgres = super::postgres::Postgres::open(&server.fresh_database()).await.unwrap();
        databases.push((Catalog::new(Arc::new(postgres)), migrations::POSTGRES_TABLE));
    }
    for (db, table) in databases {
        if is_with_table {
            let bytes = if table == migrations::SQLITE_TABLE { "BLOB" } else { "BYTEA" };
            let script = format!(
                "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT, size BIGINT, bytes {bytes} NOT NULL)"
            );
            db.write("create", |mut tx| {
                let script = &script;
                async move {
                    tx.script(script).await?;
                    tx.commit().await
                }
            })
            .await
            .unwrap();
        }
        clause(db.clone(), table).await;
        db.close().await;
        assert!(db.read::<()>("closed", Sql::new("SELECT 1")).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_out_as_they_went_in() {
    on_each(true, |db, _| values(db)).await;
}

#[tokio::test]
async fn values_come_out_as_they_went_in_on_one_thread() {
    on_each(true, |db, _| values(db)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_whole_or_nothing() {
    on_each(true, |db, _| transactions(db)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_collide_are_tried_again() {
    on_each(true, |db, _| collisions(db)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_statement_can_be_made_to_fail() {
    on_each(true, |db, _| faults(db)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_run_once_and_in_order() {
    on_each(false, migrated).await;
}

#[tokio::test]
async fn a_read_now_sees_what_is_committed_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let db = Catalog::new(Arc::new(super::sqlite::Sqlite::open(&file).unwrap()));
    db.write_one("create", Sql::new("CREATE TABLE items (id BIGINT)")).await.unwrap();
    let count = || Sql::new("SELECT COUNT(*) FROM items");
    assert_eq!(db.read_now::<u64>(&count()), Some(vec![0]));
    let before = db.change_token().unwrap();
    db.write_one("add", Sql::new("INSERT INTO items (id) VALUES ($1)").bind(Value::Int(1))).await.unwrap();
    assert_eq!(db.read_now::<u64>(&count()), Some(vec![1]));
    assert_ne!(db.change_token().unwrap(), before);
    assert_eq!(db.read_now::<u64>(&Sql::new("DELETE FROM items RETURNING id")), None);
    assert_eq!(db.read_now::<u64>(&count()), Some(vec![1]));
    let held = super::Engine::begin(&*db.engine, Isolation::Committed).await.unwrap();
    assert_eq!(db.read_now::<u64>(&count()), Some(vec![1]), "readers do not wait for the writer");
    drop(held);
    // Closed, it leaves one file and no log.
    db.close().await;
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["test.db"]);
}
