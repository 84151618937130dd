//! What the care of every catalog must do, run on each of them.

use std::sync::Arc;

use super::*;
use crate::catalog::Catalog;
use crate::catalog::keep::DeedQuery;
use crate::catalog::rows::{DedupRow, FileRow, Reach, Registration, XorbState};
use crate::layout::LayoutBuilder;
use crate::objects::Digest;
use xet::ShardHash;

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_care, postgres_keeps_the_contract_of_care:
    everything_is_seen_page_by_page,
    what_is_damaged_is_not_offered_until_it_is_sound,
    all_files_of_a_xorb_move_or_none,
    a_healed_xorb_has_another_object,
    rights_are_restored_once,
    a_claimed_digest_counts_when_it_was_computed,
    a_file_moves_to_other_xorbs_if_it_has_not_changed,
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

fn layout(of: &XorbRow) -> Layout {
    let mut layout = LayoutBuilder::default();
    layout.push(of.laid(), 0..2, 10, 0..18);
    layout.finish()
}

/// File `n` in a xorb, told of by shard `n`.
async fn registered(catalog: &Any, scope: &str, n: u8, of: u8) {
    catalog.add_xorbs(&[xorb(of)]).await.unwrap();
    let registration = Registration {
        scope: scope.parse().unwrap(),
        shard: ShardRow { hash: ShardHash::new(hash(n)), object_bytes: 7, created_s: 100 },
        xorbs: vec![XorbHash::new(hash(of))],
        files: vec![FileRow { hash: FileHash::new(hash(n)), layout: layout(&xorb(of)), created_s: 100 }],
        sha256s: vec![(Sha256::new(hash(n)), FileHash::new(hash(n)))],
        dedup: vec![DedupRow {
            chunk: ChunkHash::new(hash(n)),
            xorb: XorbHash::new(hash(of)),
            chunk_index: 1,
        }],
        now_s: 100,
    };
    catalog.register(&registration).await.unwrap();
}

async fn everything_is_seen_page_by_page(catalog: Any) {
    let care = catalog.care();
    for n in [3, 1, 2] {
        registered(&catalog, "ann/a", n, n).await;
    }
    registered(&catalog, "bob/b", 2, 2).await;
    let xorbs = care.xorb_page(&[], 2).await.unwrap();
    assert_eq!(xorbs.iter().map(|row| row.key).collect::<Vec<_>>(), [xorb(1).key, xorb(2).key]);
    assert_eq!(care.xorb_page(&hash(2), 9).await.unwrap().len(), 1);
    assert_eq!(care.shard_page(&hash(1), 9).await.unwrap().len(), 2);
    assert_eq!(care.file_page(&hash(1), 1).await.unwrap()[0].hash, FileHash::new(hash(2)));
    assert_eq!(care.files_of(XorbHash::new(hash(2)), &[], 9).await.unwrap(), [FileHash::new(hash(2))]);
    let readers = care.readers(&[FileHash::new(hash(2)), FileHash::new(hash(9))]).await.unwrap();
    let scopes: Vec<_> = readers.iter().map(|(_, scope)| scope.to_string()).collect();
    assert_eq!(scopes, ["ann/a", "bob/b"]);
    let top = care.top_repos(1).await.unwrap();
    assert_eq!(top, [("ann/a".parse().unwrap(), 3, 30)]);
    assert_eq!(care.logical_bytes().await.unwrap(), 40);
}

async fn what_is_damaged_is_not_offered_until_it_is_sound(catalog: Any) {
    let care = catalog.care();
    registered(&catalog, "ann/a", 1, 1).await;
    let other = XorbKey { digest: Digest::new(hash(9)), ..xorb(1).key };
    assert_eq!(care.mark_damaged(&[other], 200).await.unwrap(), 0, "another object");
    assert_eq!(care.mark_damaged(&[xorb(1).key], 200).await.unwrap(), 1);
    let state = async || catalog.xorbs(&[xorb(1).key.hash]).await.unwrap()[0].state;
    assert_eq!(state().await, XorbState::Damaged);
    assert_eq!(
        catalog
            .dedup(&Reach::All(Scope::new("eve", "repo").unwrap()), &[ChunkHash::new(hash(1))])
            .await
            .unwrap(),
        []
    );
    assert_eq!(catalog.touch_xorbs(&[xorb(1).key.hash], 300).await.unwrap(), []);
    care.note_verified(&[other], 300).await.unwrap();
    assert_eq!(state().await, XorbState::Damaged);
    care.note_verified(&[xorb(1).key], 300).await.unwrap();
    let row = catalog.xorbs(&[xorb(1).key.hash]).await.unwrap().remove(0);
    assert_eq!((row.state, row.verified_s), (XorbState::Live, 300));
}

