//! `drystone token create`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use server::auth::personal::{self, Wanted};
use server::{CasTokens, Claims, House, RepoKind, Repository, Secret};
use store::catalog::RepoCatalog;
use store::catalog::tokens::{Bound, Rights};
use store::repo::RepoName;
use xet::wire::routes::TokenScope;

use super::{Place, Shown, block_on, now_s, said};
use crate::output::{CliError, complain};

/// Print a new token, this once
///
/// The catalog keeps a hash of it, so it cannot be shown again. One for a repository can be given to XET clients as it is; with any other a
/// client asks the server's token route first, as Hub clients do.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone token create --scope write --repo ann/model\n  \
                        drystone token create --scope read --namespace ann --label ci --ttl 2592000\n  \
                        drystone token create --scope admin --label ann --catalog postgres://db/hub\n  \
                        drystone token create --scope read --repo datasets/ann/corpus --cas --ttl 3600")]
pub(super) struct Create {
    /// What it allows; each includes those before it
    #[arg(long, value_enum)]
    scope: ScopeChoice,

    /// For one repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset; also spaces/… and buckets/…
    #[arg(long, value_name = "REPO", value_parser = parse_repo)]
    repo: Option<Repository>,

    /// For the repositories of one namespace
    #[arg(long, value_name = "NAME", value_parser = parse_name, conflicts_with = "repo")]
    namespace: Option<String>,

    /// What to call it [default: what it is for]
    #[arg(long, value_name = "TEXT", value_parser = parse_name)]
    label: Option<String>,

    /// Whose it is [default: the namespace it is for, else admin]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    subject: Option<String>,

    /// Seconds until it expires [default: never; 3600 with --cas]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=100 * 365 * 86_400))]
    ttl: Option<u64>,

    /// A CAS token instead: signed with the key in the data folder and kept nowhere, so it cannot be revoked
    #[arg(long, requires = "repo")]
    cas: bool,

    #[command(flatten)]
    place: Place,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScopeChoice {
    Read,
    Write,
    Admin,
}

/// A token as JSON, with what was made of it.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    exp: Option<u64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    row: Option<Shown<'a>>,
}

impl Create {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        if self.scope == ScopeChoice::Admin && (self.repo.is_some() || self.namespace.is_some()) {
            complain(&"an admin token is for the whole server: leave out --repo and --namespace");
            return Ok(ExitCode::from(2));
        }
        match (self.cas, &self.repo) {
            (true, Some(repo)) => self.sign(repo.clone()),
            _ => self.keep(),
        }
    }

    /// Makes a token that the catalog knows.
    fn keep(&self) -> Result<ExitCode, CliError> {
        let now_s = now_s();
        let bound = match (&self.repo, &self.namespace) {
            (Some(repo), _) => Bound::Repo(repo.scope().map_err(said)?),
            (None, Some(namespace)) => Bound::Namespace(namespace.clone()),
            (None, None) => Bound::Everywhere,
        };
        let owner = self.repo.as_ref().map(|repo| &repo.namespace).or(self.namespace.as_ref());
        let place = self.repo.as_ref().map(ToString::to_string).or(self.namespace.clone());
        let rights = match self.scope {
            ScopeChoice::Read => Rights::Read,
            ScopeChoice::Write => Rights::Write,
            ScopeChoice::Admin => Rights::Admin,
        };
        let wanted = Wanted {
            label: self.label.clone().or(place).unwrap_or_else(|| rights.as_str().to_owned()),
            subject: self.subject.as_ref().or(owner).map_or("admin", String::as_str).to_owned(),
            rights,
            bound,
            expires_s: self.ttl.map(|ttl| now_s.saturating_add(ttl)),
        };
        let token = personal::make();
        let mut row = wanted.row(&token, now_s);
        let added = block_on(async {
            let catalog = self.place.open().await?;
            let hub = catalog.hub();
            // Names are found in any case, and rights are given by the name as it is spelled.
            row.subject = spelled(hub, &row.subject).await.map_err(said)?;
            match &mut row.bound {
                Bound::Everywhere => {}
                Bound::Namespace(namespace) => *namespace = spelled(hub, namespace).await.map_err(said)?,
                Bound::Repo(scope) => {
                    let name = self.repo.as_ref().and_then(|repo| RepoName::parse(&repo.to_string()).ok());
                    let found = match name {
                        Some(name) => hub.repos(&[name]).await.map_err(said)?,
                        None => Vec::new(),
                    };
                    if let Some(repo) = found.first() {
                        *scope = repo.name.scope().map_err(said)?;
                    }
                }
            }
            catalog.tokens().add(&row).await.map_err(said)
        })?;
        if !added {
            return Err(CliError::Message("the new token's id is taken: try again".to_owned()));
        }
        self.print(&token, row.expires_s, Some(Shown::new(&row, now_s)))
    }

    /// Makes a token that says everything itself.
    fn sign(&self, repo: Repository) -> Result<ExitCode, CliError> {
        let (house, data) = self.place.house();
        let keys = match std::env::var_os("DRYSTONE_SIGNING_KEY_FILE").filter(|file| !file.is_empty()) {
            Some(file) => House::keys_of(&PathBuf::from(file)),
            None => house.keys(),
        };
        let keys = keys.map_err(|error| {
            let data = data.display();
            CliError::Message(format!("{data}: no key of a server ({error}); `drystone serve` makes one"))
        })?;
        let scope = if self.scope == ScopeChoice::Read { TokenScope::Read } else { TokenScope::Write };
        let claims = Claims::new("token create", scope, repo, now_s(), self.ttl.unwrap_or(3600));
        let issued = CasTokens::new(&keys).issue(&claims);
        self.print(&issued.token, Some(issued.expires_s), None)
    }

    fn print(
        &self,
        token: &Secret<String>,
        exp: Option<u64>,
        row: Option<Shown<'_>>,
    ) -> Result<ExitCode, CliError> {
        let mut out = io::stdout().lock();
        match self.json {
            true => {
                let made = Made { token: token.expose(), exp, row };
                writeln!(out, "{}", serde_json::to_string(&made)?)?;
            }
            false => writeln!(out, "{}", token.expose())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A namespace as it is spelled; as it is given where it is unknown.
async fn spelled(hub: &dyn RepoCatalog, name: &str) -> store::Result<String> {
    let found = hub.spellings(name).await?;
    Ok(found.into_iter().next().unwrap_or_else(|| name.to_owned()))
}

/// Reads `ns/name` or `kind/ns/name`.
pub(crate) fn parse_repo(text: &str) -> Result<Repository, String> {
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

/// A short text on one line.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| "expected 1 to 100 characters on one line".to_owned())
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
