//! What the care of every catalog must do, run on each of them.

use std::sync::Arc;

use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::content::has_xorb;
use crate::access::Scope;
use crate::audit::{self, AuditQuery};
use crate::content::dedup::index;
use crate::content::digests::claims;
use crate::content::put_shard::registration::{Registration, register_shard};
use crate::content::reach::Reach;
use crate::content::recipe::{FileRecipe, RecipeBuilder};
use crate::content::relocate::{self, Relocation};
use crate::content::rows::{DedupRow, FileRow, ShardRow, XorbRow, XorbState};
use crate::content::{files, xorbs};
use crate::db::Catalog;
use crate::ids::{Digest, XorbKey};
use crate::upkeep::verify::marks;
use crate::upkeep::{inventory, rebuild};

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_upkeep, postgres_keeps_the_contract_of_upkeep:
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

fn recipe(of: &XorbRow) -> FileRecipe {
    let mut recipe = RecipeBuilder::default();
    recipe.push(of.recipe_xorb(), 0..2, 10, 0..18);
    recipe.finish()
}

/// File `n` in a xorb, described by shard `n`.
async fn registered(catalog: &Any, scope: &str, n: u8, of: u8) {
    xorbs::add_xorbs(catalog, &[xorb(of)]).await.unwrap();
    let registration = Registration {
        scope: scope.parse().unwrap(),
        shard: ShardRow { hash: ShardHash::new(hash(n)), object_bytes: 7, created_s: 100 },
        xorbs: vec![XorbHash::new(hash(of))],
        files: vec![FileRow { hash: FileHash::new(hash(n)), recipe: recipe(&xorb(of)), created_s: 100 }],
        sha256s: vec![(Sha256::new(hash(n)), FileHash::new(hash(n)))],
        dedup: vec![DedupRow {
            chunk: ChunkHash::new(hash(n)),
            xorb: XorbHash::new(hash(of)),
            chunk_index: 1,
        }],
        now_s: 100,
    };
    register_shard(catalog, &registration).await.unwrap();
}

async fn everything_is_seen_page_by_page(catalog: Any) {
    for n in [3, 1, 2] {
        registered(&catalog, "ann/a", n, n).await;
    }
    registered(&catalog, "bob/b", 2, 2).await;
    let xorbs = inventory::xorb_page(&catalog, &[], 2).await.unwrap();
    assert_eq!(xorbs.iter().map(|row| row.key).collect::<Vec<_>>(), [xorb(1).key, xorb(2).key]);
    assert_eq!(inventory::xorb_page(&catalog, &hash(2), 9).await.unwrap().len(), 1);
    assert_eq!(inventory::shard_page(&catalog, &hash(1), 9).await.unwrap().len(), 2);
    assert_eq!(inventory::file_page(&catalog, &hash(1), 1).await.unwrap()[0].hash, FileHash::new(hash(2)));
    assert_eq!(
        files::files_of(&catalog, XorbHash::new(hash(2)), &[], 9).await.unwrap(),
        [FileHash::new(hash(2))]
    );
    let readers = files::readers(&catalog, &[FileHash::new(hash(2)), FileHash::new(hash(9))]).await.unwrap();
    let scopes: Vec<_> = readers.iter().map(|(_, scope)| scope.to_string()).collect();
    assert_eq!(scopes, ["ann/a", "bob/b"]);
    let top = inventory::top_repos(&catalog, 1).await.unwrap();
    assert_eq!(top, [("ann/a".parse().unwrap(), 3, 30)]);
    assert_eq!(inventory::logical_bytes(&catalog).await.unwrap(), 40);
}

async fn what_is_damaged_is_not_offered_until_it_is_sound(catalog: Any) {
    registered(&catalog, "ann/a", 1, 1).await;
    let other = XorbKey { digest: Digest::new(hash(9)), ..xorb(1).key };
    assert_eq!(marks::mark_damaged(&catalog, &[other], 200).await.unwrap(), 0, "another object");
    assert_eq!(marks::mark_damaged(&catalog, &[xorb(1).key], 200).await.unwrap(), 1);
    let state = async || xorbs::xorbs(&catalog, &[xorb(1).key.hash]).await.unwrap()[0].state;
    assert_eq!(state().await, XorbState::Damaged);
    assert_eq!(
        index::dedup(&catalog, &Reach::All(Scope::new("eve", "repo").unwrap()), &[ChunkHash::new(hash(1))])
            .await
            .unwrap(),
        []
    );
    assert_eq!(xorbs::touch_xorbs(&catalog, &[xorb(1).key.hash], 300).await.unwrap(), []);
    marks::note_verified(&catalog, &[other], 300).await.unwrap();
    assert_eq!(state().await, XorbState::Damaged);
    marks::note_verified(&catalog, &[xorb(1).key], 300).await.unwrap();
    let row = xorbs::xorbs(&catalog, &[xorb(1).key.hash]).await.unwrap().remove(0);
    assert_eq!((row.state, row.verified_s), (XorbState::Live, 300));
}

