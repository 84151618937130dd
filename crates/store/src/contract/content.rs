//! What every catalog must do, run on each of them.

use std::sync::Arc;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use crate::access::Scope;
use crate::content::dedup::index;
use crate::content::put_shard::registration::{Registration, RegistrationOutcome, register_shard};
use crate::content::reach::{Reach, push_reach};
use crate::content::recipe::{FileRecipe, RecipeBuilder};
use crate::content::rows::{DedupRow, FileRow, ShardRow, XorbRow, XorbState};
use crate::content::{files, shards, xorbs};
use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::{ErrorKind, Result};
use crate::hub::tokens::{Bound, Rights, TokenRow, Tokens};
use crate::ids::{Digest, XorbKey};
use crate::upkeep::gc::condemned;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::inventory::{self, Counts};

type Any = Arc<Catalog>;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = (0..).map(|n| format!("sqlite://{}", folder.path().join(format!("{n}.db")).display()));
    keeps_the_contract(&mut || files.next().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_contract() {
    let Some(server) = testkit::postgres::Postgres::start() else { return };
    keeps_the_contract(&mut || server.fresh_database()).await;
}

/// Each clause gets an empty catalog; the last ones open theirs twice.
async fn keeps_the_contract(fresh: &mut dyn FnMut() -> String) {
    macro_rules! clauses {
        ($($clause:ident),* $(,)?) => { $(
            println!("{}", stringify!($clause));
            $clause(Catalog::open_or_create(&fresh()).await.unwrap()).await;
        )* };
    }
    clauses!(
        an_empty_catalog_knows_nothing,
        the_first_writer_of_a_xorb_wins,
        a_condemned_xorb_is_revived_by_a_reference,
        touching_reports_what_is_live_and_never_turns_time_back,
        a_registration_is_visible_in_its_repository_only,
        a_registration_may_be_repeated,
        a_registration_with_a_missing_xorb_leaves_nothing,
        one_digest_may_lead_to_several_files,
        dedup_sees_as_far_as_it_may,
        a_token_is_found_by_its_digest_and_listed,
        a_token_is_added_once,
        a_revoked_token_stays_revoked,
        a_revoked_token_takes_along_what_it_opened,
        batches_may_be_large_and_repeat_themselves,
        many_writers_at_once_agree,
        everyone_gets_the_secret_that_was_first,
    );
    a_catalog_opened_again_is_the_same(&fresh()).await;
    writers_of_two_handles_wait_for_each_other(&fresh()).await;
}

fn xorb(n: u64) -> XorbHash {
    XorbHash::new(bytes(n, 1))
}

fn file(n: u64) -> FileHash {
    FileHash::new(bytes(n, 2))
}

fn chunk(n: u64) -> ChunkHash {
    ChunkHash::new(bytes(n, 3))
}

fn sha256(n: u64) -> Sha256 {
    Sha256::new(bytes(n, 4))
}

fn bytes(n: u64, of: u8) -> [u8; 32] {
    let mut bytes = [of; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    bytes
}

pub(super) fn scope(text: &str) -> Scope {
    text.parse().unwrap()
}

pub(super) fn row(n: u64) -> XorbRow {
    XorbRow {
        key: XorbKey { hash: xorb(n), digest: Digest::new(bytes(n, 5)) },
        object_bytes: 1000 + n,
        raw_bytes: 3000,
        chunk_count: 20,
        state: XorbState::Live,
        created_s: 100,
        referenced_s: 100,
        verified_s: 100,
    }
}

fn recipe(of: &[u64]) -> FileRecipe {
    let mut builder = RecipeBuilder::default();
    of.iter().for_each(|n| builder.push(row(*n).recipe_xorb(), 0..2, 10, 0..18));
    builder.finish()
}

/// File `n` in xorb `n`, its digest, and chunk `n` to find it again.
pub(super) fn registration(scope: &Scope, ns: &[u64]) -> Registration {
    let file_row = |n: &u64| FileRow { hash: file(*n), recipe: recipe(&[*n]), created_s: 200 };
    Registration {
        scope: scope.clone(),
        shard: ShardRow { hash: ShardHash::new(bytes(ns.iter().sum(), 6)), object_bytes: 77, created_s: 200 },
        xorbs: ns.iter().map(|n| xorb(*n)).collect(),
        files: ns.iter().map(file_row).collect(),
        sha256s: ns.iter().map(|n| (sha256(*n), file(*n))).collect(),
        dedup: ns.iter().map(|n| DedupRow { chunk: chunk(*n), xorb: xorb(*n), chunk_index: 7 }).collect(),
        now_s: 200,
    }
}

async fn with_xorbs(catalog: &Any, ns: impl IntoIterator<Item = u64>) {
    let rows: Vec<_> = ns.into_iter().map(row).collect();
    assert!(xorbs::add_xorbs(catalog, &rows).await.unwrap().iter().all(|added| added.was_inserted));
}

async fn an_empty_catalog_knows_nothing(catalog: Any) {
    assert_eq!(xorbs::xorbs(&catalog, &[xorb(1)]).await.unwrap(), []);
    assert_eq!(xorbs::xorbs(&catalog, &[]).await.unwrap(), []);
    assert_eq!(xorbs::add_xorbs(&catalog, &[]).await.unwrap(), []);
    assert_eq!(xorbs::touch_xorbs(&catalog, &[], 5).await.unwrap(), []);
    assert_eq!(files::files(&catalog, &scope("a/b"), &[file(1)]).await.unwrap(), []);
    assert_eq!(files::files_by_sha256(&catalog, &scope("a/b"), &[sha256(1)]).await.unwrap(), []);
    assert_eq!(
        index::dedup(&catalog, &Reach::All(Scope::new("eve", "repo").unwrap()), &[chunk(1)]).await.unwrap(),
        []
    );
    assert_eq!(shards::shards(&catalog, &[ShardHash::ZERO]).await.unwrap(), []);
    assert_eq!(inventory::counts(&catalog).await.unwrap(), Counts::default());
}

async fn the_first_writer_of_a_xorb_wins(catalog: Any) {
    let mut other = row(1);
    other.key.digest = Digest::new([9; 32]);
    let added = xorbs::add_xorbs(&catalog, &[row(1)]).await.unwrap();
    assert_eq!((added[0].was_inserted, &added[0].row), (true, &row(1)));
    let added = xorbs::add_xorbs(&catalog, &[other, row(2)]).await.unwrap();
    let of = |n| added.iter().find(|added| added.row.key.hash == xorb(n)).unwrap();
    assert_eq!((of(1).was_inserted, &of(1).row), (false, &row(1)));
    assert_eq!((of(2).was_inserted, &of(2).row), (true, &row(2)));
    assert_eq!(xorbs::xorbs(&catalog, &[xorb(1), xorb(3), xorb(1)]).await.unwrap(), [row(1)]);
}

async fn a_condemned_xorb_is_revived_by_a_reference(catalog: Any) {
    with_xorbs(&catalog, [1, 2]).await;
    xorbs::touch_xorbs(&catalog, &[xorb(2)], 300).await.unwrap();
    let state = async |n| xorbs::xorbs(&catalog, &[xorb(n)]).await.unwrap()[0].state;
    // One was referred to since, one does not exist.
    let condemn = async |before_s| {
        let hashes = [bytes(1, 1), bytes(2, 1), bytes(3, 1)];
        condemned::condemn(&catalog, StoredKind::Xorbs, &hashes, before_s, before_s).await.unwrap()
    };
    assert_eq!(condemn(300).await, 1);
    assert_eq!(condemn(300).await, 0);
    assert_eq!((state(1).await, state(2).await), (XorbState::Condemned, XorbState::Live));
    assert_eq!(xorbs::touch_xorbs(&catalog, &[xorb(1)], 310).await.unwrap(), [xorb(1)]);
    assert_eq!(state(1).await, XorbState::Live);

    assert_eq!(condemn(320).await, 2);
    let added =
        xorbs::add_xorbs(&catalog, &[XorbRow { referenced_s: 320, created_s: 320, ..row(1) }]).await.unwrap();
    assert_eq!((added[0].was_inserted, &added[0].row), (false, &XorbRow { referenced_s: 320, ..row(1) }));
    let registered = register_shard(&catalog, &registration(&scope("ann/repo"), &[1, 2])).await.unwrap();
    assert_eq!(registered, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!(state(2).await, XorbState::Live);
    // Now files are made of them.
    assert_eq!(condemn(9000).await, 0);
}

async fn touching_reports_what_is_live_and_never_turns_time_back(catalog: Any) {
    with_xorbs(&catalog, [1, 2]).await;
    assert_eq!(xorbs::touch_xorbs(&catalog, &[xorb(1), xorb(9)], 500).await.unwrap(), [xorb(1)]);
    assert_eq!(xorbs::touch_xorbs(&catalog, &[xorb(1)], 400).await.unwrap(), [xorb(1)]);
    let found = xorbs::xorbs(&catalog, &[xorb(1), xorb(2)]).await.unwrap();
    let mut times: Vec<_> = found.iter().map(|row| (row.key.hash, row.referenced_s)).collect();
    times.sort();
    assert_eq!(times, [(xorb(1), 500), (xorb(2), 100)]);
}

async fn a_registration_is_visible_in_its_repository_only(catalog: Any) {
    with_xorbs(&catalog, [1, 2]).await;
    let (here, there) = (scope("ann/here"), scope("ann/there"));
    let done = register_shard(&catalog, &registration(&here, &[1, 2])).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: true });

    let expected = FileRow { hash: file(1), recipe: recipe(&[1]), created_s: 200 };
    assert_eq!(
        files::files(&catalog, &here, &[file(1), file(3)]).await.unwrap(),
        std::slice::from_ref(&expected)
    );
    assert_eq!(files::files(&catalog, &there, &[file(1)]).await.unwrap(), []);
    for (scope, hash, seen) in [(&here, 1, Some(expected)), (&here, 3, None), (&there, 1, None)] {
        assert!(
            files::try_file_now(&catalog, scope, file(hash)).is_none_or(|found| found == seen),
            "{scope} {hash}"
        );
    }
    assert_eq!(files::files_by_sha256(&catalog, &here, &[sha256(2)]).await.unwrap(), [(sha256(2), file(2))]);
    assert_eq!(files::files_by_sha256(&catalog, &there, &[sha256(2)]).await.unwrap(), []);
    assert_eq!(xorbs::xorbs(&catalog, &[xorb(1)]).await.unwrap()[0].referenced_s, 200);
    let shard = registration(&here, &[1, 2]).shard;
    assert_eq!(shards::shards(&catalog, &[shard.hash]).await.unwrap(), [shard]);

    let done = register_shard(&catalog, &registration(&there, &[1])).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!(files::files(&catalog, &there, &[file(1), file(2)]).await.unwrap().len(), 1);
}

async fn a_registration_may_be_repeated(catalog: Any) {
    with_xorbs(&catalog, [1]).await;
    let first = registration(&scope("ann/repo"), &[1]);
    register_shard(&catalog, &first).await.unwrap();
    let counts = inventory::counts(&catalog).await.unwrap();
    // The same file under other terms, as another client would cut it into xorbs: the first stays.
    let mut again = first.clone();
    again.files[0].recipe = recipe(&[1, 1]);
    again.files[0].created_s = 999;
    let done = register_shard(&catalog, &again).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: false });
    assert_eq!(inventory::counts(&catalog).await.unwrap(), counts);
    assert_eq!(files::files(&catalog, &first.scope, &[file(1)]).await.unwrap(), first.files);
}

