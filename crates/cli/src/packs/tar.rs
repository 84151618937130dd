//! Tar archives of datasets: regular files one after another, each in memory and of bounded size.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use shardpack::sink::{Destination, OutputFile, remove_leftovers};
use tar::{Builder, EntryType, Header};

use crate::output::{CliError, report_leftovers};

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

/// Headers of a member, extended ones included.
struct Head {
    name: Vec<u8>,
    kind: EntryType,
    size: u64,
}

impl<R: Read> Reader<R> {
    /// Reads an archive. A file of more than `member_bytes_max` bytes is refused.
    pub(crate) fn new(input: R, member_bytes_max: u64) -> Self {
        Self { input, member_bytes_max }
    }

    /// The next regular file; none at the end.
    pub(crate) fn next_member(&mut self) -> io::Result<Option<Member>> {
        while let Some(Head { name, kind, size }) = self.next_head()? {
            match kind {
                EntryType::Regular | EntryType::Continuous if !name.ends_with(b"/") => {
                    let name = String::from_utf8(name).map_err(|_| invalid("a name that is not UTF-8"))?;
                    return Ok(Some(Member { name, data: self.read_data(size)? }));
                }
                EntryType::GNUSparse => return Err(invalid("sparse files are not supported")),
                // Directories, links, devices, global headers: nothing that a dataset holds.
                _ => self.skip(size)?,
            }
            self.skip(padding(size))?;
        }
        Ok(None)
    }

    /// Parses headers only, from a bounded part of the input: the lengths of names in them are untrusted.
    fn next_head(&mut self) -> io::Result<Option<Head>> {
        let mut input = self.input.by_ref().take(HEAD_BYTES_MAX);
        let mut archive = tar::Archive::new(&mut input);
        let head = archive.entries()?.next().map(|entry| {
            let entry = entry?;
            let (name, kind) = (entry.path_bytes().into_owned(), entry.header().entry_type());
            Ok(Head { name, kind, size: entry.size() })
        });
        head.transpose().map_err(|error: io::Error| {
            if input.limit() == 0 {
                return invalid("headers of more than 1 MiB");
            }
            invalid(&error.to_string())
        })
    }

    fn read_data(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > self.member_bytes_max {
            let max = self.member_bytes_max;
            return Err(io::Error::other(format!("a file of {size} bytes, more than the {max} allowed")));
        }
        // Grows with the data read, not with the size in the header.
        let mut data = Vec::new();
        self.input.by_ref().take(size).read_to_end(&mut data)?;
        if (data.len() as u64) < size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.skip(padding(size))?;
        Ok(data)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        if skipped < bytes { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(()) }
    }
}

/// An archive being written to where the user wants it. The same members give the same bytes.
pub(crate) struct Archive {
    path: PathBuf,
    tar: Builder<io::BufWriter<OutputFile>>,
}

impl Archive {
    pub(crate) fn create(path: PathBuf) -> Result<Self, CliError> {
        report_leftovers(&remove_leftovers(&path, |_| false));
        let file = OutputFile::create(&path).map_err(|error| CliError::io(&path, error))?;
        Ok(Self { path, tar: Builder::new(io::BufWriter::with_capacity(1 << 20, file)) })
    }

    pub(crate) fn append(&mut self, name: &str, data: &[u8]) -> Result<(), CliError> {
        append(&mut self.tar, name, data).map_err(|error| Self::failed(&self.path, error))
    }

    pub(crate) fn finish(self) -> Result<(), CliError> {
        let Self { path, tar } = self;
        let finished = tar.into_inner().and_then(|out| {
            let file = out.into_inner().map_err(io::Error::from)?;
            file.finish(true)
        });
        finished.map_err(|error| Self::failed(&path, error))
    }

    /// The reader of a pipe may have closed it.
    fn failed(path: &Path, error: io::Error) -> CliError {
        match Destination::resolve(path) {
            Ok(Destination::Stdout) => CliError::Output(error),
            _ => CliError::io(path, error),
        }
    }
}

/// Appends a file without owner and times, which would differ from run to run.
fn append(tar: &mut Builder<impl io::Write>, name: &str, data: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(data.len() as u64);
    tar.append_data(&mut header, name, data)
}

/// Bytes after a file up to the next block.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % 512
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a tar archive that can be read: {what}"))
}

const HEAD_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, data) in members {
            append(&mut tar, name, data).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn members_written_are_read_back() {
        let long = format!("{}/{}", "d".repeat(120), "é".repeat(60));
        let members = [
            ("a.txt", b"hello".to_vec()),
            (long.as_str(), vec![7; 513]),
            ("empty", Vec::new()),
            ("x", vec![1; 512]),
        ];
        let bytes = archive(&members);
        assert_eq!(bytes, archive(&members), "the same members give the same bytes");
        let mut reader = Reader::new(bytes.as_slice(), 1000);
        for (name, data) in &members {
            let member = reader.next_member().unwrap().unwrap();
            assert_eq!((member.name.as_str(), &member.data), (*name, data));
        }
        assert!(reader.next_member().unwrap().is_none());
        assert!(Reader::new(bytes.as_slice(), 4).next_member().is_err(), "larger than allowed");
    }

    #[test]
    fn a_cut_archive_is_an_error_wherever_a_member_is_cut() {
        let bytes = archive(&[("a", vec![1; 700]), ("b", vec![2; 10])]);
        // Header, two blocks of data, header, one block.
        for cut in (1..2560).filter(|cut| *cut != 1536) {
            let mut reader = Reader::new(&bytes[..cut], 1000);
            let ended = std::iter::from_fn(|| reader.next_member().transpose()).last();
            assert!(ended.is_some_and(|member| member.is_err()), "cut at {cut}");
        }
        assert!(Reader::new(&[b'x'; 1024][..], 1000).next_member().is_err());
    }

    #[test]
    fn pax_headers_are_followed_and_other_kinds_skipped() {
        let mut tar = Builder::new(Vec::new());
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        tar.append_data(&mut header, "folder", io::empty()).unwrap();
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XGlobalHeader);
        header.set_size(3);
        tar.append_data(&mut header, "global", &b"abc"[..]).unwrap();
        // The header says zero bytes, the extension five.
        tar.append_pax_extensions([("path", "wanted.txt".as_bytes()), ("size", b"5")]).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(0);
        header.set_cksum();
        tar.append(&header, io::empty()).unwrap();
        let mut bytes = tar.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes.extend(b"hello");
        bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
        let mut reader = Reader::new(bytes.as_slice(), 1000);
        let member = reader.next_member().unwrap().unwrap();
        assert_eq!((member.name.as_str(), member.data.as_slice()), ("wanted.txt", &b"hello"[..]));
        assert!(reader.next_member().unwrap().is_none());
    }

    /// Claims a name of `len` bytes.
    fn long_name(kind: EntryType, len: u64) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(len);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn untrusted_lengths_cost_no_memory() {
        for kind in [EntryType::GNULongName, EntryType::XHeader] {
            for len in [2 << 20, 1 << 40, u64::MAX >> 1] {
                let endless = io::repeat(b'a');
                let head = long_name(kind, len);
                let error = Reader::new(head.as_slice().chain(endless), u64::MAX).next_member().unwrap_err();
                assert!(error.to_string().contains("1 MiB"), "{kind:?} {len}: {error}");
            }
        }
        let claims = long_name(EntryType::Regular, 1 << 40);
        assert!(Reader::new(claims.as_slice(), u64::MAX).next_member().is_err());
        let sparse = long_name(EntryType::GNUSparse, 0);
        assert!(Reader::new(sparse.as_slice(), u64::MAX).next_member().is_err());
    }
}
