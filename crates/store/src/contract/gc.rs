//! What sweep's side of every catalog must do, run on each of them.

use std::sync::Arc;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::access::Scope;
use crate::content::dedup::index;
use crate::content::files::{self, LinkedFile, Use};
use crate::content::put_shard::registration::{Registration, RegistrationOutcome, register_shard};
use crate::content::reach::Reach;
use crate::content::recipe::RecipeBuilder;
use crate::content::rows::{DedupRow, FileRow, ShardRow, XorbRow, XorbState};
use crate::content::xorbs;
use crate::db::Catalog;
use crate::db::batch::BATCH_ROWS;
use crate::db::sql::Sql;
use crate::error::Result;
use crate::hub::rows::{GitRow, RefChange, RepoRow};
use crate::hub::{git_objects, refs, repos};
use crate::ids::{Digest, ObjectKind, Oid, RepoId, XorbKey};
use crate::names::{Kind, RepoName};
use crate::objects::key::ObjectKey;
use crate::upkeep::gc::rows::{DeletableObject, StoredKind};
use crate::upkeep::gc::{condemned, unused_files, unused_git};
use crate::upkeep::inventory::{self, GcRepo};
use crate::upkeep::lease;

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_gc, postgres_keeps_the_contract_of_gc:
    a_lease_has_one_holder,
    git_objects_go_in_their_generation_only,
    a_file_stays_while_a_pointer_or_a_repository_needs_it,
    the_way_out_is_condemned_deletable_buried_forgotten,
    more_rows_than_a_statement_takes_go_at_once,
    an_unknown_object_becomes_deletable_and_a_known_one_is_left_alone,
    a_shard_that_is_being_deleted_is_not_registered,
    files_of_an_older_version_stop_the_sweep_until_they_are_related,
    of_a_registration_and_a_sweep_at_once_neither_loses_a_file,
);

fn hash(n: u8) -> [u8; 32] {
    [n; 32]
}

fn xorb(n: u8) -> XorbRow {
    XorbRow {
        key: XorbKey { hash: XorbHash::new(hash(n)), digest: Digest::new(hash(n + 100)) },
        object_bytes: 1000,
        raw_bytes: 3000,
        chunk_count: 20,
        state: XorbState::Live,
        created_s: 100,
        referenced_s: 100,
        verified_s: 100,
    }
}

fn scope() -> Scope {
    "ann/models/a".parse().unwrap()
}

/// File `n` in xorb `n`, described by shard `n`.
fn registration(n: u8, now_s: u64) -> Registration {
    let mut recipe = RecipeBuilder::default();
    recipe.push(xorb(n).recipe_xorb(), 0..2, 10, 0..18);
    let file = FileHash::new(hash(n));
    Registration {
        scope: scope(),
        shard: ShardRow { hash: ShardHash::new(hash(n)), object_bytes: 7, created_s: now_s },
        xorbs: vec![XorbHash::new(hash(n))],
        files: vec![FileRow { hash: file, recipe: recipe.finish(), created_s: now_s }],
        sha256s: vec![(Sha256::new(hash(n)), file)],
        dedup: vec![DedupRow {
            chunk: ChunkHash::new(hash(n)),
            xorb: XorbHash::new(hash(n)),
            chunk_index: 1,
        }],
        now_s,
    }
}

async fn registered(catalog: &Any, n: u8) {
    xorbs::add_xorbs(catalog, &[xorb(n)]).await.unwrap();
    let done = register_shard(catalog, &registration(n, 100)).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: true });
}

fn oid(n: u8) -> Oid {
    Oid::new([n; 20])
}

fn object(n: u8, file: Option<u8>) -> GitRow {
    let linked = |n| LinkedFile { sha256: Sha256::new(hash(n)), bytes: 10, file: FileHash::new(hash(n)) };
    GitRow {
        oid: oid(n),
        kind: if file.is_some() { ObjectKind::Blob } else { ObjectKind::Commit },
        bytes: 3,
        body: Some(vec![1, 2, 3]),
        bundle: oid(99),
        offset: 0,
        parent: None,
        depth: 1,
        linked: file.map(linked),
    }
}

async fn made(catalog: &Any) -> GcRepo {
    let name = RepoName::new(Kind::Model, "ann", "a").unwrap();
    let row = RepoRow {
        id: RepoId::new([1; 16]),
        name,
        private: false,
        created_s: 1,
        updated_s: 1,
        reclaim_s: None,
    };
    assert!(repos::create_repo(catalog, &row, &[], &[]).await.unwrap());
    inventory::all_repos(catalog, &[], 10).await.unwrap().remove(0)
}

