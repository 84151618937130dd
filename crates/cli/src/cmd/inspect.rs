//! `drystone inspect`: what a file of our formats holds.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use xet::shard::Shard;
use xet::xorb::XorbScanner;

use crate::describe::pack::PackDescription;
use crate::describe::shard::ShardDescription;
use crate::describe::xorb::{self, ChunkDescription};
use crate::files::{PIECE_BYTES, read_at_most, read_shard};
use crate::output::{CliError, fail, print_json_pretty};

/// Show the structure of a xorb, a shard or a ShardPack file
///
/// The kind of file is recognised by its bytes. Everything shown is verified first; of a damaged file, what is sound is shown up to
/// the damage, which is reported with its offset.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone inspect --json upload.shard | jq '.files[].hash'")]
pub(crate) struct Inspect {
    /// A xorb, a shard or a ShardPack file
    file: PathBuf,

    /// Print every field as JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let mut out = BufWriter::new(io::stdout());
        let shown = match recognise(&self.file)? {
            Kind::Shard => self.show_shard(&mut out),
            Kind::Xorb => self.show_xorb(&mut out),
            Kind::Pack => self.show_pack(&mut out),
        };
        out.flush()?;
        shown.map(|()| ExitCode::SUCCESS)
    }

    fn show_shard(&self, out: &mut impl Write) -> Result<(), CliError> {
        let description = describe_shard(&self.file, &read_shard(&self.file)?)?;
        if self.json { print_json_pretty(out, &description) } else { Ok(description.print(out)?) }
    }

    /// A pack is a dataset and may be long: it is outlined in memory, up to a limit.
    fn show_pack(&self, out: &mut impl Write) -> Result<(), CliError> {
        let bytes = read_at_most(&self.file, PACK_BYTES_MAX, "a pack that is inspected in memory")?;
        let refuse =
            |error: &dyn std::fmt::Display| CliError::Message(format!("{}: {error}", self.file.display()));
        let outline = shardpack::Outline::parse(&bytes).map_err(|error| refuse(&error))?;
        let description = PackDescription::of(&outline);
        if self.json {
            print_json_pretty(out, &description)?;
        } else {
            description.print(out)?;
        }
        description.faults.first().map_or(Ok(()), |fault| Err(refuse(fault)))
    }

    fn show_xorb(&self, out: &mut impl Write) -> Result<(), CliError> {
        let mut chunks = Vec::new();
        let scanned = scan(&self.file, |chunk| chunks.push(ChunkDescription::of(&chunk)));
        match scanned {
            Ok(scanned) => xorb::print(&scanned, &chunks, self.json, out),
            Err(error) => {
                if !self.json {
                    xorb::print_chunks(&chunks, out)?;
                }
                Err(error)
            }
        }
    }
}

/// Every field of a shard, of whichever form.
pub(super) fn describe_shard(path: &Path, bytes: &[u8]) -> Result<ShardDescription, CliError> {
    let refuse = |error| CliError::format(path, error);
    // The header may announce a footer that is missing. What follows the sections can only be tables and footer.
    let mut shard = Shard::parse_upload(bytes).map_err(refuse)?;
    if bytes.len() as u64 > shard.sections_end() {
        shard = Shard::parse_stored(bytes).map_err(refuse)?;
    }
    Ok(ShardDescription::of(shard))
}

/// Reads a xorb piece by piece, verifying it.
fn scan(
    path: &Path,
    mut each: impl FnMut(xet::xorb::DecodedChunk<'_>),
) -> Result<xet::xorb::ScannedXorb, CliError> {
    let mut scanner = XorbScanner::new(None);
    crate::files::each_piece(path, PIECE_BYTES, |piece| {
        scanner.push_with(piece, &mut each).map_err(|error| CliError::format(path, error))
    })?;
    scanner.finish().map_err(|error| CliError::format(path, error))
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Shard,
    Xorb,
    Pack,
}

/// Longer packs want a reader that does not hold them.
const PACK_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Tells the kind by the first bytes and the last.
fn recognise(path: &Path) -> Result<Kind, CliError> {
    let name = |error| CliError::io(path, error);
    let mut file = File::open(path).map_err(name)?;
    let mut first = Vec::new();
    Read::by_ref(&mut file).take(48).read_to_end(&mut first).map_err(name)?;
    let bytes = file.metadata().map_err(name)?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(64))).map_err(name)?;
    let mut last = Vec::new();
    file.take(64).read_to_end(&mut last).map_err(name)?;

    if first.get(15..32) == Some(&xet::shard::row::MAGIC) {
        return Ok(Kind::Shard);
    }
    if shardpack::has_pack_magic(&first, &last) {
        return Ok(Kind::Pack);
    }
    let header = xet::xorb::ChunkHeader::parse(&mut xet::cursor::Reader::new(&first));
    if header.is_ok() || first.starts_with(&xet::shard::row::APPLICATION) {
        return Ok(if header.is_ok() { Kind::Xorb } else { Kind::Shard });
    }
    fail(format!("{}: not a xorb, a shard or a ShardPack file", path.display()))
}
