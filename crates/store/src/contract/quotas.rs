//! Contract of quotas, audit log and reflog, checked against each catalog.

use std::sync::Arc;

use xet::{FileHash, ShardHash, XorbHash};

use crate::access::Scope;
use crate::audit::{self, Actor, AuditEvent, AuditQuery};
use crate::content::put_shard::registration::{Registration, RegistrationOutcome, register_shard};
use crate::content::quotas::usage as quota_rows;
use crate::content::quotas::usage::{Limit, QuotaOf, QuotaRow};
use crate::content::recipe::RecipeBuilder;
use crate::content::rows::{FileRow, ShardRow, XorbRow, XorbState};
use crate::content::xorbs;
use crate::db::Catalog;
use crate::hub::people::{self, MemberRow, NamespaceRow, NamespaceState};
use crate::hub::reflog::{self, ReflogEntry};
use crate::hub::rows::{GitRow, RefChange, RefRow, RepoRow};
use crate::hub::snapshot::collect;
use crate::hub::tokens::{Bound, Rights, TokenRow, Tokens};
use crate::hub::{git_objects, refs, repos};
use crate::ids::{Digest, ObjectKind, Oid, RepoId, XorbKey};
use crate::names::{Kind, RepoName};
use crate::upkeep::gc::rows::StoredKind;
use crate::upkeep::gc::{condemned, unused_files, unused_git};
use crate::upkeep::inventory::GcRepo;

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_quotas, postgres_keeps_the_contract_of_quotas:
    a_quota_is_set_changed_and_removed,
    usage_follows_registrations_commits_and_sweeps,
    usage_and_quota_follow_a_repository_to_its_new_name,
    audit_events_are_written_with_their_change_and_read_by_pages,
    a_commit_that_a_ref_leaves_is_noted_unless_the_next_leads_to_it,
);

fn scope() -> Scope {
    "ann/models/a".parse().unwrap()
}

fn of_repo() -> QuotaOf {
    QuotaOf::Repo(scope())
}

fn of_ann() -> QuotaOf {
    QuotaOf::Namespace("ann".into())
}

async fn usage(catalog: &Any, of: &QuotaOf) -> (u64, u64) {
    let usage = quota_rows::usage(catalog, of).await.unwrap();
    (usage.logical_bytes, usage.physical_bytes)
}

fn repo(n: u8, name: &str) -> RepoRow {
    let name = RepoName::new(Kind::Model, "ann", name).unwrap();
    RepoRow { id: RepoId::new([n; 16]), name, private: false, created_s: 1, updated_s: 1, reclaim_s: None }
}

fn commit(n: u64, parent: Option<Oid>) -> GitRow {
    let oid = Oid::of(ObjectKind::Commit, &n.to_be_bytes());
    GitRow {
        oid,
        kind: ObjectKind::Commit,
        bytes: 100,
        body: None,
        bundle: oid,
        offset: 0,
        parent,
        depth: 1,
        linked: None,
    }
}

/// File `n` of 300 bytes in xorb `n` of 1000, in a repository.
async fn register(catalog: &Any, scope: &Scope, n: u8) {
    let key = XorbKey { hash: XorbHash::new([n; 32]), digest: Digest::new([n; 32]) };
    let xorb = XorbRow {
        key,
        object_bytes: 1000,
        raw_bytes: 3000,
        chunk_count: 9,
        state: XorbState::Live,
        created_s: 1,
        referenced_s: 1,
        verified_s: 1,
    };
    xorbs::add_xorbs(catalog, std::slice::from_ref(&xorb)).await.unwrap();
    let mut recipe = RecipeBuilder::default();
    recipe.push(xorb.recipe_xorb(), 0..1, 300, 0..9);
    let file = FileRow { hash: FileHash::new([n; 32]), recipe: recipe.finish(), created_s: 1 };
    let registration = Registration {
        scope: scope.clone(),
        shard: ShardRow { hash: ShardHash::new([n; 32]), object_bytes: 5, created_s: 1 },
        xorbs: vec![key.hash],
        files: vec![file.clone(), file],
        sha256s: Vec::new(),
        dedup: Vec::new(),
        now_s: 1,
    };
    let registered = register_shard(catalog, &registration).await.unwrap();
    assert!(matches!(registered, RegistrationOutcome::Done { .. }));
}

