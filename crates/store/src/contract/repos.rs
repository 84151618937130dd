//! What the Hub side of every catalog must do, run on each of them.

use std::sync::Arc;

use xet::{FileHash, Sha256, ShardHash};

use crate::content::files::LinkedFile;
use crate::content::put_shard::registration::{Registration, register_shard};
use crate::content::rows::{FileRow, ShardRow};
use crate::db::Catalog;
use crate::hub::locks::{self, LockQuery, LockRow};
use crate::hub::people::{self, MemberRow, NamespaceRow, NamespaceState};
use crate::hub::pulls::{self, PullQuery, PullRow, PullState};
use crate::hub::rows::{GitRow, RefChange, RefRow, RepoQuery, RepoRow};
use crate::hub::tokens::{Bound, Rights, TokenRow, Tokens};
use crate::hub::{git_objects, refs, repos};
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::{Kind, RepoName};

type Any = Arc<Catalog>;

on_each_catalog!(
    sqlite_keeps_the_contract_of_repositories, postgres_keeps_the_contract_of_repositories:
    a_name_belongs_to_the_first,
    names_are_unique_and_found_without_regard_to_case,
    of_many_who_spell_a_namespace_differently_one_wins,
    names_from_before_that_differ_in_case_only_stay,
    lists_are_sorted_and_show_what_may_be_seen,
    refs_move_from_where_they_are_or_not_at_all,
    of_many_movers_one_wins,
    git_objects_are_added_once_and_read_back,
    the_history_is_walked_in_parts,
    pull_requests_are_counted,
    a_path_has_one_lock,
    the_trash_keeps_a_repository_and_frees_its_name,
    members_come_and_go,
    a_token_of_a_repository_is_bound_to_its_id,
    a_disabled_user_loses_sessions_and_keeps_tokens,
    a_deleted_user_leaves_a_reserved_name,
    a_changed_password_ends_other_sessions_and_what_was_made_in_them,
    a_deleted_repository_leaves_nothing,
);

fn oid(n: u64) -> Oid {
    Oid::of(ObjectKind::Blob, &n.to_be_bytes())
}

fn row(n: u8, name: &str) -> RepoRow {
    let (namespace, name) = name.split_once('/').unwrap();
    let name = RepoName::new(Kind::Model, namespace, name).unwrap();
    RepoRow {
        id: RepoId::new([n; 16]),
        name,
        private: false,
        created_s: 100,
        updated_s: 100,
        reclaim_s: None,
    }
}

fn object(n: u64) -> GitRow {
    GitRow {
        oid: oid(n),
        kind: ObjectKind::Blob,
        bytes: n,
        body: Some(vec![1, 2, 3]),
        bundle: oid(999),
        offset: 7,
        parent: None,
        depth: 0,
        linked: None,
    }
}

fn change(name: &str, from: Option<u64>, to: Option<u64>) -> RefChange {
    RefChange { name: name.to_owned(), from: from.map(oid), to: to.map(oid) }
}

async fn made(catalog: &Any, n: u8, name: &str) -> RepoRow {
    let row = row(n, name);
    assert!(repos::create_repo(catalog, &row, &[], &[]).await.unwrap());
    row
}

async fn a_name_belongs_to_the_first(catalog: Any) {
    let one = row(1, "ann/a");
    let main = RefRow { name: "refs/heads/main".into(), target: oid(1) };
    assert!(repos::create_repo(&catalog, &one, &[object(1)], std::slice::from_ref(&main)).await.unwrap());
    assert!(
        !repos::create_repo(&catalog, &row(2, "ann/a"), &[object(2)], std::slice::from_ref(&main))
            .await
            .unwrap()
    );
    let dataset = RepoRow { name: RepoName { kind: Kind::Dataset, ..one.name.clone() }, ..row(3, "ann/a") };
    assert!(repos::create_repo(&catalog, &dataset, &[], &[]).await.unwrap());
    assert_eq!(
        repos::repos(&catalog, &[one.name.clone(), row(0, "ann/none").name]).await.unwrap(),
        std::slice::from_ref(&one)
    );
    assert_eq!(refs::refs(&catalog, one.id, "refs/").await.unwrap(), [main]);
    assert_eq!(git_objects::git_objects(&catalog, RepoId::new([2; 16]), &[oid(2)]).await.unwrap(), []);

    let other = made(&catalog, 4, "bob/b").await;
    let renamed = |name: &RepoName| RepoRow { name: name.clone(), ..other.clone() };
    assert!(!repos::change_repo(&catalog, &other, &renamed(&one.name)).await.unwrap());
    let to = row(0, "bob/c").name;
    assert!(repos::change_repo(&catalog, &other, &renamed(&to)).await.unwrap());
    assert!(!repos::change_repo(&catalog, &other, &renamed(&to)).await.unwrap(), "it is not what it was");
    assert_eq!(repos::repos(&catalog, &[other.name.clone(), to.clone()]).await.unwrap(), [renamed(&to)]);
}