fn relocation(files: &[u8], onto: Option<u8>) -> Relocation {
    let to = |_: u8| recipe(&xorb(onto.unwrap_or(1)));
    Relocation {
        from: xorb(1).key,
        repair: None,
        onto: onto.map(|onto| XorbHash::new(hash(onto))),
        files: files.iter().map(|n| (FileHash::new(hash(*n)), recipe(&xorb(1)), to(*n))).collect(),
        shard: Some(ShardRow { hash: ShardHash::new(hash(50)), object_bytes: 5, created_s: 200 }),
        chunks: vec![(ChunkHash::new(hash(11)), 4)],
        now_s: 200,
    }
}

async fn all_files_of_a_xorb_move_or_none(catalog: Any) {
    registered(&catalog, "ann/a", 11, 1).await;
    registered(&catalog, "ann/a", 12, 1).await;
    assert!(
        !relocate::repoint_files(&catalog, &relocation(&[11, 12], Some(2))).await.unwrap(),
        "there is no such xorb"
    );
    xorbs::add_xorbs(&catalog, &[xorb(2)]).await.unwrap();
    assert!(
        !relocate::repoint_files(&catalog, &relocation(&[11], Some(2))).await.unwrap(),
        "another file is made of it"
    );
    let mut stale = relocation(&[11, 12], Some(2));
    stale.files[1].1 = recipe(&xorb(2));
    assert!(!relocate::repoint_files(&catalog, &stale).await.unwrap(), "a file is not as it was");
    let other = Relocation {
        from: XorbKey { digest: Digest::new(hash(9)), ..xorb(1).key },
        ..relocation(&[11, 12], Some(2))
    };
    assert!(!relocate::repoint_files(&catalog, &other).await.unwrap(), "another object counts");
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(1)), &[], 9).await.unwrap().len(), 2);
    assert_eq!(inventory::shard_page(&catalog, &[], 9).await.unwrap().len(), 2, "nothing was left behind");

    assert!(relocate::repoint_files(&catalog, &relocation(&[11, 12], Some(2))).await.unwrap());
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(1)), &[], 9).await.unwrap(), []);
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(2)), &[], 9).await.unwrap().len(), 2);
    let recipe_xorb = files::recipes(&catalog, &[FileHash::new(hash(11))]).await.unwrap();
    assert_eq!(recipe_xorb[0].recipe, recipe(&xorb(2)));
    let hits = index::dedup(
        &catalog,
        &Reach::All(Scope::new("eve", "repo").unwrap()),
        &[ChunkHash::new(hash(11)), ChunkHash::new(hash(12))],
    )
    .await
    .unwrap();
    let mut found: Vec<_> = hits.iter().map(|hit| (hit.xorb.key.hash, hit.chunk_index)).collect();
    found.sort();
    assert_eq!(found, [(XorbHash::new(hash(1)), 1), (XorbHash::new(hash(2)), 4)]);
    assert!(
        has_xorb(&catalog, &Reach::Repo("ann/a".parse().unwrap()), XorbHash::new(hash(2))).await.unwrap()
    );
}

async fn a_healed_xorb_has_another_object(catalog: Any) {
    registered(&catalog, "ann/a", 11, 1).await;
    let repaired = XorbRow { key: XorbKey { digest: Digest::new(hash(77)), ..xorb(1).key }, ..xorb(1) };
    let mut repair = Relocation { repair: Some(repaired.clone()), shard: None, ..relocation(&[11], None) };
    repair.files[0].2 = recipe(&repaired);
    assert!(!relocate::repoint_files(&catalog, &repair).await.unwrap(), "it is not damaged");
    marks::mark_damaged(&catalog, &[xorb(1).key], 150).await.unwrap();
    assert!(relocate::repoint_files(&catalog, &repair).await.unwrap());
    let row = xorbs::xorbs(&catalog, &[xorb(1).key.hash]).await.unwrap().remove(0);
    assert_eq!((row.key, row.state, row.verified_s), (repaired.key, XorbState::Live, 200));
    let recipe_xorb = files::recipes(&catalog, &[FileHash::new(hash(11))]).await.unwrap();
    assert_eq!(recipe_xorb[0].recipe, recipe(&repaired));
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(1)), &[], 9).await.unwrap().len(), 1);
}

async fn rights_are_restored_once(catalog: Any) {
    let scope: Scope = "ann/a".parse().unwrap();
    let files = [(Sha256::new(hash(1)), FileHash::new(hash(2)))];
    rebuild::restore_rights(&catalog, &scope, &files, 5).await.unwrap();
    rebuild::restore_rights(&catalog, &scope, &[files[0], files[0]], 6).await.unwrap();
    assert_eq!(files::readers(&catalog, &[FileHash::new(hash(2))]).await.unwrap().len(), 1);
    assert_eq!(files::files_by_sha256(&catalog, &scope, &[Sha256::new(hash(1))]).await.unwrap().len(), 1);
    rebuild::restore_rights(&catalog, &scope, &[], 7).await.unwrap();
}

