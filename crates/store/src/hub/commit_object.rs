//! Commit objects, in git's encoding.

use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::ids::{ObjectKind, Oid, RepoId};

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Their name.
    pub name: String,
    /// Unix seconds.
    pub time_s: u64,
}

impl Signature {
    /// A signature. What git could not read back is left out of the name.
    pub fn new(name: &str, time_s: u64) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
        Self { name: name.trim().to_owned(), time_s }
    }

    fn encode(&self) -> String {
        let Self { name, time_s } = self;
        // Nobody's address is known here, and none is made up that could be a real one.
        let host = name.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "-");
        format!("{name} <{host}@users.invalid> {time_s} +0000")
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(" <")?;
        let (_, time) = rest.split_once("> ")?;
        let time_s = time.split(' ').next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), time_s })
    }
}

/// A commit, as git knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The root folder.
    pub tree: Oid,
    /// The commits before; none for the first.
    pub parents: Vec<Oid>,
    /// Who made it, and when.
    pub author: Signature,
    /// What it says.
    pub message: String,
}

impl Commit {
    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text += &format!("parent {parent}\n");
        }
        let author = self.author.encode();
        text += &format!("author {author}\ncommitter {author}\n\n{}\n", self.message.trim_end());
        text.into_bytes()
    }

    /// Reads an object.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let wrong = || Error::new(ErrorKind::Corrupt, "a commit object that cannot be read");
        let text = std::str::from_utf8(body).map_err(|_| wrong())?;
        let (head, message) = text.split_once("\n\n").ok_or_else(wrong)?;
        let value = |key: &'static str| {
            head.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix(' '))
        };
        Ok(Self {
            tree: value("tree").next().ok_or_else(wrong)?.parse()?,
            parents: value("parent").map(str::parse).collect::<Result<_>>()?,
            author: value("author").next().and_then(Signature::parse).ok_or_else(wrong)?,
            message: message.trim_end().to_owned(),
        })
    }

    /// The first line of the message.
    pub fn title(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }

    /// The rest of the message.
    pub fn description(&self) -> &str {
        self.message.split_once('\n').map_or("", |(_, rest)| rest.trim())
    }
}

impl Hub {
    /// An existing commit.
    pub async fn commit_object(&self, repo: RepoId, oid: Oid) -> Result<Commit> {
        let row = self.git_object(repo, oid, ObjectKind::Commit).await?;
        Commit::parse(&self.git_body(repo, &row).await?)
    }
}
