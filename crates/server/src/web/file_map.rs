//! The map of a file: its terms drawn to scale, coloured by xorb, and which other files share them.

use std::collections::HashMap;
use std::ops::Range;

use store::content::{FileRecipe, FileRow, RecipeXorb};
use store::hub::{Item, Page, RepoRow};
use store::ids::{Oid, RepoId};
use store::names::RepoName;
use xet::wire::ErrorCode;
use xet::{FileHash, XorbHash};

use crate::http::error::ApiError;
use crate::hub::request::HubRequest;
use crate::web::repo::{RepoView, short, url};
use crate::web::text;
use crate::web::visit::Visit;

/// What a file is made of, for people.
pub(super) struct FileMap {
    pub(super) terms: usize,
    pub(super) xorbs: usize,
    /// Bytes that another file the visitor may see has too, about: counted by chunks.
    pub(super) shared_bytes: u64,
    pub(super) bytes: u64,
    /// To scale, on a line of [`WIDTH`]: by xorb, and shared or not.
    pub(super) by_xorb: Vec<Stretch>,
    pub(super) by_share: Vec<Stretch>,
    /// The first terms, as a table.
    pub(super) rows: Vec<TermRow>,
    pub(super) others: Vec<Other>,
    pub(super) is_cut: bool,
}

/// A coloured part of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stretch {
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// A term in the table.
pub(super) struct TermRow {
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) xorb: String,
    pub(super) chunks: Range<u32>,
    pub(super) shared: String,
}

/// Another file with the same chunks.
pub(super) struct Other {
    pub(super) title: String,
    pub(super) url: String,
    /// A commit, of an older version.
    pub(super) version: Option<String>,
    pub(super) bytes: u64,
}

impl FileMap {
    /// The picture in words.
    pub(super) fn words(&self) -> String {
        format!(
            "{} in {} of {}; {} of it is also in other files.",
            text::bytes(self.bytes),
            text::counted(self.terms as u64, "term"),
            text::counted(self.xorbs as u64, "xorb"),
            text::percent(self.shared_bytes, self.bytes),
        )
    }
}

/// The map of a large file.
pub(super) async fn of(visit: &Visit, place: &RepoView, file: FileHash) -> Result<FileMap, ApiError> {
    let found = visit.store.content().neighbours(&HubRequest::grant(&place.repo)?, file).await?;
    let mut seen = VisibleRepos::new(visit);
    let mut others: Vec<(FileRow, RepoRow)> = Vec::new();
    for (row, scopes) in found.others {
        for scope in scopes {
            // One repository is enough to tell of it; this one first.
            let name = RepoName::parse(&format!(
                "{}/{}/{}",
                kind_of(scope.repo()),
                scope.namespace(),
                name_of(scope.repo())
            ));
            let Ok(name) = name else { continue };
            if let Some(repo) = seen.repo(&name).await? {
                match others.iter_mut().find(|(other, _)| other.hash == row.hash) {
                    Some(other) if repo.id == place.repo.id => other.1 = repo,
                    Some(_) => {}
                    None => others.push((row.clone(), repo)),
                }
            }
        }
    }
    let recipe = found.file.recipe;
    let work = move || {
        let cover = Cover::of(&recipe, others.iter().map(|(row, _)| &row.recipe));
        let by_one = |other: &FileRecipe| Cover::of(&recipe, std::iter::once(other)).bytes(&recipe);
        let shared: Vec<u64> = others.iter().map(|(row, _)| by_one(&row.recipe)).collect();
        (draw(&recipe, &cover), others, shared)
    };
    let worked = visit.state.renderer.run(work).await;
    let (mut map, others, shared) =
        worked.map_err(|why| ApiError::new(ErrorCode::Unavailable, why.to_string()))?;
    // Files that the caller may not read count towards the limit, so that it was reached is not for everybody.
    map.is_cut = found.is_cut && visit.require_admin().is_ok();
    let mut named: Vec<Other> = Vec::new();
    let mut paths = Paths::of(visit, place).await?;
    for ((row, repo), bytes) in others.into_iter().zip(shared) {
        if bytes > 0 {
            named.push(paths.describe(visit, &repo, row.hash, bytes).await?);
        }
    }
    named.sort_by_key(|other| std::cmp::Reverse(other.bytes));
    map.others = named;
    Ok(map)
}

