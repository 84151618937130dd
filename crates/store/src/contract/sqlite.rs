//! What holds for catalogs in SQLite only: query plans, catalogs of older versions, failures of the database itself.

use std::sync::Arc;

use rusqlite::Connection;

use super::content::{registration, row, scope};
use crate::content::put_shard::registration::{RegistrationOutcome, register_shard};
use crate::content::quotas::usage;
use crate::content::{dedup_policy, xorbs};
use crate::db::{self, Catalog, schema};
use crate::error::ErrorKind;
use crate::hub::git_objects::{self, history_statement};
use crate::hub::rows::RepoRow;
use crate::hub::tokens::Tokens;
use crate::hub::{people, refs, repos};
use crate::ids::RepoId;
use crate::names::RepoName;
use crate::upkeep::inventory;

fn plan(file: &std::path::Path, statement: &str) -> Vec<String> {
    let connection = Connection::open(file).unwrap();
    rusqlite::vtab::array::load_module(&connection).unwrap();
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let (mut rows, mut steps) = (explain.raw_query(), Vec::new());
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

/// SQLite has no statistics, and takes any equality for ten rows. Of a long list and another index it may choose the index,
/// and read a whole repository.
#[tokio::test]
async fn a_query_by_key_uses_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.db");
    Catalog::open_file(&file).await.unwrap().close().await;
    let list = "(SELECT value FROM rarray(?3))";
    let git = ["repo=?", "oid=?"].as_slice();
    for (statement, by) in [
        (format!("SELECT body FROM git_objects WHERE repo = ?1 AND oid IN {list}"), git),
        (format!("DELETE FROM git_objects WHERE touched_s < ?1 AND repo = ?2 AND oid IN {list}"), git),
        (
            format!(
                "SELECT layout FROM repo_files r JOIN files f ON f.hash = r.file WHERE r.namespace = ?1 AND r.repo = ?2 AND r.file IN {list}"
            ),
            ["namespace=?", "repo=?", "file=?"].as_slice(),
        ),
        (
            format!("SELECT file FROM repo_sha256s WHERE namespace = ?1 AND repo = ?2 AND sha256 IN {list}"),
            ["namespace=?", "repo=?", "sha256=?"].as_slice(),
        ),
        (
            "SELECT id FROM repos WHERE kind = ? AND folded = ? AND reclaim_s IS NULL \
          ORDER BY CASE WHEN namespace = ? AND name = ? THEN 0 ELSE 1 END, twin LIMIT 1"
                .to_owned(),
            ["kind=?", "folded=?"].as_slice(),
        ),
    ] {
        let plan = plan(&file, &statement);
        let is_by_key = |step: &String| by.iter().all(|column| step.contains(column));
        assert!(plan.iter().any(is_by_key), "{statement}: {plan:?}");
    }
    let history = plan(&file, &history_statement("g.body").replace('$', "?"));
    let by_key = history.iter().filter(|step| step.contains("(repo=? AND oid=?)")).count();
    let by_another = history.iter().filter(|step| step.contains("git_objects_by")).count();
    assert_eq!((by_key, by_another), (3, 0), "{history:?}");
}

/// A catalog of version 70 may have names that differ in case only.
#[tokio::test]
async fn an_older_catalog_with_names_that_differ_in_case_only_opens_and_serves_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.db");
    let old = Catalog::new(Arc::new(db::sqlite::Sqlite::open(&file).unwrap()));
    let before: Vec<_> = schema::SQLITE.iter().copied().filter(|step| step.version < 110).collect();
    db::migrations::run(&old, db::migrations::SQLITE_TABLE, &before).await.unwrap();
    old.close().await;
    let connection = Connection::open(&file).unwrap();
    for (id, namespace, name, created_s) in
        [(1_u8, "ann", "Model", 7), (2, "ann", "model", 5), (3, "ANN", "model", 9), (4, "bob", "x", 1)]
    {
        let insert = "INSERT INTO repos (id, kind, namespace, name, private, created_s, updated_s) VALUES (?, 0, ?, ?, 0, ?, 1)";
        connection.execute(insert, (vec![id; 16], namespace, name, created_s)).unwrap();
    }
    let catalog = Catalog::open_file(&file).await.unwrap();
    for (requested, id) in
        [("ann/Model", 1), ("ann/model", 2), ("ANN/model", 3), ("Ann/MODEL", 2), ("BOB/X", 4)]
    {
        let found = repos::repos(&catalog, &[RepoName::parse(requested).unwrap()]).await.unwrap();
        assert_eq!(
            found.iter().map(|row| row.id).collect::<Vec<_>>(),
            [RepoId::new([id; 16])],
            "{requested}"
        );
    }
    // Each keeps its name through other changes, and takes no other's.
    let found = repos::repos(&catalog, &[RepoName::parse("ann/Model").unwrap()]).await.unwrap().remove(0);
    let private = RepoRow { private: true, ..found.clone() };
    assert!(repos::change_repo(&catalog, &found, &private).await.unwrap());
    let renamed = RepoRow { name: RepoName::parse("ann/MODEL").unwrap(), ..private.clone() };
    assert!(!repos::change_repo(&catalog, &private, &renamed).await.unwrap());
    let renamed = RepoRow { name: RepoName::parse("ann/other").unwrap(), ..private.clone() };
    assert!(repos::change_repo(&catalog, &private, &renamed).await.unwrap());
}