async fn a_lease_has_one_holder(catalog: Any) {
    assert_eq!(lease::take_lease(&catalog, "a", "me", 100, 200).await.unwrap(), Some(String::new()));
    assert_eq!(lease::take_lease(&catalog, "a", "you", 199, 300).await.unwrap(), None);
    assert_eq!(lease::take_lease(&catalog, "b", "you", 199, 300).await.unwrap(), Some(String::new()));
    assert!(lease::keep_lease(&catalog, "a", "me", 250, "here").await.unwrap());
    assert!(!lease::keep_lease(&catalog, "a", "you", 250, "there").await.unwrap());
    assert_eq!(lease::take_lease(&catalog, "a", "you", 249, 300).await.unwrap(), None);
    assert_eq!(lease::take_lease(&catalog, "a", "you", 250, 300).await.unwrap(), Some("here".into()));
    assert!(!lease::keep_lease(&catalog, "a", "me", 400, "back").await.unwrap());
    // One that ends later than any lease could was taken by a clock that was ahead.
    let years_s = 10 * 365 * 86_400;
    assert!(lease::keep_lease(&catalog, "a", "you", years_s, "there").await.unwrap());
    assert_eq!(lease::take_lease(&catalog, "a", "me", 260, 300).await.unwrap(), Some("there".into()));
}

async fn git_objects_go_in_their_generation_only(catalog: Any) {
    let id = made(&catalog).await.row.id;
    assert_eq!(unused_git::begin_repo(&catalog, RepoId::new([9; 16])).await.unwrap(), None);
    assert!(
        git_objects::add_git_objects(&catalog, id, &[object(1, None), object(2, None)], 100).await.unwrap()
    );
    let generation = unused_git::begin_repo(&catalog, id).await.unwrap().unwrap();
    // A ref comes back to an old commit: what was found before no longer counts.
    let change = RefChange { name: "refs/heads/x".into(), from: None, to: Some(oid(2)) };
    assert!(refs::move_refs(&catalog, id, &[change], 9000, 0).await.unwrap());
    assert!(!unused_git::drop_git(&catalog, id, generation, &[oid(1)], 9000).await.unwrap());
    assert_eq!(unused_git::git_page(&catalog, id, &[], 10).await.unwrap().len(), 2);

    // A commit goes on meanwhile, on an existing ref: it is young, and so is the one the ref left.
    let generation = unused_git::begin_repo(&catalog, id).await.unwrap().unwrap();
    assert!(git_objects::add_git_objects(&catalog, id, &[object(3, None)], 9500).await.unwrap());
    let change = RefChange { name: "refs/heads/x".into(), from: Some(oid(2)), to: Some(oid(3)) };
    assert!(refs::move_refs(&catalog, id, &[change], 9500, 0).await.unwrap());
    assert!(unused_git::drop_git(&catalog, id, generation, &[oid(1), oid(2), oid(3)], 9400).await.unwrap());
    let left = unused_git::git_page(&catalog, id, &[], 10).await.unwrap();
    let left: Vec<_> = left.iter().map(|object| (object.oid, object.touched_s)).collect();
    assert_eq!(left, [(oid(2), 9500), (oid(3), 9500)]);
    assert_eq!(unused_git::git_page(&catalog, id, oid(3).as_bytes(), 10).await.unwrap(), []);
    assert_eq!(unused_git::used_bundles(&catalog, id, &[oid(99), oid(98)]).await.unwrap(), [oid(99)]);

    let is_swept = async || inventory::all_repos(&catalog, &[], 10).await.unwrap()[0].is_swept;
    unused_git::mark_collected(&catalog, id, generation).await.unwrap();
    assert!(!is_swept().await, "it changed since garbage collection began");
    let generation = unused_git::begin_repo(&catalog, id).await.unwrap().unwrap();
    unused_git::mark_collected(&catalog, id, generation).await.unwrap();
    assert!(is_swept().await);
    git_objects::add_git_objects(&catalog, id, &[], 9600).await.unwrap();
    assert!(!is_swept().await);
}