fn relay(files: &[u8], onto: Option<u8>) -> Relay {
    let to = |_: u8| layout(&xorb(onto.unwrap_or(1)));
    Relay {
        from: xorb(1).key,
        heal: None,
        onto: onto.map(|onto| XorbHash::new(hash(onto))),
        files: files.iter().map(|n| (FileHash::new(hash(*n)), layout(&xorb(1)), to(*n))).collect(),
        shard: Some(ShardRow { hash: ShardHash::new(hash(50)), object_bytes: 5, created_s: 200 }),
        chunks: vec![(ChunkHash::new(hash(11)), 4)],
        now_s: 200,
    }
}

async fn all_files_of_a_xorb_move_or_none(catalog: Any) {
    let care = catalog.care();
    registered(&catalog, "ann/a", 11, 1).await;
    registered(&catalog, "ann/a", 12, 1).await;
    assert!(!care.relay(&relay(&[11, 12], Some(2))).await.unwrap(), "there is no such xorb");
    catalog.add_xorbs(&[xorb(2)]).await.unwrap();
    assert!(!care.relay(&relay(&[11], Some(2))).await.unwrap(), "another file is made of it");
    let mut stale = relay(&[11, 12], Some(2));
    stale.files[1].1 = layout(&xorb(2));
    assert!(!care.relay(&stale).await.unwrap(), "a file is not as it was");
    let other =
        Relay { from: XorbKey { digest: Digest::new(hash(9)), ..xorb(1).key }, ..relay(&[11, 12], Some(2)) };
    assert!(!care.relay(&other).await.unwrap(), "another object counts");
    assert_eq!(care.files_of(XorbHash::new(hash(1)), &[], 9).await.unwrap().len(), 2);
    assert_eq!(care.shard_page(&[], 9).await.unwrap().len(), 2, "nothing was left behind");

    assert!(care.relay(&relay(&[11, 12], Some(2))).await.unwrap());
    assert_eq!(care.files_of(XorbHash::new(hash(1)), &[], 9).await.unwrap(), []);
    assert_eq!(care.files_of(XorbHash::new(hash(2)), &[], 9).await.unwrap().len(), 2);
    let laid = catalog.sweep().layouts(&[FileHash::new(hash(11))]).await.unwrap();
    assert_eq!(laid[0].layout, layout(&xorb(2)));
    let hits = catalog
        .dedup(
            &Reach::All(Scope::new("eve", "repo").unwrap()),
            &[ChunkHash::new(hash(11)), ChunkHash::new(hash(12))],
        )
        .await
        .unwrap();
    let mut found: Vec<_> = hits.iter().map(|hit| (hit.xorb.key.hash, hit.chunk_index)).collect();
    found.sort();
    assert_eq!(found, [(XorbHash::new(hash(1)), 1), (XorbHash::new(hash(2)), 4)]);
    assert!(catalog.has_xorb(&Reach::Repo("ann/a".parse().unwrap()), XorbHash::new(hash(2))).await.unwrap());
}

async fn a_healed_xorb_has_another_object(catalog: Any) {
    let care = catalog.care();
    registered(&catalog, "ann/a", 11, 1).await;
    let healed = XorbRow { key: XorbKey { digest: Digest::new(hash(77)), ..xorb(1).key }, ..xorb(1) };
    let mut heal = Relay { heal: Some(healed.clone()), shard: None, ..relay(&[11], None) };
    heal.files[0].2 = layout(&healed);
    assert!(!care.relay(&heal).await.unwrap(), "it is not damaged");
    care.mark_damaged(&[xorb(1).key], 150).await.unwrap();
    assert!(care.relay(&heal).await.unwrap());
    let row = catalog.xorbs(&[xorb(1).key.hash]).await.unwrap().remove(0);
    assert_eq!((row.key, row.state, row.verified_s), (healed.key, XorbState::Live, 200));
    let laid = catalog.sweep().layouts(&[FileHash::new(hash(11))]).await.unwrap();
    assert_eq!(laid[0].layout, layout(&healed));
    assert_eq!(care.files_of(XorbHash::new(hash(1)), &[], 9).await.unwrap().len(), 1);
}

async fn rights_are_restored_once(catalog: Any) {
    let care = catalog.care();
    let scope: Scope = "ann/a".parse().unwrap();
    let files = [(Sha256::new(hash(1)), FileHash::new(hash(2)))];
    care.restore_rights(&scope, &files, 5).await.unwrap();
    care.restore_rights(&scope, &[files[0], files[0]], 6).await.unwrap();
    assert_eq!(care.readers(&[FileHash::new(hash(2))]).await.unwrap().len(), 1);
    assert_eq!(catalog.files_by_sha256(&scope, &[Sha256::new(hash(1))]).await.unwrap().len(), 1);
    care.restore_rights(&scope, &[], 7).await.unwrap();
}

