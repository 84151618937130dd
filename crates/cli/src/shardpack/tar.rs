//! Tar archives, as far as datasets use them: ustar, long names of GNU and pax, plain files.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use shardpack::sink::{Destination, OutputFile, remove_leftovers};

use crate::cmd::report_leftovers;
use crate::output::Failure;

/// A file of an archive.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// Reads members one after another.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
    member_bytes_max: u64,
}

impl<R: Read> Reader<R> {
    /// Reads an archive. A file of more than `member_bytes_max` bytes is refused.
    pub(crate) fn new(input: R, member_bytes_max: u64) -> Self {
        Self { input, member_bytes_max }
    }

    /// The next plain file; none at the end.
    pub(crate) fn next_member(&mut self) -> io::Result<Option<Member>> {
        let (mut long_name, mut long_size) = (None, None);
        loop {
            let mut header = [0; BLOCK];
            if !self.read_block(&mut header)? || header.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            check_sum(&header)?;
            let size = number(field(&header, 124, 12))?;
            match header[156] {
                b'0' | 0 | b'7' => {
                    let name = long_name.take().map_or_else(|| name_of(&header), Ok)?;
                    let size = long_size.take().unwrap_or(size);
                    let data = self.read_data(size)?;
                    // An old way to say folder.
                    if name.ends_with('/') {
                        continue;
                    }
                    return Ok(Some(Member { name, data }));
                }
                b'L' => long_name = Some(text(&self.read_data(size)?)?),
                b'x' => {
                    let records = self.read_data(size)?;
                    for (key, value) in pax(&records)? {
                        match key.as_str() {
                            "path" => long_name = Some(value),
                            "size" => {
                                let size = value.parse().map_err(|_| bad("a pax size that is no number"))?;
                                long_size = Some(size);
                            }
                            _ => {}
                        }
                    }
                }
                // Folders, links, devices, global headers: nothing that a dataset holds.
                _ => {
                    self.skip_data(long_size.take().unwrap_or(size))?;
                    long_name = None;
                }
            }
        }
    }

    /// False at a clean end.
    fn read_block(&mut self, block: &mut [u8; BLOCK]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn read_data(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > self.member_bytes_max {
            let max = self.member_bytes_max;
            return Err(io::Error::other(format!("a file of {size} bytes, more than the {max} allowed")));
        }
        // Grows with what is there, not with what the header claims.
        let mut data = Vec::new();
        self.input.by_ref().take(size).read_to_end(&mut data)?;
        if (data.len() as u64) < size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.skip(padding(size))?;
        Ok(data)
    }

    fn skip_data(&mut self, size: u64) -> io::Result<()> {
        self.skip(size.checked_add(padding(size)).ok_or_else(|| bad("an impossible size"))?)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        if skipped < bytes { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(()) }
    }
}

/// Writes members one after another. The same members give the same bytes.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output }
    }

    pub(crate) fn append(&mut self, name: &str, data: &[u8]) -> io::Result<()> {
        let size = data.len() as u64;
        if name.len() > 100 || size >= 1 << 33 {
            let mut records = pax_record("path", name);
            records.push_str(&pax_record("size", &size.to_string()));
            self.put(b'x', "PaxHeader", records.len() as u64)?;
            self.put_data(records.as_bytes())?;
        }
        let mut end = name.len().min(100);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        self.put(b'0', &name[..end], if size >= 1 << 33 { 0 } else { size })?;
        self.put_data(data)
    }

    /// Two empty blocks end an archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.output.write_all(&[0; 2 * BLOCK])?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn put(&mut self, kind: u8, name: &str, size: u64) -> io::Result<()> {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.output.write_all(&header)
    }

    fn put_data(&mut self, data: &[u8]) -> io::Result<()> {
        self.output.write_all(data)?;
        self.output.write_all(&[0; BLOCK][..data.len().next_multiple_of(BLOCK) - data.len()])
    }
}

/// An archive being written to where the user wants it.
pub(crate) struct Archive {
    path: PathBuf,
    tar: Writer<io::BufWriter<OutputFile>>,
}

impl Archive {
    pub(crate) fn create(path: PathBuf) -> Result<Self, Failure> {
        report_leftovers(&remove_leftovers(&path, |_| false));
        let file = OutputFile::create(&path).map_err(|error| Failure::io(&path, error))?;
        Ok(Self { path, tar: Writer::new(io::BufWriter::with_capacity(1 << 20, file)) })
    }

