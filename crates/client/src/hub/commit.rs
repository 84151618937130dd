//! Commit request: one line of JSON for the header, and one for each change.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use xet::Sha256;

/// A commit that is being written.
#[derive(Debug, Default)]
pub struct Commit {
    /// Summary, one line.
    pub summary: String,
    /// Description, further lines.
    pub description: String,
    lines: Vec<Bytes>,
    bytes: usize,
}

impl Commit {
    /// A commit that says this, and changes nothing yet.
    pub fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }

    /// Puts a small file, as it is.
    pub(crate) fn put(&mut self, path: &str, content: &[u8]) {
        self.line(&Line::File { path, content: STANDARD.encode(content), encoding: "base64" });
    }

    /// Puts a file that the content store has.
    pub(crate) fn put_large(&mut self, path: &str, sha256: &Sha256, bytes: u64) {
        self.line(&Line::LfsFile { path, algo: "sha256", oid: sha256.to_string(), size: bytes });
    }

    /// Deletes a file.
    pub fn delete(&mut self, path: &str) {
        self.line(&Line::DeletedFile { path });
    }

    /// Deletes a folder with everything in it.
    pub fn delete_folder(&mut self, path: &str) {
        self.line(&Line::DeletedFolder { path });
    }

    /// How many changes it has.
    pub(crate) fn changes(&self) -> usize {
        self.lines.len()
    }

    /// How long its changes are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_lines(mut self) -> Vec<Bytes> {
        let (summary, description) =
            (std::mem::take(&mut self.summary), std::mem::take(&mut self.description));
        self.line(&Line::Header { summary: &summary, description: &description });
        self.lines.rotate_right(1);
        self.lines
    }

    fn line(&mut self, line: &Line<'_>) {
        let mut text = xet::wire::encode_json(line);
        text.push(b'\n');
        self.bytes += text.len();
        self.lines.push(text.into());
    }
}

#[derive(Serialize)]
#[serde(tag = "key", content = "value", rename_all = "camelCase")]
enum Line<'a> {
    Header { summary: &'a str, description: &'a str },
    File { path: &'a str, content: String, encoding: &'a str },
    LfsFile { path: &'a str, algo: &'a str, oid: String, size: u64 },
    DeletedFile { path: &'a str },
    DeletedFolder { path: &'a str },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_hubs_read_them() {
        let mut commit = Commit::new("what");
        commit.put("a.txt", b"hi");
        commit.put_large("b \"q\".bin", &Sha256::new([0xab; 32]), 7);
        commit.delete("c");
        commit.delete_folder("d/e");
        assert_eq!(commit.changes(), 4);
        assert!(commit.bytes() > 200);
        let text = String::from_utf8(commit.into_lines().concat()).unwrap();
        let expected = [
            r#"{"key":"header","value":{"summary":"what","description":""}}"#,
            r#"{"key":"file","value":{"path":"a.txt","content":"aGk=","encoding":"base64"}}"#,
            &format!(
                r#"{{"key":"lfsFile","value":{{"path":"b \"q\".bin","algo":"sha256","oid":"{}","size":7}}}}"#,
                "ab".repeat(32)
            ),
            r#"{"key":"deletedFile","value":{"path":"c"}}"#,
            r#"{"key":"deletedFolder","value":{"path":"d/e"}}"#,
            "",
        ];
        assert_eq!(text, expected.join("\n"));
    }
}
