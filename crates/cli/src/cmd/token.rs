//! `drystone token`: tokens of a server, made where its data folder is.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use server::{CasTokens, Claims, House, RepoKind, Repository, ServeConfig};
use xet::wire::routes::TokenScope;

use crate::output::CliError;

/// Make tokens for a server's clients
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Create),
}

/// Print a token for one repository
///
/// It is signed with the key in the server's data folder, says itself what it allows, and cannot be taken back before it expires.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone token create --scope write --repo ann/model\n  \
                        drystone token create --scope read --repo datasets/ann/corpus --ttl 86400")]
struct Create {
    /// What it allows; writing includes reading
    #[arg(long, value_enum)]
    scope: ScopeChoice,

    /// The repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset; also spaces/… and buckets/…
    #[arg(long, value_name = "REPO", value_parser = parse_repo)]
    repo: Repository,

    /// The server's data folder [default: `$DRYSTONE_DATA`, else drystone-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Seconds until it expires
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    ttl: u64,

    /// Print JSON, with the time of expiry
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeChoice {
    Read,
    Write,
}

/// A token as JSON.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    exp: u64,
}

impl Token {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Create(create) => create.run(),
        }
    }
}

impl Create {
    fn run(self) -> Result<ExitCode, CliError> {
        let named = self.data.or_else(|| std::env::var_os("DRYSTONE_DATA").map(PathBuf::from));
        let data = named.unwrap_or_else(|| ServeConfig::default().data);
        let keys = House::new(&data).keys().map_err(|error| {
            let data = data.display();
            CliError::Message(format!("{data}: no key of a server ({error}); `drystone serve` makes one"))
        })?;
        let scope = match self.scope {
            ScopeChoice::Read => TokenScope::Read,
            ScopeChoice::Write => TokenScope::Write,
        };
        let now_s =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let claims = Claims::new("token create", scope, self.repo, now_s, self.ttl);
        let issued = CasTokens::new(&keys).issue(&claims);
        let mut out = io::stdout().lock();
        match self.json {
            true => {
                let made = Made { token: issued.token.expose(), exp: issued.expires_s };
                writeln!(out, "{}", serde_json::to_string(&made)?)?;
            }
            false => writeln!(out, "{}", issued.token.expose())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads `ns/name` or `kind/ns/name`.
pub(super) fn parse_repo(text: &str) -> Result<Repository, String> {
    let segments: Vec<_> = text.split('/').collect();
    let (kind, namespace, name) = match segments.as_slice() {
        [namespace, name] => ("models", *namespace, *name),
        [kind, namespace, name] => (*kind, *namespace, *name),
        _ => return Err("expected NAMESPACE/NAME".to_owned()),
    };
    let known = RepoKind::ALL.iter().find(|known| known.segment() == kind);
    let kind = *known.ok_or_else(|| format!("{kind} is not models, datasets, spaces or buckets"))?;
    if namespace.is_empty() || name.is_empty() || text.chars().any(char::is_control) {
        return Err("expected NAMESPACE/NAME".to_owned());
    }
    Ok(Repository { kind, namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_model_unless_it_says_otherwise() {
        assert_eq!(parse_repo("ann/a").unwrap().to_string(), "models/ann/a");
        assert_eq!(parse_repo("datasets/ann/a").unwrap().to_string(), "datasets/ann/a");
        for bad in ["", "ann", "ann/", "/a", "cars/ann/a", "models/a/b/c", "an\nn/a"] {
            assert!(parse_repo(bad).is_err(), "{bad:?}");
        }
    }
}