fn kind_of(scope_repo: &str) -> &str {
    scope_repo.split_once('/').map_or("", |(kind, _)| kind)
}

fn name_of(scope_repo: &str) -> &str {
    scope_repo.split_once('/').map_or("", |(_, name)| name)
}

/// Repositories the visitor may see, each looked up once.
struct VisibleRepos<'a> {
    visit: &'a Visit,
    repos: HashMap<RepoName, Option<RepoRow>>,
}

impl<'a> VisibleRepos<'a> {
    fn new(visit: &'a Visit) -> Self {
        Self { visit, repos: HashMap::new() }
    }

    async fn repo(&mut self, name: &RepoName) -> Result<Option<RepoRow>, ApiError> {
        if let Some(known) = self.repos.get(name) {
            return Ok(known.clone());
        }
        // Content is of the name as it is spelled.
        let repo = self.visit.store.hub().repo(name).await?;
        let repo = repo.filter(|repo| repo.name == *name && self.visit.may_read(repo));
        self.repos.insert(name.clone(), repo.clone());
        Ok(repo)
    }
}

/// Which chunks of a file's xorbs others have.
struct Cover(HashMap<XorbHash, Vec<bool>>);

impl Cover {
    /// The chunks of `recipe`'s xorbs that one of the others has.
    fn of<'a>(recipe: &FileRecipe, others: impl Iterator<Item = &'a FileRecipe>) -> Self {
        let count = |xorb: &RecipeXorb| (xorb.chunk_count as usize).min(CHUNKS_MAX) + 1;
        // Beginnings and ends first, then one walk: many files may have the same chunks.
        let begins = recipe.xorbs.iter().map(|xorb| (xorb.key.hash, vec![0_i64; count(xorb)]));
        let mut begins: HashMap<XorbHash, Vec<i64>> = begins.collect();
        for other in others {
            for term in &other.terms {
                let Some(steps) = begins.get_mut(&other.xorb_of(term).key.hash) else { continue };
                let end = (term.chunks.end as usize).min(steps.len() - 1);
                let start = (term.chunks.start as usize).min(end);
                steps[start] += 1;
                steps[end] -= 1;
            }
        }
        let walk = |steps: Vec<i64>| {
            let depths = steps.into_iter().scan(0, |depth, step| {
                *depth += step;
                Some(*depth > 0)
            });
            depths.collect()
        };
        Self(begins.into_iter().map(|(xorb, steps)| (xorb, walk(steps))).collect())
    }

    /// The chunks of a range that are covered, joined and in order.
    fn within(&self, xorb: &XorbHash, chunks: &Range<u32>) -> Vec<Range<u32>> {
        let covered = self.0.get(xorb).map(Vec::as_slice).unwrap_or_default();
        let mut joined: Vec<Range<u32>> = Vec::new();
        for chunk in chunks.clone().filter(|chunk| covered.get(*chunk as usize) == Some(&true)) {
            match joined.last_mut() {
                Some(last) if last.end == chunk => last.end += 1,
                _ => joined.push(chunk..chunk + 1),
            }
        }
        joined
    }

    /// How many bytes of the file are covered, about.
    fn bytes(&self, recipe: &FileRecipe) -> u64 {
        let terms = recipe.terms.iter().map(|term| {
            let spans = self.within(&recipe.xorb_of(term).key.hash, &term.chunks);
            part_bytes(term.raw_bytes, &term.chunks, &spans)
        });
        terms.sum()
    }
}

/// The bytes of some chunks of a term, as if all its chunks were alike.
fn part_bytes(raw_bytes: u32, chunks: &Range<u32>, spans: &[Range<u32>]) -> u64 {
    let count: u64 = spans.iter().map(|span| u64::from(span.end - span.start)).sum();
    u64::from(raw_bytes) * count / u64::from(chunks.end - chunks.start).max(1)
}

