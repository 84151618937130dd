//! Reach of a dedup query: which rows of other repositories a caller may find.

use crate::access::Scope;
use crate::db::sql::Sql;

/// Appends what limits a query on the rows of a table, which is called `of` in it, to those within reach.
pub(crate) fn push_reach(sql: &mut Sql<'_>, of: &str, reach: &Reach) {
    let (namespace, repo) = (reach.scope().namespace().to_owned(), reach.scope().repo().to_owned());
    let narrower = format!(
        "NOT EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = {of}.namespace \
         AND p.repo IN ('', {of}.repo) AND p.policy > "
    );
    match reach {
        Reach::Repo(_) => {
            sql.push(&format!(" AND {of}.namespace = ")).push_bind(namespace);
            sql.push(&format!(" AND {of}.repo = ")).push_bind(repo);
        }
        Reach::Namespace(_) => {
            sql.push(&format!(" AND {of}.namespace = ")).push_bind(namespace);
            sql.push(&format!(" AND ({of}.repo = ")).push_bind(repo);
            sql.push(&format!(" OR {narrower}1))"));
        }
        Reach::All(_) => {
            sql.push(&format!(" AND (({of}.namespace = ")).push_bind(namespace.clone());
            sql.push(&format!(" AND {of}.repo = ")).push_bind(repo);
            sql.push(&format!(") OR {narrower}CASE WHEN {of}.namespace = ")).push_bind(namespace);
            sql.push(" THEN 1 ELSE 0 END))");
        }
    }
}

/// Appends that a xorb `x`, found by a row of `dedup d`, may be named to the caller: a xorb of one chunk has that chunk's
/// hash for its name, so it is named only to those who registered it.
pub(crate) fn push_nameable(sql: &mut Sql<'_>, reach: &Reach) {
    let (namespace, repo) = (reach.scope().namespace().to_owned(), reach.scope().repo().to_owned());
    sql.push(" AND (x.chunk_count > 1 OR (d.namespace = ").push_bind(namespace);
    sql.push(" AND d.repo = ").push_bind(repo).push("))");
}

/// Finds a row where the dedup policy of a repository or its namespace is `off`.
pub(crate) const IS_DEDUP_OFF: &str =
    "SELECT namespace FROM dedup_policies WHERE namespace = $1 AND repo IN ('', $2) AND policy >= 3 LIMIT 1";

/// How far a dedup query of a repository sees: what it registered itself, and what others registered whose own policies let
/// it be found from there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    /// What any repository registered.
    All(Scope),
    /// What repositories of its namespace registered.
    Namespace(Scope),
    /// What the repository itself registered.
    Repo(Scope),
}

impl Reach {
    /// The repository that asks.
    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Self::All(scope) | Self::Namespace(scope) | Self::Repo(scope) => scope,
        }
    }
}
