//! `drystone token`: tokens of a server, whether it runs or not.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use store::hub::{Bound, TokenRow};

use super::store_args::{StoreArgs, local_operator};
use crate::clock::now_s;
use crate::output::{CliError, block_on, without_nulls};

pub(crate) use create::parse_repo;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl TokenVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Create(verb) => verb.run(),
            Self::List(verb) => verb.run(),
            Self::Revoke(verb) => verb.run(),
        }
    }
}

/// A token as JSON, without its secret.
fn token_json(row: &TokenRow) -> Value {
    let (repo, namespace) = match &row.bound {
        Bound::Everywhere => (None, None),
        Bound::Namespace(namespace) => (None, Some(namespace.as_str())),
        Bound::Repo(scope) => (Some(repo_text(scope)), None),
    };
    let mut value = without_nulls(json!({
        "id": row.id, "label": row.label, "subject": row.subject, "scope": row.rights.as_str(), "repo": repo,
        "namespace": namespace, "state": state_of(row, now_s()), "created_s": row.created_s,
    }));
    for (name, time_s) in [("expires_s", row.expires_s), ("used_s", row.used_s), ("revoked_s", row.revoked_s)]
    {
        value[name] = json!(time_s);
    }
    value
}

fn state_of(row: &TokenRow, now_s: u64) -> &'static str {
    match row.revoked_s {
        Some(_) => "revoked",
        None if row.is_live(now_s) => "live",
        None => "expired",
    }
}

/// Name of a repository as on the command line: the store puts the kind behind the namespace.
pub(super) fn repo_text(scope: &store::Scope) -> String {
    match scope.repo().split_once('/') {
        Some((kind, name)) => format!("{kind}/{}/{name}", scope.namespace()),
        None => scope.to_string(),
    }
}

/// Runs `work` on behalf of the local operator.
fn run_as_operator<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    block_on(store::audit::by(local_operator(), work))
}
