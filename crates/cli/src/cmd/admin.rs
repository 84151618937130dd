//! `drystone admin`: users, organisations, their members, repositories and the trash, straight in the catalog or through
//! a running server.

mod local;
mod quota;
mod remote;
mod users;

pub(super) use quota::text as quota_text;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use store::ids::RepoId;
use store::names::RepoName;

use super::store_args::{StoreArgs, local_operator};
use crate::output::{CliError, block_on, print_result};

/// Manage users, organisations, members, repositories, the trash and quotas; read the audit log
///
/// Works on the server's catalog, whether the server runs or not; with --endpoint through a server, with an admin token.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone admin user create ann\n  drystone admin user password ann\n  drystone admin user disable ann\n  drystone admin org create team\n  drystone admin member add team ann --write\n  \
                        drystone admin repo create datasets/team/corpus --private\n  drystone admin repo list\n  drystone admin --endpoint https://hub.example --token ds_… trash list\n  \
                        drystone admin quota set ann --logical 2TB --physical 500GB\n  drystone admin audit --since 7d\n  \
                        drystone admin undelete ann/model weights.bin"
)]
pub(crate) struct Admin {
    #[command(flatten)]
    target: Target,

    #[command(subcommand)]
    verb: Verb,
}

/// Server to administer: its store on this machine, or a running server.
#[derive(Debug, Args)]
struct Target {
    #[command(flatten)]
    place: StoreArgs,

    /// Work through this running server instead
    #[arg(long, value_name = "URL", global = true, conflicts_with_all = ["data", "objects", "catalog", "config"])]
    endpoint: Option<String>,

    /// An admin token, with --endpoint [default: `$DRYSTONE_TOKEN`, else `$HF_TOKEN`]
    #[arg(long, value_name = "TOKEN", global = true, requires = "endpoint", conflicts_with_all = ["data", "objects", "catalog", "config"])]
    token: Option<String>,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Users
    #[command(subcommand)]
    User(users::UserVerb),
    /// Organisations
    #[command(subcommand)]
    Org(users::OrgVerb),
    /// Members of organisations
    #[command(subcommand)]
    Member(MemberVerb),
    /// Repositories
    #[command(subcommand)]
    Repo(RepoVerb),
    /// Deleted repositories that can be restored
    #[command(subcommand)]
    Trash(TrashVerb),
    /// Storage limits of namespaces and repositories
    #[command(subcommand)]
    Quota(quota::QuotaVerb),
    /// Audit log, newest events first
    Audit(quota::Audit),
    /// Restore a revision that a branch or tag no longer points to, or a deleted file
    Undelete(quota::Undelete),
}

#[derive(Debug, Subcommand)]
enum MemberVerb {
    /// Add a member to an organisation, or change their role
    Add {
        /// The organisation
        org: String,
        /// The user
        user: String,
        /// Grant write access
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
    /// Create a repository with one commit
    Create {
        /// NAMESPACE/NAME, datasets/NAMESPACE/NAME or spaces/NAMESPACE/NAME
        #[arg(value_parser = RepoName::parse)]
        repo: RepoName,
        /// Visible only to users with access
        #[arg(long)]
        private: bool,
    },
    /// List all repositories
    List,
    /// Move a repository to the trash, where it stays for `trash_s` seconds
    Delete {
        /// The repository
        #[arg(value_parser = RepoName::parse)]
        repo: RepoName,
    },
    /// Rename a repository
    Rename {
        /// The repository
        #[arg(value_parser = RepoName::parse)]
        from: RepoName,
        /// Its new name
        #[arg(value_parser = RepoName::parse)]
        to: RepoName,
    },
    /// Make a repository private, or public with --public
    Private {
        /// The repository
        #[arg(value_parser = RepoName::parse)]
        repo: RepoName,
        /// Public instead
        #[arg(long)]
        public: bool,
    },
    /// Show or set the dedup policy of a repository
    Dedup {
        /// The repository
        #[arg(value_parser = RepoName::parse)]
        repo: RepoName,
        /// off, repo, namespace or global; default removes the setting
        #[arg(value_parser = quota::dedup_setting)]
        policy: Option<quota::DedupSetting>,
    },
}

#[derive(Debug, Subcommand)]
enum TrashVerb {
    /// List the trash, with the id of each repository
    List,
    /// Restore a repository from the trash
    Restore {
        /// Its id, from the list
        id: RepoId,
        /// New name [default: its old one]
        #[arg(long, value_name = "REPO", value_parser = RepoName::parse)]
        to: Option<RepoName>,
    },
    /// Delete a repository in the trash for good
    Delete {
        /// Its id, from the list
        id: RepoId,
    },
}

impl Admin {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let Self { target, verb } = self;
        let values = block_on(async {
            match &target.endpoint {
                Some(endpoint) => remote::Remote::new(endpoint, target.token.clone())?.run(verb).await,
                None => store::audit::by(local_operator(), local::run(&target.place, verb)).await,
            }
        })?;
        values.iter().try_for_each(|value| print_result(target.json, value, [text(value)]))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Results of a verb, as JSON values.
type Values = Result<Vec<Value>, CliError>;

/// Text of a result.
fn text(value: &Value) -> String {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    if let Some(text) = quota::text(value) {
        return text;
    }
    let visibility = if value.get("private") == Some(&Value::Bool(true)) { "private" } else { "public" };
    match value {
        _ if value.get("reclaimAt").is_some() => {
            format!("{} {} {visibility} until {}", field("id"), field("repo"), field("reclaimAt"))
        }
        _ if value.get("repo").is_some() => format!("{} {visibility}", field("repo")),
        _ if value.get("user").is_some() => format!("{} {} {}", field("org"), field("user"), field("role")),
        _ if field("state") == "disabled" => format!("{} disabled", field("name")),
        _ => field("name").to_owned(),
    }
}
