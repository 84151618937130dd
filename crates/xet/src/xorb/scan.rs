//! Verifies a xorb while it arrives: every chunk is decoded and hashed the moment it is complete.

use crate::cursor::Reader;
use crate::error::{FormatError, expect_number, expect_range};
use crate::hash::XorbHash;
use crate::limits;
use crate::merkle::MerkleBuilder;
use crate::xorb::footer::{self, Footer, IDENT};
use crate::xorb::read::{ChunkDecoder, DecodedChunk};
use crate::xorb::{ChunkHeader, ChunkPlace, Form, XorbInfo};

/// Takes the bytes of one xorb in pieces of any size. Holds at most one stored chunk or one footer of it.
#[derive(Debug)]
pub struct XorbScanner {
    expected: Option<XorbHash>,
    /// The start of a chunk or a footer whose rest has not arrived.
    pending: Vec<u8>,
    /// Offset in the xorb of the current chunk or footer.
    offset: u64,
    decoder: ChunkDecoder,
    merkle: MerkleBuilder,
    places: Vec<ChunkPlace>,
    ended: Option<FooterInfo>,
    /// The first error: later calls return it again.
    failed: Option<FormatError>,
}

/// A xorb whose bytes are what they claim to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedXorb {
    /// What it holds.
    pub info: XorbInfo,
    /// Form of the footer that followed its chunks.
    pub form: Form,
    /// The four bytes without meaning in its footer; zero where there is none.
    pub nonce: [u8; 4],
}

/// A footer was read and agreed with the stored chunks.
#[derive(Debug)]
struct FooterInfo {
    info: XorbInfo,
    form: Form,
    nonce: [u8; 4],
}

/// Verifies a whole xorb in memory. `need_footer` refuses the form that clients upload: what is stored has a footer.
pub fn verify(
    bytes: &[u8],
    expected: Option<XorbHash>,
    need_footer: bool,
) -> Result<ScannedXorb, FormatError> {
    let mut scanner = XorbScanner::new(expected);
    scanner.push(bytes)?;
    let scanned = scanner.finish()?;
    if need_footer {
        scanned.expect_footer()?;
    }
    Ok(scanned)
}

impl ScannedXorb {
    /// Refuses the form that clients upload: what is stored has a footer.
    pub fn expect_footer(&self) -> Result<(), FormatError> {
        if self.form != Form::Footerless {
            return Ok(());
        }
        let needed = Form::V1.footer_bytes(self.info.chunk_count());
        let at = self.info.stored_bytes();
        Err(FormatError::Truncated { at, what: "xorb footer", needed, left: 0 })
    }
}

