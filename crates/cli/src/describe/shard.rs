//! The structure of a shard: every field there is. `shard build --from` reads the same JSON back.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xet::shard::row::{FILE_WITH_METADATA, FILE_WITH_VERIFICATION};
use xet::shard::{
    ChunkEntry, FileEntry, Footer, Form, LookupTables, Shard, ShardBuilder, StoredOptions, TableEntry,
    Tables, Term, XorbEntry,
};
use xet::{FileHash, FormatError, Hash, HashKey, RangeHash, Sha256, XorbHash};

use super::{grouped, hex};
use crate::output::CliError;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShardDescription {
    pub(crate) kind: Kind,
    pub(crate) header: HeaderDescription,
    pub(crate) files: Vec<FileDescription>,
    pub(crate) xorbs: Vec<XorbEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tables: Option<TablesDescription>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) footer: Option<Value>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Shard,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeaderDescription {
    pub(crate) version: u64,
    /// Size that the header states; uploads may have no footer.
    pub(crate) footer_size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileDescription {
    pub(crate) hash: FileHash,
    /// Bit 31: range hashes follow the terms; bit 30: a SHA-256 does. Counts for a file without terms, else the fields say it.
    #[serde(default)]
    pub(crate) flags: Option<u32>,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<Sha256>,
    pub(crate) terms: Vec<TermDescription>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TermDescription {
    pub(crate) xorb: XorbHash,
    #[serde(default)]
    pub(crate) flags: u32,
    /// First chunk, and the one after the last.
    pub(crate) chunks: [u32; 2],
    pub(crate) raw_bytes: u32,
    /// The range hash of the verification entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verification: Option<RangeHash>,
}

/// Entries name the truncated hash (16 digits) and the record in its section, for chunks also the chunk in its xorb.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TablesDescription {
    pub(crate) files: Vec<(String, u32)>,
    pub(crate) xorbs: Vec<(String, u32)>,
    pub(crate) chunks: Vec<(String, u32, u32)>,
}

/// Fields of a footer that `shard build --from` reads.
#[derive(Debug, Deserialize)]
struct FooterInput {
    chunk_hash_key: String,
    created: u64,
    expires: u64,
}

impl ShardDescription {
    pub(crate) fn of(shard: Shard) -> Self {
        let footer_size = shard.header.footer_bytes;
        Self {
            kind: Kind::Shard,
            header: HeaderDescription { version: 2, footer_size },
            files: shard.files.iter().map(FileDescription::of).collect(),
            xorbs: shard.xorbs,
            tables: shard.tables.as_ref().map(TablesDescription::of),
            footer: shard.footer.as_ref().map(footer_json),
        }
    }

    /// Converts to a builder, and the form that was described.
    pub(crate) fn into_builder(self) -> Result<(ShardBuilder, Form), CliError> {
        let form = self.form()?;
        let mut builder = ShardBuilder::default();
        for file in self.files {
            builder.push_file(file.into_entry());
        }
        for xorb in self.xorbs {
            builder.push_xorb(xorb);
        }
        Ok((builder, form))
    }

    fn form(&self) -> Result<Form, CliError> {
        let Some(footer) = &self.footer else { return Ok(Form::Upload) };
        let tables = self.tables.as_ref().map_or(LookupTables::NONE, |tables| LookupTables {
            files: !tables.files.is_empty(),
            xorbs: !tables.xorbs.is_empty(),
            chunks: !tables.chunks.is_empty(),
        });
        let footer: FooterInput = serde_json::from_value(footer.clone()).map_err(CliError::message)?;
        let key = parse_key(&footer.chunk_hash_key).map_err(CliError::message)?;
        Ok(Form::Stored(StoredOptions { tables, key, created_s: footer.created, expires_s: footer.expires }))
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let form = match &self.footer {
            None => "upload form, no footer",
            Some(_) if self.tables.is_none() => "stored form, no tables",
            Some(_) => "stored form, with tables",
        };
        writeln!(out, "shard   version {}, {form}", self.header.version)?;
        if let Some(footer) = &self.footer {
            print_footer(footer, out)?;
        }
        writeln!(out, "files   {}", self.files.len())?;
        for file in &self.files {
            writeln!(out, "\nfile    {}  {} bytes", file.hash, grouped(file.size))?;
            if let Some(sha256) = file.sha256 {
                writeln!(out, "sha256  {sha256}")?;
            }
            for term in &file.terms {
                let [start, end] = term.chunks;
                write!(
                    out,
                    "  term  {} [{start}, {end})  {} bytes",
                    term.xorb,
                    grouped(term.raw_bytes.into())
                )?;
                match term.verification {
                    Some(hash) => writeln!(out, "  verified by {hash}")?,
                    None => writeln!(out)?,
                }
            }
        }
        writeln!(out, "\nxorbs   {}", self.xorbs.len())?;
        for xorb in &self.xorbs {
            let (raw, stored) = (grouped(xorb.raw_bytes.into()), grouped(xorb.stored_bytes.into()));
            writeln!(
                out,
                "\nxorb    {}  {} chunks, {raw} raw, {stored} stored",
                xorb.hash,
                xorb.chunks.len()
            )?;
            for (i, chunk) in xorb.chunks.iter().enumerate() {
                let ChunkEntry { hash, raw_start, raw_bytes, flags } = chunk;
                write!(out, "{i:>7} {raw_start:>9} {raw_bytes:>7}  {hash}")?;
                writeln!(out, "{}", if flags >> 31 == 1 { "  dedup" } else { "" })?;
            }
        }
        if let Some(tables) = &self.tables {
            let TablesDescription { files, xorbs, chunks } = tables;
            writeln!(out, "\ntables  {} files, {} xorbs, {} chunks", files.len(), xorbs.len(), chunks.len())?;
        }
        Ok(())
    }
}

impl FileDescription {
    fn of(file: &FileEntry) -> Self {
        let term = |(i, term): (usize, &Term)| TermDescription {
            xorb: term.xorb,
            flags: term.flags,
            chunks: [term.chunks.start, term.chunks.end],
            raw_bytes: term.raw_bytes,
            verification: file.verification.as_ref().and_then(|hashes| hashes.get(i).copied()),
        };
        let terms = file.terms.iter().enumerate().map(term).collect();
        let mut flags = 0;
        if file.verification.is_some() {
            flags |= FILE_WITH_VERIFICATION;
        }
        if file.sha256.is_some() {
            flags |= FILE_WITH_METADATA;
        }
        Self { hash: file.hash, flags: Some(flags), size: file.raw_bytes(), sha256: file.sha256, terms }
    }

    fn into_entry(self) -> FileEntry {
        // A file without terms carries verification in name only, and all files of a shard must agree on it.
        let is_verified =
            !self.terms.is_empty() || self.flags.is_none_or(|flags| flags & FILE_WITH_VERIFICATION != 0);
        let verification =
            is_verified.then(|| self.terms.iter().map(|term| term.verification).collect()).flatten();
        let term = |term: TermDescription| {
            let [start, end] = term.chunks;
            Term { xorb: term.xorb, flags: term.flags, raw_bytes: term.raw_bytes, chunks: start..end }
        };
        let terms = self.terms.into_iter().map(term).collect();
        FileEntry { hash: self.hash, terms, verification, sha256: self.sha256 }
    }
}

impl TablesDescription {
    fn of(tables: &Tables) -> Self {
        let prefix = |prefix: u64| format!("{prefix:016x}");
        let entry = |entry: &TableEntry| (prefix(entry.prefix), entry.row);
        Self {
            files: tables.files.iter().map(entry).collect(),
            xorbs: tables.xorbs.iter().map(entry).collect(),
            chunks: tables
                .chunks
                .iter()
                .map(|entry| (prefix(entry.prefix), entry.row, entry.chunk))
                .collect(),
        }
    }
}

fn footer_json(footer: &Footer) -> Value {
    json!({
        "version": Footer::VERSION,
        "file_section_offset": footer.file_section_offset, "xorb_section_offset": footer.xorb_section_offset,
        "file_table_offset": footer.file_table_offset, "file_table_entries": footer.file_table_entries,
        "xorb_table_offset": footer.xorb_table_offset, "xorb_table_entries": footer.xorb_table_entries,
        "chunk_table_offset": footer.chunk_table_offset, "chunk_table_entries": footer.chunk_table_entries,
        // Plain hexadecimal of the 32 bytes.
        "chunk_hash_key": hex(footer.key.as_bytes()),
        "created": footer.created_s, "expires": footer.expires_s,
        "xorbs_stored_bytes": footer.xorbs_stored_bytes, "files_raw_bytes": footer.files_raw_bytes,
        "xorbs_raw_bytes": footer.xorbs_raw_bytes, "footer_offset": footer.footer_offset,
    })
}

fn print_footer(footer: &Value, out: &mut impl Write) -> io::Result<()> {
    let number = |name: &str| footer[name].as_u64().unwrap_or_default();
    let expires = match number("expires") {
        u64::MAX => "never".to_owned(),
        expires => expires.to_string(),
    };
    writeln!(out, "created {}, expires {expires} (Unix seconds)", number("created"))?;
    let key = footer["chunk_hash_key"].as_str().unwrap_or_default();
    if key.bytes().any(|digit| digit != b'0') {
        writeln!(out, "key     {key} (chunk hashes are keyed)")?;
    }
    let [files, raw, stored] =
        ["files_raw_bytes", "xorbs_raw_bytes", "xorbs_stored_bytes"].map(|name| grouped(number(name)));
    writeln!(out, "totals  files {files}, xorbs {raw} raw, {stored} stored")?;
    let sections = ["file_section_offset", "xorb_section_offset"].map(number);
    let tables = ["file_table_offset", "xorb_table_offset", "chunk_table_offset"].map(number);
    let ([files, xorbs], [by_file, by_xorb, by_chunk]) = (sections, tables);
    let end = number("footer_offset");
    writeln!(out, "offsets files {files}, xorbs {xorbs}, tables {by_file} {by_xorb} {by_chunk}, footer {end}")
}

/// A key is written as the plain hexadecimal of its bytes.
pub(crate) fn parse_key(text: &str) -> Result<HashKey, FormatError> {
    // A SHA-256 is printed plainly too, so its parser reads what we need.
    let plain: Sha256 = text.parse()?;
    Ok(HashKey::new(*Hash::new(*plain.as_bytes()).as_bytes()))
}