/// Whatever step of a registration fails, nothing of the shard is there, and it can be sent again.
#[tokio::test]
async fn a_failure_at_any_step_of_a_registration_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.db");
    let catalog = Catalog::open_file(&file).await.unwrap();
    xorbs::add_xorbs(&catalog, &[row(1)]).await.unwrap();
    let before = inventory::counts(&catalog).await.unwrap();
    let registration = registration(&scope("ann/repo"), &[1]);
    let other = Connection::open(&file).unwrap();
    let tables =
        ["shards", "repo_xorbs", "files", "file_xorbs", "repo_files", "usage", "repo_sha256s", "dedup"];
    for table in tables {
        let trigger = format!(
            "CREATE TRIGGER fails BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'on purpose'); END"
        );
        other.execute_batch(&trigger).unwrap();
        let error = register_shard(&catalog, &registration).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{table}: {error}");
        assert_eq!(inventory::counts(&catalog).await.unwrap(), before, "{table}");
        other.execute_batch("DROP TRIGGER fails").unwrap();
    }
    let usage = || other.query_row("SELECT COUNT(*) FROM usage", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(usage(), 0);
    let done = register_shard(&catalog, &registration).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!((inventory::counts(&catalog).await.unwrap().files, usage()), (before.files + 1, 1));
}

/// A catalog as version 0.1.0 wrote it, before the tables were reached by one library alone: all of it, as SQL.
#[tokio::test]
async fn a_catalog_of_an_earlier_program_opens_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.db");
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/catalogs/0110.sql");
    let dump = std::fs::read_to_string(dump).unwrap();
    Connection::open(&file).unwrap().execute_batch(&dump).unwrap();
    let catalog = Catalog::open_file(&file).await.unwrap();

    let names = ["ann/model", "datasets/team/data"].map(|name| RepoName::parse(name).unwrap());
    let repos = repos::repos(&catalog, &names).await.unwrap();
    assert_eq!(
        repos.iter().map(|row| (&row.name, row.private)).collect::<Vec<_>>(),
        [(&names[0], false), (&names[1], true)]
    );
    let refs = refs::refs(&catalog, repos[0].id, "refs/heads/").await.unwrap();
    let head = refs.iter().find(|row| row.name == "refs/heads/main").unwrap().target;
    assert_eq!(head.to_string(), "2ac4165bfcfc479f5461c0373d30afefcd613fa7");
    let history = git_objects::history(&catalog, repos[0].id, head, 0, 10).await.unwrap();
    assert_eq!(history.len(), 3);
    let counts = inventory::counts(&catalog).await.unwrap();
    assert_eq!((counts.xorbs, counts.files, counts.repo_files, counts.shards), (1, 1, 2, 1));
    let tokens = Tokens::new(&catalog).all().await.unwrap();
    assert_eq!(tokens.iter().map(|row| row.subject.as_str()).collect::<Vec<_>>(), ["admin", "ann"]);
    assert_eq!(people::members(&catalog, "team").await.unwrap().len(), 1);
    assert_eq!(usage::quotas(&catalog).await.unwrap().len(), 1);
    assert_eq!(dedup_policy::dedup_policies(&catalog).await.unwrap().len(), 1);

    // It goes on from there.
    xorbs::add_xorbs(&catalog, &[row(1)]).await.unwrap();
    let registered = register_shard(&catalog, &registration(&scope("ann/repo"), &[1])).await.unwrap();
    assert_eq!(registered, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!(inventory::counts(&catalog).await.unwrap().files, 2);
}
