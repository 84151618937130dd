//! Dedup policies: how far the content of a namespace or repository may be found.

use std::sync::Arc;

use crate::access::Scope;
use crate::audit::{AuditEvent, append_event};
use crate::content::Content;
use crate::content::quotas::usage::QuotaOf;
use crate::content::reach::Reach;
use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};

/// All dedup policies, in the order of what they are for.
pub(crate) async fn dedup_policies(db: &Catalog) -> Result<Vec<(QuotaOf, DedupPolicy)>> {
    let query = "SELECT namespace, repo, policy FROM dedup_policies ORDER BY namespace, repo";
    let rows: Vec<(String, String, i64)> = db.read("list dedup policies", Sql::new(query)).await?;
    let row = |(namespace, repo, policy)| {
        // A number that a later version wrote: nothing may be found.
        let policy = DedupPolicy::from_number(policy).unwrap_or(DedupPolicy::Off);
        Ok((QuotaOf::from_columns(namespace, repo)?, policy))
    };
    rows.into_iter().map(row).collect()
}

/// Sets how far content may be found, or removes the setting. `off` takes the chunks out of the index as well.
pub(crate) async fn set_dedup_policy(db: &Catalog, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()> {
    let (namespace, repo) = of.columns();
    // Serializable: a registration that runs at the same time must not miss the policy.
    db.write_serializable("set a dedup policy", |mut tx| async move {
        let set = match policy {
            Some(policy) => {
                let set = "INSERT INTO dedup_policies (namespace, repo, policy) VALUES ($1, $2, $3) \
                        ON CONFLICT (namespace, repo) DO UPDATE SET policy = excluded.policy";
                Sql::new(set).bind(namespace).bind(repo).bind(policy.number())
            }
            None => {
                let delete = "DELETE FROM dedup_policies WHERE namespace = $1 AND repo = $2";
                Sql::new(delete).bind(namespace).bind(repo)
            }
        };
        tx.run(set).await?;
        if policy == Some(DedupPolicy::Off) {
            let mut delete = Sql::new("DELETE FROM dedup WHERE namespace = $1").bind(namespace);
            if !repo.is_empty() {
                delete.push(" AND repo = ").push_bind(repo);
            }
            tx.run(delete).await?;
        }
        let detail = policy.map_or("default", DedupPolicy::name);
        append_event(&mut tx, &AuditEvent::new("dedup.set", of.to_string(), detail)).await?;
        tx.commit().await
    })
    .await
}

/// Whose chunks a repository may find, and who may find its chunks. From the widest to the narrowest: of several the greatest
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum DedupPolicy {
    /// Chunks of all repositories. Saves most; reveals to a client that has a chunk that it was uploaded before.
    #[default]
    Global,
    /// Those of its namespace.
    Namespace,
    /// Its own.
    Repo,
    /// Nobody's.
    Off,
}

impl DedupPolicy {
    /// All of them, the widest first.
    pub const ALL: [Self; 4] = [Self::Global, Self::Namespace, Self::Repo, Self::Off];

    /// As settings and commands spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Namespace => "namespace",
            Self::Repo => "repo",
            Self::Off => "off",
        }
    }

    /// Reads a name, or `default` for none.
    pub fn parse_setting(text: &str) -> Result<Option<Self>> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        if found.is_none() && text != "default" {
            let message =
                format!("{text:.80?} is no dedup policy: use off, repo, namespace, global or default");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(found)
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Global => 0,
            Self::Namespace => 1,
            Self::Repo => 2,
            Self::Off => 3,
        }
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.number() == number)
    }

    /// How far a query of this repository sees; `None` for not at all.
    pub fn reach(self, scope: &Scope) -> Option<Reach> {
        match self {
            Self::Global => Some(Reach::All(scope.clone())),
            Self::Namespace => Some(Reach::Namespace(scope.clone())),
            Self::Repo => Some(Reach::Repo(scope.clone())),
            Self::Off => None,
        }
    }
}

impl Content {
    /// The dedup policy of a repository: the narrowest of the server's, its namespace's and its own.
    pub async fn dedup_policy(&self, scope: &Scope) -> Result<DedupPolicy> {
        self.dedup_policy_of(&QuotaOf::Repo(scope.clone())).await
    }

    /// The dedup policy that counts for a namespace or repository.
    pub async fn dedup_policy_of(&self, of: &QuotaOf) -> Result<DedupPolicy> {
        let covers = |set: &QuotaOf| match (set, of) {
            (QuotaOf::Namespace(namespace), QuotaOf::Repo(scope)) => namespace == scope.namespace(),
            (set, of) => set == of,
        };
        let rows = self.policies.rows(&self.db).await?;
        let own = rows.iter().filter(|(set, _)| covers(set)).map(|(_, policy)| *policy);
        Ok(own.max().unwrap_or_default().max(self.dedup.policy))
    }
}

impl Content {
    /// Reads the policies again when they are needed next.
    pub(crate) async fn forget_dedup_policies(&self) {
        self.policies.forget().await;
    }
}

/// Dedup policies, as they were a moment ago.
#[derive(Debug, Clone)]
pub(crate) struct Policies(moka::future::Cache<(), Arc<Vec<(QuotaOf, DedupPolicy)>>>);

impl Policies {
    pub(crate) fn new() -> Self {
        Self(moka::future::Cache::builder().time_to_live(POLICIES_AGE_MAX).max_capacity(1).build())
    }

    async fn rows(&self, catalog: &Catalog) -> Result<Arc<Vec<(QuotaOf, DedupPolicy)>>> {
        if let Some(rows) = self.0.get(&()).await {
            return Ok(rows);
        }
        let rows = Arc::new(dedup_policies(catalog).await?);
        self.0.insert((), rows.clone()).await;
        Ok(rows)
    }

    async fn forget(&self) {
        self.0.invalidate(&()).await;
    }
}

/// How old the policies may be that an answer is made by.
const POLICIES_AGE_MAX: std::time::Duration = std::time::Duration::from_secs(2);
