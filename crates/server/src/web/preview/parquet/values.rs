//! Values of a page one by one, each as the bytes it has in the plain encoding.

use super::footer::{Column, Physical};

/// The values of a page.
pub(super) enum Values<'a> {
    /// One behind the other, of this width.
    Plain(Width, &'a [u8]),
    /// A bit each, and how many were taken.
    Bits(&'a [u8], usize),
    /// Truth values in runs.
    Truths(Runs<'a>),
    /// Places in the dictionary.
    Places(Runs<'a>, &'a Dictionary),
}

/// How long values are.
#[derive(Clone, Copy)]
pub(super) enum Width {
    Fixed(usize),
    /// Each says it in four bytes before.
    Own,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        column: &Column,
        encoding: i64,
        bytes: &'a [u8],
        dictionary: Option<&'a Dictionary>,
    ) -> Result<Self, String> {
        let name = match encoding {
            0 if column.physical == Physical::Boolean => return Ok(Self::Bits(bytes, 0)),
            0 => return Ok(Self::Plain(width(column).ok_or("an unknown type")?, bytes)),
            3 if column.physical == Physical::Boolean => {
                // Behind their length, which the page knows as well. A page of nulls has neither.
                return Ok(Self::Truths(Runs::new(bytes.get(4..).unwrap_or_default(), 1)));
            }
            2 | 8 => {
                let dictionary = dictionary.ok_or("damaged")?;
                let (bits, runs) = bytes.split_first().unwrap_or((&0, &[]));
                if *bits > 32 {
                    return Err("damaged".to_owned());
                }
                return Ok(Self::Places(Runs::new(runs, u32::from(*bits)), dictionary));
            }
            5 => "DELTA_BINARY_PACKED",
            6 => "DELTA_LENGTH_BYTE_ARRAY",
            7 => "DELTA_BYTE_ARRAY",
            9 => "BYTE_STREAM_SPLIT",
            _ => return Err(format!("encoding {encoding}")),
        };
        Err(format!("encoding {name}"))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::Plain(width, rest) => {
                let (value, left) = width.split(rest)?;
                *rest = left;
                Some(value)
            }
            Self::Bits(bytes, taken) => {
                let byte = bytes.get(*taken / 8)?;
                let bit = byte >> (*taken % 8) & 1;
                *taken += 1;
                Some(truth(bit == 1))
            }
            Self::Truths(runs) => Some(truth(runs.next()? == 1)),
            Self::Places(runs, dictionary) => dictionary.value(runs.next()?),
        }
    }
}

fn truth(is_true: bool) -> &'static [u8] {
    if is_true { &[1] } else { &[0] }
}

fn width(column: &Column) -> Option<Width> {
    Some(match column.physical {
        Physical::Int32 | Physical::Float => Width::Fixed(4),
        Physical::Int64 | Physical::Double => Width::Fixed(8),
        Physical::Int96 => Width::Fixed(12),
        Physical::Bytes => Width::Own,
        Physical::Fixed => Width::Fixed(column.fixed_bytes),
        Physical::Boolean | Physical::Unknown => return None,
    })
}

impl Width {
    /// The first value, and what is behind it.
    fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Fixed(len) => bytes.split_at_checked(len),
            Self::Own => {
                let (len, rest) = bytes.split_first_chunk()?;
                rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
            }
        }
    }
}

/// The values that a column's pages refer to.
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    width: Option<Width>,
    /// Where each value begins that says its own length.
    starts: Vec<u32>,
}

impl Dictionary {
    pub(super) fn new(column: &Column, bytes: Vec<u8>) -> Self {
        let width = width(column);
        let mut starts = Vec::new();
        if let Some(Width::Own) = width {
            let mut rest = bytes.as_slice();
            while let Some((_, left)) = Width::Own.split(rest) {
                starts.push(u32::try_from(bytes.len() - rest.len()).unwrap_or(u32::MAX));
                rest = left;
            }
        }
        Self { bytes, width, starts }
    }

    fn value(&self, place: u32) -> Option<&[u8]> {
        let place = usize::try_from(place).ok()?;
        let width = self.width?;
        let start = match width {
            Width::Fixed(len) => place.checked_mul(len)?,
            Width::Own => usize::try_from(*self.starts.get(place)?).ok()?,
        };
        Some(width.split(self.bytes.get(start..)?)?.0)
    }
}

/// Numbers of a few bits, as runs of one number and packs of eight in turn.
pub(super) struct Runs<'a> {
    bytes: &'a [u8],
    bits: u32,
    now: Run<'a>,
}

enum Run<'a> {
    /// How often it repeats.
    Same(u64, u32),
    /// Numbers side by side, from this bit on.
    Packed(&'a [u8], usize),
}

impl<'a> Runs<'a> {
    /// Numbers of at most 32 bits.
    pub(super) fn new(bytes: &'a [u8], bits: u32) -> Self {
        Self { bytes, bits: bits.min(32), now: Run::Same(0, 0) }
    }

    fn begin(&mut self) -> Option<Run<'a>> {
        let mut head = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?.first()?;
            head |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        let count = head >> 1;
        Some(match head & 1 {
            0 => {
                let mut wide = [0; 4];
                let len = self.bits.div_ceil(8) as usize;
                wide.get_mut(..len)?.copy_from_slice(self.take(len)?);
                Run::Same(count, u32::from_le_bytes(wide))
            }
            _ => {
                // The last pack may be cut off where values end.
                let len = count.saturating_mul(u64::from(self.bits));
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.bytes.len());
                Run::Packed(self.take(len)?, 0)
            }
        })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }
}

impl Iterator for Runs<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        // A dictionary of one value needs no bits, and then there may be no runs at all.
        if self.bits == 0 {
            return Some(0);
        }
        loop {
            match &mut self.now {
                Run::Same(left, number) if *left > 0 => {
                    *left -= 1;
                    return Some(*number);
                }
                Run::Packed(bytes, at) if *at + self.bits as usize <= bytes.len() * 8 => {
                    let mut number = 0_u64;
                    let first = *at / 8;
                    for (n, byte) in bytes.iter().skip(first).take(5).enumerate() {
                        number |= u64::from(*byte) << (8 * n);
                    }
                    number = number >> (*at % 8) & ((1 << self.bits) - 1);
                    *at += self.bits as usize;
                    return u32::try_from(number).ok();
                }
                // Each run takes a byte at least, so this ends.
                _ => self.now = self.begin()?,
            }
        }
    }
}
