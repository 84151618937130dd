//! Reads little-endian fields from a byte slice and tracks its position.

use crate::error::FormatError;

/// A position in borrowed bytes. Every read either advances or says what was missing where.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    base: u64,
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// Reads `bytes`, whose first byte is `base` of something larger: errors name offsets in that.
    pub fn at(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, base, position: 0 }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `len` bytes; `what` names them in the error.
    pub fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], FormatError> {
        let end = self.position.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.position..end)) {
            Some(taken) => {
                self.position += len;
                Ok(taken)
            }
            None => Err(FormatError::Truncated {
                at: self.offset(),
                what,
                needed: len as u64,
                left: self.left() as u64,
            }),
        }
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        let taken = self.take(what, N)?;
        Ok(taken.try_into().expect("take returned N bytes"))
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Fails unless everything was read; `what` names what ended here.
    pub fn finish(self, what: &'static str) -> Result<(), FormatError> {
        if self.left() == 0 {
            return Ok(());
        }
        Err(FormatError::Trailing { at: self.offset(), what, bytes: self.left() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_and_in_order() {
        let mut r = Reader::at(&[1, 2, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9], 100);
        assert_eq!(r.u8("a").unwrap(), 1);
        assert_eq!(r.array::<3>("b").unwrap(), [2, 0, 0]);
        assert_eq!(r.u32("c").unwrap(), 3);
        assert_eq!(r.u64("d").unwrap(), 4);
        assert_eq!(r.offset(), 116);
        assert_eq!(
            r.clone().u32("e").unwrap_err(),
            FormatError::Truncated { at: 116, what: "e", needed: 4, left: 1 }
        );
        assert_eq!(r.finish("f").unwrap_err(), FormatError::Trailing { at: 116, what: "f", bytes: 1 });
    }

    #[test]
    fn a_length_near_the_end_of_numbers_is_refused_not_wrapped() {
        let mut r = Reader::new(&[0; 4]);
        r.u8("first").unwrap();
        assert!(matches!(r.take("all", usize::MAX), Err(FormatError::Truncated { at: 1, .. })));
    }
}