fn draw(recipe: &FileRecipe, cover: &Cover) -> FileMap {
    let bytes = recipe.file_bytes();
    let scale = |at: f64| WIDTH * at / (bytes as f64).max(1.0);
    let (mut by_xorb, mut by_share, mut rows) = (Line::default(), Line::default(), Vec::new());
    let (mut at, mut shared_bytes) = (0, 0);
    for term in &recipe.terms {
        let xorb = recipe.xorb_of(term).key.hash;
        let len = u64::from(term.raw_bytes);
        let spans = cover.within(&xorb, &term.chunks);
        let shared = part_bytes(term.raw_bytes, &term.chunks, &spans);
        shared_bytes += shared;
        let name: String = xorb.to_string().chars().take(12).collect();
        let class = COLOURS.get(term.xorb as usize % COLOURS.len()).copied().unwrap_or_default();
        let title = || format!("{} at {}, xorb {name}", text::bytes(len), text::bytes(at));
        by_xorb.push(scale(at as f64), scale((at + len) as f64), class, title);
        // Where in the term chunks begin is not known here: they are drawn as if all were alike.
        let chunk = len as f64 / f64::from(term.chunks.end - term.chunks.start).max(1.0);
        let place = |chunk_at: u32| scale(at as f64 + chunk * f64::from(chunk_at - term.chunks.start));
        let mut from = term.chunks.start;
        for span in spans.iter().chain([&(term.chunks.end..term.chunks.end)]) {
            if from < span.start {
                by_share.push(place(from), place(span.start), "alone", || "only in this file".to_owned());
            }
            if !span.is_empty() {
                by_share
                    .push(place(span.start), place(span.end), "shared", || "also in other files".to_owned());
            }
            from = span.end;
        }
        if rows.len() < ROWS_MAX {
            let shared = text::percent(shared, len);
            rows.push(TermRow { at, bytes: len, xorb: name, chunks: term.chunks.clone(), shared });
        }
        at += len;
    }
    FileMap {
        terms: recipe.terms.len(),
        xorbs: recipe.xorbs.len(),
        shared_bytes,
        bytes,
        by_xorb: by_xorb.0,
        by_share: by_share.0,
        rows,
        others: Vec::new(),
        is_cut: false,
    }
}

/// Stretches one after another. What is too narrow to see joins what was before it, so a line has a bounded length.
#[derive(Default)]
struct Line(Vec<Stretch>);

impl Line {
    fn push(&mut self, start: f64, end: f64, class: &'static str, title: impl FnOnce() -> String) {
        match self.0.last_mut() {
            Some(last) if last.class == class && class.len() > 2 || end - last.x < NARROW => {
                last.width = end - last.x;
            }
            Some(last) if last.width < NARROW => {
                last.width = end - last.x;
                last.class = class;
            }
            _ => self.0.push(Stretch { x: start, width: end - start, class, title: title() }),
        }
    }
}

/// Where files of repositories are, as far as that is quickly found.
struct Paths {
    /// Earlier versions of the place's path.
    here: HashMap<FileHash, Oid>,
    /// The place's repository.
    repo: RepoId,
    paths_by_repo: HashMap<String, HashMap<FileHash, String>>,
}

impl Paths {
    /// Looks through the last commits for earlier versions of the place's file.
    async fn of(visit: &Visit, place: &RepoView) -> Result<Self, ApiError> {
        let mut here = HashMap::new();
        let (past, _) = visit.store.hub().history(place.repo.id, place.commit, 0, VERSIONS_MAX).await?;
        for commit in past {
            let item = visit.store.hub().find_path(place.repo.id, commit.oid, &place.path).await?;
            if let Some(linked) = item.and_then(|item| item.linked) {
                here.insert(linked.file, commit.oid);
            }
        }
        Ok(Self { here, repo: place.repo.id, paths_by_repo: HashMap::new() })
    }

    async fn describe(
        &mut self,
        visit: &Visit,
        repo: &RepoRow,
        file: FileHash,
        bytes: u64,
    ) -> Result<Other, ApiError> {
        let name = repo.name.to_string();
        if !self.paths_by_repo.contains_key(&name) && self.paths_by_repo.len() < REPOS_MAX {
            let paths = paths_in(visit, repo).await?;
            self.paths_by_repo.insert(name.clone(), paths);
        }
        let path = self.paths_by_repo.get(&name).and_then(|paths| paths.get(&file));
        let same_repo = self.repo == repo.id;
        let version = self.here.get(&file).filter(|_| same_repo && path.is_none());
        Ok(match (path, version) {
            (Some(path), _) => {
                let title = if same_repo { path.clone() } else { format!("{name}: {path}") };
                Other { title, url: url(&repo.name, "blob", "main", path), version: None, bytes }
            }
            (None, Some(commit)) => {
                let path = visit.param("path");
                let url = url(&repo.name, "blob", &commit.to_string(), path);
                Other { title: path.to_owned(), url, version: Some(short(commit)), bytes }
            }
            (None, None) => {
                let hash: String = file.to_string().chars().take(12).collect();
                Other {
                    title: format!("a file of {name} ({hash})"),
                    url: format!("/{name}"),
                    version: None,
                    bytes,
                }
            }
        })
    }
}

