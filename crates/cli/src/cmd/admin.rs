//! `drystone admin`: users, organisations, their members and repositories, straight in the catalog.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use server::{House, Layers, ServeConfig};
use store::Store;
use store::catalog::repo::{RepoQuery, RepoRow};
use store::repo::{Kind, MemberRow, NamespaceRow, RepoName, is_name};

use crate::output::CliError;

/// Manage users, organisations, members and repositories
///
/// Works on the server's catalog, whether the server runs or not.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone admin org create team\n  drystone admin member add team ann --write\n  \
                        drystone admin repo create datasets/team/corpus --private\n  drystone admin repo list"
)]
pub(crate) struct Admin {
    #[command(flatten)]
    place: Place,

    #[command(subcommand)]
    verb: Verb,
}

/// Which server's catalog.
#[derive(Debug, Args)]
struct Place {
    /// The server's data folder [default: `$DRYSTONE_DATA`, else drystone-data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<String>,

    /// The server's catalog, where it is not in the data folder [default: `$DRYSTONE_CATALOG`]
    #[arg(long, value_name = "URL", global = true)]
    catalog: Option<String>,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Users
    #[command(subcommand)]
    User(NamespaceVerb),
    /// Organisations
    #[command(subcommand)]
    Org(NamespaceVerb),
    /// Members of organisations
    #[command(subcommand)]
    Member(MemberVerb),
    /// Repositories
    #[command(subcommand)]
    Repo(RepoVerb),
}

#[derive(Debug, Subcommand)]
enum NamespaceVerb {
    /// Add one
    Create {
        /// Its name
        name: String,
    },
    /// List all that were added
    List,
}

#[derive(Debug, Subcommand)]
enum MemberVerb {
    /// Add a member to an organisation, or change what they may do
    Add {
        /// The organisation
        org: String,
        /// The user
        user: String,
        /// They may write
        #[arg(long)]
        write: bool,
    },
    /// Remove a member
    Remove {
        /// The organisation
        org: String,
        /// The user
        user: String,
    },
    /// List the members of an organisation
    List {
        /// The organisation
        org: String,
    },
}

#[derive(Debug, Subcommand)]
enum RepoVerb {
    /// Make a repository with one commit
    Create {
        /// NAMESPACE/NAME, datasets/NAMESPACE/NAME or spaces/NAMESPACE/NAME
        #[arg(value_parser = parse_repo)]
        repo: RepoName,
        /// Only for those with rights
        #[arg(long)]
        private: bool,
    },
    /// List all repositories
    List,
    /// Delete a repository and its history; what only it has is no longer reachable
    Delete {
        /// The repository
        #[arg(value_parser = parse_repo)]
        repo: RepoName,
    },
    /// Give a repository another name
    Rename {
        /// The repository
        #[arg(value_parser = parse_repo)]
        from: RepoName,
        /// Its new name
        #[arg(value_parser = parse_repo)]
        to: RepoName,
    },
    /// Make a repository private, or public with --public
    Private {
        /// The repository
        #[arg(value_parser = parse_repo)]
        repo: RepoName,
        /// Public instead
        #[arg(long)]
        public: bool,
    },
}