impl XorbScanner {
    /// A scanner of the xorb named `expected`, or of whatever comes.
    pub fn new(expected: Option<XorbHash>) -> Self {
        Self {
            expected,
            pending: Vec::new(),
            offset: 0,
            decoder: ChunkDecoder::new(),
            merkle: MerkleBuilder::default(),
            places: Vec::new(),
            ended: None,
            failed: None,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), FormatError> {
        self.push_with(piece, &mut |_| ())
    }

    /// Takes the next bytes and shows each chunk that they complete.
    pub fn push_with(
        &mut self,
        piece: &[u8],
        each: &mut dyn FnMut(DecodedChunk<'_>),
    ) -> Result<(), FormatError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.advance(piece, each);
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Says that all bytes were pushed.
    pub fn finish(mut self) -> Result<ScannedXorb, FormatError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.pending.is_empty() {
            return Err(self.truncated());
        }
        let (info, form, nonce) = match self.ended.take() {
            Some(FooterInfo { info, form, nonce }) => (info, form, nonce),
            None => (self.seal()?, Form::Footerless, [0; 4]),
        };
        match self.expected {
            Some(expected) if expected != info.hash => {
                let (expected, found) = (expected.0, info.hash.0);
                Err(FormatError::Hash { at: 0, what: "xorb", expected, found })
            }
            _ => Ok(ScannedXorb { info, form, nonce }),
        }
    }

    fn advance(
        &mut self,
        mut piece: &[u8],
        each: &mut dyn FnMut(DecodedChunk<'_>),
    ) -> Result<(), FormatError> {
        while !piece.is_empty() {
            if self.ended.is_some() {
                let bytes = piece.len() as u64;
                return Err(FormatError::Trailing { at: self.offset, what: "xorb", bytes });
            }
            if self.pending.is_empty() {
                // What lies in the piece as a whole is decoded where it lies.
                let len = self.whole_len(piece)?;
                match len.and_then(|len| piece.split_at_checked(len)) {
                    Some((whole, rest)) => {
                        self.take_whole(whole, each)?;
                        piece = rest;
                    }
                    None => {
                        self.pending.extend(piece);
                        return Ok(());
                    }
                }
                continue;
            }

            let len = self.whole_len(&self.pending)?;
            let missing = len.unwrap_or(ChunkHeader::LEN).saturating_sub(self.pending.len());
            let (now, rest) = piece.split_at_checked(missing).unwrap_or((piece, &[]));
            self.pending.extend(now);
            piece = rest;
            // Again, now that there is more: a bad header is refused when its last byte arrives, not one later.
            if self.whole_len(&self.pending)? == Some(self.pending.len()) {
                let whole = std::mem::take(&mut self.pending);
                let result = self.take_whole(&whole, each);
                self.pending = whole;
                self.pending.clear();
                result?;
            }
        }
        Ok(())
    }

    /// How long the chunk or footer is that begins so; `None` if it takes more bytes to know. Refuses what no limit
    /// allows before waiting for it.
    fn whole_len(&self, start: &[u8]) -> Result<Option<usize>, FormatError> {
        let Some(head) = start.first_chunk::<{ ChunkHeader::LEN }>() else { return Ok(None) };
        if let [ident @ .., version] = head
            && ident == IDENT
        {
            let form = footer::form(self.offset + IDENT.len() as u64, *version)?;
            return Ok(usize::try_from(form.footer_bytes(self.chunk_count())).ok());
        }
        let header = ChunkHeader::parse(&mut Reader::at(head, self.offset))?;
        let chunks_max = u64::from(limits::XORB_CHUNKS_MAX);
        expect_range(self.offset, "chunks in a xorb", 1, chunks_max, self.places.len() as u64 + 1)?;
        let raw_bytes = u64::from(self.last().1) + u64::from(header.chunk_len);
        expect_range(self.offset + 5, "raw bytes of a xorb", 1, limits::XORB_BYTES_MAX, raw_bytes)?;
        Ok(Some(header.total_len()))
    }

    /// Verifies one whole stored chunk, or the whole footer.
    fn take_whole(
        &mut self,
        whole: &[u8],
        each: &mut dyn FnMut(DecodedChunk<'_>),
    ) -> Result<(), FormatError> {
        if whole.starts_with(IDENT) {
            self.ended = Some(self.take_footer(whole)?);
        } else {
            let (stored_start, raw_start) = self.last();
            let chunk = self.decoder.decode(&mut Reader::at(whole, self.offset))?;
            let (hash, header) = (chunk.hash, chunk.header);
            each(chunk);
            self.merkle.push(hash, u64::from(header.chunk_len));
            // 8192 chunks of the longest kind end before 2^32.
            let stored_end = stored_start + ChunkHeader::BYTES + header.stored_len;
            self.places.push(ChunkPlace { hash, stored_end, raw_end: raw_start + header.chunk_len });
        }
        self.offset += whole.len() as u64;
        Ok(())
    }

    fn take_footer(&mut self, whole: &[u8]) -> Result<FooterInfo, FormatError> {
        let info = self.seal()?;
        // The scanner waited for exactly the footer of this number of chunks: any other length is wrong.
        let found = Footer::tail_bytes(whole, self.offset)?;
        let length_at = self.offset + whole.len() as u64 - footer::LENGTH_BYTES;
        let block_bytes = whole.len() as u64 - footer::LENGTH_BYTES;
        expect_number(length_at, "footer length", block_bytes, found - footer::LENGTH_BYTES)?;

        let (footer, start) = Footer::parse_fields(whole, self.offset)?;
        footer.expect_same(start, &info)?;
        Ok(FooterInfo { info, form: footer.form, nonce: footer.nonce })
    }

    /// The xorb that the stored chunks make, now that all were read.
    fn seal(&mut self) -> Result<XorbInfo, FormatError> {
        let (chunks, max) = (u64::from(self.chunk_count()), u64::from(limits::XORB_CHUNKS_MAX));
        expect_range(self.offset, "chunks in a xorb", 1, max, chunks)?;
        let hash = std::mem::take(&mut self.merkle).finish();
        Ok(XorbInfo { hash, chunks: std::mem::take(&mut self.places) })
    }

    /// The error of a xorb that ends within what is pending.
    fn truncated(&self) -> FormatError {
        let left = self.pending.len() as u64;
        let is_footer = self.pending.iter().zip(IDENT).all(|(found, ident)| found == ident);
        let (what, shortest) = match is_footer {
            true => ("xorb footer", Form::V0.footer_bytes(self.chunk_count())),
            false if left < ChunkHeader::LEN as u64 => ("chunk header", ChunkHeader::LEN as u64),
            false => ("stored chunk", ChunkHeader::LEN as u64),
        };
        let known = self.whole_len(&self.pending).ok().flatten();
        let needed = known.map_or(shortest, |len| len as u64);
        FormatError::Truncated { at: self.offset, what, needed, left }
    }

    fn chunk_count(&self) -> u32 {
        u32::try_from(self.places.len()).expect("the limit of chunks was checked at every header")
    }

    /// End of the last chunk, stored and raw.
    fn last(&self) -> (u32, u32) {
        self.places.last().map_or((0, 0), |last| (last.stored_end, last.raw_end))
    }
}
