//! `drystone rm`: files and folders out of a repository.

use std::process::ExitCode;

use clap::Args;
use client::hub::{Commit, Hub, RepoPath};
use serde_json::json;

use crate::output::{CliError, block_on, fail, print_result};
use crate::remote::HubArgs;

/// Delete files of a repository, in one commit
///
/// Earlier commits keep them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone rm ann/model:old.bin ann/model:older.bin\n  \
                        drystone rm -r datasets/ann/corpus@draft:data/ -m 'start again'")]
pub(crate) struct Rm {
    /// Files to delete, all of one repository and branch: NAMESPACE/NAME is a model; also datasets/… and spaces/…
    #[arg(required = true, value_name = "REPO[@REVISION]:PATH")]
    places: Vec<RepoPath>,

    /// Folders too, with everything in them
    #[arg(short, long)]
    recursive: bool,

    /// Commit message
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// List what would be deleted, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Print the commit as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: HubArgs,
}

impl Rm {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let hub = self.hub.hub()?;
        block_on(self.delete(&hub)).map(|()| ExitCode::SUCCESS)
    }

    async fn delete(&self, hub: &Hub) -> Result<(), CliError> {
        let Some(first) = self.places.first() else { return Ok(()) };
        let mut paths = Vec::new();
        for place in &self.places {
            if (&place.repo, place.revision()) != (&first.repo, first.revision()) {
                let message =
                    format!("{place}: a commit is to one repository; delete from {first} by itself");
                return fail(message);
            }
            let path = place.path.as_deref().map(|path| path.trim_end_matches('/'));
            paths.push(
                path.ok_or_else(|| CliError::Message(format!("{place}: which file? say {place}:PATH")))?,
            );
        }
        let (repo, revision) = (&first.repo, first.revision());
        let there = hub.paths_info(repo, revision, &paths).await?;
        let mut commit = Commit::new(self.message.clone().unwrap_or_else(|| match &paths[..] {
            [path] => format!("Delete {path}"),
            paths => format!("Delete {} files or folders", paths.len()),
        }));
        for path in &paths {
            match there.iter().find(|entry| entry.path == *path) {
                Some(entry) if entry.is_folder && !self.recursive => {
                    return fail(format!("{repo}:{path}: is a folder; --recursive deletes it"));
                }
                Some(entry) if entry.is_folder => commit.delete_folder(path),
                Some(_) => commit.delete(path),
                None => {
                    return fail(format!("{repo}: no file or folder {path:?} at {revision}"));
                }
            }
        }
        let commit = match self.dry_run {
            true => None,
            false => Some(hub.commit(repo, revision, commit).await?),
        };
        let lines = match &commit {
            Some(commit) => vec![commit.oid.to_string()],
            None => paths.iter().map(ToString::to_string).collect(),
        };
        print_result(self.json, &json!({"commit": commit, "deleted": paths}), lines)
    }
}
