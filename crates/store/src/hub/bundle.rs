//! Bundles: the git objects a commit added, as one object of the store.
//!
//! | offset | size | field                                                                              |
//! |-------:|-----:|------------------------------------------------------------------------------------|
//! |      0 |    8 | `DSBNDL01`                                                                         |
//! |      8 |    4 | length of the origin, o                                                            |
//! |     12 |    o | origin: the repository as it is printed, a line feed, the ref                      |
//! | 12 + o |      | records, to the end of the object; the last is the commit                          |
//!
//! A record:
//!
//! | offset | size | field                                                                              |
//! |-------:|-----:|------------------------------------------------------------------------------------|
//! |      0 |    1 | kind: 1 commit, 2 tree, 3 blob, 4 blob that is a pointer                           |
//! |      1 |   32 | file hash, of a pointer only                                                       |
//! |        |    4 | length of the body, b                                                              |
//! |        |    b | body, as git hashes it                                                             |
//!
//! Numbers are little-endian. All bundles of a repository together hold all its objects, so the catalog's rows can be
//! made again from them.

use std::collections::HashMap;

use bytes::Bytes;
use xet::FileHash;
use xet::cursor::Reader;

use crate::content::files::LinkedFile;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::commit_object::Commit;
use crate::hub::pointer::Pointer;
use crate::hub::rows::GitRow;
use crate::ids::{ObjectKind, Oid, RepoId};
use crate::names::RepoName;
use crate::objects::key::ObjectKey;

/// Collects the objects of a commit.
#[derive(Debug)]
pub struct Bundle {
    offset: u64,
    parts: Vec<Bytes>,
    places: HashMap<Oid, usize>,
    rows: Vec<GitRow>,
}

/// A bundle that was read: whose it is, and its objects in order, each with what a pointer stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The repository when the commit was made.
    pub repo: String,
    /// The ref the commit was for.
    pub ref_name: String,
    /// Kind, body, and the file of a pointer.
    pub objects: Vec<(ObjectKind, Bytes, Option<FileHash>)>,
}

impl Bundle {
    /// An empty bundle for a ref of a repository.
    pub(crate) fn new(repo: &RepoName, ref_name: &str) -> Self {
        let origin = format!("{repo}\n{ref_name}");
        let mut head = Vec::from(MAGIC);
        head.extend(u32::try_from(origin.len()).expect("names are short").to_le_bytes());
        head.extend(origin.as_bytes());
        let offset = head.len() as u64;
        Self { offset, parts: vec![head.into()], places: HashMap::new(), rows: Vec::new() }
    }

    /// Adds an object, once. A pointer's blob comes with the file it stands for.
    pub(crate) fn push(&mut self, kind: ObjectKind, body: Bytes, linked: Option<LinkedFile>) -> Oid {
        let oid = Oid::of(kind, &body);
        if self.places.contains_key(&oid) {
            return oid;
        }
        let mut head = vec![if linked.is_some() { POINTER } else { kind.number() }];
        if let Some(linked) = &linked {
            head.extend(linked.file.as_bytes());
        }
        head.extend(u32::try_from(body.len()).expect("bodies are far less than 4 GiB").to_le_bytes());
        self.offset += head.len() as u64;
        let bytes = body.len() as u64;
        self.rows.push(GitRow {
            oid,
            kind,
            bytes,
            body: (body.len() <= INLINE_BYTES_MAX).then(|| body.to_vec()),
            // Known when the commit is.
            bundle: oid,
            offset: self.offset,
            parent: None,
            depth: 0,
            linked,
        });
        self.places.insert(oid, self.rows.len() - 1);
        self.offset += bytes;
        self.parts.push(head.into());
        self.parts.push(body);
        oid
    }

    /// Reads a bundle.
    pub fn parse(bytes: &Bytes) -> Result<Opened> {
        let wrong = || Error::new(ErrorKind::Corrupt, "a bundle that cannot be read");
        let format = |source| Error::corrupt("bundle", source);
        let r = &mut Reader::new(bytes);
        if r.array::<8>("magic of a bundle").map_err(format)? != MAGIC {
            return Err(wrong());
        }
        let len = r.u32("length of the origin").map_err(format)?;
        let origin = r.take("origin", usize::try_from(len).map_err(|_| wrong())?).map_err(format)?;
        let origin = std::str::from_utf8(origin).map_err(|_| wrong())?;
        let (repo, ref_name) = origin.split_once('\n').ok_or_else(wrong)?;
        let mut objects = Vec::new();
        while r.left() > 0 {
            let number = r.u8("kind of an object").map_err(format)?;
            let file = match number == POINTER {
                true => Some(FileHash::new(r.array("file hash").map_err(format)?)),
                false => None,
            };
            let kind =
                if file.is_some() { Some(ObjectKind::Blob) } else { ObjectKind::from_number(number.into()) };
            let len = r.u32("length of an object").map_err(format)?;
            let body = r.take("object", usize::try_from(len).map_err(|_| wrong())?).map_err(format)?;
            let is_pointer = Pointer::parse(body).is_some();
            if file.is_some() && !is_pointer {
                return Err(wrong());
            }
            objects.push((kind.ok_or_else(wrong)?, Bytes::copy_from_slice(body), file));
        }
        Ok(Opened { repo: repo.to_owned(), ref_name: ref_name.to_owned(), objects })
    }
}

impl Hub {
    /// Adds the commit to its bundle and stores that; answers with the commit and the rows of all its objects.
    pub(crate) async fn seal_bundle(
        &self,
        repo: RepoId,
        mut bundle: Bundle,
        commit: &Commit,
        depth: u64,
    ) -> Result<(Oid, Vec<GitRow>)> {
        let oid = bundle.push(ObjectKind::Commit, commit.encode().into(), None);
        let mut rows = bundle.rows;
        for row in &mut rows {
            row.bundle = oid;
        }
        if let Some(row) = rows.last_mut() {
            row.parent = commit.parents.first().copied();
            row.depth = depth;
        }
        self.objects.put(&ObjectKey::Bundle { repo, commit: oid }, bundle.parts).await?;
        Ok((oid, rows))
    }
}

const MAGIC: [u8; 8] = *b"DSBNDL01";

const POINTER: u8 = 4;

/// Bodies up to this length are in the catalog too, where they are found in one look.
pub(crate) const INLINE_BYTES_MAX: usize = 16 * 1024;
