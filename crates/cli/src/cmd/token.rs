//! `drystone token`: the tokens of a server, beside it or without it.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde::Serialize;
use store::hub::{Bound, TokenRow};

use super::store_args::StoreArgs;
use crate::output::CliError;

pub(crate) use create::parse_repo;

/// Make, list and revoke the tokens of a server
///
/// Tokens are in the server's catalog, as a hash. What is done here holds for a running server within a few seconds.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl Token {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Create(verb) => verb.run(),
            Verb::List(verb) => verb.run(),
            Verb::Revoke(verb) => verb.run(),
        }
    }
}

/// A token as JSON: everything but what it is known by.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    id: &'a str,
    label: &'a str,
    subject: &'a str,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    state: &'static str,
    created_s: u64,
    expires_s: Option<u64>,
    used_s: Option<u64>,
    revoked_s: Option<u64>,
}

impl<'a> Shown<'a> {
    fn new(row: &'a TokenRow, now_s: u64) -> Self {
        let (repo, namespace) = match &row.bound {
            Bound::Everywhere => (None, None),
            Bound::Namespace(namespace) => (None, Some(namespace.as_str())),
            Bound::Repo(scope) => (Some(repo_text(scope)), None),
        };
        Self {
            id: &row.id,
            label: &row.label,
            subject: &row.subject,
            scope: row.rights.as_str(),
            repo,
            namespace,
            state: state_of(row, now_s),
            created_s: row.created_s,
            expires_s: row.expires_s,
            used_s: row.used_s,
            revoked_s: row.revoked_s,
        }
    }
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

/// Runs something that waits.
fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Io("threads".to_owned(), error))?;
    runtime.block_on(store::audit::by(super::store_args::local_operator(), work))
}

/// Now, in Unix seconds.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