async fn a_claimed_digest_counts_when_it_was_computed(catalog: Any) {
    let care = catalog.care();
    for (scope, n) in [("ann/a", 1), ("ann/b", 1), ("bob/c", 1), ("ann/a", 2)] {
        registered(&catalog, scope, n, n).await;
    }
    let (a, b): (Scope, Scope) = ("ann/a".parse().unwrap(), "ann/b".parse().unwrap());
    let (digests, file) = ([Sha256::new(hash(1)), Sha256::new(hash(2))], FileHash::new(hash(1)));
    assert_eq!(catalog.hub().linked_files(&a, &digests).await.unwrap(), []);
    let claims = care.digest_claims(&a, &digests).await.unwrap();
    assert_eq!(claims.iter().map(|claim| (claim.sha256, claim.computed)).collect::<Vec<_>>().len(), 2);
    assert_eq!(care.digest_claims(&a, &[Sha256::new(hash(9))]).await.unwrap(), []);

    // True in one repository, which others within reach learn of.
    care.settle_claims(&a, &[(file, digests[0])], &[]).await.unwrap();
    let linked = catalog.hub().linked_files(&a, &digests).await.unwrap();
    assert_eq!(
        linked.iter().map(|linked| (linked.sha256, linked.file)).collect::<Vec<_>>(),
        [(digests[0], file)]
    );
    assert_eq!(catalog.hub().linked_files(&b, &digests).await.unwrap(), []);
    assert_eq!(care.digest_claims(&a, &digests).await.unwrap().len(), 1);
    let (other, bob): (Scope, Scope) = ("ann/c".parse().unwrap(), "bob/a".parse().unwrap());
    let reaches = [Reach::All(other.clone()), Reach::Namespace(other), Reach::Namespace(bob)];
    let reaches = reaches.into_iter().chain([Reach::Repo(a.clone()), Reach::Repo(b.clone())]);
    let mut known = Vec::new();
    for reach in reaches {
        known.push(care.computed_sha256s(&reach, &[file]).await.unwrap().len());
    }
    assert_eq!(known, [1, 1, 0, 1, 0]);

    // False in another: the claim goes, and cannot come back.
    let false_one = care.digest_claims(&b, &digests).await.unwrap().remove(0);
    care.settle_claims(&b, &[(file, Sha256::new(hash(7)))], std::slice::from_ref(&false_one)).await.unwrap();
    assert_eq!(care.digest_claims(&b, &digests).await.unwrap(), []);
    let deeds = catalog.keep().deeds(&DeedQuery { limit: 100, ..DeedQuery::default() }).await.unwrap();
    assert!(deeds.iter().any(|deed| deed.deed.action == "digest.refuse"), "{deeds:?}");
    registered(&catalog, "ann/b", 1, 1).await;
    assert_eq!(catalog.hub().linked_files(&b, &digests).await.unwrap(), []);
    assert_eq!(care.digest_claims(&b, &digests).await.unwrap()[0].computed, Some(Sha256::new(hash(7))));

    // Page by page, those that are left.
    let (mut after, mut paged) = (None, Vec::new());
    while let Some(claim) = care.claim_page(after.as_ref(), 1).await.unwrap().pop() {
        paged.push((claim.scope.to_string(), claim.file));
        after = Some(claim);
    }
    let two = FileHash::new(hash(2));
    assert_eq!(paged, [("ann/a".to_owned(), two), ("ann/b".to_owned(), file), ("bob/c".to_owned(), file)]);
}

async fn a_file_moves_to_other_xorbs_if_it_has_not_changed(catalog: Any) {
    let care = catalog.care();
    registered(&catalog, "ann/a", 1, 1).await;
    catalog.add_xorbs(&[xorb(5)]).await.unwrap();
    let (file, from, to) = (FileHash::new(hash(1)), layout(&xorb(1)), layout(&xorb(5)));
    let shard = ShardHash::new(hash(1));
    assert!(!care.move_file(file, &to, &from, shard).await.unwrap(), "it is made of others");
    assert!(!care.move_file(file, &from, &layout(&xorb(6)), shard).await.unwrap(), "those are not there");
    assert!(care.move_file(file, &from, &to, shard).await.unwrap());
    assert!(!care.move_file(file, &from, &to, shard).await.unwrap());
    assert_eq!(catalog.sweep().layouts(&[file]).await.unwrap()[0].layout, to);
    assert_eq!(care.files_of(XorbHash::new(hash(1)), &[], 9).await.unwrap(), []);
    assert_eq!(care.files_of(XorbHash::new(hash(5)), &[], 9).await.unwrap(), [file]);
}