async fn a_registration_with_a_missing_xorb_leaves_nothing(catalog: Any) {
    with_xorbs(&catalog, [1]).await;
    let before = inventory::counts(&catalog).await.unwrap();
    let registration = registration(&scope("ann/repo"), &[1, 2]);
    assert_eq!(register_shard(&catalog, &registration).await.unwrap(), RegistrationOutcome::Missing(xorb(2)));
    assert_eq!(inventory::counts(&catalog).await.unwrap(), before);
    assert_eq!(xorbs::xorbs(&catalog, &[xorb(1)]).await.unwrap(), [row(1)]);
}

async fn one_digest_may_lead_to_several_files(catalog: Any) {
    with_xorbs(&catalog, [1, 2]).await;
    let mut registration = registration(&scope("ann/repo"), &[1, 2]);
    registration.sha256s = vec![(sha256(1), file(1)), (sha256(1), file(2)), (sha256(1), file(1))];
    register_shard(&catalog, &registration).await.unwrap();
    let mut found =
        files::files_by_sha256(&catalog, &registration.scope, &[sha256(1), sha256(1)]).await.unwrap();
    found.sort();
    assert_eq!(found, [(sha256(1), file(1)), (sha256(1), file(2))]);
}

async fn dedup_sees_as_far_as_it_may(catalog: Any) {
    with_xorbs(&catalog, [1, 2]).await;
    let (mine, ours, theirs) = (scope("ann/mine"), scope("ann/ours"), scope("bob/theirs"));
    register_shard(&catalog, &registration(&ours, &[1])).await.unwrap();
    register_shard(&catalog, &registration(&theirs, &[2])).await.unwrap();
    let seen = async |reach: Reach| {
        let mut hits = index::dedup(&catalog, &reach, &[chunk(1), chunk(2), chunk(3)]).await.unwrap();
        hits.sort_by_key(|hit| hit.chunk);
        for chunk in [chunk(1), chunk(2), chunk(3)] {
            let is_hit = hits.iter().any(|hit| hit.chunk == chunk);
            assert!(
                index::peek_chunk(&catalog, &reach, chunk).is_none_or(|found| found == is_hit),
                "{reach:?} {chunk}"
            );
        }
        hits.iter().map(|hit| (hit.xorb.key.hash, hit.chunk_index)).collect::<Vec<_>>()
    };
    assert_eq!(seen(Reach::All(Scope::new("eve", "repo").unwrap())).await, [(xorb(1), 7), (xorb(2), 7)]);
    assert_eq!(seen(Reach::Namespace(scope("ann/other"))).await, [(xorb(1), 7)]);
    assert_eq!(seen(Reach::Namespace(scope("bob/other"))).await, [(xorb(2), 7)]);
    assert_eq!(seen(Reach::Repo(ours)).await, [(xorb(1), 7)]);
    assert_eq!(seen(Reach::Repo(mine.clone())).await, []);

    let knows = async |reach: Reach| {
        [
            has_xorb(&catalog, &reach, xorb(1)).await.unwrap(),
            has_xorb(&catalog, &reach, xorb(2)).await.unwrap(),
        ]
    };
    assert_eq!(knows(Reach::All(Scope::new("eve", "repo").unwrap())).await, [true, true]);
    assert_eq!(knows(Reach::Namespace(scope("ann/other"))).await, [true, false]);
    assert_eq!(knows(Reach::Namespace(scope("bob/other"))).await, [false, true]);
    assert_eq!(knows(Reach::Repo(scope("ann/ours"))).await, [true, false]);
    assert_eq!(knows(Reach::Repo(mine)).await, [false, false]);
    assert!(!has_xorb(&catalog, &Reach::All(Scope::new("eve", "repo").unwrap()), xorb(3)).await.unwrap());
}