async fn a_quota_is_set_changed_and_removed(catalog: Any) {
    let first = QuotaRow {
        of: of_repo(),
        logical: Limit::default(),
        physical: Limit { soft: Some(1), hard: Some(2) },
    };
    let second =
        QuotaRow { of: of_ann(), logical: Limit { soft: None, hard: Some(7) }, physical: Limit::default() };
    quota_rows::set_quota(&catalog, &first).await.unwrap();
    quota_rows::set_quota(&catalog, &second).await.unwrap();
    assert_eq!(quota_rows::quotas(&catalog).await.unwrap(), [second.clone(), first.clone()]);
    let changed =
        QuotaRow { logical: Limit { soft: Some(3), hard: None }, physical: Limit::default(), ..first };
    quota_rows::set_quota(&catalog, &changed).await.unwrap();
    assert_eq!(quota_rows::quotas(&catalog).await.unwrap(), [second, changed]);
    assert!(quota_rows::remove_quota(&catalog, &of_repo()).await.unwrap());
    assert!(!quota_rows::remove_quota(&catalog, &of_repo()).await.unwrap());
    assert_eq!(quota_rows::quotas(&catalog).await.unwrap().len(), 1);
    assert_eq!((of_repo().to_string(), of_ann().to_string()), ("ann/a".into(), "ann".into()));
}

async fn usage_follows_registrations_commits_and_sweeps(catalog: Any) {
    let row = repo(1, "a");
    repos::create_repo(&catalog, &row, &[commit(1, None)], &[]).await.unwrap();
    assert_eq!(usage(&catalog, &of_repo()).await, (100, 100));
    register(&catalog, &scope(), 1).await;
    register(&catalog, &scope(), 2).await;
    // What is known adds nothing, be it a file, a commit or both.
    register(&catalog, &scope(), 2).await;
    git_objects::add_git_objects(&catalog, row.id, &[commit(2, None)], 5).await.unwrap();
    let again = GitRow { bundle: commit(3, None).oid, ..commit(2, None) };
    git_objects::add_git_objects(&catalog, row.id, &[again], 6).await.unwrap();
    assert_eq!(usage(&catalog, &of_repo()).await, (800, 2200));
    register(&catalog, &"ann/models/b".parse().unwrap(), 2).await;
    assert_eq!(usage(&catalog, &of_ann()).await, (1100, 3200), "what two repositories have counts twice");

    quota_rows::fold_usage(&catalog).await.unwrap();
    assert_eq!(usage(&catalog, &of_repo()).await, (800, 2200));
    let swept = GcRepo { row: row.clone(), generation: 0, is_swept: false };
    let files = [FileHash::new([1; 32])];
    assert_eq!(unused_files::drop_repo_files(&catalog, &swept, &files, 100).await.unwrap(), 1);
    assert_eq!(usage(&catalog, &of_repo()).await, (500, 2200));
    assert_eq!(unused_files::drop_files(&catalog, &files).await.unwrap(), 1);
    condemned::condemn(&catalog, StoredKind::Xorbs, &[[1; 32]], 100, 100).await.unwrap();
    assert_eq!(
        condemned::mark_deletable(&catalog, StoredKind::Xorbs, &[[1; 32]], 200, 200).await.unwrap(),
        1
    );
    assert_eq!(usage(&catalog, &of_repo()).await, (500, 1200));
    assert!(unused_git::drop_git(&catalog, row.id, 0, &[commit(2, None).oid], 100).await.unwrap());
    assert_eq!(usage(&catalog, &of_repo()).await, (400, 1100));
    quota_rows::recount_usage(&catalog).await.unwrap();
    assert_eq!(usage(&catalog, &of_repo()).await, (400, 1100), "counted again it is the same");
    assert_eq!(usage(&catalog, &of_ann()).await, (700, 2100));
}

