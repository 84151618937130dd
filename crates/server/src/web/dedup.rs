//! The dedup dashboard: what is stored against what it stands for.
//!
//! Callers see sums of the repositories they may list. Figures of the whole server, which count what is private too, are for
//! administrators.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::audit::{AuditQuery, AuditRow};
use store::hub::{BrowseQuery, MaintenanceSummary, Order, RepoSize, SizedRepo};
use store::names::RepoName;

use crate::http::error::ApiError;
use crate::web::page::{Frame, answer};
use crate::web::repo::url;
use crate::web::visit::Visit;
use crate::web::{file_map, home, text};

#[derive(Template)]
#[template(path = "dedup.html")]
struct Dedup {
    frame: Frame,
    now_s: u64,
    total: u64,
    size: RepoSize,
    repos: Vec<SizedRepo>,
    server: Option<Server>,
}

/// What is true of the whole server.
struct Server {
    logical_bytes: u64,
    stored_bytes: u64,
    xorbs: u64,
    files: u64,
    upkeep: MaintenanceSummary,
    growth: Growth,
    largest: Vec<Large>,
    /// The last sweeps and verifications.
    events: Vec<AuditRow>,
}

/// A large file.
struct Large {
    title: String,
    url: String,
    bytes: u64,
    lonely_bytes: u64,
}

/// Days, each with all bytes of files and of objects up to it.
struct Growth(Vec<(u64, u64, u64)>);

impl Growth {
    fn of(days: Vec<(u64, u64, u64)>) -> Self {
        let sums = days.into_iter().scan((0_u64, 0_u64), |(files, xorbs), (day, more_files, more_xorbs)| {
            *files = files.saturating_add(more_files);
            *xorbs = xorbs.saturating_add(more_xorbs);
            Some((day, *files, *xorbs))
        });
        Self(sums.collect())
    }

    /// The points of a line to scale: of files, or of objects.
    fn points(&self, of_files: bool) -> String {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return String::new() };
        let most = last.1.max(last.2).max(1) as f64;
        let days = (last.0 - first.0).max(1) as f64;
        let mut points = format!("0,{HEIGHT} ");
        let mut level = HEIGHT;
        for (day, files, xorbs) in &self.0 {
            let x = WIDTH * (day - first.0) as f64 / days;
            let y = HEIGHT - HEIGHT * (if of_files { *files } else { *xorbs }) as f64 / most;
            // What came on a day was not there the day before.
            points += &format!("{x:.1},{level:.1} {x:.1},{y:.1} ");
            level = y;
        }
        points + &format!("{WIDTH},{level:.1}")
    }

    fn words(&self) -> String {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => format!(
                "From {} to {}: files grew to {}, their objects to {}.",
                text::date(first.0 * DAY_S),
                text::date(last.0 * DAY_S),
                text::bytes(last.1),
                text::bytes(last.2)
            ),
            _ => "Nothing is stored yet.".to_owned(),
        }
    }

    /// The last days, newest first.
    fn rows(&self) -> Vec<(String, u64, u64)> {
        let days = self.0.iter().rev().take(DAYS_MAX);
        days.map(|(day, files, xorbs)| (text::date(day * DAY_S), *files, *xorbs)).collect()
    }
}

/// A bar to scale: how wide a part of a whole is, of a hundred.
fn share(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}

impl Dedup {
    fn saved(&self, size: &RepoSize) -> String {
        text::saved(size.logical_bytes, size.stored_bytes)
    }

    /// How wide the bar of what is stored is.
    fn bar(&self, size: &RepoSize) -> String {
        share(size.stored_bytes.min(size.logical_bytes), size.logical_bytes)
    }

    /// When the xorb that waits longest was last verified.
    fn verified(&self) -> String {
        let time_s = self.server.as_ref().and_then(|server| server.upkeep.verified_s);
        time_s.map_or_else(|| "never".to_owned(), |time_s| text::ago(time_s, self.now_s))
    }