fn token(n: u64) -> TokenRow {
    let bound = match n % 3 {
        0 => Bound::Everywhere,
        1 => Bound::Namespace("ann".into()),
        _ => Bound::Repo(scope("ann/models/a")),
    };
    TokenRow {
        id: format!("id{n}"),
        label: "laptop".into(),
        digest: bytes(n, 8),
        subject: "ann".into(),
        rights: Rights::ALL[n as usize % 3],
        bound,
        created_s: 1000 - n,
        expires_s: n.is_multiple_of(2).then_some(5000),
        used_s: None,
        revoked_s: None,
        repo_id: None,
        session: None,
    }
}

async fn a_token_is_found_by_its_digest_and_listed(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    assert_eq!(tokens.password("ann").await.unwrap(), None);
    for hash in ["one", "two"] {
        tokens.set_password("ann", Some(hash), 5, None).await.unwrap();
        assert_eq!(tokens.password("ann").await.unwrap().as_deref(), Some(hash));
    }
    tokens.set_password("ann", None, 6, None).await.unwrap();
    assert_eq!(tokens.password("ann").await.unwrap(), None);
    assert_eq!(tokens.all().await.unwrap(), []);
    for n in 0..4 {
        assert!(tokens.add(&token(n)).await.unwrap());
    }
    for n in 0..4 {
        assert_eq!(tokens.by_digest(&token(n).digest).await.unwrap(), Some(token(n)));
    }
    assert_eq!(tokens.by_digest(&token(9).digest).await.unwrap(), None);
    assert_eq!(tokens.all().await.unwrap(), [3, 2, 1, 0].map(token));
}

