//! Quotas: what a namespace or repository may use, checked before bytes are accepted.
//!
//! A repository without a quota pays nothing for it: the list of quotas is read once in a few seconds. Under a quota every upload
//! is held against what the catalog counts at that moment, xorbs and parts that no shard has registered included, and against
//! what others on their way through this server have reserved; a body of unknown length when it is here as a whole. So a
//! hard limit can be passed only by what other servers accept at the same moment.

pub(crate) mod usage;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::access::Scope;
use crate::content::quotas::usage::{Limit, QuotaOf, QuotaRow, Usage};
use crate::content::rows::FileRow;
use crate::content::{Content, files};
use crate::error::{Error, ErrorKind, Result};

/// What an upload would add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes of files.
    pub logical_bytes: u64,
    /// Bytes of objects.
    pub physical_bytes: u64,
}

/// Quotas as they were a moment ago, and what uploads on their way have reserved.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    rows: moka::future::Cache<(), Arc<Vec<QuotaRow>>>,
    reserved: Arc<Mutex<Reserved>>,
}

#[derive(Debug, Default)]
struct Reserved {
    bytes: HashMap<QuotaOf, Need>,
    /// Counts reservations that ended: their bytes are in the catalog since, or nowhere.
    ended: u64,
}

impl Quotas {
    pub(crate) fn new() -> Self {
        let rows = moka::future::Cache::builder().time_to_live(MOMENT).max_capacity(1).build();
        Self { rows, reserved: Arc::default() }
    }

