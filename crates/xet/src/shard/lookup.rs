//! Lookup of a xorb or a run of chunks in a stored shard, without parsing the rest.
//!
//! With a table a search takes a logarithm of its entries; without one, the section is read from its start. A view
//! checks every offset it follows but believes the tables otherwise: a wrong table hides blocks or names ones that
//! do not exist. Untrusted input goes through [`Shard::parse_stored`](crate::shard::Shard::parse_stored) first.

use std::ops::Range;

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number};
use crate::hash::{ChunkHash, HashKey, XorbHash};
use crate::shard::ChunkEntry;
use crate::shard::footer::{ChunkTableEntry, Footer, TableEntry};
use crate::shard::row::{Header, ROW_LEN, Row, XorbHead};

/// Candidates compared for one first chunk. A chunk that is everywhere, such as one of zeros, would otherwise cost a search
/// over the whole shard; the price of the limit is a shorter run.
const CANDIDATES_MAX: usize = 1024;

/// A stored shard in memory, with its footer read.
#[derive(Debug, Clone)]
pub struct ShardView<B> {
    bytes: B,
    footer: Footer,
}

/// A run of chunks that is stored already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupMatch {
    /// The xorb that holds the run.
    pub xorb: XorbHash,
    /// Its chunks.
    pub chunks: Range<u32>,
    /// Their raw bytes together.
    pub raw_bytes: u64,
    /// How many of the queried chunks, from the first, the run covers.
    pub matched: usize,
}

impl<B: AsRef<[u8]>> ShardView<B> {
    /// Reads header and footer and checks that the footer's offsets fit together and the sections end in bookends.
    pub fn new(bytes: B) -> Result<Self, FormatError> {
        let header = Header::parse(&mut Reader::new(bytes.as_ref()))?;
        expect_number(40, "footer size", Header::STORED.footer_bytes, header.footer_bytes)?;
        let footer = Footer::parse_at_end(bytes.as_ref())?;
        let view = Self { bytes, footer };
        for end in [view.footer.xorb_section_offset, view.footer.file_table_offset] {
            let at = end - ROW_LEN as u64;
            if !view.row(at)?.is_bookend() {
                return Err(FormatError::Payload {
                    at,
                    reason: "a section should end in a bookend here".into(),
                });
            }
        }
        Ok(view)
    }

    /// All bytes of the shard.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The key of the chunk hashes.
    pub fn key(&self) -> &HashKey {
        &self.footer.key
    }

    /// Number of chunks of the xorb of this hash.
    pub fn chunk_count(&self, hash: &XorbHash) -> Result<Option<u32>, FormatError> {
        Ok(self.xorb_head(hash)?.map(|(_, head)| head.chunks))
    }

    /// How many of these chunks, given by their plain hashes, the xorb has from its chunk `start` on.
    pub fn follow(&self, xorb: &XorbHash, start: u32, chunks: &[ChunkHash]) -> Result<usize, FormatError> {
        let Some((at, head)) = self.xorb_head(xorb)? else { return Ok(0) };
        let (mut query, mut best) = (Query::new(chunks, self.footer.key), None);
        self.extend(&self.xorb_section(), at, head, start, &mut query, &mut best)?;
        Ok(best.map_or(0, |best| best.matched))
    }

    /// Head of the xorb of this hash, and its offset.
    fn xorb_head(&self, hash: &XorbHash) -> Result<Option<(u64, XorbHead)>, FormatError> {
        let section = self.xorb_section();
        let find = |at: u64| {
            let row = self.row_in(&section, at)?;
            Ok((row.hash == hash.0 && !row.is_bookend()).then(|| (at, XorbHead::from(row))))
        };
        if self.footer.xorb_table_entries == 0 {
            return self
                .xorb_heads()
                .find_map(|head| head.and_then(|(at, _)| find(at)).transpose())
                .transpose();
        }
        let (offset, entries) = (self.footer.xorb_table_offset, self.footer.xorb_table_entries);
        self.find_block(&section, offset, entries, hash.0.prefix(), find)
    }

