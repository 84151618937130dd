//! Snapshots: state of repositories and users that no bundle has, stored as objects for a rebuild without a catalog.
//!
//! The catalog changes first and the snapshot follows, before anything is acknowledged: acknowledged state is in both.

pub(crate) mod collect;

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use xet::wire::{encode_json, parse_json};

use crate::content::dedup_policy::{self, DedupPolicy};
use crate::content::quotas::usage::{self, Limit, QuotaOf, QuotaRow};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::people::{self, MemberRow, NamespaceRow, NamespaceState};
use crate::hub::pulls::{PullRow, PullState};
use crate::hub::reflog::{self, ReflogEntry};
use crate::hub::rows::{RefChange, RefRow, RepoRow};
use crate::hub::snapshot::collect::{PeopleSnapshot, RepoSnapshot};
use crate::hub::{Hub, git_objects, refs, repos};
use crate::ids::RepoId;
use crate::names::RepoName;
use crate::objects::Folder;
use crate::objects::key::ObjectKey;

#[derive(Serialize, Deserialize)]
struct RepoJson {
    id: String,
    repo: String,
    private: bool,
    created_s: u64,
    updated_s: u64,
    reclaim_s: Option<u64>,
    refs: Vec<(String, String)>,
    pulls: Vec<PullJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<ReflogJson>,
}

#[derive(Serialize, Deserialize)]
struct ReflogJson {
    oid: String,
    name: String,
    left_s: u64,
    reclaim_s: u64,
}

#[derive(Serialize, Deserialize)]
struct PullJson {
    number: u64,
    title: String,
    description: String,
    author: String,
    created_s: u64,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct PeopleJson {
    namespaces: Vec<NamespaceJson>,
    members: Vec<MemberJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quotas: Vec<QuotaJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dedup: Vec<DedupJson>,
}

#[derive(Serialize, Deserialize)]
struct DedupJson {
    namespace: String,
    /// Empty for the namespace. That of a repository in the trash has a form of its own, which no name parses as.
    repo: String,
    policy: String,
}

#[derive(Serialize, Deserialize)]
struct QuotaJson {
    of: String,
    logical: LimitJson,
    physical: LimitJson,
}

#[derive(Serialize, Deserialize)]
struct LimitJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    soft: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct NamespaceJson {
    name: String,
    kind: String,
    created_s: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct MemberJson {
    namespace: String,
    member: String,
    role: String,
}

impl RepoSnapshot {
    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let pull = |pull: &PullRow| {
            let (state, merged) = match pull.state {
                PullState::Open => ("open", None),
                PullState::Closed => ("closed", None),
                PullState::Merged(oid) => ("merged", Some(oid.to_string())),
            };
            PullJson {
                number: pull.number,
                title: pull.title.clone(),
                description: pull.description.clone(),
                author: pull.author.clone(),
                created_s: pull.created_s,
                state: state.to_owned(),
                merged,
            }
        };
        let entry = |row: &ReflogEntry| ReflogJson {
            oid: row.oid.to_string(),
            name: row.name.clone(),
            left_s: row.left_s,
            reclaim_s: row.reclaim_s,
        };
        encode_json(&RepoJson {
            id: self.row.id.to_string(),
            repo: self.row.name.to_string(),
            private: self.row.private,
            created_s: self.row.created_s,
            updated_s: self.row.updated_s,
            reclaim_s: self.row.reclaim_s,
            refs: self.refs.iter().map(|row| (row.name.clone(), row.target.to_string())).collect(),
            pulls: self.pulls.iter().map(pull).collect(),
            left: self.reflog.iter().map(entry).collect(),
        })
    }