async fn usage_and_quota_follow_a_repository_to_its_new_name(catalog: Any) {
    let row = repo(1, "a");
    repos::create_repo(&catalog, &row, &[], &[]).await.unwrap();
    register(&catalog, &scope(), 1).await;
    let quota =
        QuotaRow { of: of_repo(), logical: Limit { soft: None, hard: Some(9) }, physical: Limit::default() };
    quota_rows::set_quota(&catalog, &quota).await.unwrap();
    let named = repo(1, "b");
    assert!(repos::change_repo(&catalog, &row, &named).await.unwrap());
    let new = QuotaOf::Repo(named.scope().unwrap());
    assert_eq!((usage(&catalog, &of_repo()).await, usage(&catalog, &new).await), ((0, 0), (300, 1000)));
    assert_eq!(quota_rows::quotas(&catalog).await.unwrap()[0].of, new);
    let trashed = RepoRow { reclaim_s: Some(9), ..named.clone() };
    assert!(repos::change_repo(&catalog, &named, &trashed).await.unwrap());
    assert_eq!(usage(&catalog, &of_ann()).await, (300, 1000), "in the trash it takes room");
    repos::delete_repo(&catalog, &trashed).await.unwrap();
    assert_eq!(usage(&catalog, &of_ann()).await, (0, 0));
    assert!(quota_rows::quotas(&catalog).await.unwrap().is_empty());
}

async fn audit_events_are_written_with_their_change_and_read_by_pages(catalog: Any) {
    let row = repo(1, "a");
    let work = async {
        audit::name("ann");
        audit::name("another");
        repos::create_repo(&catalog, &row, &[commit(1, None)], &[]).await.unwrap();
        assert!(!repos::create_repo(&catalog, &repo(2, "a"), &[], &[]).await.unwrap());
        let hidden = RepoRow { private: true, ..row.clone() };
        repos::change_repo(&catalog, &row, &hidden).await.unwrap();
        let change = RefChange { name: "refs/heads/x".into(), from: None, to: Some(commit(1, None).oid) };
        refs::move_refs(&catalog, row.id, &[change], 5, 0).await.unwrap();
        let team = NamespaceRow {
            name: "team".into(),
            is_organisation: true,
            created_s: 1,
            state: NamespaceState::Active,
        };
        people::add_namespaces(&catalog, std::slice::from_ref(&team)).await.unwrap();
        let member = MemberRow { namespace: "team".into(), member: "bob".into(), writes: true };
        people::set_members(&catalog, &[member]).await.unwrap();
        people::remove_members(&catalog, "team", &["bob".into(), "bob".into()]).await.unwrap();
        let token = TokenRow {
            id: "t1".into(),
            label: "laptop".into(),
            digest: [7; 32],
            subject: "bob".into(),
            rights: Rights::Write,
            bound: Bound::Namespace("bob".into()),
            created_s: 1,
            expires_s: None,
            used_s: None,
            revoked_s: None,
            repo_id: None,
            session: None,
        };
        Tokens::new(&catalog).add(&token).await.unwrap();
        assert!(!Tokens::new(&catalog).add(&token).await.unwrap());
        Tokens::new(&catalog).revoke("t1", 9).await.unwrap();
        assert!(Tokens::new(&catalog).revoke("nobody", 9).await.unwrap().is_none());
    };
    audit::by(Actor::of_request("r1"), work).await;
    audit::log_event(&catalog, &AuditEvent::new("sweep", "store", "")).await.unwrap();
    let all = audit::events(&catalog, &AuditQuery { limit: 100, ..AuditQuery::default() }).await.unwrap();
    let reported: Vec<_> =
        all.iter().rev().map(|row| (row.event.action.as_str(), row.event.target.as_str())).collect();
    let expected = [
        ("repo.create", "ann/a"),
        ("repo.visibility", "ann/a"),
        ("ref.create", "ann/a refs/heads/x"),
        ("org.create", "team"),
        ("member.set", "team/bob"),
        ("member.remove", "team/bob"),
        ("token.create", "t1"),
        ("token.revoke", "t1"),
        ("sweep", "store"),
    ];
    assert_eq!(reported, expected);
    assert!(all[1..].iter().all(|row| (row.who.as_str(), row.request.as_str()) == ("ann", "r1")));
    assert_eq!((all[0].who.as_str(), all[0].request.as_str()), ("store", ""));
    let page = |before| AuditQuery { before, limit: 4, ..AuditQuery::default() };
    let first = audit::events(&catalog, &page(None)).await.unwrap();
    let second = audit::events(&catalog, &page(Some(first[3].id))).await.unwrap();
    assert_eq!([first.as_slice(), second.as_slice()].concat(), all[..8]);
    let later = AuditQuery { since_s: u64::MAX >> 1, limit: 9, ..AuditQuery::default() };
    let upkeep = AuditQuery { limit: 9, is_upkeep: true, ..AuditQuery::default() };
    let upkeep = audit::events(&catalog, &upkeep).await.unwrap();
    assert_eq!(upkeep.iter().map(|row| row.event.action.as_str()).collect::<Vec<_>>(), ["sweep"]);
    assert!(audit::events(&catalog, &later).await.unwrap().is_empty());
    assert_eq!(audit::delete_events(&catalog, u64::MAX >> 1).await.unwrap(), 9);
}