    fn lonely(&self, file: &Large) -> String {
        share(file.lonely_bytes, file.bytes)
    }
}

/// `GET /-/dedup`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    home::measure(&visit).await;
    let query = BrowseQuery {
        private_of: visit.visible_private_namespaces(),
        order: Order::Size,
        limit: REPOS_MAX,
        ..BrowseQuery::default()
    };
    let repos = visit.store.hub().repo_page(&query).await?;
    let (total, size) = visit.store.hub().repo_totals(&query).await?;
    // Totals over all repositories show a caller who uploads something whether it was stored before: administrators only.
    let server = match visit.require_admin() {
        Ok(()) => Some(server(&visit).await?),
        Err(_) => None,
    };
    let frame = Frame::new(&visit, "dedup", "Dedup");
    Ok(answer(&Dedup { frame, now_s: visit.state.now_s(), total, size, repos, server }))
}

async fn server(visit: &Visit) -> Result<Server, ApiError> {
    let (store, browse) = (&visit.store, visit.store.hub());
    let counts = store.upkeep().counts().await?;
    let files = browse.largest_files(visit.visible_private_namespaces().as_deref(), FILES_MAX).await?;
    let hashes: Vec<_> = files.iter().map(|(file, ..)| *file).collect();
    let lonely = store.content().lonely_bytes(&hashes).await?;
    let mut paths = std::collections::HashMap::new();
    let mut largest = Vec::with_capacity(files.len());
    for (file, bytes, scope) in files {
        let (kind, name) = scope.repo().split_once('/').unwrap_or(("", scope.repo()));
        let Ok(name) = RepoName::parse(&format!("{kind}/{}/{name}", scope.namespace())) else { continue };
        if !paths.contains_key(&name) {
            let found = match store.hub().repo(&name).await?.filter(|repo| repo.name == name) {
                Some(repo) => file_map::paths_in(visit, &repo).await?,
                None => std::collections::HashMap::new(),
            };
            paths.insert(name.clone(), found);
        }
        let path = paths.get(&name).and_then(|paths| paths.get(&file));
        let (title, url) = match path {
            Some(path) => (format!("{name}: {path}"), url(&name, "blob", "main", path)),
            None => (format!("{name}: an older file"), format!("/{name}")),
        };
        let lonely_bytes = lonely.get(&file).copied().unwrap_or(0);
        largest.push(Large { title, url, bytes, lonely_bytes });
    }
    let events = AuditQuery { limit: EVENTS_MAX, is_upkeep: true, ..AuditQuery::default() };
    largest.sort_by_key(|file| std::cmp::Reverse(file.lonely_bytes));
    Ok(Server {
        logical_bytes: store.upkeep().logical_bytes().await?,
        stored_bytes: counts.object_bytes,
        xorbs: counts.xorbs,
        files: counts.files,
        upkeep: browse.maintenance_summary().await?,
        growth: Growth::of(browse.growth().await?),
        largest,
        events: store.hub().audit_events(&events).await?,
    })
}

const REPOS_MAX: u64 = 20;
const FILES_MAX: u64 = 20;
const EVENTS_MAX: u64 = 10;
const DAYS_MAX: usize = 30;
const DAY_S: u64 = 86_400;
/// The plot's size.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_adds_up_and_is_drawn_to_its_end() {
        let growth = Growth::of(vec![(10, 100, 80), (12, 100, 0), (20, 200, 20)]);
        assert_eq!(growth.0, [(10, 100, 80), (12, 200, 80), (20, 400, 100)]);
        let files = growth.points(true);
        assert!(files.starts_with("0,220 0.0,220.0 0.0,165.0 200.0,165.0 200.0,110.0 "), "{files}");
        assert!(files.ends_with("1000.0,0.0 1000,0.0"), "{files}");
        assert_eq!(growth.rows()[0], ("1970-01-21".to_owned(), 400, 100));
        assert_eq!(Growth::of(Vec::new()).points(true), "");
        assert_eq!(Growth::of(Vec::new()).words(), "Nothing is stored yet.");
    }
}
