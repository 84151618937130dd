//! Previews: what can be shown of a file from a few of its bytes.

mod csv;
mod parquet;
mod safetensors;

use std::ops::Range;

use bytes::Bytes;
use store::repo::listing::Item;

use super::repo::Place;
use super::{PageError, Visit, content, readme, text};

/// What is shown of a file.
pub(super) enum Preview {
    /// Text, and whether there is more.
    Text { text: String, is_cut: bool },
    /// Rendered Markdown.
    Markdown(readme::Readme),
    /// Rows, of one sort or more.
    Tables(Vec<Table>),
    /// A picture, by its URL.
    Image(String),
    /// Why nothing is shown.
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

/// Looks at a file by its name, and at its bytes where that helps.
pub(super) async fn of(visit: &Visit, place: &Place, item: &Item) -> Result<Preview, PageError> {
    let name = place.file_name().to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    if image_type(&name).is_some() {
        return Ok(Preview::Image(place.url("resolve", &place.path)));
    }
    if item.bytes == 0 {
        return Ok(Preview::Nothing("The file is empty.".to_owned()));
    }
    let reader = Reader { visit, place, item };
    let shown = match ending {
        "safetensors" => safetensors::table(&reader, page(visit)).await?.map(|table| vec![table]),
        "parquet" => parquet::tables(&reader).await?,
        _ => {
            let head = reader.read(0..item.bytes.min(HEAD_BYTES_MAX)).await?;
            return Ok(of_text(place, ending, &head, item.bytes > HEAD_BYTES_MAX));
        }
    };
    Ok(match shown {
        Ok(tables) => Preview::Tables(tables),
        Err(why) => Preview::Nothing(why),
    })
}

fn of_text(place: &Place, ending: &str, head: &Bytes, is_cut: bool) -> Preview {
    let Some(text) = as_text(head, is_cut) else {
        return Preview::Nothing("These bytes are not text.".to_owned());
    };
    let json = || serde_json::from_str::<serde_json::Value>(text).ok();
    match ending {
        "md" | "markdown" => {
            let prefix =
                place.path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            Preview::Markdown(readme::render(text, place, &prefix, is_cut))
        }
        "csv" => Preview::Tables(vec![csv::table(text, ',', is_cut)]),
        "tsv" => Preview::Tables(vec![csv::table(text, '\t', is_cut)]),
        "json" if !is_cut => match json().and_then(|value| serde_json::to_string_pretty(&value).ok()) {
            Some(pretty) => Preview::Text { text: pretty, is_cut },
            None => Preview::Text { text: text.to_owned(), is_cut },
        },
        _ => Preview::Text { text: text.to_owned(), is_cut },
    }
}

/// Bytes as text, if they are that; a character that was cut off at the end is left out.
pub(super) fn as_text(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// The media type of a picture that browsers show, by its name.
pub(crate) fn image_type(name: &str) -> Option<&'static str> {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    Some(match ending.as_deref()? {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// The page of a long list that is asked for.
pub(super) fn page(visit: &Visit) -> usize {
    let page = usize::try_from(visit.query.number("p").unwrap_or(0));
    page.unwrap_or(usize::MAX).min(1 << 20)
}

/// Reads parts of a file.
struct Reader<'a> {
    visit: &'a Visit,
    place: &'a Place,
    item: &'a Item,
}

impl Reader<'_> {
    async fn read(&self, range: Range<u64>) -> Result<Bytes, PageError> {
        content::read(self.visit, &self.place.repo, self.item, range).await
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
const CELL_CHARS_MAX: usize = 120;