async fn a_commit_that_a_ref_leaves_is_noted_unless_the_next_leads_to_it(catalog: Any) {
    let row = repo(1, "a");
    let (one, other) = (commit(1, None), commit(9, None));
    let next = commit(2, Some(one.oid));
    let objects = [one.clone(), next.clone(), other.clone()];
    let name = "refs/heads/main".to_owned();
    let main = RefRow { name: name.clone(), target: one.oid };
    repos::create_repo(&catalog, &row, &objects, &[main]).await.unwrap();
    let go = |from: &GitRow, to: Option<&GitRow>, now_s, keep_s| {
        let change = RefChange { name: name.clone(), from: Some(from.oid), to: to.map(|to| to.oid) };
        let catalog = catalog.clone();
        async move { assert!(refs::move_refs(&catalog, row.id, &[change], now_s, keep_s).await.unwrap()) }
    };
    go(&one, Some(&next), 10, 50).await;
    assert!(reflog::entries(&catalog, row.id).await.unwrap().is_empty(), "history leads to it");
    go(&next, Some(&other), 20, 50).await;
    go(&other, None, 30, 50).await;
    let entry = |row: &GitRow, left_s| ReflogEntry {
        oid: row.oid,
        name: name.clone(),
        left_s,
        reclaim_s: left_s + 50,
    };
    let both = [entry(&next, 20), entry(&other, 30)];
    assert_eq!(reflog::entries(&catalog, row.id).await.unwrap(), both);
    let (_, snapshot) = collect::collect_repo(&catalog, row.id).await.unwrap().unwrap();
    assert_eq!(snapshot.reflog, both, "it is in the snapshot");
    assert_eq!(reflog::delete_expired(&catalog, row.id, 70).await.unwrap(), 1);
    assert_eq!(reflog::entries(&catalog, row.id).await.unwrap(), both[1..]);
    reflog::insert_entries(&catalog, row.id, &both).await.unwrap();
    assert_eq!(reflog::entries(&catalog, row.id).await.unwrap(), both);
    repos::delete_repo(&catalog, &row).await.unwrap();
    assert!(reflog::entries(&catalog, row.id).await.unwrap().is_empty());
}
