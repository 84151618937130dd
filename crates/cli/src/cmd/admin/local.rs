//! `drystone admin` in the catalog itself.

use serde_json::{Value, json};
use server::{ServeConfig, audit_event_json, dedup_json, password, quota_json, reflog_json};
use store::Store;
use store::audit::AuditQuery;
use store::content::{Limit, QuotaOf, QuotaRow};
use store::hub::{MemberRow, NamespaceRow, RepoQuery, RepoRow};
use store::names::{Kind, RepoName};

use super::quota::{Audit, DedupSetting, QuotaVerb, Undelete};
use super::users::{OrgVerb, UserVerb, read_password};
use super::{MemberVerb, RepoVerb, StoreArgs, TrashVerb, Values, Verb};
use crate::output::CliError;

pub(super) async fn run(place: &StoreArgs, verb: Verb) -> Values {
    let (config, store) = (place.config()?, place.open().await?);
    match verb {
        Verb::User(UserVerb::Password { name, stdin, remove }) => {
            let hash = read_password(&name, stdin, remove)?.as_deref().map(password::hash).transpose();
            store.hub().set_password(&name, hash?.as_deref(), None).await.map(|()| Vec::new())
        }
        Verb::User(verb) => users(verb, &store).await,
        Verb::Org(verb) => organisations(verb, &store).await,
        Verb::Member(verb) => members(verb, &store).await,
        Verb::Repo(verb) => repos(verb, &store, &config).await,
        Verb::Trash(verb) => trash(verb, &store).await,
        Verb::Quota(verb) => quotas(verb, &store).await,
        Verb::Audit(audit) => audit_events(&audit, &store).await,
        Verb::Undelete(verb) => undelete(&verb, &store).await,
    }
    .map_err(CliError::message)
}

async fn users(verb: UserVerb, store: &Store) -> store::Result<Vec<Value>> {
    let value = |row: &NamespaceRow| json!({"name": row.name, "state": row.state.as_str()});
    match verb {
        UserVerb::Create { name } => Ok(vec![value(&store.hub().add_namespace(&name, false).await?)]),
        UserVerb::List => Ok(store.hub().namespaces(false).await?.iter().map(value).collect()),
        UserVerb::Disable { name } => Ok(vec![value(&store.hub().disable_user(&name).await?)]),
        UserVerb::Enable { name } => Ok(vec![value(&store.hub().enable_user(&name).await?)]),
        UserVerb::Dedup { name, policy } => dedup(&name.parse()?, policy, store).await,
        UserVerb::Delete { name } => store.hub().delete_namespace(&name, false).await.map(|()| Vec::new()),
        // Handled by the caller: it needs a terminal.
        UserVerb::Password { .. } => Ok(Vec::new()),
    }
}

async fn organisations(verb: OrgVerb, store: &Store) -> store::Result<Vec<Value>> {
    let value = |row: &NamespaceRow| json!({"name": row.name});
    match verb {
        OrgVerb::Create { name } => Ok(vec![value(&store.hub().add_namespace(&name, true).await?)]),
        OrgVerb::List => Ok(store.hub().namespaces(true).await?.iter().map(value).collect()),
        OrgVerb::Delete { name } => store.hub().delete_namespace(&name, true).await.map(|()| Vec::new()),
        OrgVerb::Dedup { name, policy } => dedup(&name.parse()?, policy, store).await,
    }
}

async fn members(verb: MemberVerb, store: &Store) -> store::Result<Vec<Value>> {
    let value = |row: &MemberRow| json!({"org": row.namespace, "user": row.member, "role": if row.writes { "write" } else { "read" }});
    match verb {
        MemberVerb::Add { org, user, write } => {
            Ok(vec![value(&store.hub().set_member(&org, &user, write).await?)])
        }
        MemberVerb::Remove { org, user } => store.hub().remove_member(&org, &user).await.map(|()| Vec::new()),
        MemberVerb::List { org } => Ok(store.hub().members(&org).await?.iter().map(value).collect()),
    }
}

async fn repos(verb: RepoVerb, store: &Store, config: &ServeConfig) -> store::Result<Vec<Value>> {
    match verb {
        RepoVerb::Create { repo, private } => {
            Ok(vec![value(&store.hub().create_repo(&repo, private, "admin").await?)])
        }
        RepoVerb::List => list(store).await,
        RepoVerb::Delete { repo } => {
            store.hub().trash_repo(&find(store, &repo).await?, config.trash_s).await?;
            Ok(Vec::new())
        }
        RepoVerb::Rename { from, to } => {
            let row = find(store, &from).await?;
            let to = store.hub().rename_repo(&row, &to).await?;
            Ok(vec![value(&RepoRow { name: to, ..row })])
        }
        RepoVerb::Private { repo, public } => {
            let row = find(store, &repo).await?;
            store.hub().set_private(&row, !public).await?;
            Ok(vec![value(&RepoRow { private: !public, ..row })])
        }
        RepoVerb::Dedup { repo, policy } => {
            let row = find(store, &repo).await?;
            dedup(&QuotaOf::Repo(row.scope()?), policy, store).await
        }
    }
}

