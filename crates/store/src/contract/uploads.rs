//! What every catalog must do about uploads and dedup policies, run on each of them.

use std::sync::Arc;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::content::has_xorb;
use crate::access::Scope;
use crate::content::dedup::index;
use crate::content::dedup_policy::{self, DedupPolicy};
use crate::content::multipart_upload::{self, PartRow};
use crate::content::put_shard::registration::{Registration, RegistrationOutcome, register_shard};
use crate::content::quotas::usage::{self, QuotaOf};
use crate::content::reach::Reach;
use crate::content::recipe::RecipeBuilder;
use crate::content::rows::{DedupRow, FileRow, ShardRow, XorbRow, XorbState};
use crate::content::uploads::{self, NewObject, UploadRow};
use crate::db::Catalog;
use crate::hub::repos;
use crate::hub::rows::RepoRow;
use crate::ids::{Digest, RepoId, XorbKey};
use crate::names::{Kind, RepoName};
use crate::upkeep::gc::condemned;
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::inventory;
use crate::upkeep::verify::marks;

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_uploads, postgres_keeps_the_contract_of_uploads:
    an_upload_is_recorded_with_the_row_of_its_xorb_and_gives_the_right_to_refer_to_it,
    an_upload_of_a_xorb_that_is_being_deleted_needs_a_fresh_key,
    a_damaged_xorb_records_nothing,
    what_was_never_registered_is_abandoned_when_its_repository_sends_no_more,
    uploads_count_until_they_are_registered,
    parts_count_until_they_are_dropped,
    a_file_is_readable_where_it_is_registered,
    policies_narrow_what_is_found_in_both_directions,
    off_takes_chunks_out_of_the_index_and_keeps_them_out,
    uploads_and_policies_follow_a_repository_to_its_new_name,
    many_uploads_of_one_xorb_are_recorded_once_for_each_repository,
);

fn scope(text: &str) -> Scope {
    text.parse().unwrap()
}

fn hash(n: u8) -> XorbHash {
    XorbHash::new([n; 32])
}

fn xorb(n: u8) -> XorbRow {
    XorbRow {
        key: XorbKey { hash: hash(n), digest: Digest::new([n; 32]) },
        object_bytes: 1000,
        raw_bytes: 3000,
        chunk_count: 9,
        state: XorbState::Live,
        created_s: 100,
        referenced_s: 100,
        verified_s: 100,
    }
}

fn object(n: u8) -> NewObject {
    NewObject { row: xorb(n), has_fresh_key: false }
}

fn upload(of: &str, n: u8) -> UploadRow {
    UploadRow { scope: scope(of), sender: None, xorb: hash(n), object_bytes: 900, uploaded_s: 100 }
}

/// File `n` in xorb `n`, and chunk `n` to find it again.
async fn register(catalog: &Any, of: &str, n: u8) {
    let mut recipe = RecipeBuilder::default();
    recipe.push(xorb(n).recipe_xorb(), 0..1, 300, 0..9);
    let registration = Registration {
        scope: scope(of),
        shard: ShardRow { hash: ShardHash::new([n; 32]), object_bytes: 5, created_s: 1 },
        xorbs: vec![hash(n)],
        files: vec![FileRow { hash: FileHash::new([n; 32]), recipe: recipe.finish(), created_s: 1 }],
        sha256s: Vec::new(),
        dedup: vec![DedupRow { chunk: ChunkHash::new([n; 32]), xorb: hash(n), chunk_index: 0 }],
        now_s: 200,
    };
    assert!(matches!(
        register_shard(catalog, &registration).await.unwrap(),
        RegistrationOutcome::Done { .. }
    ));
}

async fn reference(
    catalog: &Any,
    of: &str,
    sender: Option<&str>,
    n: u8,
) -> Option<(Option<u64>, bool, bool, bool)> {
    let (scope, within) = (scope(of), Reach::All(scope(of)));
    let found =
        uploads::references(catalog, &scope, sender, Some(&within), &[hash(n), hash(n)]).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| (found.sent_bytes, found.is_senders, found.is_registered, found.is_within))
        .collect();
    assert!(found.len() <= 1);
    found.first().copied()
}