async fn names_are_unique_and_found_without_regard_to_case(catalog: Any) {
    let one = made(&catalog, 1, "ann/Model").await;
    for taken in ["ann/model", "ann/MODEL", "ANN/Model", "ANN/other", "Ann/x"] {
        assert!(!repos::create_repo(&catalog, &row(2, taken), &[], &[]).await.unwrap(), "{taken}");
    }
    for requested in ["ann/Model", "ANN/mODEL", "ann/model"] {
        assert_eq!(
            repos::repos(&catalog, &[row(0, requested).name]).await.unwrap(),
            std::slice::from_ref(&one),
            "{requested}"
        );
        let refs = ["refs/heads/main".to_owned(), "refs/tags/main".to_owned()];
        let found =
            refs::repo_at(&catalog, &row(0, requested).name, &refs).await.unwrap().map(|(repo, _)| repo);
        assert_eq!(found.as_ref(), Some(&one), "{requested}");
    }
    assert_eq!(people::spellings(&catalog, "aNN").await.unwrap(), ["ann"]);
    assert_eq!(people::spellings(&catalog, "bob").await.unwrap(), [""; 0]);
    let state = NamespaceState::Active;
    let namespace =
        |name: &str| NamespaceRow { name: name.into(), is_organisation: false, created_s: 1, state };
    assert_eq!(
        people::add_namespaces(&catalog, &[namespace("ANN"), namespace("ann"), namespace("Ann")])
            .await
            .unwrap(),
        ["ann"]
    );

    // A name may change its case, and not to that of another.
    let other = made(&catalog, 3, "ann/b").await;
    let renamed = |from: &RepoRow, to: &str| RepoRow { name: row(0, to).name, ..from.clone() };
    assert!(!repos::change_repo(&catalog, &other, &renamed(&other, "ann/mODEL")).await.unwrap());
    assert!(!repos::change_repo(&catalog, &other, &renamed(&other, "ANN/c")).await.unwrap());
    assert!(repos::change_repo(&catalog, &one, &renamed(&one, "ann/mODEL")).await.unwrap());
    assert_eq!(
        repos::repos(&catalog, std::slice::from_ref(&one.name)).await.unwrap(),
        [renamed(&one, "ann/mODEL")]
    );

    // The trash frees a name in every case, and gives it back if nothing has it.
    let trashed = RepoRow { reclaim_s: Some(9), ..other.clone() };
    assert!(repos::change_repo(&catalog, &other, &trashed).await.unwrap());
    let new = made(&catalog, 4, "ann/B").await;
    assert!(!repos::change_repo(&catalog, &trashed, &other).await.unwrap());
    assert!(repos::change_repo(&catalog, &trashed, &renamed(&other, "ann/b2")).await.unwrap());
    repos::delete_repo(&catalog, &new).await.unwrap();

    // A namespace with nothing in it may be spelled anew.
    let alone = made(&catalog, 5, "cleo/x").await;
    repos::delete_repo(&catalog, &alone).await.unwrap();
    made(&catalog, 6, "Cleo/x").await;
    assert_eq!(people::spellings(&catalog, "cleo").await.unwrap(), ["Cleo"]);
}

