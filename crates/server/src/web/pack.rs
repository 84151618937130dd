//! The page of a ShardPack file: its records by page and by key, a record's entries, and each entry by itself.
//!
//! Packs are read by ranges: the index at the end, then the headers and records that are shown.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use shardpack::record::EntryRef;
use shardpack::{ErrorKind, OnError, ReadOptions, ShardPackReader, Verify};
use store::content::stream_bytes;
use store::hub::Item;
use xet::wire::ErrorCode;
use xet::wire::routes::segment;

use crate::http::error::ApiError;
use crate::http::media_type::image_type;
use crate::hub::request::HubRequest;
use crate::web::pack_source::HubSource;
use crate::web::preview;
use crate::web::repo::RepoView;
use crate::web::text::{self, as_text};
use crate::web::visit::Visit;

/// What is shown of a pack.
pub(super) struct Pack {
    pub(super) facts: Vec<(&'static str, String)>,
    /// The key that was pack for.
    pub(super) key: String,
    pub(super) first: u64,
    pub(super) total: u64,
    pub(super) records: Vec<Line>,
    /// The record that is open.
    pub(super) record: Option<RecordView>,
    pub(super) note: Option<String>,
}

/// A record in the list.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) bytes: u64,
    /// The name of a picture in it.
    pub(super) image: Option<String>,
}

/// A record by itself.
pub(super) struct RecordView {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) metadata: Option<String>,
    pub(super) entries: Vec<EntryView>,
}

/// An entry of it.
pub(super) struct EntryView {
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) bytes: u64,
    pub(super) is_image: bool,
    pub(super) text: Option<String>,
}

impl Pack {
    /// The entry by itself.
    pub(super) fn entry_url(&self, place: &RepoView, number: &u64, name: &str) -> String {
        format!("{}?record={number}&entry={}", place.url("entry", &place.path), segment(name))
    }

    pub(super) fn pages(&self) -> u64 {
        self.total.div_ceil(RECORDS_MAX)
    }

    pub(super) fn page(&self) -> u64 {
        self.first / RECORDS_MAX
    }
}

/// Whether a file is a pack, by its name.
pub(super) fn is_pack(path: &str) -> bool {
    path.ends_with(".shardpack")
}

/// Reads a pack; the inner error says what is wrong with it.
pub(super) async fn of(
    visit: &Visit,
    place: &RepoView,
    item: &Item,
) -> Result<Result<Pack, String>, ApiError> {
    let first = (preview::page(visit) as u64).saturating_mul(RECORDS_MAX);
    let key = visit.query.value("key").unwrap_or_default().to_owned();
    let number = visit.query.number("record");
    let pack = read(visit, place, item, move |reader| read_page(reader, first, key, number)).await?;
    Ok(pack.map_err(|error| error.to_string()))
}

/// `GET /{repo}/entry/{revision}/{path}?record=N&entry=NAME`: the content of one entry.
pub(super) async fn entry(visit: Visit) -> Result<Response<Body>, ApiError> {
    let place = RepoView::of(&visit).await?;
    let item = visit.store.hub().find_path(place.repo.id, place.commit, &place.path).await?;
    let item =
        item.filter(|item| item.mode.is_blob()).ok_or_else(|| ApiError::entry_not_found(&place.path))?;
    let number: u64 = visit.query.number("record").unwrap_or(0);
    let name = visit.query.value("entry").unwrap_or_default().to_owned();
    let entry_name = name.clone();
    let content = read(&visit, &place, &item, move |reader| reader.read_entry(number, &entry_name)).await?;
    let content = content.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ApiError::entry_not_found(&format!("{}: {name}", place.path)),
        _ => ApiError::invalid(error.to_string()),
    })?;
    // A picture is displayed where a page embeds it; opened by itself it runs no script and is not of this site.
    let media_type = picture(&name).unwrap_or("application/octet-stream");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
    ];
    Ok((headers, content).into_response())
}

/// Opens the pack away from the threads of requests, for packs are read by calls that wait.
async fn read<T: Send + 'static>(
    visit: &Visit,
    place: &RepoView,
    item: &Item,
    work: impl FnOnce(&ShardPackReader) -> Result<T, shardpack::Error> + Send + 'static,
) -> Result<Result<T, shardpack::Error>, ApiError> {
    let permit = visit.state.answers.acquire(READ_BYTES_MAX + stream_bytes(READ_BYTES_MAX)).await?;
    let grant = HubRequest::grant(&place.repo)?;
    let source = HubSource::open(&visit.store, grant, &place.repo, item, READ_BYTES_MAX).await?;
    let options = ReadOptions {
        verify: Verify::Header,
        on_error: OnError::Raise,
        entry_bytes_max: ENTRY_BYTES_MAX,
        record_bytes_max: ENTRY_BYTES_MAX,
        ..ReadOptions::default()
    };
    let worked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let reader = ShardPackReader::from_source(Arc::new(source), options)?;
        work(&reader)
    });
    let failed = |_| ApiError::new(ErrorCode::Internal, "the pack could not be read");
    worked.await.map_err(failed)
}