async fn a_claimed_digest_counts_when_it_was_computed(catalog: Any) {
    for (scope, n) in [("ann/a", 1), ("ann/b", 1), ("bob/c", 1), ("ann/a", 2)] {
        registered(&catalog, scope, n, n).await;
    }
    let (a, b): (Scope, Scope) = ("ann/a".parse().unwrap(), "ann/b".parse().unwrap());
    let (digests, file) = ([Sha256::new(hash(1)), Sha256::new(hash(2))], FileHash::new(hash(1)));
    assert_eq!(files::linked_files(&catalog, &a, &digests).await.unwrap(), []);
    let claims = claims::digest_claims(&catalog, &a, &digests).await.unwrap();
    assert_eq!(claims.iter().map(|claim| (claim.sha256, claim.computed)).collect::<Vec<_>>().len(), 2);
    assert_eq!(claims::digest_claims(&catalog, &a, &[Sha256::new(hash(9))]).await.unwrap(), []);

    // True in one repository, which others within reach learn of.
    claims::resolve_claims(&catalog, &a, &[(file, digests[0])], &[]).await.unwrap();
    let linked = files::linked_files(&catalog, &a, &digests).await.unwrap();
    assert_eq!(
        linked.iter().map(|linked| (linked.sha256, linked.file)).collect::<Vec<_>>(),
        [(digests[0], file)]
    );
    assert_eq!(files::linked_files(&catalog, &b, &digests).await.unwrap(), []);
    assert_eq!(claims::digest_claims(&catalog, &a, &digests).await.unwrap().len(), 1);
    let (other, bob): (Scope, Scope) = ("ann/c".parse().unwrap(), "bob/a".parse().unwrap());
    let reaches = [Reach::All(other.clone()), Reach::Namespace(other), Reach::Namespace(bob)];
    let reaches = reaches.into_iter().chain([Reach::Repo(a.clone()), Reach::Repo(b.clone())]);
    let mut known = Vec::new();
    for reach in reaches {
        known.push(claims::computed_sha256s(&catalog, &reach, &[file]).await.unwrap().len());
    }
    assert_eq!(known, [1, 1, 0, 1, 0]);

    // False in another: the claim goes, and cannot come back.
    let false_one = claims::digest_claims(&catalog, &b, &digests).await.unwrap().remove(0);
    claims::resolve_claims(&catalog, &b, &[(file, Sha256::new(hash(7)))], std::slice::from_ref(&false_one))
        .await
        .unwrap();
    assert_eq!(claims::digest_claims(&catalog, &b, &digests).await.unwrap(), []);
    let audit_events =
        audit::events(&catalog, &AuditQuery { limit: 100, ..AuditQuery::default() }).await.unwrap();
    assert!(audit_events.iter().any(|event| event.event.action == "digest.refuse"), "{audit_events:?}");
    registered(&catalog, "ann/b", 1, 1).await;
    assert_eq!(files::linked_files(&catalog, &b, &digests).await.unwrap(), []);
    assert_eq!(
        claims::digest_claims(&catalog, &b, &digests).await.unwrap()[0].computed,
        Some(Sha256::new(hash(7)))
    );

    // Page by page, those that are left.
    let (mut after, mut paged) = (None, Vec::new());
    while let Some(claim) = claims::claim_page(&catalog, after.as_ref(), 1).await.unwrap().pop() {
        paged.push((claim.scope.to_string(), claim.file));
        after = Some(claim);
    }
    let two = FileHash::new(hash(2));
    assert_eq!(paged, [("ann/a".to_owned(), two), ("ann/b".to_owned(), file), ("bob/c".to_owned(), file)]);
}

async fn a_file_moves_to_other_xorbs_if_it_has_not_changed(catalog: Any) {
    registered(&catalog, "ann/a", 1, 1).await;
    xorbs::add_xorbs(&catalog, &[xorb(5)]).await.unwrap();
    let (file, from, to) = (FileHash::new(hash(1)), recipe(&xorb(1)), recipe(&xorb(5)));
    let shard = ShardHash::new(hash(1));
    assert!(!relocate::move_file(&catalog, file, &to, &from, shard).await.unwrap(), "it is made of others");
    assert!(
        !relocate::move_file(&catalog, file, &from, &recipe(&xorb(6)), shard).await.unwrap(),
        "those are not there"
    );
    assert!(relocate::move_file(&catalog, file, &from, &to, shard).await.unwrap());
    assert!(!relocate::move_file(&catalog, file, &from, &to, shard).await.unwrap());
    assert_eq!(files::recipes(&catalog, &[file]).await.unwrap()[0].recipe, to);
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(1)), &[], 9).await.unwrap(), []);
    assert_eq!(files::files_of(&catalog, XorbHash::new(hash(5)), &[], 9).await.unwrap(), [file]);
}
