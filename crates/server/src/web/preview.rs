//! Previews: what can be displayed of a file from a few of its bytes.

mod csv;
mod parquet;
mod safetensors;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use store::hub::Item;

use crate::http::error::ApiError;
use crate::http::media_type::image_type;
use crate::web::repo::RepoView;
use crate::web::visit::Visit;
use crate::web::{card, read_file, text};

/// What is displayed of a file.
pub(super) enum Preview {
    /// Text, and whether there is more.
    Text { text: String, is_cut: bool },
    /// Rendered Markdown.
    Markdown(Arc<crate::render::Card>),
    /// Rows, of one sort or more.
    Tables(Vec<Table>),
    /// A picture, by its URL.
    Image(String),
    /// Why nothing is displayed.
    Nothing(String),
}

/// Rows and what they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// What else is known.
    pub(super) facts: Vec<(String, String)>,
}

/// Previews a file by its name, and by its bytes where that helps.
pub(super) async fn of(visit: &Visit, place: &RepoView, item: &Item) -> Result<Preview, ApiError> {
    let name = place.file_name().to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if image_type(&name).is_some() {
        return Ok(Preview::Image(place.url("resolve", &place.path)));
    }
    if item.bytes == 0 {
        return Ok(Preview::Nothing("The file is empty.".to_owned()));
    }
    let reader = Reader { visit, place, item };
    let preview = match ending {
        "safetensors" => safetensors::table(&reader, page(visit)).await?.map(|table| vec![table]),
        "parquet" => parquet::tables(&reader).await?,
        "md" | "markdown" => {
            return Ok(match card::of_file(visit, place, item, HEAD_BYTES_MAX).await? {
                Some(Ok(card)) => Preview::Markdown(card),
                Some(Err(why)) => Preview::Nothing(why.to_string()),
                None => Preview::Nothing(NO_TEXT.to_owned()),
            });
        }
        _ => {
            let head = reader.read(0..item.bytes.min(HEAD_BYTES_MAX)).await?;
            let (ending, is_cut) = (ending.to_owned(), item.bytes > HEAD_BYTES_MAX);
            let rendered = visit.state.renderer.run(move || of_text(&ending, &head, is_cut)).await;
            return Ok(rendered.unwrap_or_else(|why| Preview::Nothing(why.to_string())));
        }
    };
    Ok(match preview {
        Ok(tables) => Preview::Tables(tables),
        Err(why) => Preview::Nothing(why),
    })
}

fn of_text(ending: &str, head: &Bytes, is_cut: bool) -> Preview {
    let Some(text) = text::as_text(head, is_cut) else { return Preview::Nothing(NO_TEXT.to_owned()) };
    match ending {
        "csv" => Preview::Tables(vec![csv::table(text, ',', is_cut)]),
        "tsv" => Preview::Tables(vec![csv::table(text, '\t', is_cut)]),
        "json" if !is_cut => {
            let pretty = pretty_json(text, PRETTY_BYTES_MAX);
            Preview::Text { text: pretty.unwrap_or_else(|| text.to_owned()), is_cut }
        }
        _ => Preview::Text { text: text.to_owned(), is_cut },
    }
}

/// JSON on many lines; `None` for what is no JSON, or would be longer than `bytes_max`: each line of a deep value is
/// indented by its depth.
pub(super) fn pretty_json(text: &str, bytes_max: usize) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut pretty = Bounded { bytes: Vec::new(), bytes_max };
    serde_json::to_writer_pretty(&mut pretty, &value).ok()?;
    String::from_utf8(pretty.bytes).ok()
}

/// Bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The requested page of a long list.
pub(super) fn page(visit: &Visit) -> usize {
    let page = usize::try_from(visit.query.number("p").unwrap_or(0));
    page.unwrap_or(usize::MAX).min(1 << 20)
}

/// Reads parts of a file.
struct Reader<'a> {
    visit: &'a Visit,
    place: &'a RepoView,
    item: &'a Item,
}

impl Reader<'_> {
    async fn read(&self, range: Range<u64>) -> Result<Bytes, ApiError> {
        read_file::read(self.visit, &self.place.repo, self.item, range).await
    }

    fn bytes(&self) -> u64 {
        self.item.bytes
    }
}

/// Text of a cell: short.
fn cell(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What is read of a text.
const HEAD_BYTES_MAX: u64 = 32 * 1024;
/// JSON that is longer when it is indented is displayed as it is.
const PRETTY_BYTES_MAX: usize = 256 * 1024;
const CELL_CHARS_MAX: usize = 120;
const NO_TEXT: &str = "These bytes are not text.";