    pub(crate) fn append(&mut self, name: &str, data: &[u8]) -> Result<(), Failure> {
        self.tar.append(name, data).map_err(|error| Self::failed(&self.path, error))
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { path, tar } = self;
        let finished = tar.finish().and_then(|out| out.into_inner().map_err(io::Error::from)?.finish(true));
        finished.map_err(|error| Self::failed(&path, error))
    }

    /// The reader of a pipe may have closed it.
    fn failed(path: &Path, error: io::Error) -> Failure {
        match Destination::resolve(path) {
            Ok(Destination::Stdout) => Failure::Output(error),
            _ => Failure::io(path, error),
        }
    }
}

const BLOCK: usize = 512;

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a tar archive: {what}"))
}

fn field(header: &[u8; BLOCK], at: usize, len: usize) -> &[u8] {
    &header[at..at + len]
}

fn text(bytes: &[u8]) -> io::Result<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).map_err(|_| bad("a name that is not UTF-8"))
}

fn name_of(header: &[u8; BLOCK]) -> io::Result<String> {
    let name = text(field(header, 0, 100))?;
    let prefix =
        if field(header, 257, 5) == b"ustar" { text(field(header, 345, 155))? } else { String::new() };
    Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

/// Octal digits, or a binary number after a set high bit.
fn number(bytes: &[u8]) -> io::Result<u64> {
    if let Some((first, rest)) = bytes.split_first()
        && first & 0x80 != 0
    {
        let mut value = u64::from(first & 0x7f);
        for &byte in rest {
            value = value.checked_mul(256).ok_or_else(|| bad("an impossible size"))? | u64::from(byte);
        }
        return Ok(value);
    }
    let digits = text(bytes)?;
    let digits = digits.trim();
    if digits.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(digits, 8).map_err(|_| bad("a size that is no number"))
}

fn check_sum(header: &[u8; BLOCK]) -> io::Result<()> {
    let stated = number(field(header, 148, 8))?;
    let spaced =
        header.iter().enumerate().map(|(at, &byte)| if (148..156).contains(&at) { b' ' } else { byte });
    let found: u64 = spaced.map(u64::from).sum();
    if stated == found { Ok(()) } else { Err(bad("a header whose check sum is wrong")) }
}

/// `LENGTH KEY=VALUE\n`, the length counting itself.
fn pax(mut records: &[u8]) -> io::Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    while !records.is_empty() {
        let space = records.iter().position(|&byte| byte == b' ').ok_or_else(|| bad("a pax header"))?;
        let len: usize = text(&records[..space])?.parse().map_err(|_| bad("a pax header"))?;
        let record = records.get(space + 1..len.saturating_sub(1)).ok_or_else(|| bad("a pax header"))?;
        let record = text(record)?;
        let (key, value) = record.split_once('=').ok_or_else(|| bad("a pax header"))?;
        out.push((key.to_owned(), value.to_owned()));
        records = records.get(len..).unwrap_or_default();
    }
    Ok(out)
}

fn pax_record(key: &str, value: &str) -> String {
    let bare = key.len() + value.len() + 3;
    let mut len = bare + bare.to_string().len();
    if len.to_string().len() > bare.to_string().len() {
        len += 1;
    }
    format!("{len} {key}={value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = format!("{}/{}", "d".repeat(120), "é".repeat(60));
        let members = [
            ("a.txt", b"hello".to_vec()),
            (long.as_str(), vec![7; 513]),
            ("empty", Vec::new()),
            ("x", vec![1; 512]),
        ];
        let mut writer = Writer::new(Vec::new());
        for (name, data) in &members {
            writer.append(name, data).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut reader = Reader::new(bytes.as_slice(), 1000);
        for (name, data) in &members {
            let member = reader.next_member().unwrap().unwrap();
            assert_eq!((member.name.as_str(), &member.data), (*name, data));
        }
        assert!(reader.next_member().unwrap().is_none());
        assert!(Reader::new(bytes.as_slice(), 4).next_member().is_err(), "larger than allowed");
        for cut in (1..bytes.len() - 1024).step_by(97) {
            let mut reader = Reader::new(&bytes[..cut], 1000);
            while let Ok(Some(_)) = reader.next_member() {}
        }
        assert!(Reader::new(&[b'x'; 1024][..], 1000).next_member().is_err());
    }
}
