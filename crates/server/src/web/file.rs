//! The page of a file: what it is, what is in it, what it is made of.

use askama::Template;
use axum::body::Body;
use axum::http::Response;
use store::hub::{Item, pointer};

use super::map::{self, FileMap};
use super::pack::{self, Pack};
use super::page::{Frame, answer};
use super::preview::{self, Preview};
use super::repo::Place;
use super::{PageError, Visit, text};
use crate::http::HubError;

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: Frame,
    place: Place,
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
pub(super) async fn show(visit: Visit) -> Result<Response<Body>, PageError> {
    let place = Place::of(&visit).await?;
    let item = visit.store.hub().find_path(place.repo.id, place.commit, &place.path).await?;
    let item =
        item.filter(|item| item.mode.is_blob()).ok_or_else(|| HubError::entry_not_found(&place.path))?;
    let mut hashes = vec![("git", item.oid.to_string())];
    if let Some(linked) = &item.linked {
        hashes.push(("SHA-256", pointer::hex(&linked.sha256)));
        hashes.push(("XET", linked.file.to_string()));
    }
    let (mut shown, mut opened) = (Preview::Nothing(String::new()), None);
    if pack::is_pack(&place.path) {
        match pack::of(&visit, &place, &item).await? {
            Ok(pack) => opened = Some(pack),
            Err(why) => shown = Preview::Nothing(why),
        }
    } else {
        shown = preview::of(&visit, &place, &item).await?;
    }
    let map = match &item.linked {
        Some(linked) if linked.bytes > 0 => Some(map::of(&visit, &place, linked.file).await?),
        _ => None,
    };
    let frame =
        Frame::new(&visit, place.section(), format!("{} in {}", place.file_name(), place.name().id()));
    let page = preview::page(&visit);
    Ok(answer(&FilePage { frame, place, item, hashes, preview: shown, pack: opened, map, page }))
}