async fn of_many_who_spell_a_namespace_differently_one_wins(catalog: Any) {
    let names = ["dora/a", "Dora/b", "DORA/c", "dORA/d", "dora/A", "DORA/a"];
    let made = names.iter().zip(1..).map(|(name, n)| {
        let (catalog, row) = (catalog.clone(), row(n, name));
        tokio::spawn(
            async move { repos::create_repo(&catalog, &row, &[], &[]).await.unwrap().then_some(row) },
        )
    });
    let made: Vec<_> =
        futures::future::join_all(made).await.into_iter().filter_map(|made| made.unwrap()).collect();
    let spelled = people::spellings(&catalog, "dora").await.unwrap();
    assert_eq!(spelled.len(), 1, "{spelled:?}");
    assert!(!made.is_empty() && made.iter().all(|row| row.name.namespace == spelled[0]), "{made:?}");
    let folded: std::collections::HashSet<_> = made.iter().map(|row| row.name.folded()).collect();
    assert_eq!(folded.len(), made.len(), "{made:?}");
}

async fn names_from_before_that_differ_in_case_only_stay(catalog: Any) {
    let first = made(&catalog, 1, "Eve/m").await;
    people::add_spelling(&catalog, "eve").await.unwrap();
    people::add_spelling(&catalog, "eve").await.unwrap();
    let second = made(&catalog, 2, "eve/n").await;
    assert_eq!(people::spellings(&catalog, "eve").await.unwrap(), ["eve", "Eve"]);
    assert_eq!(people::spellings(&catalog, "EVE").await.unwrap(), ["Eve", "eve"]);
    for (requested, found) in [("eve/N", &second), ("EVE/M", &first)] {
        assert_eq!(
            repos::repos(&catalog, &[row(0, requested).name]).await.unwrap(),
            std::slice::from_ref(found)
        );
    }
    assert!(!repos::create_repo(&catalog, &row(3, "EVE/x"), &[], &[]).await.unwrap());
}

async fn lists_are_sorted_and_show_what_may_be_seen(catalog: Any) {
    for (n, name) in (1..).zip(["bob/x", "ann/b_c", "ann/a", "cleo/bxc"]) {
        made(&catalog, n, name).await;
    }
    let private = RepoRow { private: true, ..row(3, "ann/a") };
    assert!(repos::change_repo(&catalog, &row(3, "ann/a"), &private).await.unwrap());
    let all = RepoQuery {
        kind: Kind::Model,
        namespace: None,
        search: None,
        private_of: None,
        after: None,
        limit: 99,
    };
    let list = async |query: RepoQuery| {
        let rows = repos::list_repos(&catalog, &query).await.unwrap();
        rows.into_iter().map(|row| row.name.id()).collect::<Vec<_>>()
    };
    assert_eq!(list(all.clone()).await, ["ann/a", "ann/b_c", "bob/x", "cleo/bxc"]);
    let public = RepoQuery { private_of: Some(Vec::new()), ..all.clone() };
    assert_eq!(list(public.clone()).await, ["ann/b_c", "bob/x", "cleo/bxc"]);
    let anns =
        RepoQuery { private_of: Some(vec!["ann".into()]), namespace: Some("ann".into()), ..all.clone() };
    assert_eq!(list(anns).await, ["ann/a", "ann/b_c"]);
    let literal = RepoQuery { search: Some("B_C".into()), ..all.clone() };
    assert_eq!(list(literal).await, ["ann/b_c"], "an underscore is an underscore");
    let page = RepoQuery { after: Some(("ann".into(), "b_c".into())), limit: 1, ..public };
    assert_eq!(list(page).await, ["bob/x"]);
    assert_eq!(list(RepoQuery { kind: Kind::Space, ..all }).await, [""; 0]);
}