async fn a_token_is_added_once(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    assert!(tokens.add(&token(1)).await.unwrap());
    // The same id with more rights, the same digest under another id: neither changes anything.
    assert!(!tokens.add(&TokenRow { rights: Rights::Admin, ..token(1) }).await.unwrap());
    assert!(!tokens.add(&TokenRow { digest: token(1).digest, ..token(2) }).await.unwrap());
    assert_eq!(tokens.all().await.unwrap(), [token(1)]);
}

async fn a_revoked_token_stays_revoked(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    tokens.add(&token(1)).await.unwrap();
    tokens.add(&token(2)).await.unwrap();
    tokens.note_use("id1", 2000).await.unwrap();
    tokens.note_use("id1", 1500).await.unwrap();
    tokens.note_use("nobody", 1500).await.unwrap();
    let revoked = TokenRow { used_s: Some(2000), revoked_s: Some(3000), ..token(1) };
    assert_eq!(tokens.revoke("id1", 3000).await.unwrap(), Some(revoked.clone()));
    assert_eq!(tokens.revoke("id1", 4000).await.unwrap(), Some(revoked.clone()));
    assert_eq!(tokens.revoke("nobody", 4000).await.unwrap(), None);
    assert!(!tokens.add(&token(1)).await.unwrap());
    assert_eq!(tokens.by_digest(&token(1).digest).await.unwrap(), Some(revoked));
    assert_eq!(tokens.by_digest(&token(2).digest).await.unwrap(), Some(token(2)));
}