async fn an_upload_is_recorded_with_the_row_of_its_xorb_and_gives_the_right_to_refer_to_it(catalog: Any) {
    let sent = UploadRow { sender: Some("token".into()), ..upload("ann/a", 1) };
    let none = uploads::record_upload(&catalog, &sent, None).await.unwrap();
    assert_eq!((none.row, none.was_inserted, none.is_new), (None, false, false));
    assert_eq!(reference(&catalog, "ann/a", None, 1).await, None);
    let first = uploads::record_upload(&catalog, &sent, Some(&object(1))).await.unwrap();
    assert_eq!((first.row, first.was_inserted, first.is_new), (Some(xorb(1)), true, true));
    let again = uploads::record_upload(&catalog, &UploadRow { uploaded_s: 150, ..sent }, None).await.unwrap();
    let touched = XorbRow { referenced_s: 150, ..xorb(1) };
    assert_eq!((again.row, again.was_inserted, again.is_new), (Some(touched), false, false));
    // Another repository's upload is not reported.
    let other = uploads::record_upload(&catalog, &upload("bob/b", 1), Some(&object(1))).await.unwrap();
    assert_eq!((other.was_inserted, other.is_new), (false, true));

    assert_eq!(reference(&catalog, "ann/a", None, 1).await, Some((Some(900), false, false, false)));
    assert_eq!(reference(&catalog, "eve/e", None, 1).await, Some((None, false, false, false)));
    assert_eq!(reference(&catalog, "eve/e", Some("token"), 1).await, Some((None, true, false, false)));
    assert_eq!(reference(&catalog, "eve/e", Some(""), 1).await, Some((None, false, false, false)));
    register(&catalog, "ann/a", 1).await;
    assert_eq!(reference(&catalog, "ann/a", None, 1).await, Some((None, false, true, true)));
    assert_eq!(reference(&catalog, "eve/e", None, 1).await, Some((None, false, false, true)));
    let known = uploads::record_upload(&catalog, &upload("ann/a", 1), None).await.unwrap();
    assert!(!known.is_new, "it is registered there");
    let found = uploads::references(&catalog, &scope("eve/e"), None, None, &[hash(1)]).await.unwrap();
    assert!(!found[0].is_within, "where the policy is off nothing is within reach");
}

async fn an_upload_of_a_xorb_that_is_being_deleted_needs_a_fresh_key(catalog: Any) {
    uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&object(1))).await.unwrap();
    condemned::condemn(&catalog, StoredKind::Xorbs, &[[1; 32]], 1000, 1000).await.unwrap();
    let revived = uploads::record_upload(&catalog, &upload("bob/b", 1), None).await.unwrap();
    assert_eq!(revived.row.unwrap().state, XorbState::Live);
    condemned::condemn(&catalog, StoredKind::Xorbs, &[[1; 32]], 1000, 1000).await.unwrap();
    assert_eq!(
        condemned::mark_deletable(&catalog, StoredKind::Xorbs, &[[1; 32]], 1001, 2000).await.unwrap(),
        1
    );
    assert_eq!(reference(&catalog, "ann/a", None, 1).await, Some((None, false, false, false)));
    for object in [None, Some(object(1))] {
        let recorded = uploads::record_upload(&catalog, &upload("ann/a", 1), object.as_ref()).await.unwrap();
        let state = recorded.row.map(|row| row.state);
        assert_eq!((state, recorded.is_new), (Some(XorbState::Deleting), false));
    }
    let row = XorbRow { key: XorbKey { digest: Digest::new([9; 32]), ..xorb(1).key }, ..xorb(1) };
    let stale = NewObject { row: row.clone(), has_fresh_key: false };
    assert!(!uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&stale)).await.unwrap().was_inserted);
    let fresh = NewObject { row: row.clone(), has_fresh_key: true };
    let recorded = uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&fresh)).await.unwrap();
    assert_eq!((recorded.row, recorded.was_inserted, recorded.is_new), (Some(row), true, true));
}

