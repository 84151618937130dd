//! Names: unique without regard to case, found in any case, shown as they were created.
//!
//! What files, quotas and tokens belong to is the name as it is spelled. Whatever takes a name from outside finds the
//! spelling first. Names are ASCII, so there is one way to fold them.

use crate::content::quotas::usage::QuotaOf;
use crate::error::Result;
use crate::hub::{Hub, people};
use crate::names::{RepoName, is_name};

impl Hub {
    /// A namespace as it is spelled; as it is given where it is unknown.
    pub async fn spelled_namespace(&self, name: &str) -> Result<String> {
        if !is_name(name) {
            return Ok(name.to_owned());
        }
        let found = people::spellings(&self.db, name).await?;
        Ok(found.into_iter().next().unwrap_or_else(|| name.to_owned()))
    }

    /// The name of a new repository, in its namespace as that is spelled.
    pub async fn spelled(&self, name: &RepoName) -> Result<RepoName> {
        let namespace = self.spelled_namespace(&name.namespace).await?;
        Ok(RepoName { namespace, ..name.clone() })
    }

    /// What a quota is for, as it is spelled.
    pub(crate) async fn spelled_quota(&self, of: &QuotaOf) -> Result<QuotaOf> {
        let scope = match of {
            QuotaOf::Namespace(name) => return Ok(QuotaOf::Namespace(self.spelled_namespace(name).await?)),
            QuotaOf::Repo(scope) => scope,
        };
        let Ok(name) = RepoName::parse(&of.to_string()) else { return Ok(of.clone()) };
        Ok(QuotaOf::Repo(match self.repo(&name).await? {
            Some(repo) => repo.name.scope()?,
            None => scope.clone(),
        }))
    }
}
