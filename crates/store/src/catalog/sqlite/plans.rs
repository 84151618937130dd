//! How SQLite answers what is asked for by key: by the key, however many are asked for.
//!
//! It has no statistics, and takes any equality for ten rows. Of a long list and another index it may choose the index, and
//! read a whole repository.

use sqlx::Row as _;

use super::SqliteCatalog;

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