async fn refs_move_from_where_they_are_or_not_at_all(catalog: Any) {
    let repo = made(&catalog, 1, "ann/a").await.id;
    let commits: Vec<_> = (0..6).map(object).collect();
    assert!(git_objects::add_git_objects(&catalog, repo, &commits, 200).await.unwrap());
    assert!(
        !refs::move_refs(&catalog, repo, &[change("a", None, Some(77))], 200, 0).await.unwrap(),
        "no such commit"
    );
    let target = async |name: &'static str| {
        refs::refs_named(&catalog, repo, &[name.to_owned()]).await.unwrap().pop().map(|row| row.target)
    };
    assert!(refs::move_refs(&catalog, repo, &[change("a", None, Some(1))], 200, 0).await.unwrap());
    let at = async |name: &'static str, refs: [&'static str; 2]| {
        let found = refs::repo_at(&catalog, &row(1, name).name, &refs.map(str::to_owned)).await.unwrap();
        found.map(|(row, refs)| (row.id, refs.into_iter().map(|row| row.target).collect::<Vec<_>>()))
    };
    assert_eq!(at("ann/a", ["a", "z"]).await, Some((repo, vec![commits[1].oid])));
    assert_eq!(at("ann/a", ["y", "z"]).await, Some((repo, vec![])));
    assert_eq!(at("ann/z", ["a", "a"]).await, None);
    assert!(!refs::move_refs(&catalog, repo, &[change("a", None, Some(2))], 201, 0).await.unwrap());
    assert!(!refs::move_refs(&catalog, repo, &[change("a", Some(2), Some(3))], 202, 0).await.unwrap());
    assert!(!refs::move_refs(&catalog, repo, &[change("b", Some(2), Some(3))], 203, 0).await.unwrap());
    let half = [change("b", None, Some(5)), change("a", Some(9), None)];
    assert!(!refs::move_refs(&catalog, repo, &half, 204, 0).await.unwrap());
    assert_eq!((target("a").await, target("b").await), (Some(oid(1)), None), "all or nothing");
    let both = [change("b", None, Some(5)), change("a", Some(1), Some(2))];
    assert!(refs::move_refs(&catalog, repo, &both, 205, 0).await.unwrap());
    assert!(refs::move_refs(&catalog, repo, &[change("b", Some(5), None)], 206, 0).await.unwrap());
    assert_eq!((target("a").await, target("b").await), (Some(oid(2)), None));
    assert_eq!(repos::repos(&catalog, &[row(1, "ann/a").name]).await.unwrap()[0].updated_s, 206);
    let nowhere = RepoId::new([9; 16]);
    assert!(!refs::move_refs(&catalog, nowhere, &[change("a", None, Some(1))], 207, 0).await.unwrap());
    assert_eq!(refs::refs(&catalog, nowhere, "").await.unwrap(), []);
}

async fn of_many_movers_one_wins(catalog: Any) {
    let repo = made(&catalog, 1, "ann/a").await.id;
    let commits: Vec<_> = (0..=16).map(object).collect();
    assert!(git_objects::add_git_objects(&catalog, repo, &commits, 1).await.unwrap());
    assert!(refs::move_refs(&catalog, repo, &[change("a", None, Some(0))], 1, 0).await.unwrap());
    let tasks = (1..=16).map(|n| {
        let catalog = catalog.clone();
        tokio::spawn(async move {
            refs::move_refs(&catalog, repo, &[change("a", Some(0), Some(n))], 1, 0).await.unwrap()
        })
    });
    let won = futures::future::join_all(tasks).await.into_iter().filter(|won| *won.as_ref().unwrap()).count();
    assert_eq!(won, 1);
}

async fn git_objects_are_added_once_and_read_back(catalog: Any) {
    let repo = made(&catalog, 1, "ann/a").await.id;
    let nowhere = RepoId::new([9; 16]);
    assert!(!git_objects::add_git_objects(&catalog, nowhere, &[object(1)], 300).await.unwrap());
    let linked = LinkedFile { sha256: Sha256::new([3; 32]), bytes: 1 << 40, file: FileHash::new([4; 32]) };
    let rows = [
        object(1),
        GitRow { body: None, linked: Some(linked), ..object(2) },
        GitRow { kind: ObjectKind::Commit, parent: Some(oid(1)), depth: 5, ..object(3) },
    ];
    // A pointer to a file that is not the repository's is refused with all that comes along.
    assert!(!git_objects::add_git_objects(&catalog, repo, &rows, 300).await.unwrap());
    assert_eq!(git_objects::git_objects(&catalog, repo, &[oid(1)]).await.unwrap(), []);
    let shard = ShardRow { hash: ShardHash::new([5; 32]), object_bytes: 1, created_s: 1 };
    let registration = Registration {
        scope: row(1, "ann/a").name.scope().unwrap(),
        shard,
        xorbs: Vec::new(),
        files: vec![FileRow { hash: linked.file, recipe: Default::default(), created_s: 1 }],
        sha256s: Vec::new(),
        dedup: Vec::new(),
        now_s: 1,
    };
    register_shard(&catalog, &registration).await.unwrap();
    assert!(git_objects::add_git_objects(&catalog, repo, &rows, 300).await.unwrap());
    assert!(
        git_objects::add_git_objects(&catalog, repo, &[GitRow { bytes: 77, ..object(1) }], 300)
            .await
            .unwrap()
    );
    let mut found =
        git_objects::git_objects(&catalog, repo, &[oid(3), oid(1), oid(2), oid(1), oid(8)]).await.unwrap();
    found.sort_by_key(|row| row.bytes);
    assert_eq!(found, rows, "the first stays");
    assert_eq!(git_objects::git_objects(&catalog, RepoId::new([2; 16]), &[oid(1)]).await.unwrap(), []);
    let many: Vec<_> = (100..2600).map(object).collect();
    assert!(git_objects::add_git_objects(&catalog, repo, &many, 300).await.unwrap());
    let oids: Vec<_> = many.iter().map(|row| row.oid).collect();
    assert_eq!(git_objects::git_objects(&catalog, repo, &oids).await.unwrap().len(), 2500);
    assert!(git_objects::add_git_objects(&catalog, repo, &[], 300).await.unwrap());
    assert_eq!(git_objects::git_objects(&catalog, repo, &[]).await.unwrap(), []);
}

