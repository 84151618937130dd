//! What the lists of every catalog must do, run on each of them.

use std::sync::Arc;

use xet::{FileHash, ShardHash, XorbHash};

use crate::access::Scope;
use crate::content::put_shard::registration::{Registration, register_shard};
use crate::content::recipe::RecipeBuilder;
use crate::content::rows::{FileRow, ShardRow, XorbRow, XorbState};
use crate::content::xorbs;
use crate::db::Catalog;
use crate::hub::browse::{self, BrowseQuery, MaintenanceSummary, Order};
use crate::hub::repos;
use crate::hub::rows::RepoRow;
use crate::hub::sizes::{self, RepoSize};
use crate::ids::{Digest, RepoId, XorbKey};
use crate::names::{Kind, RepoName};

type Any = Arc<Catalog>;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_the_contract_of_lists() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = (0..).map(|n| format!("sqlite://{}", folder.path().join(format!("{n}.db")).display()));
    keeps_the_contract(&mut || files.next().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_contract_of_lists() {
    let Some(server) = testkit::postgres::Postgres::start() else { return };
    keeps_the_contract(&mut || server.fresh_database()).await;
}

async fn keeps_the_contract(fresh: &mut dyn FnMut() -> String) {
    macro_rules! clauses {
        ($($clause:ident),* $(,)?) => { $(
            println!("{}", stringify!($clause));
            $clause(Catalog::open_or_create(&fresh()).await.unwrap()).await;
        )* };
    }
    clauses!(
        pages_come_in_every_order_and_show_nobody_what_is_private,
        a_measure_holds_until_something_changes,
        files_and_days_add_up,
    );
}

/// Repository `ann/a0` and so on; every third is private, kinds take turns.
async fn repo(catalog: &Any, n: u8, updated_s: u64) -> RepoRow {
    let kind = Kind::ALL[usize::from(n) % 3];
    let row = RepoRow {
        id: RepoId::new([n; 16]),
        name: RepoName { kind, namespace: if n < 5 { "ann" } else { "bob" }.into(), name: format!("a{n}") },
        private: n % 3 == 2,
        created_s: 1,
        updated_s,
        reclaim_s: None,
    };
    assert!(repos::create_repo(catalog, &row, &[], &[]).await.unwrap());
    row
}

/// File `n` of `bytes` bytes in a xorb of a thousand.
async fn file(catalog: &Any, scope: &Scope, n: u8, bytes: u32, created_s: u64) {
    let xorb = XorbRow {
        key: XorbKey { hash: XorbHash::new([n; 32]), digest: Digest::new([n; 32]) },
        object_bytes: 1000,
        raw_bytes: 3000,
        chunk_count: 20,
        state: XorbState::Live,
        created_s,
        referenced_s: created_s,
        verified_s: created_s,
    };
    xorbs::add_xorbs(catalog, std::slice::from_ref(&xorb)).await.unwrap();
    let mut recipe = RecipeBuilder::default();
    recipe.push(xorb.recipe_xorb(), 0..2, bytes, 0..18);
    let registration = Registration {
        scope: scope.clone(),
        shard: ShardRow { hash: ShardHash::new([n; 32]), object_bytes: 7, created_s },
        xorbs: vec![xorb.key.hash],
        files: vec![FileRow { hash: FileHash::new([n; 32]), recipe: recipe.finish(), created_s }],
        sha256s: Vec::new(),
        dedup: Vec::new(),
        now_s: created_s,
    };
    register_shard(catalog, &registration).await.unwrap();
}

fn query(order: Order, private_of: Option<&[&str]>) -> BrowseQuery {
    let private_of = private_of.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    BrowseQuery { order, private_of, limit: 100, ..BrowseQuery::default() }
}

async fn names(catalog: &Any, query: &BrowseQuery) -> Vec<String> {
    let page = browse::repo_page(catalog, query).await.unwrap();
    page.into_iter().map(|repo| repo.row.name.name).collect()
}

async fn pages_come_in_every_order_and_show_nobody_what_is_private(catalog: Any) {
    for n in 0..9 {
        let row = repo(&catalog, n, 100 - u64::from(n)).await;
        file(&catalog, &row.scope().unwrap(), n, 10 * u32::from(n % 4) + 5, 1).await;
    }
    let all = sizes::unmeasured(&catalog, 0, 100).await.unwrap();
    sizes::measure(&catalog, &all, 200).await.unwrap();
    let by_name = names(&catalog, &query(Order::Name, None)).await;
    assert_eq!(by_name, ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"]);
    assert_eq!(names(&catalog, &query(Order::Updated, None)).await, by_name);
    let by_size = names(&catalog, &query(Order::Size, None)).await;
    assert_eq!(by_size, ["a3", "a7", "a2", "a6", "a1", "a5", "a0", "a4", "a8"]);
    // Page by page the same.
    let mut paged = Vec::new();
    for skip in (0..10).step_by(2) {
        paged.extend(names(&catalog, &BrowseQuery { skip, limit: 2, ..query(Order::Size, None) }).await);
    }
    assert_eq!(paged, by_size);

    let public = names(&catalog, &query(Order::Name, Some(&[]))).await;
    assert_eq!(public, ["a0", "a1", "a3", "a4", "a6", "a7"]);
    let of_ann = names(&catalog, &query(Order::Name, Some(&["ann", "none"]))).await;
    assert_eq!(of_ann, ["a0", "a1", "a2", "a3", "a4", "a6", "a7"]);
    let datasets = BrowseQuery { kind: Some(Kind::Dataset), ..query(Order::Name, None) };
    assert_eq!(names(&catalog, &datasets).await, ["a1", "a4", "a7"]);
    for (search, found) in [("OB/A", 4), ("a_", 0), ("ann/a0", 1), ("", 9), ("'", 0)] {
        let query = BrowseQuery { search: Some(search.to_owned()), ..query(Order::Name, None) };
        assert_eq!(names(&catalog, &query).await.len(), found, "{search}");
        assert_eq!(browse::repo_totals(&catalog, &query).await.unwrap().0, found as u64, "{search}");
    }
    let (count, size) = browse::repo_totals(&catalog, &query(Order::Name, Some(&[]))).await.unwrap();
    let logical_bytes = [5, 15, 35, 5, 25, 35].iter().sum();
    assert_eq!((count, size), (6, RepoSize { files: 6, logical_bytes, stored_bytes: 6000 }));
}

async fn a_measure_holds_until_something_changes(catalog: Any) {
    let row = repo(&catalog, 0, 100).await;
    let measured = |size: Option<RepoSize>| (size, 1_usize);
    let seen = || async {
        let page = browse::repo_page(&catalog, &query(Order::Name, None)).await.unwrap();
        (page[0].size, page.len())
    };
    assert_eq!(seen().await, measured(None));
    sizes::measure(&catalog, std::slice::from_ref(&row), 100).await.unwrap();
    assert_eq!(seen().await, measured(Some(RepoSize::default())));
    // Measured in the second of the change: there may have been another change in it.
    assert_eq!(sizes::unmeasured(&catalog, 0, 9).await.unwrap(), std::slice::from_ref(&row));
    sizes::measure(&catalog, std::slice::from_ref(&row), 101).await.unwrap();
    assert_eq!(sizes::unmeasured(&catalog, 101, 9).await.unwrap(), []);
    assert_eq!(sizes::unmeasured(&catalog, 102, 9).await.unwrap(), std::slice::from_ref(&row));
    file(&catalog, &row.scope().unwrap(), 1, 50, 1).await;
    sizes::measure(&catalog, std::slice::from_ref(&row), 102).await.unwrap();
    sizes::measure(&catalog, &[], 103).await.unwrap();
    let size = RepoSize { files: 1, logical_bytes: 50, stored_bytes: 1000 };
    assert_eq!(seen().await, measured(Some(size)));
    repos::delete_repo(&catalog, &row).await.unwrap();
    let again = repo(&catalog, 0, 100).await;
    assert_eq!(again.id, row.id);
    assert_eq!(seen().await, measured(None));
}

async fn files_and_days_add_up(catalog: Any) {
    assert_eq!(browse::growth(&catalog).await.unwrap(), []);
    assert_eq!(browse::maintenance_summary(&catalog).await.unwrap(), MaintenanceSummary::default());
    let day = 86_400;
    for n in 0..6 {
        let row = repo(&catalog, n, 1).await;
        file(&catalog, &row.scope().unwrap(), n, 10 + u32::from(n), day * u64::from(n / 3) + 7).await;
    }
    // A file two repositories have is reported once; one that no repository of the Hub has is not.
    file(&catalog, &"ann/models/a3".parse().unwrap(), 5, 15, day).await;
    file(&catalog, &"ann/cas".parse().unwrap(), 9, 99, day).await;
    let largest = browse::largest_files(&catalog, None, 3).await.unwrap();
    let reported: Vec<_> =
        largest.iter().map(|(file, bytes, scope)| (file.as_bytes()[0], *bytes, scope.to_string())).collect();
    let expected = [(5, 15, "ann/models/a3"), (4, 14, "ann/datasets/a4"), (3, 13, "ann/models/a3")];
    assert_eq!(reported, expected.map(|(n, bytes, scope)| (n, bytes, scope.to_owned())));
    let public = browse::largest_files(&catalog, Some(&[]), 9).await.unwrap();
    assert_eq!(public.iter().map(|(file, ..)| file.as_bytes()[0]).collect::<Vec<_>>(), [5, 4, 3, 1, 0]);

    assert_eq!(browse::growth(&catalog).await.unwrap(), [(0, 33, 3000), (1, 13 + 14 + 15 + 99, 4000)]);
    let lonely = XorbRow {
        key: XorbKey { hash: XorbHash::new([77; 32]), digest: Digest::new([7; 32]) },
        object_bytes: 500,
        raw_bytes: 3000,
        chunk_count: 20,
        state: XorbState::Live,
        created_s: 5,
        referenced_s: 5,
        verified_s: 3,
    };
    xorbs::add_xorbs(&catalog, &[lonely]).await.unwrap();
    let upkeep =
        MaintenanceSummary { unused_bytes: 500, condemned_bytes: 0, damaged_xorbs: 0, verified_s: Some(3) };
    assert_eq!(browse::maintenance_summary(&catalog).await.unwrap(), upkeep);
}
