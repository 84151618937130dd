//! `drystone cas`: whole files by XET hash, to and from a server or a store directory.

mod get;
pub(super) use get::parse_range;
mod put;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use client::Cas;
use client::cas::http::HttpCas;
use client::hub::settings::Settings;
use client::token::Tokens;
use server::Opening;
use store::Scope;
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;

use crate::local::LocalCas;
use crate::output::CliError;
use crate::remote::{CacheDirArgs, HubArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum CasVerb {
    Put(put::Put),
    Get(get::Get),
}

impl CasVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(),
        }
    }
}

/// Flags that have no effect for a store directory. They are named with each of its flags: a flag that requires another is not
/// refused where that other is in conflict with a third.
const HUB_FLAGS: [&str; 6] = ["endpoint", "token", "token_in_clear", "proxy", "ca_file", "bandwidth"];

/// Which store, and how to reach it.
#[derive(Debug, Args)]
pub(super) struct Target {
    #[command(flatten)]
    hub: HubArgs,

    /// A store directory on this machine, without a server
    #[arg(long, value_name = "DIR", conflicts_with_all = HUB_FLAGS)]
    store: Option<PathBuf>,

    /// With --store, where the objects are if not in the directory: the bucket in the configuration of the server
    #[arg(long, value_name = "URL", requires = "store", conflicts_with_all = HUB_FLAGS)]
    objects: Option<String>,

    /// With --store, where the catalog is if not in the directory: the database in the configuration of the server
    #[arg(long, value_name = "URL", requires = "store", conflicts_with_all = HUB_FLAGS)]
    catalog: Option<String>,

    /// The repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset; also spaces/… and buckets/…. The token is a personal one then
    #[arg(long, value_name = "REPO", value_parser = super::token::parse_repo)]
    repo: Option<RepoName>,

    #[command(flatten)]
    pub(super) cache_dir: CacheDirArgs,
}

/// An open store and its cache directory.
pub(super) struct Opened {
    pub(super) cas: Arc<dyn Cas>,
    pub(super) cache: Option<PathBuf>,
}

impl Target {
    /// Opens the store, for reading or for writing too.
    pub(super) async fn open(&self, scope: TokenScope) -> Result<Opened, CliError> {
        if let Some(store) = &self.store {
            // What is read must be there.
            let opening = match scope {
                TokenScope::Read => Opening::Existing,
                TokenScope::Write => Opening::Create,
            };
            let (objects, catalog) = (self.objects.as_deref(), self.catalog.as_deref());
            let cas = LocalCas::open(store, objects, catalog, self.scope()?, opening).await?;
            let place = std::fs::canonicalize(store).unwrap_or_else(|_| store.clone());
            return Ok(Opened {
                cas: Arc::new(cas),
                cache: self.cache_dir.store_dir(&place.to_string_lossy()),
            });
        }
        let Settings { endpoint, token } = self.hub.settings().map_err(|error| {
            CliError::Message(format!("{error}; or say --store DIR for a store on this machine"))
        })?;
        let options = self.hub.options();
        let cas = match (&self.repo, token) {
            (Some(repo), token) => {
                let id = format!("{}/{}", repo.namespace, repo.name);
                let revision = (repo.kind != RepoKind::Bucket).then_some("main");
                let path = xet::wire::routes::token(repo.kind.plural(), &id, scope, revision);
                client::cas::connect(&endpoint, &path, token, options).await?
            }
            (None, token) => {
                HttpCas::new(&endpoint, token.map(|token| Arc::new(Tokens::fixed(token))), options)?
            }
        };
        let cache = self.cache_dir.store_dir(cas.base());
        Ok(Opened { cas: Arc::new(cas), cache })
    }

    /// The repository that files in a store directory belong to.
    fn scope(&self) -> Result<Scope, CliError> {
        let scope = match &self.repo {
            Some(repo) => Scope::new(&repo.namespace, format!("{}/{}", repo.kind.plural(), repo.name)),
            // That of a server without tokens.
            None => Scope::new("anyone", "cas"),
        };
        scope.map_err(CliError::message)
    }
}