async fn the_history_is_walked_in_parts(catalog: Any) {
    let repo = made(&catalog, 1, "ann/a").await.id;
    let commit = |n: u64| GitRow {
        kind: ObjectKind::Commit,
        parent: n.checked_sub(1).map(oid),
        depth: n + 1,
        ..object(n)
    };
    let commits: Vec<_> = (0..30).map(commit).collect();
    assert!(git_objects::add_git_objects(&catalog, repo, &commits, 300).await.unwrap());
    let walk = async |skip, limit| {
        let rows = git_objects::history(&catalog, repo, oid(29), skip, limit).await.unwrap();
        rows.into_iter().map(|row| row.depth).collect::<Vec<_>>()
    };
    assert_eq!(walk(0, 3).await, [30, 29, 28]);
    assert_eq!(walk(27, 10).await, [3, 2, 1]);
    assert_eq!(walk(30, 10).await, [0; 0]);
    assert_eq!(walk(5, 0).await, [0; 0]);
    assert_eq!(git_objects::history(&catalog, repo, oid(77), 0, 5).await.unwrap(), []);
}

async fn pull_requests_are_counted(catalog: Any) {
    let (one, two) = (made(&catalog, 1, "ann/a").await.id, made(&catalog, 2, "ann/b").await.id);
    let pull = PullRow {
        number: 0,
        title: "t".into(),
        description: "d".into(),
        author: "ann".into(),
        created_s: 5,
        state: PullState::Open,
    };
    let tasks = (0..6).map(|_| {
        let (catalog, pull) = (catalog.clone(), pull.clone());
        tokio::spawn(async move { pulls::add_pull(&catalog, one, &pull).await.unwrap() })
    });
    let mut numbers: Vec<_> =
        futures::future::join_all(tasks).await.into_iter().map(|number| number.unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(pulls::add_pull(&catalog, two, &pull).await.unwrap(), 1);
    assert_eq!(pulls::pulls(&catalog, one, &[4, 9]).await.unwrap(), [PullRow { number: 4, ..pull.clone() }]);

    assert!(pulls::set_pull(&catalog, one, 4, PullState::Closed).await.unwrap());
    assert!(pulls::set_pull(&catalog, one, 4, PullState::Merged(oid(1))).await.unwrap());
    assert!(!pulls::set_pull(&catalog, one, 4, PullState::Open).await.unwrap(), "merged is merged");
    assert!(!pulls::set_pull(&catalog, one, 9, PullState::Open).await.unwrap());
    let merged = PullRow { number: 4, state: PullState::Merged(oid(1)), ..pull.clone() };
    let all = PullQuery { skip: 2, limit: 2, ..PullQuery::default() };
    let third = PullRow { number: 3, ..pull.clone() };
    assert_eq!(
        pulls::list_pulls(&catalog, one, &all).await.unwrap(),
        (vec![merged.clone(), third.clone()], 6)
    );
    let done = PullQuery { is_open: Some(false), skip: 0, limit: 9, ..PullQuery::default() };
    assert_eq!(pulls::list_pulls(&catalog, one, &done).await.unwrap(), (vec![merged], 1));
    let open = PullQuery { is_open: Some(true), skip: 2, limit: 1, author: Some("ann".into()) };
    assert_eq!(pulls::list_pulls(&catalog, one, &open).await.unwrap(), (vec![third], 5));
    let others = PullQuery { author: Some("bob".into()), limit: 9, ..PullQuery::default() };
    assert_eq!(pulls::list_pulls(&catalog, one, &others).await.unwrap(), (Vec::new(), 0));
}

async fn a_path_has_one_lock(catalog: Any) {
    let repo = made(&catalog, 1, "ann/a").await.id;
    let lock =
        |path: &str, id: &str| LockRow { path: path.into(), id: id.into(), owner: id.into(), created_s: 7 };
    let (a, b) = (lock("a", "1"), lock("b", "2"));
    for row in [&a, &b] {
        assert_eq!(locks::add_lock(&catalog, repo, row).await.unwrap(), *row);
    }
    assert_eq!(locks::add_lock(&catalog, repo, &lock("a", "3")).await.unwrap(), a);
    let all = LockQuery { limit: 9, ..LockQuery::default() };
    assert_eq!(locks::locks(&catalog, repo, &all).await.unwrap(), [a.clone(), b.clone()]);
    assert_eq!(
        locks::locks(&catalog, repo, &LockQuery { after: Some("a".into()), ..all.clone() }).await.unwrap(),
        std::slice::from_ref(&b)
    );
    assert_eq!(
        locks::locks(&catalog, repo, &LockQuery { id: Some("2".into()), ..all.clone() }).await.unwrap(),
        [b]
    );
    assert_eq!(locks::locks(&catalog, RepoId::new([9; 16]), &all).await.unwrap(), []);
    assert!(
        locks::remove_lock(&catalog, repo, "2").await.unwrap()
            && !locks::remove_lock(&catalog, repo, "2").await.unwrap()
    );
    assert_eq!(locks::locks(&catalog, repo, &all).await.unwrap(), [a]);
}

async fn the_trash_keeps_a_repository_and_frees_its_name(catalog: Any) {
    let one = made(&catalog, 1, "ann/a").await;
    let trashed = RepoRow { reclaim_s: Some(500), ..one.clone() };
    assert!(repos::change_repo(&catalog, &one, &trashed).await.unwrap());
    assert!(!repos::change_repo(&catalog, &one, &trashed).await.unwrap());
    assert_eq!(repos::repos(&catalog, std::slice::from_ref(&one.name)).await.unwrap(), []);
    assert_eq!(repos::trash(&catalog).await.unwrap(), std::slice::from_ref(&trashed));
    let two = made(&catalog, 2, "ann/a").await;
    assert!(!repos::change_repo(&catalog, &trashed, &one).await.unwrap(), "the name is taken");
    let two_trashed = RepoRow { reclaim_s: Some(400), ..two.clone() };
    assert!(repos::change_repo(&catalog, &two, &two_trashed).await.unwrap(), "two of one name");
    assert_eq!(repos::trash(&catalog).await.unwrap(), [two_trashed, trashed.clone()]);
    assert!(repos::change_repo(&catalog, &trashed, &one).await.unwrap());
    assert_eq!(repos::repos(&catalog, std::slice::from_ref(&one.name)).await.unwrap(), [one]);
}

async fn members_come_and_go(catalog: Any) {
    let org = NamespaceRow {
        name: "org".into(),
        is_organisation: true,
        created_s: 1,
        state: NamespaceState::Active,
    };
    assert_eq!(people::add_namespaces(&catalog, &[org.clone(), org.clone()]).await.unwrap(), ["org"]);
    assert_eq!(people::namespaces(&catalog).await.unwrap(), [org]);
    let member =
        |namespace: &str, writes| MemberRow { namespace: namespace.into(), member: "ann".into(), writes };
    people::set_members(&catalog, &[member("org", false), member("two", true)]).await.unwrap();
    people::set_members(&catalog, &[member("org", true)]).await.unwrap();
    assert_eq!(
        people::memberships(&catalog, "ann").await.unwrap(),
        [member("org", true), member("two", true)]
    );
    assert_eq!(people::remove_members(&catalog, "two", &["ann".into(), "bob".into()]).await.unwrap(), 1);
    assert_eq!(
        (
            people::members(&catalog, "org").await.unwrap().len(),
            people::members(&catalog, "two").await.unwrap().len()
        ),
        (1, 0)
    );
}

fn token(n: u8, subject: &str, bound: Bound) -> TokenRow {
    TokenRow {
        id: format!("t{n}"),
        label: "x".into(),
        digest: [n; 32],
        subject: subject.into(),
        rights: Rights::Write,
        bound,
        created_s: 1,
        expires_s: None,
        used_s: None,
        revoked_s: None,
        repo_id: None,
        session: None,
    }
}

async fn a_token_of_a_repository_is_bound_to_its_id(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    let bound = || Bound::Repo("ann/models/a".parse().unwrap());
    let repo_of = async |id: &str| tokens.by_id(id).await.unwrap().unwrap().repo_id;
    assert_eq!(tokens.by_id("t1").await.unwrap(), None);
    // Made before there is a repository: bound to the first one of the name.
    tokens.add(&token(1, "ann", bound())).await.unwrap();
    tokens.add(&token(2, "ann", Bound::Repo("ann/datasets/a".parse().unwrap()))).await.unwrap();
    assert_eq!(repo_of("t1").await, None);
    let one = made(&catalog, 1, "ann/a").await;
    assert_eq!((repo_of("t1").await, repo_of("t2").await), (Some(one.id), None));
    // Made afterwards: bound at once.
    tokens.add(&token(3, "ann", bound())).await.unwrap();
    assert_eq!(repo_of("t3").await, Some(one.id));
    // A second repository of the name does not take them over.
    let moved = RepoRow { name: RepoName::new(Kind::Model, "ann", "b").unwrap(), ..one.clone() };
    assert!(repos::change_repo(&catalog, &one, &moved).await.unwrap());
    let shown = tokens.by_id("t1").await.unwrap().unwrap().bound;
    assert_eq!(shown, Bound::Repo("ann/models/b".parse().unwrap()), "shown by its name now");
    tokens.add(&token(4, "ann", bound())).await.unwrap();
    let two = made(&catalog, 2, "ann/a").await;
    assert_eq!((repo_of("t1").await, repo_of("t3").await), (Some(one.id), Some(one.id)));
    assert_eq!(repo_of("t4").await, Some(two.id), "it was made for the name as it is now");
    // Nor does one that comes by the name through a rename.
    tokens.add(&token(5, "ann", Bound::Repo("ann/models/c".parse().unwrap()))).await.unwrap();
    let renamed = RepoRow { name: RepoName::new(Kind::Model, "ann", "c").unwrap(), ..two.clone() };
    assert!(repos::change_repo(&catalog, &two, &renamed).await.unwrap());
    assert_eq!(repo_of("t5").await, None);
}

async fn user(catalog: &Any, name: &str) -> NamespaceRow {
    let row = NamespaceRow {
        name: name.into(),
        is_organisation: false,
        created_s: 1,
        state: NamespaceState::Active,
    };
    assert_eq!(people::add_namespaces(catalog, std::slice::from_ref(&row)).await.unwrap(), [name]);
    row
}

async fn a_disabled_user_loses_sessions_and_keeps_tokens(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    let ann = user(&catalog, "ann").await;
    assert_eq!(people::namespace(&catalog, "ann").await.unwrap(), Some(ann.clone()));
    assert_eq!(people::namespace(&catalog, "bob").await.unwrap(), None);
    let session = TokenRow { session: Some("t1".into()), ..token(1, "ann", Bound::Everywhere) };
    let made_in_it = TokenRow { session: Some("t1".into()), ..token(2, "ann", Bound::Everywhere) };
    let of_another = TokenRow { session: Some("t3".into()), ..token(3, "bob", Bound::Everywhere) };
    for row in [&session, &made_in_it, &of_another] {
        assert!(tokens.add(row).await.unwrap());
    }
    assert!(people::set_user_disabled(&catalog, "ann", true, 50).await.unwrap());
    assert!(!people::set_user_disabled(&catalog, "bob", true, 50).await.unwrap());
    let disabled = NamespaceRow { state: NamespaceState::Disabled, ..ann.clone() };
    assert_eq!(people::namespace(&catalog, "ann").await.unwrap(), Some(disabled));
    let revoked = async |id: &str| tokens.by_id(id).await.unwrap().unwrap().revoked_s;
    assert_eq!([revoked("t1").await, revoked("t2").await, revoked("t3").await], [Some(50), None, None]);
    assert!(people::set_user_disabled(&catalog, "ann", false, 60).await.unwrap());
    assert_eq!(people::namespace(&catalog, "ann").await.unwrap(), Some(ann));
}

async fn a_deleted_user_leaves_a_reserved_name(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    let ann = user(&catalog, "ann").await;
    people::set_members(
        &catalog,
        &[MemberRow { namespace: "team".into(), member: "ann".into(), writes: true }],
    )
    .await
    .unwrap();
    tokens.set_password("ann", Some("hash"), 1, None).await.unwrap();
    tokens.add(&token(1, "ann", Bound::Everywhere)).await.unwrap();
    let one = made(&catalog, 1, "ann/a").await;
    assert_eq!(people::delete_namespace(&catalog, "ann", 50).await.unwrap(), std::slice::from_ref(&one.name));
    assert_eq!(people::namespace(&catalog, "ann").await.unwrap(), Some(ann.clone()), "nothing changed");
    let trashed = RepoRow { reclaim_s: Some(500), ..one.clone() };
    assert!(repos::change_repo(&catalog, &one, &trashed).await.unwrap());
    assert_eq!(people::delete_namespace(&catalog, "ann", 50).await.unwrap(), []);
    assert_eq!(people::namespace(&catalog, "ann").await.unwrap().unwrap().state, NamespaceState::Deleted);
    assert_eq!(people::memberships(&catalog, "ann").await.unwrap(), []);
    assert_eq!(tokens.password("ann").await.unwrap(), None);
    assert_eq!(tokens.by_id("t1").await.unwrap().unwrap().revoked_s, Some(50));
    assert_eq!(
        people::add_namespaces(&catalog, std::slice::from_ref(&ann)).await.unwrap(),
        <[&str; 0]>::default()
    );
    // Disabling what was deleted does not bring it back; enabling does, with nothing.
    assert!(!people::set_user_disabled(&catalog, "ann", true, 60).await.unwrap());
    assert!(people::set_user_disabled(&catalog, "ann", false, 60).await.unwrap());
    assert_eq!(tokens.by_id("t1").await.unwrap().unwrap().revoked_s, Some(50));
}

async fn a_changed_password_ends_other_sessions_and_what_was_made_in_them(catalog: Any) {
    let tokens = Tokens::new(&catalog);
    let of = |n: u8, subject: &str, session: Option<&str>| TokenRow {
        session: session.map(Into::into),
        ..token(n, subject, Bound::Everywhere)
    };
    let rows = [
        of(1, "ann", Some("t1")),
        of(2, "ann", Some("t1")),
        of(3, "ann", Some("t3")),
        of(4, "ann", Some("t3")),
        of(5, "ann", None),
        of(6, "bob", Some("t6")),
    ];
    for row in &rows {
        assert!(tokens.add(row).await.unwrap());
    }
    let ended = async || -> Vec<String> {
        let rows = tokens.all().await.unwrap();
        rows.into_iter().filter(|row| row.revoked_s.is_some()).map(|row| row.id).collect()
    };
    tokens.set_password("ann", Some("new"), 9, Some("t3")).await.unwrap();
    assert_eq!(ended().await, ["t1", "t2"]);
    tokens.set_password("ann", None, 9, None).await.unwrap();
    assert_eq!(ended().await, ["t1", "t2", "t3", "t4"]);
}

async fn a_deleted_repository_leaves_nothing(catalog: Any) {
    let (one, two) = (made(&catalog, 1, "ann/a").await, made(&catalog, 2, "ann/b").await);
    for repo in [one.id, two.id] {
        assert!(git_objects::add_git_objects(&catalog, repo, &[object(1), object(2)], 300).await.unwrap());
        assert!(refs::move_refs(&catalog, repo, &[change("a", None, Some(1))], 1, 0).await.unwrap());
    }
    assert_eq!(repos::delete_repo(&catalog, &one).await.unwrap(), [oid(999)]);
    assert_eq!(repos::delete_repo(&catalog, &one).await.unwrap(), []);
    assert_eq!(
        (
            refs::refs(&catalog, one.id, "").await.unwrap().len(),
            refs::refs(&catalog, two.id, "").await.unwrap().len()
        ),
        (0, 1)
    );
    assert_eq!(git_objects::git_objects(&catalog, one.id, &[oid(1)]).await.unwrap(), []);
    assert_eq!(git_objects::git_objects(&catalog, two.id, &[oid(1)]).await.unwrap(), [object(1)]);
}