/// Sets a dedup policy, if one is given, and returns what counts.
async fn dedup(of: &QuotaOf, policy: Option<DedupSetting>, store: &Store) -> store::Result<Vec<Value>> {
    if let Some(DedupSetting(policy)) = policy {
        store.hub().set_dedup_policy(of, policy).await?;
    }
    Ok(vec![dedup_json(of, store.hub().dedup_setting(of).await?, store.content().dedup_policy_of(of).await?)])
}

async fn trash(verb: TrashVerb, store: &Store) -> store::Result<Vec<Value>> {
    match verb {
        TrashVerb::List => Ok(store.hub().trash().await?.iter().map(value).collect()),
        TrashVerb::Restore { id, to } => {
            let row = store.hub().trashed_repo(id).await?;
            let name = to.unwrap_or_else(|| row.name.clone());
            let name = store.hub().restore_repo(&row, &name).await?;
            Ok(vec![value(&RepoRow { name, reclaim_s: None, ..row })])
        }
        TrashVerb::Delete { id } => {
            store.hub().delete_repo(&store.hub().trashed_repo(id).await?).await?;
            Ok(Vec::new())
        }
    }
}

async fn quotas(verb: QuotaVerb, store: &Store) -> store::Result<Vec<Value>> {
    match verb {
        QuotaVerb::List => Ok(store
            .content()
            .quota_usage()
            .await?
            .iter()
            .map(|(row, usage)| quota_json(row, *usage))
            .collect()),
        QuotaVerb::Set(set) => {
            let row = QuotaRow {
                of: set.of,
                logical: Limit { soft: set.soft_logical, hard: set.logical },
                physical: Limit { soft: set.soft_physical, hard: set.physical },
            };
            let row = store.hub().set_quota(&row).await?;
            Ok(vec![quota_json(&row, store.hub().usage(&row.of).await?)])
        }
        QuotaVerb::Remove { of } => store.hub().remove_quota(&of).await.map(|()| Vec::new()),
    }
}

async fn audit_events(audit: &Audit, store: &Store) -> store::Result<Vec<Value>> {
    let mut query = AuditQuery { since_s: audit.since_s(), limit: 1000, ..AuditQuery::default() };
    let mut values = Vec::new();
    loop {
        let rows = store.hub().audit_events(&query).await?;
        values.extend(rows.iter().map(audit_event_json));
        let Some(last) = rows.last() else { return Ok(values) };
        query.before = Some(last.id);
    }
}

async fn undelete(verb: &Undelete, store: &Store) -> store::Result<Vec<Value>> {
    let row = find(store, &verb.repo).await?;
    if let Some(oid) = verb.revision {
        let name = store.hub().undelete_revision(&row, oid, verb.branch.as_deref()).await?;
        return Ok(vec![json!({"ref": name, "revision": oid.to_string()})]);
    }
    if let Some(path) = &verb.path {
        let branch = verb.branch.as_deref().unwrap_or("main");
        let (committed, from) = store.hub().undelete_file(&row, branch, path, "admin").await?;
        let commit = committed.oid.to_string();
        return Ok(vec![json!({"path": path, "commit": commit, "from": from.to_string()})]);
    }
    Ok(store.hub().reflog(row.id).await?.iter().map(reflog_json).collect())
}

async fn find(store: &Store, name: &RepoName) -> store::Result<RepoRow> {
    let missing = || store::Error::new(store::ErrorKind::NotFound, format!("no repository {name}"));
    store.hub().repo(name).await?.ok_or_else(missing)
}

async fn list(store: &Store) -> store::Result<Vec<Value>> {
    let mut values = Vec::new();
    for kind in Kind::ALL {
        let mut after = None;
        loop {
            let query =
                RepoQuery { kind, namespace: None, search: None, private_of: None, after, limit: 1000 };
            let rows = store.hub().list_repos(&query).await?;
            values.extend(rows.iter().map(value));
            match rows.last().filter(|_| rows.len() == 1000) {
                Some(last) => after = Some((last.name.namespace.clone(), last.name.name.clone())),
                None => break,
            }
        }
    }
    Ok(values)
}

/// Repository in the form of the admin API.
fn value(row: &RepoRow) -> Value {
    let mut value = json!({
        "repo": row.name.to_string(), "type": row.name.kind.singular(), "private": row.private, "id": row.id.to_string(),
    });
    if let (Some(reclaim_s), Some(fields)) = (row.reclaim_s, value.as_object_mut()) {
        fields.insert("reclaimAt".to_owned(), json!(server::iso_time(reclaim_s)));
    }
    value
}