async fn a_file_stays_while_a_pointer_or_a_repository_needs_it(catalog: Any) {
    let repo = made(&catalog).await;
    for n in [1, 2, 3] {
        registered(&catalog, n).await;
    }
    register_shard(&catalog, &registration(2, 500)).await.unwrap();
    assert!(git_objects::add_git_objects(&catalog, repo.row.id, &[object(9, Some(3))], 100).await.unwrap());
    // The second was registered again, the third has a pointer.
    let files = [1, 2, 3].map(|n| FileHash::new(hash(n)));
    assert_eq!(unused_files::idle_repo_files(&catalog, &repo, 300, &[], 10).await.unwrap(), [files[0]]);
    assert_eq!(unused_files::drop_digests(&catalog, &scope(), 1000).await.unwrap(), 0);
    assert_eq!(unused_files::drop_files(&catalog, &files).await.unwrap(), 0);
    assert_eq!(unused_files::drop_repo_files(&catalog, &repo, &files, 300).await.unwrap(), 1);
    assert_eq!(files::files_by_sha256(&catalog, &scope(), &[Sha256::new(hash(1))]).await.unwrap().len(), 1);
    assert_eq!(unused_files::drop_digests(&catalog, &scope(), 1000).await.unwrap(), 1);
    assert_eq!(files::files_by_sha256(&catalog, &scope(), &[Sha256::new(hash(1))]).await.unwrap(), []);
    // Nothing may point to it from now on.
    assert!(!git_objects::add_git_objects(&catalog, repo.row.id, &[object(8, Some(1))], 400).await.unwrap());

    assert_eq!(unused_files::unread_files(&catalog, &[], 10).await.unwrap(), [files[0]]);
    assert_eq!(files::uses(&catalog, Use::Xorbs, &[hash(1), hash(2)]).await.unwrap().len(), 2);
    assert_eq!(unused_files::drop_files(&catalog, &files).await.unwrap(), 1);
    assert_eq!(files::uses(&catalog, Use::Xorbs, &[hash(1)]).await.unwrap(), []);
    assert_eq!(files::uses(&catalog, Use::Files, &[hash(1), hash(2)]).await.unwrap(), [(hash(2), 1)]);
    assert_eq!(files::recipes(&catalog, &files).await.unwrap().len(), 2);
    assert_eq!(condemned::unused(&catalog, StoredKind::Xorbs, 9999, &[], 10).await.unwrap(), [hash(1)]);
    assert_eq!(condemned::unused(&catalog, StoredKind::Shards, 9999, &[], 10).await.unwrap(), [hash(1)]);
}

