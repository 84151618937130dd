//! What all pages of a repository share: which one, at which revision, and where its other pages are.

use store::hub::refs::{self, HEADS, TAGS};
use store::hub::{Past, RepoRow};
use store::ids::Oid;
use store::names::{Kind, RepoName};
use xet::wire::routes::segment;

use crate::http::error::ApiError;
use crate::web::visit::Visit;

/// A repository at a revision, and a path in it.
pub(super) struct RepoView {
    pub(super) repo: RepoRow,
    /// As the URL says it: a branch, a tag or a commit.
    pub(super) revision: String,
    pub(super) commit: Oid,
    /// Of a file or folder; empty for the root.
    pub(super) path: String,
    branches: Vec<String>,
    tags: Vec<String>,
    base_url: String,
}

impl RepoView {
    /// The repository, revision and path of a request; refuses callers who may not read it.
    pub(super) async fn of(visit: &Visit) -> Result<Self, ApiError> {
        let repo = visit.require_read().await?;
        let revision = match visit.param("revision") {
            "" => "main",
            revision => revision,
        };
        let commit = visit.resolved_revision(&repo, revision).await?.commit;
        let names = async |prefix: &str| {
            let rows = visit.store.hub().refs(repo.id, prefix).await?;
            Ok::<Vec<String>, ApiError>(rows.iter().map(|row| refs::short(&row.name).to_owned()).collect())
        };
        Ok(Self {
            branches: names(HEADS).await?,
            tags: names(TAGS).await?,
            revision: revision.to_owned(),
            commit,
            path: visit.param("path").trim_matches('/').to_owned(),
            base_url: visit.state.base_url.clone(),
            repo,
        })
    }

    pub(super) fn name(&self) -> &RepoName {
        &self.repo.name
    }

    /// Whether the revision is a branch, which commits can be added to.
    pub(super) fn is_branch(&self) -> bool {
        self.branches.contains(&self.revision)
    }

    /// The entry of the main menu.
    pub(super) fn section(&self) -> &'static str {
        self.name().kind.plural()
    }

    /// The repository's own page.
    pub(super) fn home(&self) -> String {
        format!("/{}", self.name())
    }

    /// The revision as people say it.
    pub(super) fn revision_label(&self) -> String {
        match self.revision == self.commit.to_string() {
            true => short(&self.commit),
            false => self.revision.clone(),
        }
    }

    /// A page of this kind about a path at this revision.
    pub(super) fn url(&self, page: &str, path: &str) -> String {
        url(self.name(), page, &self.revision, path)
    }

    /// The same page at another revision.
    pub(super) fn at(&self, page: &str, revision: &str) -> String {
        url(self.name(), page, revision, &self.path)
    }

    /// A commit's page.
    pub(super) fn commit_url(&self, oid: &Oid) -> String {
        format!("{}/commit/{oid}", self.home())
    }

    /// Branches and tags to choose from, as many as a menu holds.
    pub(super) fn choices(&self) -> [(&'static str, Vec<&str>); 2] {
        fn some(names: &[String]) -> Vec<&str> {
            names.iter().take(CHOICES_MAX).map(String::as_str).collect()
        }
        [("Branches", some(&self.branches)), ("Tags", some(&self.tags))]
    }

    /// The folders on the way to the path, each with its page.
    pub(super) fn crumbs(&self) -> Vec<(String, String)> {
        let mut crumbs = vec![(self.name().name.clone(), self.url("tree", ""))];
        let mut at = String::new();
        let folders = self.path.rsplit_once('/').map(|(folders, _)| folders);
        for part in folders.into_iter().flat_map(|folders| folders.split('/')) {
            at = if at.is_empty() { part.to_owned() } else { format!("{at}/{part}") };
            crumbs.push((part.to_owned(), self.url("tree", &at)));
        }
        crumbs
    }

    /// The last part of the path.
    pub(super) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Ways to fetch and send with this server's address in them: a title and lines to paste.
    pub(super) fn commands(&self) -> Vec<(&'static str, String)> {
        let (name, url) = (self.name(), &self.base_url);
        let id = name.id();
        let is_main = self.revision == "main";
        let (flag, python_kind) = match name.kind {
            Kind::Model => (String::new(), String::new()),
            kind => {
                (format!(" --repo-type {}", kind.singular()), format!(", repo_type=\"{}\"", kind.singular()))
            }
        };
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
        // A name that a shell or Python would read otherwise is left to who pastes.
        let revision = if plain(&self.revision) { self.revision.clone() } else { self.commit.to_string() };
        let (hf, at, python) = match is_main {
            true => (String::new(), String::new(), String::new()),
            false => (
                format!(" --revision {revision}"),
                format!("@{revision}"),
                format!(", revision=\"{revision}\""),
            ),
        };
        vec![
            (
                "hf",
                format!(
                    "export HF_ENDPOINT={url}\nhf download {id}{flag}{hf}\nhf upload {id} ./folder .{flag}{hf}"
                ),
            ),
            (
                "drystone",
                format!(
                    "export DRYSTONE_ENDPOINT={url}\ndrystone pull {name}{at} ./folder\ndrystone push ./folder {name}{at}"
                ),
            ),
            (
                "Python",
                format!(
                    "from huggingface_hub import snapshot_download\n\nsnapshot_download(\"{id}\"{python_kind}{python},\n                  endpoint=\"{url}\")"
                ),
            ),
            (
                "git-lfs",
                format!(
                    "# in a clone whose large files are kept here\ngit config lfs.url {url}/{name}.git/info/lfs\ngit lfs pull"
                ),
            ),
        ]
    }
}

/// A page of a repository.
pub(super) fn url(name: &RepoName, page: &str, revision: &str, path: &str) -> String {
    let mut url = format!("/{name}/{page}/{}", segment(revision));
    if !path.is_empty() {
        path.split('/').for_each(|part| url += &format!("/{}", segment(part)));
    }
    url
}

/// A commit's name as people say it.
pub(super) fn short(oid: &Oid) -> String {
    oid.to_string().chars().take(8).collect()
}

/// A commit in a list.
pub(super) struct CommitLine {
    pub(super) oid: Oid,
    pub(super) title: String,
    pub(super) author: String,
    pub(super) time_s: u64,
}

impl From<Past> for CommitLine {
    fn from(Past { oid, commit }: Past) -> Self {
        let title = commit.title().chars().take(TITLE_CHARS_MAX).collect();
        Self { oid, title, author: commit.author.name, time_s: commit.author.time_s }
    }
}

/// Branches, and tags, in the menu.
const CHOICES_MAX: usize = 100;
/// A title that is longer is cut.
const TITLE_CHARS_MAX: usize = 200;
