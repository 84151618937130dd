//! How SQLite answers what is asked for by key: by the key, however many are asked for.
//!
//! It has no statistics, and takes any equality for ten rows. Of a long list and another index it may choose the index, and
//! read a whole repository.

use sqlx::Row as _;

use super::SqliteCatalog;
use crate::catalog::repo::{RepoCatalog, RepoRow};
use crate::repo::{RepoId, RepoName};

async fn plan(catalog: &SqliteCatalog, statement: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {statement}");
    let rows = sqlx::query(sqlx::AssertSqlSafe(explain)).fetch_all(&catalog.reads).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("detail")).collect()
}

/// The history asks for commits one after another, and for what they say.
#[tokio::test]
async fn a_history_is_walked_by_keys() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(&folder.path().join("catalog.db")).await.unwrap();
    let statement = crate::catalog::repo::history_statement("g.body");
    let plan = plan(&catalog, &statement).await;
    let by_key = plan.iter().filter(|step| step.contains("(repo=? AND oid=?)")).count();
    let by_another = plan.iter().filter(|step| step.contains("git_objects_by")).count();
    assert_eq!((by_key, by_another), (3, 0), "{plan:?}");
}

#[tokio::test]
async fn git_objects_are_found_by_their_key_however_many_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(&folder.path().join("catalog.db")).await.unwrap();
    for count in [1, 2, 100, 1000] {
        let values = vec!["(?)"; count].join(", ");
        let pairs = vec!["(?, ?)"; count].join(", ");
        let statements = [
            format!(
                "WITH asked (wanted) AS (VALUES {values}) SELECT body FROM asked CROSS JOIN git_objects \
                 WHERE oid = wanted AND repo = ?"
            ),
            format!(
                "DELETE FROM git_objects WHERE touched_s < ? AND (repo, oid) IN (VALUES {pairs}) RETURNING bytes"
            ),
        ];
        for statement in statements {
            let plan = plan(&catalog, &statement).await;
            assert!(plan.iter().any(|step| step.contains("(repo=? AND oid=?)")), "{count}: {plan:?}");
        }
    }
}

#[tokio::test]
async fn repositories_are_found_by_the_index_of_folded_names() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(&folder.path().join("catalog.db")).await.unwrap();
    let statement = "SELECT id FROM repos WHERE kind = ? AND folded = ? AND reclaim_s IS NULL \
                     ORDER BY CASE WHEN namespace = ? AND name = ? THEN 0 ELSE 1 END, twin LIMIT 1";
    let plan = plan(&catalog, statement).await;
    assert!(plan.iter().any(|step| step.contains("repos_by_folded (kind=? AND folded=?)")), "{plan:?}");
}

/// A catalog of version 70 may have names that differ in case only.
#[tokio::test]
async fn an_older_catalog_with_names_that_differ_in_case_only_opens_and_serves_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut old = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let before: Vec<_> = super::MIGRATIONS.iter().copied().filter(|(version, ..)| *version < 110).collect();
    crate::catalog::migrator(&before).run(&mut old).await.unwrap();
    for (id, namespace, name, created_s) in
        [(1_u8, "ann", "Model", 7), (2, "ann", "model", 5), (3, "ANN", "model", 9), (4, "bob", "x", 1)]
    {
        let insert = "INSERT INTO repos (id, kind, namespace, name, private, created_s, updated_s) VALUES (?, 0, ?, ?, 0, ?, 1)";
        let insert = sqlx::query(insert).bind(vec![id; 16]).bind(namespace).bind(name).bind(created_s);
        insert.execute(&mut old).await.unwrap();
    }
    sqlx::Connection::close(old).await.unwrap();
    let catalog = SqliteCatalog::open(&file).await.unwrap();
    let hub: &dyn RepoCatalog = &catalog;
    for (asked, id) in [("ann/Model", 1), ("ann/model", 2), ("ANN/model", 3), ("Ann/MODEL", 2), ("BOB/X", 4)]
    {
        let found = hub.repos(&[RepoName::parse(asked).unwrap()]).await.unwrap();
        assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [RepoId::new([id; 16])], "{asked}");
    }
    // Each keeps its name through other changes, and takes no other's.
    let found = hub.repos(&[RepoName::parse("ann/Model").unwrap()]).await.unwrap().remove(0);
    let private = RepoRow { private: true, ..found.clone() };
    assert!(hub.change_repo(&found, &private).await.unwrap());
    let renamed = RepoRow { name: RepoName::parse("ann/MODEL").unwrap(), ..private.clone() };
    assert!(!hub.change_repo(&private, &renamed).await.unwrap());
    let renamed = RepoRow { name: RepoName::parse("ann/other").unwrap(), ..private.clone() };
    assert!(hub.change_repo(&private, &renamed).await.unwrap());
}