async fn what_was_never_registered_is_abandoned_when_its_repository_sends_no_more(catalog: Any) {
    let sent = |repo: &str, n: u8, uploaded_s| UploadRow { uploaded_s, ..upload(repo, n) };
    let object = |n: u8| NewObject { row: XorbRow { referenced_s: 100, ..xorb(n) }, has_fresh_key: true };
    uploads::record_upload(&catalog, &sent("ann/a", 1, 100), Some(&object(1))).await.unwrap();
    uploads::record_upload(&catalog, &sent("ann/a", 2, 100), Some(&object(2))).await.unwrap();
    register(&catalog, "bob/b", 2).await;
    assert_eq!(condemned::abandoned(&catalog, 100, &[], 9).await.unwrap(), [[0; 32]; 0], "sent a moment ago");
    assert_eq!(
        condemned::abandoned(&catalog, 101, &[], 9).await.unwrap(),
        [[1; 32]],
        "the other is registered"
    );
    assert_eq!(
        condemned::abandoned(&catalog, 101, &[1; 32], 9).await.unwrap(),
        [[0; 32]; 0],
        "pages go on after a key"
    );
    uploads::record_upload(&catalog, &sent("ann/a", 3, 300), Some(&object(3))).await.unwrap();
    assert_eq!(
        condemned::abandoned(&catalog, 300, &[], 9).await.unwrap(),
        [[0; 32]; 0],
        "its repository goes on sending"
    );
    assert_eq!(condemned::doom_abandoned(&catalog, &[[1; 32], [2; 32]], 300, 400).await.unwrap(), 0);
    assert_eq!(condemned::doom_abandoned(&catalog, &[[1; 32], [2; 32]], 301, 400).await.unwrap(), 1);
    assert_eq!(reference(&catalog, "ann/a", None, 1).await, Some((None, false, false, false)));
    assert_eq!(condemned::deletable(&catalog, StoredKind::Xorbs, &[], 9).await.unwrap().len(), 1);
}

async fn a_damaged_xorb_records_nothing(catalog: Any) {
    uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&object(1))).await.unwrap();
    marks::mark_damaged(&catalog, &[xorb(1).key], 100).await.unwrap();
    let recorded = uploads::record_upload(&catalog, &upload("bob/b", 1), Some(&object(1))).await.unwrap();
    assert_eq!((recorded.row.unwrap().state, recorded.is_new), (XorbState::Damaged, false));
    assert_eq!(reference(&catalog, "bob/b", None, 1).await, Some((None, false, false, false)));
}

async fn stored_bytes(catalog: &Any, of: &str) -> u64 {
    usage::usage(catalog, &of.parse().unwrap()).await.unwrap().physical_bytes
}

async fn uploads_count_until_they_are_registered(catalog: Any) {
    for n in 1..=3 {
        uploads::record_upload(&catalog, &upload("ann/models/a", n), Some(&object(n))).await.unwrap();
        uploads::record_upload(&catalog, &upload("ann/models/a", n), None).await.unwrap();
    }
    uploads::record_upload(&catalog, &upload("ann/models/b", 1), None).await.unwrap();
    assert_eq!((stored_bytes(&catalog, "ann/a").await, stored_bytes(&catalog, "ann").await), (2700, 3600));
    assert_eq!(stored_bytes(&catalog, "bob").await, 0);
    register(&catalog, "ann/models/a", 1).await;
    assert_eq!((stored_bytes(&catalog, "ann/a").await, stored_bytes(&catalog, "ann").await), (2800, 3700));
    // What is older, and in a file, counts for those who registered it alone.
    assert_eq!(uploads::drop_uploads(&catalog, 100).await.unwrap(), 0);
    assert_eq!(uploads::drop_uploads(&catalog, 101).await.unwrap(), 1);
    assert_eq!((stored_bytes(&catalog, "ann/a").await, stored_bytes(&catalog, "ann").await), (2800, 2800));
}

fn repo(n: u8, name: &str) -> RepoRow {
    let name = RepoName::new(Kind::Model, "ann", name).unwrap();
    RepoRow { id: RepoId::new([n; 16]), name, private: false, created_s: 1, updated_s: 1, reclaim_s: None }
}

