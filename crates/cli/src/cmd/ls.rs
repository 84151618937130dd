//! `drystone ls`: what is in a repository.

use std::process::ExitCode;

use clap::Args;
use client::hub::{Entry, Hub, RepoPath};
use serde_json::json;

use crate::output::{CliError, Listing, block_on, without_nulls};
use crate::remote::CachedHubArgs;

/// List what is in a repository, or in a folder of it
///
/// One line for each: its size and its path, a slash after the path of a folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone ls ann/model\n  \
                        drystone ls -r datasets/ann/corpus@v1.0:data\n  \
                        drystone ls --json ann/model | jq '.[].path'")]
pub(crate) struct Ls {
    /// Repository or path: NAMESPACE/NAME is a model; also datasets/… and spaces/…
    #[arg(value_name = "REPO[@REVISION][:PATH]")]
    place: RepoPath,

    /// Everything below, not only what is in the folder itself
    #[arg(short, long)]
    recursive: bool,

    /// Print a JSON array: type, path, size, oid, and of large files sha256 and hash
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: CachedHubArgs,
}

impl Ls {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let (hub, _) = self.hub.open()?;
        block_on(self.list(&hub)).map(|()| ExitCode::SUCCESS)
    }

    /// Page by page: a repository may have more files than there is memory.
    async fn list(&self, hub: &Hub) -> Result<(), CliError> {
        let mut listing = Listing::new(self.json);
        let repo = &self.place.repo;
        let commit = hub.commit_id(repo, self.place.revision()).await?;
        let folder = self.place.path.as_deref().unwrap_or_default().trim_end_matches('/');
        if !folder.is_empty() {
            let entry = hub.entry(repo, &commit, folder).await?;
            if !entry.is_folder {
                print(&mut listing, &entry)?;
                return Ok(listing.finish()?);
            }
        }
        let mut next = None;
        loop {
            let page = hub.tree(repo, &commit, folder, self.recursive, next.as_deref()).await?;
            page.entries.iter().try_for_each(|entry| print(&mut listing, entry))?;
            next = page.next;
            if next.is_none() {
                return Ok(listing.finish()?);
            }
        }
    }
}

fn print(listing: &mut Listing, entry: &Entry) -> Result<(), CliError> {
    let Entry { path, is_folder, bytes, oid, sha256, xet } = entry;
    let (kind, end) = if *is_folder { ("directory", "/") } else { ("file", "") };
    let json = || {
        without_nulls(json!({
            "type": kind, "path": path, "size": bytes, "oid": oid, "sha256": sha256, "hash": xet,
        }))
    };
    Ok(listing.print(json, |out| write!(out, "{bytes:>14} {path}{end}"))?)
}