    /// Reads an object.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let json: RepoJson = parse_json(bytes).map_err(|source| Error::corrupt("snapshot", source))?;
        let pull = |pull: PullJson| {
            let state = match (pull.state.as_str(), pull.merged) {
                ("open", None) => PullState::Open,
                ("closed", None) => PullState::Closed,
                ("merged", Some(oid)) => PullState::Merged(oid.parse()?),
                _ => return Err(wrong("state of a pull request")),
            };
            let PullJson { number, title, description, author, created_s, .. } = pull;
            Ok(PullRow { number, title, description, author, created_s, state })
        };
        let entry = |row: ReflogJson| {
            let ReflogJson { oid, name, left_s, reclaim_s } = row;
            Ok(ReflogEntry { oid: oid.parse()?, name, left_s, reclaim_s })
        };
        let refs = json.refs.into_iter().map(|(name, target)| Ok(RefRow { name, target: target.parse()? }));
        Ok(Self {
            row: RepoRow {
                id: json.id.parse()?,
                name: RepoName::parse(&json.repo)?,
                private: json.private,
                created_s: json.created_s,
                updated_s: json.updated_s,
                reclaim_s: json.reclaim_s,
            },
            refs: refs.collect::<Result<_>>()?,
            pulls: json.pulls.into_iter().map(pull).collect::<Result<_>>()?,
            reflog: json.left.into_iter().map(entry).collect::<Result<_>>()?,
        })
    }
}

impl PeopleSnapshot {
    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let namespace = |row: &NamespaceRow| NamespaceJson {
            name: row.name.clone(),
            kind: if row.is_organisation { "org" } else { "user" }.to_owned(),
            created_s: row.created_s,
            state: (row.state != NamespaceState::Active).then(|| row.state.as_str().to_owned()),
        };
        let member = |row: &MemberRow| MemberJson {
            namespace: row.namespace.clone(),
            member: row.member.clone(),
            role: if row.writes { "write" } else { "read" }.to_owned(),
        };
        let limit = |limit: Limit| LimitJson { soft: limit.soft, hard: limit.hard };
        let quota = |row: &QuotaRow| QuotaJson {
            of: row.of.to_string(),
            logical: limit(row.logical),
            physical: limit(row.physical),
        };
        let policy = |(of, policy): &(QuotaOf, DedupPolicy)| {
            let (namespace, repo) = of.columns();
            let policy = policy.name().to_owned();
            DedupJson { namespace: namespace.to_owned(), repo: repo.to_owned(), policy }
        };
        encode_json(&PeopleJson {
            namespaces: self.namespaces.iter().map(namespace).collect(),
            members: self.members.iter().map(member).collect(),
            quotas: self.quotas.iter().map(quota).collect(),
            dedup: self.dedup.iter().map(policy).collect(),
        })
    }

    /// Reads an object.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let json: PeopleJson = parse_json(bytes).map_err(|source| Error::corrupt("snapshot", source))?;
        let namespace = |row: NamespaceJson| {
            let is_organisation = match row.kind.as_str() {
                "org" => true,
                "user" => false,
                _ => return Err(wrong("kind of a namespace")),
            };
            let state = match row.state.as_deref() {
                None => NamespaceState::Active,
                Some(word) => NamespaceState::ALL
                    .into_iter()
                    .find(|known| known.as_str() == word)
                    .ok_or_else(|| wrong("state of a namespace"))?,
            };
            Ok(NamespaceRow { name: row.name, is_organisation, created_s: row.created_s, state })
        };
        let member = |row: MemberJson| {
            let writes = match row.role.as_str() {
                "write" => true,
                "read" => false,
                _ => return Err(wrong("role of a member")),
            };
            Ok(MemberRow { namespace: row.namespace, member: row.member, writes })
        };
        let limit = |limit: LimitJson| Limit { soft: limit.soft, hard: limit.hard };
        let quota = |row: QuotaJson| {
            let of = row.of.parse().map_err(|_| wrong("name of a quota"))?;
            Ok(QuotaRow { of, logical: limit(row.logical), physical: limit(row.physical) })
        };
        let policy = |row: DedupJson| {
            let of = QuotaOf::from_columns(row.namespace, row.repo)?;
            // One that a later version wrote: nothing may be found.
            let policy = DedupPolicy::parse_setting(&row.policy).ok().flatten().unwrap_or(DedupPolicy::Off);
            Ok((of, policy))
        };
        Ok(Self {
            namespaces: json.namespaces.into_iter().map(namespace).collect::<Result<_>>()?,
            members: json.members.into_iter().map(member).collect::<Result<_>>()?,
            quotas: json.quotas.into_iter().map(quota).collect::<Result<_>>()?,
            dedup: json.dedup.into_iter().map(policy).collect::<Result<_>>()?,
        })
    }
}

impl Hub {
    /// Moves refs and persists the snapshot; returns whether they were where the changes begin.
    pub(crate) async fn move_refs(&self, repo: RepoId, changes: &[RefChange], now_s: u64) -> Result<bool> {
        let moved = refs::move_refs(&self.db, repo, changes, now_s, self.trash_s).await?;
        if moved {
            self.persist_snapshot(repo).await?;
        }
        Ok(moved)
    }