/// The first large files of a repository's main branch, by what they are.
pub(super) async fn paths_in(visit: &Visit, repo: &RepoRow) -> Result<HashMap<FileHash, String>, ApiError> {
    let Some(main) = visit.store.hub().resolve(repo.id, "main").await? else { return Ok(HashMap::new()) };
    let page = Page { recursive: true, after: None, limit: PATHS_MAX };
    let listing = visit.store.hub().list_folder(repo.id, main.commit, "", &page).await?;
    let items = listing.map(|listing| listing.items).unwrap_or_default();
    let path = |item: Item| item.linked.map(|linked| (linked.file, item.path));
    Ok(items.into_iter().filter_map(path).collect())
}

/// The line's length.
const WIDTH: f64 = 1000.0;
/// Less than this cannot be seen.
const NARROW: f64 = 1.5;
const COLOURS: [&str; 8] = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"];
/// No xorb has more.
const CHUNKS_MAX: usize = 1 << 16;
const ROWS_MAX: usize = 50;
const VERSIONS_MAX: u64 = 50;
const REPOS_MAX: usize = 6;
const PATHS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use store::content::RecipeBuilder;
    use store::{Digest, XorbKey};

    use super::*;

    fn xorb(n: u8) -> RecipeXorb {
        let key = XorbKey { hash: XorbHash::new([n; 32]), digest: Digest::new([n; 32]) };
        RecipeXorb { key, object_bytes: 1000, chunk_count: 100 }
    }

    fn recipe(terms: &[(u8, Range<u32>, u32)]) -> FileRecipe {
        let mut recipe = RecipeBuilder::default();
        terms.iter().for_each(|(n, chunks, bytes)| recipe.push(xorb(*n), chunks.clone(), *bytes, 0..9));
        recipe.finish()
    }

    #[test]
    fn what_others_have_is_found_by_chunks() {
        let file = recipe(&[(1, 0..10, 600), (2, 0..10, 400)]);
        let other = recipe(&[(1, 5..20, 500), (2, 2..4, 50), (3, 0..9, 1)]);
        let third = recipe(&[(1, 0..6, 100)]);
        let by_one = |other: &FileRecipe| Cover::of(&file, std::iter::once(other)).bytes(&file);
        assert_eq!((by_one(&other), by_one(&third)), (300 + 80, 360));
        let map = draw(&file, &Cover::of(&file, [&other, &third].into_iter()));
        assert_eq!((map.shared_bytes, map.bytes, map.terms, map.xorbs), (680, 1000, 2, 2));
        let drawn: Vec<_> = map.by_share.iter().map(|s| (s.x.round(), s.width.round(), s.class)).collect();
        assert_eq!(
            drawn,
            [
                (0.0, 600.0, "shared"),
                (600.0, 80.0, "alone"),
                (680.0, 80.0, "shared"),
                (760.0, 240.0, "alone")
            ]
        );
        assert_eq!(map.by_xorb.iter().map(|s| s.width.round()).collect::<Vec<_>>(), [600.0, 400.0]);
    }

    #[test]
    fn a_file_of_very_many_terms_is_a_bounded_line_to_its_end() {
        let terms: Vec<_> =
            (0..20_000_u32).map(|n| ((n % 7) as u8, n % 50..n % 50 + 1, 100 + n % 13)).collect();
        let file = recipe(&terms);
        let map = draw(&file, &Cover::of(&file, std::iter::empty()));
        for line in [&map.by_xorb, &map.by_share] {
            assert!(line.len() < 1000, "{}", line.len());
            let last = line.last().unwrap();
            assert!((last.x + last.width - WIDTH).abs() < 0.01, "{last:?}");
        }
        assert_eq!(map.rows.len(), ROWS_MAX);
        let empty = FileRecipe::default();
        assert!(draw(&empty, &Cover::of(&empty, std::iter::empty())).by_xorb.is_empty());
    }
}