async fn parts_count_until_they_are_dropped(catalog: Any) {
    repos::create_repo(&catalog, &repo(1, "a"), &[], &[]).await.unwrap();
    let file = Sha256::new([5; 32]);
    let part = |number, bytes| PartRow { repo: RepoId::new([1; 16]), file, number, bytes, stored_s: 10 };
    // Of two with one number the longest counts: which of them is stored is not known.
    for part in [part(1, 500), part(2, 300), part(2, 400), part(2, 1)] {
        multipart_upload::add_part(&catalog, &part).await.unwrap();
    }
    multipart_upload::add_part(&catalog, &PartRow { repo: RepoId::new([2; 16]), ..part(1, 7) })
        .await
        .unwrap();
    assert_eq!((stored_bytes(&catalog, "ann/a").await, stored_bytes(&catalog, "ann").await), (900, 900));
    assert_eq!(multipart_upload::drop_old_parts(&catalog, 10).await.unwrap(), 0);
    multipart_upload::drop_parts(&catalog, RepoId::new([1; 16]), file).await.unwrap();
    assert_eq!(stored_bytes(&catalog, "ann/a").await, 0);
    assert_eq!(multipart_upload::drop_old_parts(&catalog, 11).await.unwrap(), 1);
}

async fn a_file_is_readable_where_it_is_registered(catalog: Any) {
    uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&object(1))).await.unwrap();
    assert_eq!(index::readable_file(&catalog, &scope("ann/a"), hash(1)).await.unwrap(), None);
    register(&catalog, "ann/a", 1).await;
    let file = Some(FileHash::new([1; 32]));
    assert_eq!(index::readable_file(&catalog, &scope("ann/a"), hash(1)).await.unwrap(), file);
    assert_eq!(index::readable_file(&catalog, &scope("ann/b"), hash(1)).await.unwrap(), None);
}

/// Who finds chunk 1 and xorb 1, which are in `ann/a`: itself, a sibling, and a repository of another namespace.
async fn found(catalog: &Any) -> [bool; 3] {
    let mut found = [false; 3];
    let reaches = [Reach::Repo(scope("ann/a")), Reach::Namespace(scope("ann/b")), Reach::All(scope("bob/b"))];
    for (found, reach) in found.iter_mut().zip(reaches) {
        let chunk = ChunkHash::new([1; 32]);
        *found = !index::dedup(catalog, &reach, &[chunk]).await.unwrap().is_empty();
        assert!(index::peek_chunk(catalog, &reach, chunk).is_none_or(|peeked| peeked == *found), "{reach:?}");
        assert_eq!(has_xorb(catalog, &reach, hash(1)).await.unwrap(), *found, "{reach:?}");
        let seen =
            uploads::references(catalog, &scope("eve/e"), None, Some(&reach), &[hash(1)]).await.unwrap();
        assert_eq!(seen[0].is_within, *found, "{reach:?}");
    }
    found
}

async fn policies_narrow_what_is_found_in_both_directions(catalog: Any) {
    uploads::record_upload(&catalog, &upload("ann/a", 1), Some(&object(1))).await.unwrap();
    register(&catalog, "ann/a", 1).await;
    assert_eq!(found(&catalog).await, [true, true, true]);
    for (policy, expected) in [
        (DedupPolicy::Repo, [true, false, false]),
        (DedupPolicy::Namespace, [true, true, false]),
        (DedupPolicy::Global, [true, true, true]),
    ] {
        for of in [QuotaOf::Repo(scope("ann/a")), QuotaOf::Namespace("ann".into())] {
            dedup_policy::set_dedup_policy(&catalog, &of, Some(policy)).await.unwrap();
            assert_eq!(found(&catalog).await, expected, "{of} {policy:?}");
            assert_eq!(dedup_policy::dedup_policies(&catalog).await.unwrap(), [(of.clone(), policy)]);
            dedup_policy::set_dedup_policy(&catalog, &of, None).await.unwrap();
            assert_eq!(found(&catalog).await, [true, true, true]);
        }
    }
    // Of several the narrowest counts.
    dedup_policy::set_dedup_policy(&catalog, &QuotaOf::Repo(scope("ann/a")), Some(DedupPolicy::Global))
        .await
        .unwrap();
    dedup_policy::set_dedup_policy(&catalog, &QuotaOf::Namespace("ann".into()), Some(DedupPolicy::Repo))
        .await
        .unwrap();
    assert_eq!(found(&catalog).await, [true, false, false]);
}

