//! Reads little-endian fields from the bytes of a pack, and tracks its position and whether gaps were zero.

use crate::error::FormatError;

/// A position in borrowed bytes. Every read either advances or says what was missing where.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    base: u64,
    position: usize,
    dirty_padding: Option<u64>,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, whose first byte stands at `base` in the pack: errors name offsets in that.
    #[inline]
    pub fn at(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, base, position: 0, dirty_padding: None }
    }

    /// Offset of the next byte in the pack.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Bytes not yet read.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next `len` bytes; `what` names them in the error.
    #[inline]
    pub(crate) fn take(&mut self, what: &'static str, len: u64) -> Result<&'a [u8], FormatError> {
        let end = usize::try_from(len).ok().and_then(|len| self.position.checked_add(len));
        let taken = end.and_then(|end| Some((end, self.bytes.get(self.position..end)?)));
        let Some((end, taken)) = taken else { return Err(self.truncated(what, len)) };
        self.position = end;
        Ok(taken)
    }

    #[cold]
    fn truncated(&self, what: &'static str, needed: u64) -> FormatError {
        FormatError::Truncated { at: self.offset(), what, needed, left: self.left() }
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        let taken = self.take(what, N as u64)?;
        Ok(taken.try_into().expect("take returned N bytes"))
    }

    /// One byte.
    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    /// Two bytes, little-endian.
    #[inline]
    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Four bytes, little-endian.
    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Eight bytes, little-endian.
    #[inline]
    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Steps over `len` bytes that should be zero. If one is not, that is tracked and no error: no CRC covers
    /// padding and nothing depends on it.
    #[inline]
    pub(crate) fn skip_padding(&mut self, what: &'static str, len: u64) -> Result<(), FormatError> {
        let at = self.offset();
        let padding = self.take(what, len)?;
        // Most is shorter than 8 bytes, and after more than that: the 8 bytes that end with it are compared together.
        let before = self.bytes.get(..self.position).and_then(|read| read.last_chunk::<8>());
        let is_clean = match before {
            Some(word) if padding.len() <= 8 => {
                let others = 8 * (8 - padding.len());
                u64::from_le_bytes(*word).checked_shr(u32::try_from(others).unwrap_or(64)).unwrap_or(0) == 0
            }
            _ => padding.iter().all(|&byte| byte == 0),
        };
        if !is_clean {
            let dirty = padding.iter().position(|&byte| byte != 0);
            self.note_dirty_padding(dirty.map(|index| at + index as u64));
        }
        Ok(())
    }

    /// Steps over padding to the next multiple of 8 in the pack.
    #[inline]
    pub(crate) fn skip_to_8(&mut self, what: &'static str) -> Result<(), FormatError> {
        self.skip_padding(what, self.offset().wrapping_neg() % 8)
    }

    /// Offset of the first padding byte that was not zero.
    #[inline]
    pub(crate) fn dirty_padding(&self) -> Option<u64> {
        self.dirty_padding
    }

    /// Takes over what another reader of the same pack found.
    #[inline]
    pub(crate) fn note_dirty_padding(&mut self, at: Option<u64>) {
        self.dirty_padding = self.dirty_padding.or(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_and_in_order() {
        let mut r = Reader::at(&[1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9], 96);
        assert_eq!(r.u8("a").unwrap(), 1);
        assert_eq!(r.u16("b").unwrap(), 2);
        assert_eq!(r.u32("c").unwrap(), 3);
        assert_eq!(r.u64("d").unwrap(), 4);
        assert_eq!((r.offset(), r.left()), (111, 1));
        assert_eq!(
            r.u32("e").unwrap_err(),
            FormatError::Truncated { at: 111, what: "e", needed: 4, left: 1 }
        );
    }

    #[test]
    fn a_length_near_the_end_of_numbers_is_refused_not_wrapped() {
        let mut r = Reader::at(&[0; 4], 0);
        r.u8("first").unwrap();
        assert!(matches!(r.take("all", u64::MAX), Err(FormatError::Truncated { at: 1, .. })));
    }

    #[test]
    fn the_first_padding_byte_that_is_not_zero_is_remembered() {
        let mut r = Reader::at(&[0, 0, 7, 8, 0, 0, 0, 0, 9], 8);
        r.skip_to_8("nothing").unwrap();
        assert_eq!(r.offset(), 8);
        r.u8("byte").unwrap();
        r.skip_to_8("padding").unwrap();
        assert_eq!((r.offset(), r.dirty_padding()), (16, Some(10)));
        r.skip_padding("more", 1).unwrap();
        assert_eq!(r.dirty_padding(), Some(10));
    }
}
