//! The page of a file: what it is, what is in it, what it is made of.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{Item, pointer};

use crate::http::error::ApiError;
use crate::web::file_map::{self, FileMap};
use crate::web::pack::{self, Pack};
use crate::web::page::{Frame, answer};
use crate::web::preview::{self, Preview};
use crate::web::repo::RepoView;
use crate::web::text;
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: Frame,
    place: RepoView,
    item: Item,
    hashes: Vec<(&'static str, String)>,
    preview: Preview,
    pack: Option<Pack>,
    map: Option<FileMap>,
    /// Of a long list.
    page: usize,
}

impl FilePage {
    fn here(&self) -> String {
        self.place.url("blob", &self.place.path)
    }

    fn table_page(&self, page: usize) -> String {
        format!("{}?p={page}", self.here())
    }
}

/// `GET /{repo}/blob/{revision}/{path}`.
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    let item = visit.store.hub().find_path(place.repo.id, place.commit, &place.path).await?;
    let item =
        item.filter(|item| item.mode.is_blob()).ok_or_else(|| ApiError::entry_not_found(&place.path))?;
    let mut hashes = vec![("git", item.oid.to_string())];
    if let Some(linked) = &item.linked {
        hashes.push(("SHA-256", pointer::hex(&linked.sha256)));
        hashes.push(("XET", linked.file.to_string()));
    }
    let (mut displayed, mut opened) = (Preview::Nothing(String::new()), None);
    if pack::is_pack(&place.path) {
        match pack::of(&visit, &place, &item).await? {
            Ok(pack) => opened = Some(pack),
            Err(why) => displayed = Preview::Nothing(why),
        }
    } else {
        displayed = preview::of(&visit, &place, &item).await?;
    }
    let map = match &item.linked {
        Some(linked) if linked.bytes > 0 => Some(file_map::of(&visit, &place, linked.file).await?),
        _ => None,
    };
    let frame =
        Frame::new(&visit, place.section(), format!("{} in {}", place.file_name(), place.name().id()));
    let page = preview::page(&visit);
    Ok(answer(&FilePage { frame, place, item, hashes, preview: displayed, pack: opened, map, page }))
}
