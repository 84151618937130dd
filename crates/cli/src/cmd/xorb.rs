//! `drystone xorb`: making a xorb from files, and files from a xorb.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use xet::compress::Policy;
use xet::xorb::{BuildError, Form, XorbBuilder, XorbScanner};
use xet::{ChunkHash, XorbHash};

use crate::files::{PIECE_BYTES, each_piece, leads_to_stdout, write_one_of_many, write_whole};
use crate::output::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum XorbVerb {
    Build(Build),
    Unpack(Unpack),
}

/// Cut files into chunks and put them all into one xorb
///
/// Prints the xorb hash. A xorb holds at most 64 MiB of raw data and 8192 chunks.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  drystone xorb build --scheme bg4-lz4 --footer v1 -o weights.xorb weights.bin"
)]
pub(crate) struct Build {
    /// Files, in the order of their chunks
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Output file; `-` is standard output
    #[arg(short, long, value_name = "XORB")]
    output: PathBuf,

    /// Compression: auto, none, lz4 or bg4-lz4
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: Policy,

    /// Footer of the xorb
    #[arg(long, value_name = "FORM", value_enum, default_value_t = FooterChoice::V1)]
    footer: FooterChoice,
}

/// The forms of a xorb, as words.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FooterChoice {
    /// Nothing, as clients upload
    None,
    /// The legacy footer
    V0,
    /// The footer of every stored xorb
    V1,
}

impl From<FooterChoice> for Form {
    fn from(choice: FooterChoice) -> Self {
        match choice {
            FooterChoice::None => Self::Footerless,
            FooterChoice::V0 => Self::V0,
            FooterChoice::V1 => Self::V1,
        }
    }
}

/// Write the raw bytes of a xorb's chunks, verified
///
/// All chunks one after the other go to one file, or each to a file of its own, named by number and hash.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone xorb unpack weights.xorb -o weights.bin")]
pub(crate) struct Unpack {
    /// The xorb
    xorb: PathBuf,

    /// Output file for all raw bytes; `-` is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "chunks")]
    output: Option<PathBuf>,

    /// A directory for one file for each chunk
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    chunks: Option<PathBuf>,

    /// The hash the xorb must have
    #[arg(long, value_name = "HEX")]
    hash: Option<XorbHash>,
}

impl XorbVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Build(build) => build.run(),
            Self::Unpack(unpack) => unpack.run(),
        }
    }
}

impl Build {
    fn run(self) -> Result<ExitCode, CliError> {
        let mut builder = XorbBuilder::new(self.scheme);
        for path in &self.files {
            client::cut::read_chunks(path, |hash, chunk| push(&mut builder, path, hash, chunk))?;
        }
        let sealed = builder.seal(self.footer.into());
        let sealed = sealed
            .map_err(|_| CliError::Message("the files are empty: a xorb has at least one chunk".into()))?;
        write_whole(&self.output, |out| Ok(out.write_all(&sealed.bytes)?))?;
        if !leads_to_stdout(&self.output) {
            writeln!(io::stdout(), "{}", sealed.info.hash())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn push(builder: &mut XorbBuilder, path: &Path, hash: ChunkHash, chunk: &[u8]) -> Result<(), CliError> {
    builder.push(hash, chunk).map_err(|error| match error {
        BuildError::Full => {
            let text = "does not fit: a xorb holds at most 64 MiB of raw data and 8192 chunks; give fewer files, or use \
                        `drystone shard build --xorbs`, which makes as many xorbs as it takes";
            CliError::Message(format!("{}: {text}", path.display()))
        }
        error => CliError::Message(format!("{}: {error}", path.display())),
    })
}

impl Unpack {
    fn run(self) -> Result<ExitCode, CliError> {
        match (&self.chunks, &self.output) {
            (Some(directory), _) => {
                // Verified as a whole before anything is written.
                self.scan(|_, _, _| Ok(()))?;
                std::fs::create_dir_all(directory).map_err(|error| CliError::io(directory, error))?;
                self.scan(|number, hash, raw| {
                    let path = directory.join(format!("{number:04}-{hash}"));
                    write_one_of_many(&path, |out| Ok(out.write_all(raw)?))
                })?;
            }
            (None, Some(output)) => {
                write_whole(output, |out| self.scan(|_, _, raw| Ok(out.write_all(raw)?)))?;
            }
            (None, None) => unreachable!("the arguments demand one of the two"),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Hands each verified chunk to `each`; fails when the xorb, or the writing, does.
    fn scan(
        &self,
        mut each: impl FnMut(usize, ChunkHash, &[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let refuse = |error| CliError::format(&self.xorb, error);
        let mut scanner = XorbScanner::new(self.hash);
        let mut number = 0;
        each_piece(&self.xorb, PIECE_BYTES, |piece| {
            let mut written = Ok(());
            let pushed = scanner.push_with(piece, &mut |chunk| {
                if written.is_ok() {
                    written = each(number, chunk.hash, chunk.raw);
                }
                number += 1;
            });
            written.and(pushed.map_err(refuse))
        })?;
        scanner.finish().map(drop).map_err(refuse)
    }
}
