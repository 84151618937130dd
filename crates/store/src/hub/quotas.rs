//! Administration of quotas and dedup policies, in the snapshot as well as in the catalog.

use crate::audit::{self, AuditEvent, AuditQuery, AuditRow};
use crate::content::dedup_policy::{self, DedupPolicy};
use crate::content::quotas::usage::{self, QuotaOf, QuotaRow, Usage};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;

impl Hub {
    /// Bytes that a namespace or repository uses.
    pub async fn usage(&self, of: &QuotaOf) -> Result<Usage> {
        usage::usage(&self.db, of).await
    }

    /// Events of the audit log, the newest first.
    pub async fn audit_events(&self, query: &AuditQuery) -> Result<Vec<AuditRow>> {
        audit::events(&self.db, query).await
    }

    /// Records an event that no other write records.
    pub async fn log_event(&self, event: &AuditEvent) -> Result<()> {
        audit::log_event(&self.db, event).await
    }

    /// What was set for a namespace or repository.
    pub async fn dedup_setting(&self, of: &QuotaOf) -> Result<Option<DedupPolicy>> {
        let rows = self.dedup_policies().await?;
        Ok(rows.into_iter().find(|(set, _)| set == of).map(|(_, policy)| policy))
    }

    /// What was set for namespaces and repositories.
    pub async fn dedup_policies(&self) -> Result<Vec<(QuotaOf, DedupPolicy)>> {
        dedup_policy::dedup_policies(&self.db).await
    }

    /// Narrows how far content of a namespace or repository may be found, or removes that. It holds here at once, on other
    /// servers within seconds. What `off` took out of the index is found again only after it is registered again.
    pub async fn set_dedup_policy(&self, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()> {
        dedup_policy::set_dedup_policy(&self.db, of, policy).await?;
        self.content.forget_dedup_policies().await;
        self.persist_people_snapshot().await
    }
}

impl Hub {
    /// After a repository has another name, or went into the trash: its policy went with it, and is written down.
    pub(crate) async fn move_dedup_policy(&self) -> Result<()> {
        self.content.forget_dedup_policies().await;
        match self.dedup_policies().await?.is_empty() {
            true => Ok(()),
            false => self.persist_people_snapshot().await,
        }
    }
}

impl Hub {
    /// Sets a quota, and returns it with its name as it is spelled; it holds here at once, and on other servers within
    /// seconds.
    pub async fn set_quota(&self, row: &QuotaRow) -> Result<QuotaRow> {
        let row = QuotaRow { of: self.spelled_quota(&row.of).await?, ..row.clone() };
        usage::set_quota(&self.db, &row).await?;
        self.content.forget_quotas().await;
        self.persist_people_snapshot().await?;
        Ok(row)
    }

    /// Removes a quota. None is not found.
    pub async fn remove_quota(&self, of: &QuotaOf) -> Result<()> {
        let of = &self.spelled_quota(of).await?;
        let removed = usage::remove_quota(&self.db, of).await?;
        self.content.forget_quotas().await;
        // Also where there was none: it may be one that could not be written down the last time.
        self.persist_people_snapshot().await?;
        match removed {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, format!("{of} has no quota"))),
        }
    }
}