fn read_page(
    reader: &ShardPackReader,
    first: u64,
    key: String,
    number: Option<u64>,
) -> Result<Pack, shardpack::Error> {
    let index = reader.index();
    let total = reader.len();
    let mut facts = vec![("Records", text::count(total))];
    if let Some(stated) = index.statistics() {
        facts.push(("Entries", text::count(stated.entries)));
        facts.push(("Content", text::bytes(stated.payload_bytes)));
        facts.push(("Stored in", text::bytes(stated.stored_bytes)));
    }
    let can_search = index.candidates("").is_some() || total <= SCAN_RECORDS_MAX;
    let (mut number, mut note) = (number, None);
    if !key.is_empty() {
        match can_search {
            true => number = reader.find(&key)?,
            false => note = Some("This pack has no key hashes: records are found by number only.".to_owned()),
        }
        if number.is_none() && note.is_none() {
            note = Some(format!("No record has the key {:?}.", key.chars().take(100).collect::<String>()));
        }
    }
    let record = number.map(|number| view(reader, number)).transpose()?;
    let first = if first < total { first } else { 0 };
    let mut records = Vec::new();
    let mut image_bytes = 0;
    if record.is_none() {
        for number in first..total.min(first + RECORDS_MAX) {
            let key = reader.read_key_of(number)?;
            let bytes = index.record_range(number).map_or(0, |range| range.end - range.start);
            image_bytes += bytes;
            // Pictures only as long as looking for them costs little.
            let image = if image_bytes <= SEARCH_BYTES_MAX { first_image(reader, number)? } else { None };
            records.push(Line { number, key, bytes, image });
        }
    }
    Ok(Pack { facts, key, first, total, records, record, note })
}

fn first_image(reader: &ShardPackReader, number: u64) -> Result<Option<String>, shardpack::Error> {
    reader.with_record(number, |record| {
        let mut names = record.entries().filter_map(Result::ok).map(|entry| entry.name().to_owned());
        Ok(names.find(|name| picture(name).is_some()))
    })
}

fn view(reader: &ShardPackReader, number: u64) -> Result<RecordView, shardpack::Error> {
    reader.with_record(number, |record| {
        let mut entries = Vec::new();
        let mut text_left = VIEW_BYTES_MAX;
        for entry in record.entries().take(ENTRIES_MAX) {
            let entry = entry?;
            let text = text_of(&entry).filter(|text| text.len() <= text_left);
            text_left -= text.as_ref().map_or(0, String::len);
            entries.push(EntryView {
                name: entry.name().to_owned(),
                content_type: entry.content_type().to_owned(),
                bytes: entry.file_size(),
                is_image: picture(entry.name()).is_some(),
                text,
            });
        }
        let stated = record.metadata();
        let shown = stated.get(..METADATA_BYTES_MAX).unwrap_or(stated);
        let metadata = as_text(shown, shown.len() < stated.len()).filter(|text| !text.is_empty()).map(pretty);
        Ok(RecordView { number, key: record.key().to_owned(), metadata, entries })
    })
}

/// The content of a small entry that is text, JSON spread out.
fn text_of(entry: &EntryRef<'_>) -> Option<String> {
    if entry.file_size() > TEXT_BYTES_MAX || picture(entry.name()).is_some() {
        return None;
    }
    let content = entry.content(TEXT_BYTES_MAX).ok()?;
    as_text(&content, false).map(pretty)
}

/// The media type of an entry that is a picture. A file's ending alone is the name of many entries.
fn picture(name: &str) -> Option<&'static str> {
    image_type(name).or_else(|| image_type(&format!(".{name}")))
}

fn pretty(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let json = if is_number { None } else { preview::pretty_json(text, PRETTY_BYTES_MAX) };
    json.unwrap_or_else(|| text.to_owned())
}

/// Records on one page.
const RECORDS_MAX: u64 = 24;
const ENTRIES_MAX: usize = 100;
/// What one page reads of a pack at most, its index included.
const READ_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// What an entry or record may have to be shown.
const ENTRY_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Records of a page are searched for images while they have no more than this together.
const SEARCH_BYTES_MAX: u64 = 4 * 1024 * 1024;
const TEXT_BYTES_MAX: u64 = 16 * 1024;
/// A text that is longer when it is indented is shown as it is.
const PRETTY_BYTES_MAX: usize = 64 * 1024;
const METADATA_BYTES_MAX: usize = 64 * 1024;
/// Texts of the entries of one record, together.
const VIEW_BYTES_MAX: usize = 1 << 20;
/// Without key hashes, a key is pack for in no more records than this.
const SCAN_RECORDS_MAX: u64 = 500;