    /// One location of this chunk, given by its plain hash: a xorb, and the chunk's number in it.
    pub fn chunk(&self, hash: &ChunkHash) -> Result<Option<(XorbHash, u32)>, FormatError> {
        let found = self.dedup(std::slice::from_ref(hash))?;
        Ok(found.map(|found| (found.xorb, found.chunks.start)))
    }

    /// The longest run in one xorb that holds these consecutive chunks, from the first on. The hashes are plain; the
    /// shard's key is applied here.
    pub fn dedup(&self, chunks: &[ChunkHash]) -> Result<Option<DedupMatch>, FormatError> {
        let mut query = Query::new(chunks, self.footer.key);
        let Some(first) = query.hash(0) else { return Ok(None) };
        let mut best = None;
        if self.footer.chunk_table_entries == 0 {
            self.dedup_by_scan(first, &mut query, &mut best)?;
        } else {
            self.dedup_by_table(first, &mut query, &mut best)?;
        }
        Ok(best)
    }

    fn dedup_by_table(
        &self,
        first: ChunkHash,
        query: &mut Query<'_>,
        best: &mut Option<DedupMatch>,
    ) -> Result<(), FormatError> {
        let section = self.xorb_section();
        let (offset, entries) = (self.footer.chunk_table_offset, self.footer.chunk_table_entries);
        let prefix = first.0.prefix();
        let start = self.lower_bound(offset, entries, ChunkTableEntry::LEN, prefix)?;
        for n in (start..entries).take(CANDIDATES_MAX) {
            let at = offset + n * ChunkTableEntry::LEN as u64;
            let entry = ChunkTableEntry::parse(&mut self.reader(at)?)?;
            if entry.prefix != prefix {
                break;
            }
            let at = block_at(&section, entry.row);
            let head = XorbHead::from(self.row_in(&section, at)?);
            if entry.chunk < head.chunks {
                self.extend(&section, at, head, entry.chunk, query, best)?;
            }
            if query.is_answered(best.as_ref()) {
                break;
            }
        }
        Ok(())
    }

