//! `drystone cas`: whole files by XET hash, to and from a server or a store directory.

mod get;
mod put;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use client::Cas;
use client::cas::http::{HttpCas, HttpOptions};
use client::token::{self, Token, Tokens};
use server::{RepoKind, Repository};
use store::Scope;
use xet::wire::routes::TokenScope;

use crate::local::LocalCas;
use crate::output::CliError;

/// Move whole files by XET hash, to and from a server or a store directory
#[derive(Debug, Args)]
pub(crate) struct CasCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Put(put::Put),
    Get(get::Get),
}

impl CasCommand {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Put(put) => put.run(),
            Verb::Get(get) => get.run(),
        }
    }
}

/// Which store, and how to reach it.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The server, such as <https://hub.example.com> [default: `$DRYSTONE_ENDPOINT`]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    endpoint: Option<String>,

    /// A token for the CAS routes; with --repo a personal token, for which CAS tokens are fetched [default: `$DRYSTONE_TOKEN`]
    #[arg(long, value_name = "TOKEN", conflicts_with = "store", value_parser = parse_token)]
    token: Option<Token>,

    /// A store directory on this machine, without a server
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// The repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset; also spaces/… and buckets/…
    #[arg(long, value_name = "REPO", value_parser = super::token::parse_repo)]
    repo: Option<Repository>,

    /// Send the token also over plain HTTP to another machine, where anyone on the way can read it
    #[arg(long)]
    token_in_clear: bool,

    /// A proxy for every request [default: what `$HTTPS_PROXY` and `$NO_PROXY` say]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,

    /// A file of certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Vec<PathBuf>,

    /// The most bytes to send, and to receive, each second
    #[arg(long, value_name = "BYTES")]
    bandwidth: Option<u64>,

    /// Where to remember what the other side has, and to keep fetched chunks [default: `$DRYSTONE_CACHE_DIR`, else drystone in the user's cache folder, without chunks]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// Remember nothing
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

/// An open store, and the folder that remembers what it has.
pub(super) struct Opened {
    pub(super) cas: Arc<dyn Cas>,
    pub(super) cache: Option<PathBuf>,
}

impl Target {
    /// Opens the store, for reading or for writing too.
    pub(super) async fn open(&self, scope: TokenScope) -> Result<Opened, CliError> {
        let from_environment = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        if let Some(store) = &self.store {
            let cas = LocalCas::open(store, self.scope()?).await?;
            let place = std::fs::canonicalize(store).unwrap_or_else(|_| store.clone());
            return Ok(Opened { cas: Arc::new(cas), cache: self.cache_of(&place.to_string_lossy()) });
        }
        let endpoint =
            self.endpoint.clone().or_else(|| from_environment("DRYSTONE_ENDPOINT")).ok_or_else(|| {
                CliError::Message(
                    "which store? say --endpoint URL, or --store DIR for one on this machine".into(),
                )
            })?;
        let token = self.token.clone().or_else(|| from_environment("DRYSTONE_TOKEN").map(Token::new));
        let options = HttpOptions {
            token_in_clear: self.token_in_clear,
            proxy: self.proxy.clone(),
            ca_files: self.ca_file.clone(),
            bandwidth_bytes_per_s: self.bandwidth,
            ..HttpOptions::default()
        };
        let cas = match (&self.repo, token) {
            (Some(repo), token) => {
                let id = format!("{}/{}", repo.namespace, repo.name);
                let revision = (repo.kind != RepoKind::Buckets).then_some("main");
                let path = xet::wire::routes::token(repo.kind.segment(), &id, scope, revision);
                token::connect(&endpoint, &path, token, options).await?
            }
            (None, token) => {
                HttpCas::new(&endpoint, token.map(|token| Arc::new(Tokens::fixed(token))), options)?
            }
        };
        let cache = self.cache_of(cas.base());
        Ok(Opened { cas: Arc::new(cas), cache })
    }

    /// The repository that files in a store directory belong to.
    fn scope(&self) -> Result<Scope, CliError> {
        let scope = match &self.repo {
            Some(repo) => Scope::new(&repo.namespace, format!("{}/{}", repo.kind.segment(), repo.name)),
            // That of a server without tokens.
            None => Scope::new("anyone", "cas"),
        };
        scope.map_err(|error| CliError::Message(error.to_string()))
    }

    /// The cache somebody asked for: chunks are kept only there, since they take much room.
    fn named_cache(&self) -> Option<PathBuf> {
        let named = self.cache_dir.clone().or_else(|| folder_in("DRYSTONE_CACHE_DIR"));
        named.filter(|_| !self.no_cache)
    }

    /// The folder for one store: what one has, another may not.
    fn cache_of(&self, store: &str) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let root = self.named_cache().or_else(user_cache)?;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(store.as_bytes());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(root.join(name))
    }
}

/// As a token, which nothing prints.
fn parse_token(text: &str) -> Result<Token, std::convert::Infallible> {
    Ok(Token::new(text))
}

fn user_cache() -> Option<PathBuf> {
    let home = || folder_in("HOME").map(|home| home.join(Path::new(".cache")));
    folder_in("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("drystone"))
}

fn folder_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
