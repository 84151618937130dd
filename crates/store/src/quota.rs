//! Quotas: what a namespace or repository may take, looked at before bytes are taken in.
//!
//! Whoever has no quota pays nothing for it: the list of quotas is read once in a few seconds. What uploads bring before
//! their shard is registered is counted here, and forgotten when usage is read again; a shard is held against what the
//! catalog counts at that moment. So a hard limit can be passed by what several clients bring in one moment, not by more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Store;
use crate::access::Scope;
use crate::catalog::keep::{Limit, QuotaOf, QuotaRow, Usage};
use crate::catalog::rows::{FileRow, Reach};
use crate::error::{Error, ErrorKind, Result};

/// What somebody wants to bring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes of files.
    pub logical_bytes: u64,
    /// Bytes of objects.
    pub physical_bytes: u64,
}

/// Quotas and usage, as they were a moment ago.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    rows: moka::future::Cache<(), Arc<Vec<QuotaRow>>>,
    taken: moka::future::Cache<QuotaOf, Arc<Taken>>,
}

#[derive(Debug)]
struct Taken {
    usage: Usage,
    /// Bytes that were let in since.
    pending_bytes: AtomicU64,
}

impl Quotas {
    pub(crate) fn new() -> Self {
        let rows = moka::future::Cache::builder().time_to_live(MOMENT).max_capacity(1).build();
        let taken = moka::future::Cache::builder().time_to_live(MOMENT).max_capacity(10_000).build();
        Self { rows, taken }
    }
}

impl Store {
    /// Refuses what would pass a hard limit of the repository or its namespace.
    pub async fn expect_quota(&self, scope: &Scope, need: Need) -> Result<()> {
        for quota in self.quotas_over(scope).await? {
            let taken = self.taken(&quota.of).await?;
            let pending = taken.pending_bytes.load(Ordering::Relaxed);
            let physical_bytes = taken.usage.physical_bytes.saturating_add(pending);
            expect(&quota, Usage { physical_bytes, ..taken.usage }, need)?;
            taken.pending_bytes.fetch_add(need.physical_bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The same of files that are about to be registered, held against what is counted now.
    pub(crate) async fn expect_quota_for(
        &self,
        scope: &Scope,
        files: &[FileRow],
        xorbs: &[(xet::XorbHash, u64)],
    ) -> Result<()> {
        let quotas = self.quotas_over(scope).await?;
        if quotas.is_empty() {
            return Ok(());
        }
        let hashes: Vec<_> = files.iter().map(|file| file.hash).collect();
        let known = self.catalog.files(scope, &hashes).await?;
        let mut known: std::collections::HashSet<_> = known.into_iter().map(|file| file.hash).collect();
        let new = files.iter().filter(|file| known.insert(file.hash));
        let mut need =
            Need { logical_bytes: new.map(|file| file.layout.file_bytes()).sum(), physical_bytes: 0 };
        let reach = Reach::Repo(scope.clone());
        for (xorb, bytes) in xorbs {
            if !self.catalog.has_xorb(&reach, *xorb).await? {
                need.physical_bytes = need.physical_bytes.saturating_add(*bytes);
            }
        }
        for quota in quotas {
            expect(&quota, self.catalog.keep().usage(&quota.of).await?, need)?;
        }
        Ok(())
    }

    /// What to tell somebody whose repository or namespace is above a soft limit.
    pub async fn quota_warning(&self, scope: &Scope) -> Result<Option<String>> {
        for quota in self.quotas_over(scope).await? {
            let usage = self.taken(&quota.of).await?.usage;
            for (what, limit, used) in sides(&quota, usage) {
                if let Some(soft) = limit.soft.filter(|soft| used > *soft) {
                    let of = &quota.of;
                    return Ok(Some(format!(
                        "{of} takes {used} {what} bytes, more than the {soft} it should"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// All quotas, each with what is taken of it.
    pub async fn quota_usage(&self) -> Result<Vec<(QuotaRow, Usage)>> {
        let mut found = Vec::new();
        for row in self.catalog.keep().quotas().await? {
            let usage = self.catalog.keep().usage(&row.of).await?;
            found.push((row, usage));
        }
        Ok(found)
    }

    /// Sets a quota, and returns it with its name as it is spelled; it holds here at once, and on other servers within
    /// seconds.
    pub async fn set_quota(&self, row: &QuotaRow) -> Result<QuotaRow> {
        let row = QuotaRow { of: self.spelled_quota(&row.of).await?, ..row.clone() };
        self.catalog.keep().set_quota(&row).await?;
        self.quotas.rows.invalidate(&()).await;
        self.write_people_down().await?;
        Ok(row)
    }

    /// Removes a quota. None is not found.
    pub async fn remove_quota(&self, of: &QuotaOf) -> Result<()> {
        let of = &self.spelled_quota(of).await?;
        let removed = self.catalog.keep().remove_quota(of).await?;
        self.quotas.rows.invalidate(&()).await;
        // Also where there was none: it may be one that could not be written down the last time.
        self.write_people_down().await?;
        match removed {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, format!("{of} has no quota"))),
        }
    }

    async fn quotas_over(&self, scope: &Scope) -> Result<Vec<QuotaRow>> {
        let rows = match self.quotas.rows.get(&()).await {
            Some(rows) => rows,
            None => {
                let rows = Arc::new(self.catalog.keep().quotas().await?);
                self.quotas.rows.insert((), rows.clone()).await;
                rows
            }
        };
        let covers = |row: &&QuotaRow| match &row.of {
            QuotaOf::Namespace(namespace) => namespace == scope.namespace(),
            QuotaOf::Repo(repo) => repo == scope,
        };
        Ok(rows.iter().filter(covers).cloned().collect())
    }

    async fn taken(&self, of: &QuotaOf) -> Result<Arc<Taken>> {
        if let Some(taken) = self.quotas.taken.get(of).await {
            return Ok(taken);
        }
        let usage = self.catalog.keep().usage(of).await?;
        let taken = Arc::new(Taken { usage, pending_bytes: AtomicU64::new(0) });
        self.quotas.taken.insert(of.clone(), taken.clone()).await;
        Ok(taken)
    }
}

fn sides(quota: &QuotaRow, usage: Usage) -> [(&'static str, Limit, u64); 2] {
    [("logical", quota.logical, usage.logical_bytes), ("physical", quota.physical, usage.physical_bytes)]
}

/// Whoever brings nothing is never refused: deleting must go on.
fn expect(quota: &QuotaRow, usage: Usage, need: Need) -> Result<()> {
    for ((what, limit, used), wanted) in
        sides(quota, usage).into_iter().zip([need.logical_bytes, need.physical_bytes])
    {
        if let Some(hard) = limit.hard.filter(|hard| wanted > 0 && used.saturating_add(wanted) > *hard) {
            let of = &quota.of;
            let message = format!(
                "quota of {of}: {hard} {what} bytes, {used} are used and {wanted} more are wanted; \
                 delete something, or ask who keeps the server for more"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
    }
    Ok(())
}

/// How long quotas and usage are remembered.
const MOMENT: Duration = Duration::from_secs(5);