    fn reserved(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that an upload, a commit or a registration will take, held until they are counted in the catalog or it has failed.
#[derive(Debug)]
pub(crate) struct Reservation {
    quotas: Quotas,
    of: Vec<QuotaOf>,
    need: Need,
}

impl Need {
    fn plus(self, other: Self) -> Self {
        Self {
            logical_bytes: self.logical_bytes.saturating_add(other.logical_bytes),
            physical_bytes: self.physical_bytes.saturating_add(other.physical_bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            logical_bytes: self.logical_bytes.saturating_sub(other.logical_bytes),
            physical_bytes: self.physical_bytes.saturating_sub(other.physical_bytes),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.quotas.reserved();
        reserved.ended = reserved.ended.wrapping_add(1);
        for of in &self.of {
            let left = reserved.bytes.get(of).copied().unwrap_or_default().minus(self.need);
            match left == Need::default() {
                true => _ = reserved.bytes.remove(of),
                false => _ = reserved.bytes.insert(of.clone(), left),
            }
        }
    }
}

impl Content {
    /// Refuses what would pass a hard limit of the repository or its namespace.
    pub async fn expect_quota(&self, scope: &Scope, need: Need) -> Result<()> {
        self.reserve_quota(scope, need).await.map(drop)
    }

    /// The same, and reserves the bytes.
    pub(crate) async fn reserve_quota(&self, scope: &Scope, need: Need) -> Result<Reservation> {
        self.reserve(scope, need, WantedBy::Upload).await
    }

    /// The same of files that are about to be registered, and of `xorb_bytes` of xorbs that the repository did not send.
    pub(crate) async fn reserve_quota_for(
        &self,
        scope: &Scope,
        files: &[FileRow],
        xorb_bytes: u64,
    ) -> Result<Reservation> {
        let mut need = Need { logical_bytes: 0, physical_bytes: xorb_bytes };
        if !self.quotas_over(scope).await?.is_empty() {
            let hashes: Vec<_> = files.iter().map(|file| file.hash).collect();
            let known = files::files(&self.db, scope, &hashes).await?;
            let mut known: std::collections::HashSet<_> = known.into_iter().map(|file| file.hash).collect();
            let new = files.iter().filter(|file| known.insert(file.hash));
            need.logical_bytes = new.map(|file| file.recipe.file_bytes()).sum();
        }
        self.reserve(scope, need, WantedBy::References).await
    }

    async fn reserve(&self, scope: &Scope, need: Need, wanted_by: WantedBy) -> Result<Reservation> {
        let mut reservation = Reservation { quotas: self.quotas.clone(), of: Vec::new(), need };
        if need == Need::default() {
            return Ok(reservation);
        }
        for quota in self.quotas_over(scope).await? {
            let mut tries = 0;
            loop {
                let (others, ended) = {
                    let mut reserved = self.quotas.reserved();
                    let ended = reserved.ended;
                    let bytes = reserved.bytes.entry(quota.of.clone()).or_default();
                    let others = *bytes;
                    *bytes = bytes.plus(need);
                    (others, ended)
                };
                // Returned when this ends badly.
                let held = Reservation { quotas: self.quotas.clone(), of: vec![quota.of.clone()], need };
                let usage = usage::usage(&self.db, &quota.of).await?;
                let usage = Usage {
                    logical_bytes: usage.logical_bytes.saturating_add(others.logical_bytes),
                    physical_bytes: usage.physical_bytes.saturating_add(others.physical_bytes),
                };
                let checked = expect(&quota, usage, need, wanted_by);
                // One that ended meanwhile may have been counted twice.
                if checked.is_err() && tries < TRIES && self.quotas.reserved().ended != ended {
                    tries += 1;
                    continue;
                }
                checked?;
                reservation.absorb(held);
                break;
            }
        }
        Ok(reservation)
    }

    /// Warning for a user whose repository or namespace is above a soft limit.
    pub async fn quota_warning(&self, scope: &Scope) -> Result<Option<String>> {
        for quota in self.quotas_over(scope).await? {
            let usage = usage::usage(&self.db, &quota.of).await?;
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
        for row in usage::quotas(&self.db).await? {
            let usage = usage::usage(&self.db, &row.of).await?;
            found.push((row, usage));
        }
        Ok(found)
    }

    /// Reads the quotas again when they are needed next.
    pub(crate) async fn forget_quotas(&self) {
        self.quotas.rows.invalidate(&()).await;
    }

    async fn quotas_over(&self, scope: &Scope) -> Result<Vec<QuotaRow>> {
        let rows = match self.quotas.rows.get(&()).await {
            Some(rows) => rows,
            None => {
                let rows = Arc::new(usage::quotas(&self.db).await?);
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
}

impl Reservation {
    /// Holds what another one holds, too.
    fn absorb(&mut self, mut other: Self) {
        self.of.append(&mut other.of);
    }
}

fn sides(quota: &QuotaRow, usage: Usage) -> [(&'static str, Limit, u64); 2] {
    [("logical", quota.logical, usage.logical_bytes), ("physical", quota.physical, usage.physical_bytes)]
}

/// What the stored bytes of a request follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedBy {
    /// Bytes that it brings.
    Upload,
    /// Xorbs that it refers to.
    References,
}

/// A change that adds nothing is never refused: deleting must go on.
fn expect(quota: &QuotaRow, usage: Usage, need: Need, wanted_by: WantedBy) -> Result<()> {
    for ((what, limit, used), wanted) in
        sides(quota, usage).into_iter().zip([need.logical_bytes, need.physical_bytes])
    {
        if let Some(hard) = limit.hard.filter(|hard| wanted > 0 && used.saturating_add(wanted) > *hard) {
            let of = &quota.of;
            let wants = match (wanted_by, what) {
                // The length of a xorb that others sent is not the caller's to know.
                (WantedBy::References, "physical") => "this needs more than is left".to_owned(),
                _ => format!("{wanted} more are wanted"),
            };
            let message = format!(
                "quota of {of}: {hard} {what} bytes, {used} are used and {wants}; \
                 delete something, or ask an administrator for more"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
    }
    Ok(())
}

/// How long the list of quotas is kept.
const MOMENT: Duration = Duration::from_secs(5);

/// How often a refusal is checked again while other uploads end.
const TRIES: u32 = 5;
