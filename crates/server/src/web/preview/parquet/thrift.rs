//! Thrift's compact protocol: reads the requested fields and skips the rest, and sizes nothing by a number it reads.

/// What is left to read.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(len).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Text, cut to what a page displays.
    pub(super) fn text(&mut self) -> Option<String> {
        let len = self.varint()?;
        let bytes = self.take(len)?;
        let text = bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes);
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// The next field's number and kind; nothing at the end of a structure.
    #[allow(
        clippy::option_option,
        reason = "the end of the structure and the end of the bytes are two things"
    )]
    pub(super) fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let (delta, kind) = (i64::from(head >> 4), head & 0x0f);
        *last = if delta == 0 { self.zigzag()? } else { last.checked_add(delta)? };
        Some(Some((*last, kind)))
    }

    /// How many elements a list has, of which kind. Each is a byte at least, so there are no more than bytes.
    pub(super) fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        (count <= self.bytes.len() as u64).then_some((count, head & 0x0f))
    }

    /// The only field that is set in a union whose members are empty.
    pub(super) fn union(&mut self) -> Option<i64> {
        let (mut last, mut set) = (0, 0);
        while let Some((id, kind)) = self.field(&mut last)? {
            set = id;
            self.skip(kind, 0)?;
        }
        Some(set)
    }

    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => drop(self.take(8)?),
            BINARY => {
                let len = self.varint()?;
                self.take(len)?;
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    // In a list a truth value takes a byte.
                    self.skip(if kind <= FALSE { BYTE } else { kind }, depth + 1)?;
                }
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            // Maps are nowhere in a footer or a page.
            _ => return None,
        }
        Some(())
    }
}

pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const BYTE: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
pub(super) const STRUCT: u8 = 12;
/// Structures in structures.
pub(super) const DEPTH_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 400;