async fn the_way_out_is_condemned_deletable_buried_forgotten(catalog: Any) {
    xorbs::add_xorbs(&catalog, &[xorb(1), xorb(2)]).await.unwrap();
    registered(&catalog, 3).await;
    let all = [hash(1), hash(2), hash(3)];
    let state =
        async |n| xorbs::xorbs(&catalog, &[XorbHash::new(hash(n))]).await.unwrap().pop().map(|row| row.state);
    assert_eq!(condemned::unused(&catalog, StoredKind::Xorbs, 100, &[], 10).await.unwrap(), [[0; 32]; 0]);
    assert_eq!(
        condemned::unused(&catalog, StoredKind::Xorbs, 101, &[], 10).await.unwrap(),
        [hash(1), hash(2)]
    );
    assert_eq!(condemned::unused(&catalog, StoredKind::Xorbs, 101, &hash(1), 10).await.unwrap(), [hash(2)]);
    assert_eq!(condemned::condemn(&catalog, StoredKind::Xorbs, &all, 101, 1000).await.unwrap(), 2);
    assert_eq!(condemned::ripe(&catalog, StoredKind::Xorbs, 1000, &[], 10).await.unwrap(), [[0; 32]; 0]);
    assert_eq!(
        condemned::ripe(&catalog, StoredKind::Xorbs, 1001, &[], 10).await.unwrap(),
        [hash(1), hash(2)]
    );
    // One is referred to and comes back.
    xorbs::touch_xorbs(&catalog, &[XorbHash::new(hash(2))], 1000).await.unwrap();
    assert_eq!(condemned::mark_deletable(&catalog, StoredKind::Xorbs, &all, 1001, 2000).await.unwrap(), 1);
    assert_eq!(state(1).await, Some(XorbState::Deleting));
    let deletable = DeletableObject { hash: hash(1), key: ObjectKey::Xorb(xorb(1).key), bytes: 1000 };
    assert_eq!(condemned::deletable(&catalog, StoredKind::Xorbs, &[], 10).await.unwrap(), [deletable]);

    // From here nobody gets it back under its old key.
    assert_eq!(xorbs::touch_xorbs(&catalog, &[XorbHash::new(hash(1))], 2000).await.unwrap(), []);
    let added = xorbs::add_xorbs(&catalog, &[xorb(1)]).await.unwrap();
    assert_eq!((added[0].was_inserted, added[0].row.state), (false, XorbState::Deleting));
    assert_eq!(
        register_shard(&catalog, &registration(1, 2000)).await.unwrap(),
        RegistrationOutcome::Missing(xorb(1).key.hash)
    );
    assert!(!replace_swept(&catalog, &xorb(1)).await.unwrap());
    condemned::bury(&catalog, StoredKind::Xorbs, &[hash(1), hash(3)], 3000).await.unwrap();
    assert_eq!((state(1).await, state(3).await), (Some(XorbState::Gone), Some(XorbState::Live)));
    let again = XorbRow { key: XorbKey { digest: Digest::new(hash(77)), ..xorb(1).key }, ..xorb(1) };
    assert!(
        !replace_swept(
            &catalog,
            &XorbRow { key: XorbKey { hash: xorb(2).key.hash, ..again.key }, ..again.clone() }
        )
        .await
        .unwrap()
    );
    assert!(replace_swept(&catalog, &again).await.unwrap());
    assert_eq!(xorbs::xorbs(&catalog, &[XorbHash::new(hash(1))]).await.unwrap(), [again]);

    condemned::condemn(&catalog, StoredKind::Xorbs, &[hash(1)], 9999, 5000).await.unwrap();
    condemned::mark_deletable(&catalog, StoredKind::Xorbs, &[hash(1)], 5001, 6000).await.unwrap();
    condemned::bury(&catalog, StoredKind::Xorbs, &[hash(1)], 7000).await.unwrap();
    assert_eq!(condemned::forget_buried(&catalog, StoredKind::Xorbs, 7000).await.unwrap(), 0);
    assert_eq!(condemned::forget_buried(&catalog, StoredKind::Xorbs, 7001).await.unwrap(), 1);
    assert_eq!(state(1).await, None);
    assert!(xorbs::add_xorbs(&catalog, &[xorb(1)]).await.unwrap()[0].was_inserted);
    // Its dedup entries were deleted with it; those of others stay.
    assert_eq!(
        index::dedup(&catalog, &Reach::All(Scope::new("eve", "repo").unwrap()), &[ChunkHash::new(hash(3))])
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn more_rows_than_a_statement_takes_go_at_once(catalog: Any) {
    const COUNT: u64 = 2 * BATCH_ROWS as u64 + 300;
    let repo = made(&catalog).await;
    let hashes: Vec<[u8; 32]> = (0..COUNT)
        .map(|n| {
            let mut hash = hash(7);
            hash[..8].copy_from_slice(&n.to_be_bytes());
            hash
        })
        .collect();
    let key = |hash: &[u8; 32]| XorbKey { hash: XorbHash::new(*hash), digest: Digest::new(*hash) };
    let xorbs: Vec<_> = hashes.iter().map(|hash| XorbRow { key: key(hash), ..xorb(1) }).collect();
    xorbs::add_xorbs(&catalog, &xorbs).await.unwrap();
    let one = registration(1, 100);
    let files: Vec<FileHash> = hashes.iter().copied().map(FileHash::new).collect();
    let file = |(hash, xorb): (&FileHash, &XorbRow)| {
        let mut recipe = RecipeBuilder::default();
        recipe.push(xorb.recipe_xorb(), 0..2, 10, 0..18);
        FileRow { hash: *hash, recipe: recipe.finish(), created_s: 100 }
    };
    let all = Registration {
        xorbs: xorbs.iter().map(|row| row.key.hash).collect(),
        files: files.iter().zip(&xorbs).map(file).collect(),
        sha256s: files.iter().map(|file| (Sha256::new(*file.as_bytes()), *file)).collect(),
        dedup: Vec::new(),
        ..one
    };
    assert_eq!(
        register_shard(&catalog, &all).await.unwrap(),
        RegistrationOutcome::Done { was_inserted: true }
    );

    assert_eq!(unused_files::idle_repo_files(&catalog, &repo, 300, &[], 10_000).await.unwrap(), files);
    assert_eq!(unused_files::drop_repo_files(&catalog, &repo, &files, 300).await.unwrap(), COUNT);
    assert_eq!(unused_files::drop_digests(&catalog, &scope(), 10_000).await.unwrap(), COUNT);
    assert_eq!(unused_files::drop_files(&catalog, &files).await.unwrap(), COUNT);
    assert_eq!(condemned::condemn(&catalog, StoredKind::Xorbs, &hashes, 300, 400).await.unwrap(), COUNT);
    assert_eq!(
        condemned::mark_deletable(&catalog, StoredKind::Xorbs, &hashes, 500, 600).await.unwrap(),
        COUNT
    );
    assert_eq!(
        condemned::deletable(&catalog, StoredKind::Xorbs, &[], 10_000).await.unwrap().len() as u64,
        COUNT
    );
    condemned::bury(&catalog, StoredKind::Xorbs, &hashes, 700).await.unwrap();
    assert_eq!(condemned::forget_buried(&catalog, StoredKind::Xorbs, 800).await.unwrap(), COUNT);
}

async fn an_unknown_object_becomes_deletable_and_a_known_one_is_left_alone(catalog: Any) {
    xorbs::add_xorbs(&catalog, &[xorb(1)]).await.unwrap();
    let key = |n, digest| {
        ObjectKey::Xorb(XorbKey { hash: XorbHash::new(hash(n)), digest: Digest::new(hash(digest)) })
    };
    let (known, loser, unknown) = (ObjectKey::Xorb(xorb(1).key), key(1, 50), key(2, 51));
    let shard = ObjectKey::Shard(ShardHash::new(hash(9)));
    let found = [(known, 5), (loser, 6), (unknown, 7), (shard, 8)];
    assert_eq!(condemned::claim(&catalog, &found, 500).await.unwrap(), [loser]);
    let deletable = condemned::deletable(&catalog, StoredKind::Xorbs, &[], 10).await.unwrap();
    assert_eq!(deletable, [DeletableObject { hash: hash(2), key: unknown, bytes: 7 }]);
    assert_eq!(condemned::deletable(&catalog, StoredKind::Shards, &[], 10).await.unwrap()[0].key, shard);
    // An upload of it that was under way must begin again.
    let late =
        XorbRow { key: XorbKey { hash: XorbHash::new(hash(2)), digest: Digest::new(hash(51)) }, ..xorb(2) };
    let added = xorbs::add_xorbs(&catalog, &[late]).await.unwrap();
    assert_eq!((added[0].was_inserted, added[0].row.state), (false, XorbState::Deleting));
    // A deletion that a power cut undid is done again.
    condemned::bury(&catalog, StoredKind::Xorbs, &[hash(2)], 600).await.unwrap();
    assert_eq!(condemned::claim(&catalog, &found, 700).await.unwrap(), [loser, unknown]);
}

async fn a_shard_that_is_being_deleted_is_not_registered(catalog: Any) {
    registered(&catalog, 1).await;
    let repo = made(&catalog).await;
    unused_files::drop_repo_files(&catalog, &repo, &[FileHash::new(hash(1))], 300).await.unwrap();
    unused_files::drop_files(&catalog, &[FileHash::new(hash(1))]).await.unwrap();
    assert_eq!(condemned::condemn(&catalog, StoredKind::Shards, &[hash(1)], 300, 400).await.unwrap(), 1);
    // RegistrationOutcome again it lives; its file was dropped, so it is new to the repository.
    let again = register_shard(&catalog, &registration(1, 500)).await.unwrap();
    assert_eq!(again, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!(
        condemned::mark_deletable(&catalog, StoredKind::Shards, &[hash(1)], 9999, 9999).await.unwrap(),
        0
    );
    unused_files::drop_repo_files(&catalog, &repo, &[FileHash::new(hash(1))], 600).await.unwrap();
    unused_files::drop_files(&catalog, &[FileHash::new(hash(1))]).await.unwrap();
    condemned::condemn(&catalog, StoredKind::Shards, &[hash(1)], 600, 700).await.unwrap();
    assert_eq!(
        condemned::mark_deletable(&catalog, StoredKind::Shards, &[hash(1)], 701, 800).await.unwrap(),
        1
    );
    assert_eq!(
        register_shard(&catalog, &registration(1, 900)).await.unwrap(),
        RegistrationOutcome::ShardSwept
    );
    assert_eq!(files::recipes(&catalog, &[FileHash::new(hash(1))]).await.unwrap(), []);
}

async fn files_of_an_older_version_stop_the_sweep_until_they_are_related(catalog: Any) {
    xorbs::add_xorbs(&catalog, &[xorb(5)]).await.unwrap();
    registered(&catalog, 1).await;
    let rows = files::recipes(&catalog, &[FileHash::new(hash(1))]).await.unwrap();
    assert_eq!(unused_files::unrelated_files(&catalog, 10).await.unwrap(), []);
    forget_relations(&catalog).await;
    assert_eq!(unused_files::unrelated_files(&catalog, 10).await.unwrap(), rows);
    assert_eq!(condemned::unused(&catalog, StoredKind::Xorbs, 9999, &[], 10).await.unwrap(), [[0; 32]; 0]);
    assert_eq!(condemned::condemn(&catalog, StoredKind::Xorbs, &[hash(5)], 9999, 9999).await.unwrap(), 0);
    unused_files::relate_files(&catalog, &rows).await.unwrap();
    assert_eq!(unused_files::unrelated_files(&catalog, 10).await.unwrap(), []);
    assert_eq!(condemned::unused(&catalog, StoredKind::Xorbs, 9999, &[], 10).await.unwrap(), [hash(5)]);
    // Which shard describes the file is unknown: it may be this one.
    assert_eq!(condemned::unused(&catalog, StoredKind::Shards, 9999, &[], 10).await.unwrap(), [[0; 32]; 0]);
}

/// Makes all files look as if an older version had registered them.
async fn forget_relations(catalog: &Catalog) {
    for statement in ["DELETE FROM file_xorbs", "UPDATE files SET shard = NULL"] {
        catalog.write_one("forget relations", Sql::new(statement)).await.unwrap();
    }
}

/// Both look, both act: the later one must see what the earlier one did.
async fn of_a_registration_and_a_sweep_at_once_neither_loses_a_file(catalog: Any) {
    let repo = made(&catalog).await;
    for round in 0..30_u64 {
        let n = 1 + (round % 3) as u8;
        let now_s = 1000 + round;
        xorbs::add_xorbs(&catalog, &[xorb(n)]).await.unwrap();
        register_shard(&catalog, &registration(n, now_s)).await.unwrap();
        let register = tokio::spawn({
            let catalog = catalog.clone();
            async move { register_shard(&catalog, &registration(n, now_s + 100)).await.unwrap() }
        });
        let sweep = tokio::spawn({
            let (catalog, repo) = (catalog.clone(), repo.clone());
            async move {
                let file = [FileHash::new(hash(n))];
                unused_files::drop_repo_files(&catalog, &repo, &file, now_s + 50).await.unwrap();
                unused_files::drop_files(&catalog, &file).await.unwrap();
                condemned::condemn(&catalog, StoredKind::Xorbs, &[hash(n)], now_s + 50, now_s).await.unwrap();
            }
        });
        let registered = register.await.unwrap();
        sweep.await.unwrap();
        assert!(matches!(registered, RegistrationOutcome::Done { .. }), "{registered:?}");
        let files = files::files(&catalog, &scope(), &[FileHash::new(hash(n))]).await.unwrap();
        assert_eq!(files.len(), 1, "round {round}");
        let xorbs = xorbs::xorbs(&catalog, &[XorbHash::new(hash(n))]).await.unwrap();
        assert_eq!(xorbs[0].state, XorbState::Live, "round {round}");
        assert_eq!(files::uses(&catalog, Use::Xorbs, &[hash(n)]).await.unwrap(), [(hash(n), 1)]);
    }
}

/// Replaces a row whose object is being deleted or was; returns whether it was such. The new object must have a key of
/// its own.
async fn replace_swept(db: &Catalog, row: &XorbRow) -> Result<bool> {
    let update = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
        state = 0, created_s = $5, referenced_s = $6, verified_s = $7 \
        WHERE hash = $8 AND state IN (2, 3) AND digest <> $1";
    let update = Sql::new(update)
        .bind(row.key.digest.as_bytes())
        .bind(row.object_bytes)
        .bind(row.raw_bytes)
        .bind(row.chunk_count)
        .bind(row.created_s)
        .bind(row.referenced_s)
        .bind(row.verified_s)
        .bind(row.key.hash);
    Ok(db.write_one("store a xorb again", update).await?.changed > 0)
}
