//! Content types by extension.

/// The table, and what the user says otherwise.
#[derive(Debug, Clone, Default)]
pub struct ContentTypes {
    own: Vec<(String, String)>,
}

impl ContentTypes {
    /// The type of a file whose name says nothing.
    pub const UNKNOWN: &'static str = "application/octet-stream";

    /// `ext=type`, as given on the command line.
    pub fn new(own: &[(String, String)]) -> Self {
        let lower = |(extension, content_type): &(String, String)| {
            (extension.trim_start_matches('.').to_ascii_lowercase(), content_type.clone())
        };
        Self { own: own.iter().map(lower).collect() }
    }

    /// The type of a file of that name. The longest extension counts: `x.tar.gz` may have its own.
    pub fn of(&self, name: &str) -> &str {
        let base = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        // A name without a dot may be an extension itself: entries of WebDataset are called `jpg`.
        let suffixes = std::iter::once(base.as_str())
            .chain(base.match_indices('.').map(|(at, _)| base.get(at + 1..).unwrap_or_default()));
        for suffix in suffixes {
            if let Some((_, own)) = self.own.iter().find(|(extension, _)| extension == suffix) {
                return own;
            }
            if let Some((_, known)) = TABLE.iter().find(|(extension, _)| *extension == suffix) {
                return known;
            }
        }
        Self::UNKNOWN
    }
}

const TABLE: [(&str, &str); 56] = [
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("svg", "image/svg+xml"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("jxl", "image/jxl"),
    ("ppm", "image/x-portable-anymap"),
    ("pgm", "image/x-portable-anymap"),
    ("pbm", "image/x-portable-anymap"),
    ("exr", "image/x-exr"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("msgpack", "application/msgpack"),
    ("mp", "application/msgpack"),
    ("npy", "application/x-npy"),
    ("npz", "application/x-npz"),
    ("pt", "application/x-pytorch"),
    ("pth", "application/x-pytorch"),
    ("safetensors", "application/x-safetensors"),
    ("pkl", "application/x-pickle"),
    ("pickle", "application/x-pickle"),
    ("pyd", "application/x-pickle"),
    ("cbor", "application/cbor"),
    ("parquet", "application/vnd.apache.parquet"),
    ("arrow", "application/vnd.apache.arrow.file"),
    ("txt", "text/plain"),
    ("text", "text/plain"),
    ("cls", "text/plain"),
    ("caption", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("zst", "application/zstd"),
    ("bin", "application/octet-stream"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_from_extensions_and_can_be_overruled() {
        let own =
            ContentTypes::new(&[("seg.png".into(), "image/x-mask".into()), (".LAS".into(), "x/las".into())]);
        let cases = [
            ("left.JPG", "image/jpeg"),
            ("jpg", "image/jpeg"),
            ("a/b.x/seg.png", "image/x-mask"),
            ("x.seg.png", "image/x-mask"),
            ("y.png", "image/png"),
            ("cloud.las", "x/las"),
            ("README", "application/octet-stream"),
            ("what.ever", "application/octet-stream"),
        ];
        for (name, expected) in cases {
            assert_eq!(own.of(name), expected, "{name}");
        }
    }
}