impl Admin {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let runtime = tokio::runtime::Runtime::new();
        let runtime = runtime.map_err(|error| CliError::Io("threads".to_owned(), error))?;
        let lines = runtime.block_on(async {
            let store = self.place.open().await?;
            match self.verb {
                Verb::User(verb) => verb.run(&store, false).await,
                Verb::Org(verb) => verb.run(&store, true).await,
                Verb::Member(verb) => verb.run(&store).await,
                Verb::Repo(verb) => verb.run(&store).await,
            }
        })?;
        let mut out = io::stdout().lock();
        for (text, value) in lines {
            match self.place.json {
                true => writeln!(out, "{value}")?,
                false => writeln!(out, "{text}")?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Place {
    /// The store of a server that was started before.
    async fn open(&self) -> Result<Store, CliError> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut layers = Layers::new().with_environment(variables);
        for (name, value) in [("data", &self.data), ("catalog", &self.catalog)] {
            if let Some(value) = value {
                layers = layers.with_flag(name, value);
            }
        }
        let config = ServeConfig::load(&layers).map_err(said)?;
        let house = House::new(&config.data);
        let keys = house.keys().map_err(|error| {
            let data = config.data.display();
            CliError::Message(format!("{data}: no key of a server ({error}); `drystone serve` makes one"))
        })?;
        house.open(&config, &keys).await.map_err(said)
    }
}

/// What a verb has to say: a line for people, and the same for programs.
type Lines = Result<Vec<(String, Value)>, CliError>;

impl NamespaceVerb {
    async fn run(self, store: &Store, is_organisation: bool) -> Lines {
        match self {
            Self::Create { name } => {
                if !is_name(&name) {
                    return Err(CliError::Message(format!("{name:?} cannot be a name")));
                }
                let row = NamespaceRow { name: name.clone(), is_organisation, created_s: now_s() };
                let added = store.hub().add_namespaces(&[row]).await.map_err(said)?;
                match added.is_empty() {
                    true => Err(CliError::Message(format!("{name} is there already"))),
                    false => Ok(vec![(name.clone(), json!({"name": name}))]),
                }
            }
            Self::List => {
                let rows = store.hub().namespaces().await.map_err(said)?;
                let rows = rows.into_iter().filter(|row| row.is_organisation == is_organisation);
                Ok(rows.map(|row| (row.name.clone(), json!({"name": row.name}))).collect())
            }
        }
    }
}

impl MemberVerb {
    async fn run(self, store: &Store) -> Lines {
        let line = |row: MemberRow| {
            let role = if row.writes { "write" } else { "read" };
            let value = json!({"org": row.namespace, "user": row.member, "role": role});
            (format!("{} {} {role}", row.namespace, row.member), value)
        };
        match self {
            Self::Add { org, user, write } => {
                let known = store.hub().namespaces().await.map_err(said)?;
                if !known.iter().any(|row| row.name == org && row.is_organisation) {
                    let message = format!("no organisation {org}: drystone admin org create {org}");
                    return Err(CliError::Message(message));
                }
                let row = MemberRow { namespace: org, member: user, writes: write };
                store.hub().set_members(std::slice::from_ref(&row)).await.map_err(said)?;
                Ok(vec![line(row)])
            }
            Self::Remove { org, user } => {
                let removed = store.hub().remove_members(&org, std::slice::from_ref(&user)).await;
                match removed.map_err(said)? {
                    0 => Err(CliError::Message(format!("{user} is no member of {org}"))),
                    _ => Ok(Vec::new()),
                }
            }
            Self::List { org } => {
                let rows = store.hub().members(&org).await.map_err(said)?;
                Ok(rows.into_iter().map(line).collect())
            }
        }
    }
}

impl RepoVerb {
    async fn run(self, store: &Store) -> Lines {
        match self {
            Self::Create { repo, private } => {
                let made = store.create_repo(&repo, private, "admin").await.map_err(said)?;
                Ok(vec![line(&made)])
            }
            Self::List => list(store).await,
            Self::Delete { repo } => {
                let row = find(store, &repo).await?;
                store.delete_repo(&row).await.map_err(said)?;
                Ok(Vec::new())
            }
            Self::Rename { from, to } => {
                let row = find(store, &from).await?;
                store.rename_repo(&row, &to).await.map_err(said)?;
                Ok(vec![line(&RepoRow { name: to, ..row })])
            }
            Self::Private { repo, public } => {
                let row = find(store, &repo).await?;
                store.hub().set_private(row.id, !public).await.map_err(said)?;
                Ok(vec![line(&RepoRow { private: !public, ..row })])
            }
        }
    }
}

async fn find(store: &Store, name: &RepoName) -> Result<RepoRow, CliError> {
    let found = store.repo(name).await.map_err(said)?;
    found.ok_or_else(|| CliError::Message(format!("no repository {name}")))
}

async fn list(store: &Store) -> Lines {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        let mut after = None;
        loop {
            let query =
                RepoQuery { kind, namespace: None, search: None, private_of: None, after, limit: 1000 };
            let rows = store.list_repos(&query).await.map_err(said)?;
            lines.extend(rows.iter().map(line));
            match rows.last().filter(|_| rows.len() == 1000) {
                Some(last) => after = Some((last.name.namespace.clone(), last.name.name.clone())),
                None => break,
            }
        }
    }
    Ok(lines)
}

fn line(row: &RepoRow) -> (String, Value) {
    let (kind, private) = (row.name.kind.singular(), row.private);
    let value =
        json!({"repo": row.name.to_string(), "type": kind, "private": private, "id": row.id.to_string()});
    (format!("{} {}", row.name, if private { "private" } else { "public" }), value)
}

/// Reads `ns/name` or `kind/ns/name`.
fn parse_repo(text: &str) -> Result<RepoName, String> {
    let segments: Vec<_> = text.split('/').collect();
    let (kind, namespace, name) = match segments.as_slice() {
        [namespace, name] => ("models", *namespace, *name),
        [kind, namespace, name] => (*kind, *namespace, *name),
        _ => return Err("expected NAMESPACE/NAME".to_owned()),
    };
    let known = Kind::ALL.into_iter().find(|known| known.plural() == kind);
    let kind = known.ok_or_else(|| format!("{kind} is not models, datasets or spaces"))?;
    RepoName::new(kind, namespace, name).map_err(|error| error.to_string())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn said(error: impl std::fmt::Display) -> CliError {
    CliError::Message(error.to_string())
}