async fn off_takes_chunks_out_of_the_index_and_keeps_them_out(catalog: Any) {
    for n in 1..=2 {
        uploads::record_upload(&catalog, &upload("ann/a", n), Some(&object(n))).await.unwrap();
    }
    uploads::record_upload(&catalog, &upload("ann/b", 1), None).await.unwrap();
    register(&catalog, "ann/a", 1).await;
    register(&catalog, "ann/b", 1).await;
    assert_eq!(inventory::counts(&catalog).await.unwrap().dedup, 2);
    dedup_policy::set_dedup_policy(&catalog, &QuotaOf::Repo(scope("ann/a")), Some(DedupPolicy::Off))
        .await
        .unwrap();
    assert_eq!(inventory::counts(&catalog).await.unwrap().dedup, 1, "those of the other repository stay");
    register(&catalog, "ann/a", 2).await;
    assert_eq!(inventory::counts(&catalog).await.unwrap().dedup, 1);
    dedup_policy::set_dedup_policy(&catalog, &QuotaOf::Namespace("ann".into()), Some(DedupPolicy::Off))
        .await
        .unwrap();
    assert_eq!(inventory::counts(&catalog).await.unwrap().dedup, 0);
    register(&catalog, "ann/b", 2).await;
    assert_eq!(inventory::counts(&catalog).await.unwrap().dedup, 0);
    assert!(!has_xorb(&catalog, &Reach::Namespace(scope("ann/c")), hash(1)).await.unwrap());
}

async fn uploads_and_policies_follow_a_repository_to_its_new_name(catalog: Any) {
    let old = repo(1, "a");
    repos::create_repo(&catalog, &old, &[], &[]).await.unwrap();
    uploads::record_upload(&catalog, &upload("ann/models/a", 1), Some(&object(1))).await.unwrap();
    dedup_policy::set_dedup_policy(&catalog, &"ann/a".parse().unwrap(), Some(DedupPolicy::Repo))
        .await
        .unwrap();
    let new = RepoRow { name: RepoName::new(Kind::Model, "ann", "z").unwrap(), ..old.clone() };
    assert!(repos::change_repo(&catalog, &old, &new).await.unwrap());
    assert_eq!(reference(&catalog, "ann/models/z", None, 1).await.unwrap().0, Some(900));
    assert_eq!(reference(&catalog, "ann/models/a", None, 1).await.unwrap().0, None);
    assert_eq!(
        dedup_policy::dedup_policies(&catalog).await.unwrap(),
        [("ann/z".parse().unwrap(), DedupPolicy::Repo)]
    );
    repos::delete_repo(&catalog, &new).await.unwrap();
    assert_eq!(dedup_policy::dedup_policies(&catalog).await.unwrap(), []);
    assert_eq!(reference(&catalog, "ann/models/z", None, 1).await.unwrap().0, None);
}

async fn many_uploads_of_one_xorb_are_recorded_once_for_each_repository(catalog: Any) {
    let tasks = (0..24_u8).map(|n| {
        let catalog = catalog.clone();
        tokio::spawn(async move {
            let upload = upload(if n % 2 == 0 { "ann/a" } else { "bob/b" }, 1);
            let recorded = uploads::record_upload(&catalog, &upload, Some(&object(1))).await.unwrap();
            (recorded.was_inserted, recorded.is_new)
        })
    });
    let (mut inserted, mut new) = (0, 0);
    for task in tasks.collect::<Vec<_>>() {
        let (was_inserted, is_new) = task.await.unwrap();
        inserted += u8::from(was_inserted);
        new += u8::from(is_new);
    }
    assert_eq!((inserted, new), (1, 2));
}