    /// Persists the snapshot of a repository.
    pub(crate) async fn persist_snapshot(&self, repo: RepoId) -> Result<()> {
        let Some((version, snapshot)) = collect::collect_repo(&self.db, repo).await? else { return Ok(()) };
        self.objects.put(&ObjectKey::Repo { repo, version }, vec![snapshot.encode().into()]).await?;
        // One that is left over does not count.
        self.objects.delete(&ObjectKey::Repo { repo, version: version.saturating_sub(1) }).await.ok();
        Ok(())
    }

    /// Persists the snapshot of users and quotas.
    pub(crate) async fn persist_people_snapshot(&self) -> Result<()> {
        let (version, snapshot) = collect::collect_people(&self.db).await?;
        self.objects.put(&ObjectKey::People { version }, vec![snapshot.encode().into()]).await?;
        self.objects.delete(&ObjectKey::People { version: version.saturating_sub(1) }).await.ok();
        Ok(())
    }

    /// Makes the catalog's repositories what was written down of them, once their git objects are there: names, who sees
    /// them, refs, pull requests, the trash; and people and quotas. A snapshot whose repository has no row is left alone.
    /// Applies the stored snapshots; returns the number of repositories that had one.
    pub async fn apply_snapshots(&self) -> Result<u64> {
        let mut latest: BTreeMap<RepoId, u64> = BTreeMap::new();
        let mut listed = self.objects.list(Folder::Repos);
        while let Some(found) = listed.try_next().await? {
            if let Some(ObjectKey::Repo { repo, version }) = found.key {
                let last = latest.entry(repo).or_default();
                *last = version.max(*last);
            }
        }
        let mut applied = 0;
        // All names are freed first: repositories may have changed them with each other.
        for repo in latest.keys() {
            if let Some(row) = repos::repo_of(&self.db, *repo).await? {
                self.change_row(&row, &RepoRow { reclaim_s: Some(0), ..row.clone() }).await?;
            }
        }
        for (repo, version) in latest {
            let Some(row) = repos::repo_of(&self.db, repo).await? else { continue };
            let mut snapshot =
                RepoSnapshot::parse(&self.objects.whole(&ObjectKey::Repo { repo, version }).await?)?;
            if snapshot.row.id != repo {
                return Err(wrong("id of a repository"));
            }
            if !repos::change_repo(&self.db, &row, &snapshot.row).await? {
                // Another one without a snapshot has the name: both stay, and the administrator decides.
                let id = repo.to_string();
                snapshot.row.name.name += &format!("-{}", id.get(..8).unwrap_or_default());
                self.change_row(&row, &snapshot.row).await?;
            }
            collect::restore_refs(&self.db, version, &snapshot).await?;
            let oids: Vec<_> = snapshot.reflog.iter().map(|entry| entry.oid).collect();
            let known = git_objects::git_objects(&self.db, repo, &oids).await?;
            snapshot.reflog.retain(|entry| known.iter().any(|row| row.oid == entry.oid));
            reflog::insert_entries(&self.db, repo, &snapshot.reflog).await?;
            applied += 1;
        }
        self.content.forget_recipes();
        let mut people = None;
        let mut listed = self.objects.list(Folder::People);
        while let Some(found) = listed.try_next().await? {
            if let Some(ObjectKey::People { version }) = found.key {
                people = people.max(Some(version));
            }
        }
        if let Some(version) = people {
            let snapshot = PeopleSnapshot::parse(&self.objects.whole(&ObjectKey::People { version }).await?)?;
            for row in &snapshot.namespaces {
                people::add_spelling(&self.db, &row.name).await?;
            }
            people::add_namespaces(&self.db, &snapshot.namespaces).await?;
            people::set_members(&self.db, &snapshot.members).await?;
            for quota in &snapshot.quotas {
                usage::set_quota(&self.db, quota).await?;
            }
            for (of, policy) in &snapshot.dedup {
                dedup_policy::set_dedup_policy(&self.db, of, Some(*policy)).await?;
            }
            collect::restore_people_version(&self.db, version).await?;
        }
        self.content.forget_dedup_policies().await;
        Ok(applied)
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a snapshot with an impossible {what}"))
}
