//! `drystone check`: verifies a file of our formats.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use xet::xorb::{Form, XorbScanner};
use xet::{FormatError, Hash, ShardHash, XorbHash, shard};

use crate::files::{PIECE_BYTES, each_piece, read_shard};
use crate::output::{CliError, complain, print_result};

/// Verify a xorb or a shard in full
///
/// Decompresses and rehashes every chunk and compares all hashes, offsets, counts, tables and totals. Ends with 0 when the file is sound,
/// with 1 and the offset of the first fault on standard error when it is not.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone check --as xorb-upload --hash $HASH body.bin")]
pub(crate) struct Check {
    /// Expected kind of the file
    #[arg(long = "as", value_name = "KIND", value_enum)]
    kind: Kind,

    /// The hash it must have: of a xorb its xorb hash, of a shard the hash of its bytes
    #[arg(long, value_name = "HEX")]
    hash: Option<Hash>,

    /// The file
    file: PathBuf,

    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A xorb as clients send it: the footer may be missing
    XorbUpload,
    /// A xorb as it is stored: the footer must be there
    XorbStored,
    /// A shard as clients send it: the footer may be missing
    ShardUpload,
    /// A shard as it is stored: tables may be missing, the footer must be there
    ShardStored,
}

/// Error of a check: the file is wrong, or it could not be read.
enum Fault {
    Format(FormatError),
    Other(CliError),
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<CliError> for Fault {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let checked = match self.kind {
            Kind::XorbUpload => self.xorb(false),
            Kind::XorbStored => self.xorb(true),
            Kind::ShardUpload => self.shard(shard::verify_upload),
            Kind::ShardStored => self.shard(shard::verify_stored),
        };
        let path = self.file.display();
        match checked {
            Ok((hash, summary)) => {
                let line = format!("{path}: sound, {summary}");
                print_result(self.json, &json!({"sound": true, "hash": hash}), [line])?;
                Ok(ExitCode::SUCCESS)
            }
            Err(Fault::Format(error)) => {
                let value = json!({"sound": false, "offset": error.at(), "reason": error.to_string()});
                print_result(self.json, &value, [])?;
                complain(&format_args!("{path}: rejected at {error}"));
                Ok(ExitCode::from(1))
            }
            Err(Fault::Other(error)) => Err(error),
        }
    }

    fn xorb(&self, needs_footer: bool) -> Result<(Hash, String), Fault> {
        let mut scanner = XorbScanner::new(self.hash.map(XorbHash));
        each_piece(&self.file, PIECE_BYTES, |piece| scanner.push(piece).map_err(Fault::Format))?;
        let scanned = scanner.finish()?;
        if needs_footer {
            scanned.expect_footer()?;
        }
        let info = &scanned.info;
        let footer = match scanned.form {
            Form::Footerless => "no footer",
            Form::V0 => "footer version 0",
            Form::V1 => "footer version 1",
        };
        let (hash, chunks, raw) = (info.hash(), info.chunk_count(), info.raw_bytes());
        Ok((hash.0, format!("xorb {hash}, {chunks} chunks, {raw} raw bytes, {footer}")))
    }

    fn shard(
        &self,
        verify: impl FnOnce(&[u8]) -> Result<shard::Shard, FormatError>,
    ) -> Result<(Hash, String), Fault> {
        let bytes = read_shard(&self.file)?;
        let shard = verify(&bytes)?;
        let found = ShardHash::of(&bytes).0;
        if let Some(expected) = self.hash.filter(|expected| *expected != found) {
            return Err(FormatError::Hash { at: 0, what: "shard", expected, found }.into());
        }
        Ok((found, format!("shard {found}, {} files, {} xorbs", shard.files.len(), shard.xorbs.len())))
    }
}