async fn a_revoked_token_takes_along_what_it_opened(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    let opened = |n, id: &str| TokenRow { id: id.to_owned(), ..token(n) };
    let others = [opened(6, "id12"), opened(7, "id2.x"), opened(8, "x.id1")];
    for row in [token(1), opened(4, "id1.a"), opened(5, "id1.a.b")].iter().chain(&others) {
        assert!(tokens.add(row).await.unwrap());
    }
    tokens.revoke("id1.a.b", 2000).await.unwrap();
    assert_eq!(tokens.revoke("id1", 3000).await.unwrap().unwrap().id, "id1");
    let mut ended: Vec<_> =
        tokens.all().await.unwrap().into_iter().filter_map(|row| Some((row.id, row.revoked_s?))).collect();
    ended.sort();
    let expected = [("id1", 3000), ("id1.a", 3000), ("id1.a.b", 2000)];
    assert_eq!(ended, expected.map(|(id, time_s)| (id.to_owned(), time_s)));
}

async fn batches_may_be_large_and_repeat_themselves(catalog: Any) {
    let ns: Vec<u64> = (0..2500).collect();
    let mut rows: Vec<_> = ns.iter().map(|n| row(*n)).collect();
    rows.extend((0..100).map(row));
    let added = xorbs::add_xorbs(&catalog, &rows).await.unwrap();
    assert_eq!(added.iter().filter(|added| added.was_inserted).count(), 2500);
    assert_eq!(added.len(), 2500);
    let hashes: Vec<_> = ns.iter().chain(&ns).map(|n| xorb(*n)).collect();
    assert_eq!(xorbs::xorbs(&catalog, &hashes).await.unwrap().len(), 2500);
    assert_eq!(xorbs::touch_xorbs(&catalog, &hashes, 300).await.unwrap().len(), 2500);

    let mut registration = registration(&scope("ann/repo"), &ns);
    registration.files.push(registration.files[0].clone());
    registration.xorbs.push(xorb(0));
    register_shard(&catalog, &registration).await.unwrap();
    let counts = inventory::counts(&catalog).await.unwrap();
    assert_eq!((counts.files, counts.repo_files, counts.sha256s, counts.dedup), (2500, 2500, 2500, 2500));
    assert_eq!((counts.raw_bytes, counts.file_bytes), (7_500_000, 25_000));
    let files: Vec<_> = ns.iter().map(|n| file(*n)).collect();
    assert_eq!(files::files(&catalog, &registration.scope, &files).await.unwrap().len(), 2500);
}

/// Writers of overlapping sets in opposite orders: each row has one winner, and nobody gives up.
async fn many_writers_at_once_agree(catalog: Any) {
    let writers = (0..16).map(|writer| {
        let catalog = catalog.clone();
        tokio::spawn(async move {
            let mut rows: Vec<_> = (0..50).map(row).collect();
            rows.iter_mut().for_each(|row| row.key.digest = Digest::new([writer; 32]));
            let mut ns: Vec<u64> = (0..50).collect();
            if writer % 2 == 1 {
                rows.reverse();
                ns.reverse();
            }
            let added = xorbs::add_xorbs(&catalog, &rows).await.unwrap();
            register_shard(&catalog, &registration(&scope("ann/repo"), &ns)).await.unwrap();
            added.iter().filter(|added| added.was_inserted).count()
        })
    });
    let mut inserted = 0;
    for writer in writers.collect::<Vec<_>>() {
        inserted += writer.await.unwrap();
    }
    assert_eq!(inserted, 50);
    assert_eq!(inventory::counts(&catalog).await.unwrap().files, 50);
}