    fn dedup_by_scan(
        &self,
        first: ChunkHash,
        query: &mut Query<'_>,
        best: &mut Option<DedupMatch>,
    ) -> Result<(), FormatError> {
        let section = self.xorb_section();
        let mut candidates = 0;
        for head in self.xorb_heads() {
            let (at, head) = head?;
            for chunk in 0..head.chunks {
                if self.row_in(&section, chunk_at(at, chunk))?.hash != first.0 {
                    continue;
                }
                self.extend(&section, at, head, chunk, query, best)?;
                candidates += 1;
                if query.is_answered(best.as_ref()) || candidates == CANDIDATES_MAX {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Follows the query along the xorb at `at` from `start` on; keeps the run when it is the longest yet.
    fn extend(
        &self,
        section: &Range<u64>,
        at: u64,
        head: XorbHead,
        start: u32,
        query: &mut Query<'_>,
        best: &mut Option<DedupMatch>,
    ) -> Result<(), FormatError> {
        let mut raw_bytes = 0;
        let mut matched = 0;
        for chunk in start..head.chunks {
            let Some(requested) = query.hash(matched) else { break };
            let entry = ChunkEntry::from(self.row_in(section, chunk_at(at, chunk))?);
            if entry.hash != requested {
                break;
            }
            raw_bytes += u64::from(entry.raw_bytes);
            matched += 1;
        }
        if matched > best.as_ref().map_or(0, |best| best.matched) {
            let end = start.saturating_add(u32::try_from(matched).unwrap_or(u32::MAX));
            *best = Some(DedupMatch { xorb: head.hash, chunks: start..end, raw_bytes, matched });
        }
        Ok(())
    }

    /// The first `find` that finds, among the blocks a table names under `prefix`.
    fn find_block<T>(
        &self,
        section: &Range<u64>,
        offset: u64,
        entries: u64,
        prefix: u64,
        find: impl Fn(u64) -> Result<Option<T>, FormatError>,
    ) -> Result<Option<T>, FormatError> {
        let start = self.lower_bound(offset, entries, TableEntry::LEN, prefix)?;
        for n in start..entries {
            let entry = TableEntry::parse(&mut self.reader(offset + n * TableEntry::LEN as u64)?)?;
            if entry.prefix != prefix {
                break;
            }
            if let Some(found) = find(block_at(section, entry.row))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first entry whose prefix is not below `prefix`.
    fn lower_bound(&self, offset: u64, entries: u64, len: usize, prefix: u64) -> Result<u64, FormatError> {
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.reader(offset + middle * len as u64)?.u64("table entry")?;
            if found < prefix {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Heads of all xorbs and their offsets, by walking from block to block until the bookend. Ends after an error.
    fn xorb_heads(&self) -> impl Iterator<Item = Result<(u64, XorbHead), FormatError>> + '_ {
        let section = self.xorb_section();
        let mut next = Some(section.start);
        std::iter::from_fn(move || {
            let at = next.take()?;
            match self.row_in(&section, at) {
                Err(error) => Some(Err(error)),
                Ok(row) if row.is_bookend() => None,
                Ok(row) => {
                    let head = XorbHead::from(row);
                    next = Some(at + (1 + u64::from(head.chunks)) * ROW_LEN as u64);
                    Some(Ok((at, head)))
                }
            }
        })
    }

    fn xorb_section(&self) -> Range<u64> {
        self.footer.xorb_section_offset..self.footer.file_table_offset
    }

    /// The row at `at`, which must lie in `section`.
    fn row_in(&self, section: &Range<u64>, at: u64) -> Result<Row, FormatError> {
        if section.contains(&at) {
            return self.row(at);
        }
        // A table may name a place far away; the error names the end it should lie before.
        let (at, left) = (at.min(section.end), 0);
        Err(FormatError::Truncated { at, what: "row in its section", needed: ROW_LEN as u64, left })
    }

    fn row(&self, at: u64) -> Result<Row, FormatError> {
        Ok(Row::parse(&self.reader(at)?.array("row")?))
    }

    fn reader(&self, at: u64) -> Result<Reader<'_>, FormatError> {
        match usize::try_from(at).ok().and_then(|at| self.bytes().get(at..)) {
            Some(bytes) => Ok(Reader::at(bytes, at)),
            None => Err(FormatError::Truncated { at, what: "row", needed: 1, left: 0 }),
        }
    }
}

/// The queried hashes, keyed when they are first needed: most queries end at the first.
struct Query<'a> {
    plain: &'a [ChunkHash],
    keyed: Vec<ChunkHash>,
    key: HashKey,
}

impl<'a> Query<'a> {
    fn new(plain: &'a [ChunkHash], key: HashKey) -> Self {
        Self { plain, keyed: Vec::new(), key }
    }

    /// The hash of the `n`-th queried chunk, as the shard stores it.
    fn hash(&mut self, n: usize) -> Option<ChunkHash> {
        while self.keyed.len() <= n {
            let plain = self.plain.get(self.keyed.len())?;
            self.keyed.push(plain.keyed(&self.key));
        }
        self.keyed.get(n).copied()
    }

    fn is_answered(&self, best: Option<&DedupMatch>) -> bool {
        best.is_some_and(|best| best.matched == self.plain.len())
    }
}

/// Offset of a section's row; far from overflow, as a row number has 32 bits.
fn block_at(section: &Range<u64>, row: u32) -> u64 {
    section.start + u64::from(row) * ROW_LEN as u64
}

fn chunk_at(xorb_at: u64, chunk: u32) -> u64 {
    xorb_at + (1 + u64::from(chunk)) * ROW_LEN as u64
}