async fn everyone_gets_the_secret_that_was_first(catalog: Any) {
    let askers = (0..16_u8).map(|asker| {
        let catalog = catalog.clone();
        tokio::spawn(async move { catalog.agree("key", &[asker; 32]).await.unwrap() })
    });
    let mut answers = Vec::new();
    for asker in askers.collect::<Vec<_>>() {
        answers.push(asker.await.unwrap());
    }
    assert!(answers.iter().all(|answer| answer.len() == 32 && *answer == answers[0]), "{answers:?}");
    assert_eq!(catalog.agree("key", b"late").await.unwrap(), answers[0]);
    assert_eq!(catalog.agree("another", b"").await.unwrap(), b"");
    assert_eq!(catalog.agreed("key").await.unwrap().as_ref(), Some(&answers[0]));
    assert_eq!(catalog.agreed("none").await.unwrap(), None);
}

async fn a_catalog_opened_again_is_the_same(url: &str) {
    let first = Catalog::open_or_create(url).await.unwrap();
    with_xorbs(&first, [1]).await;
    let second = Catalog::open_or_create(url).await.unwrap();
    assert_eq!(xorbs::xorbs(&second, &[xorb(1)]).await.unwrap(), [row(1)]);
    let done = register_shard(&second, &registration(&scope("ann/repo"), &[1])).await.unwrap();
    assert_eq!(done, RegistrationOutcome::Done { was_inserted: true });
    assert_eq!(files::files(&first, &scope("ann/repo"), &[file(1)]).await.unwrap().len(), 1);
}

/// As two processes would: nothing is shared but the database.
async fn writers_of_two_handles_wait_for_each_other(url: &str) {
    let handles = [Catalog::open_or_create(url).await.unwrap(), Catalog::open_or_create(url).await.unwrap()];
    let writers = (0..8).map(|writer: u64| {
        let catalog = handles[writer as usize % 2].clone();
        tokio::spawn(async move {
            let repo = scope(&format!("ann/{writer}"));
            for round in 0..10 {
                let n = writer * 10 + round;
                with_xorbs(&catalog, [n]).await;
                register_shard(&catalog, &registration(&repo, &[n])).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    for catalog in handles {
        let counts = inventory::counts(&catalog).await.unwrap();
        assert_eq!((counts.xorbs, counts.repo_files), (80, 80));
    }
}

#[tokio::test]
async fn a_catalog_of_no_known_kind_is_refused() {
    for url in ["", "mysql://x", "plain/path", "postgres://[", "sqlite://x?mode=nonsense"] {
        assert_eq!(Catalog::open_or_create(url).await.unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
}

/// Foreign content of the file is detected, not trusted.
#[tokio::test]
async fn impossible_rows_are_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_file(&path).await.unwrap();
    let here = scope("ann/repo");
    xorbs::add_xorbs(&catalog, &[row(1)]).await.unwrap();
    register_shard(&catalog, &registration(&here, &[1])).await.unwrap();

    for damage in ["UPDATE xorbs SET state = 7", "UPDATE files SET layout = x'02'"] {
        catalog.write_one("damage", Sql::new(damage)).await.unwrap();
    }
    assert_eq!(xorbs::xorbs(&catalog, &[xorb(1)]).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(files::files(&catalog, &here, &[file(1)]).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Whether a repository within reach registered something that is made of this xorb.
pub(super) async fn has_xorb(db: &Catalog, reach: &Reach, xorb: XorbHash) -> Result<bool> {
    let mut query = Sql::new("SELECT r.xorb FROM repo_xorbs r WHERE r.xorb = ");
    query.push_bind(xorb);
    push_reach(&mut query, "r", reach);
    query.push(" LIMIT 1");
    Ok(db.read_one::<XorbHash>("find a xorb", query.short()).await?.is_some())
}
