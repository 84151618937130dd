//! `drystone cas get`: download files by XET hash.

mod list;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use client::Progress;
use client::pull::{FileRequest, Puller};
use indicatif::BinaryBytes;
use serde_json::json;
use sha2::{Digest as _, Sha256 as Sha2};
use shardpack::sink::{Destination, OutputFile};
use xet::wire::routes::TokenScope;
use xet::{FileHash, Sha256};

use super::Target;
use crate::output::{CliError, complain, exit_code, fail, print_json};
use crate::remote::{CacheArgs, PullArgs};
use crate::transfer;

/// Download files by XET hash
///
/// A file grows as NAME.part and gets its name when its hash is right; until then an existing file is left unchanged. Started again after an
/// interruption, a download goes on where it stopped. Chunks that an older version at the same place has are not fetched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone cas get --store data HASH -o model.safetensors\n  \
                        drystone cas get --endpoint https://hub.example.com HASH --range 0-1024 -o - | xxd\n  \
                        drystone cas get --store data --from-json list.json -o folder --json")]
pub(crate) struct Get {
    /// The file's hash
    #[arg(value_name = "HASH", required_unless_present = "from_json", conflicts_with = "from_json")]
    hash: Option<FileHash>,

    /// Many files: a JSON array of {"hash": …, "path": …}, paths below the output folder; `-` reads standard input
    #[arg(long, value_name = "LIST")]
    from_json: Option<PathBuf>,

    /// Output: a file, `-` for standard output; with --from-json a directory
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,

    /// Only the bytes from A up to and without B; B may be left out
    #[arg(long, value_name = "A-B", value_parser = parse_range, conflicts_with = "from_json")]
    range: Vec<Range<u64>>,

    /// Write the ranges at their offsets and leave holes elsewhere
    #[arg(long, requires = "range", conflicts_with = "from_json")]
    sparse: bool,

    /// The file's SHA-256, to be compared too
    #[arg(long, value_name = "HEX", conflicts_with_all = ["from_json", "range"])]
    sha256: Option<Sha256>,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    pull: PullArgs,

    /// Print totals as JSON
    #[arg(long)]
    json: bool,
}

/// Downloaded files, and the number of failures.
#[derive(Debug, Default)]
struct Outcome {
    files: u64,
    failed: u64,
    bytes: u64,
}

impl Get {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let destination = self.destination()?;
        let to_stdout = destination == Destination::Stdout;
        let started = Instant::now();
        let progress = Arc::new(Progress::default());
        let work = async {
            let puller = self.puller().await?.with_progress(progress.clone());
            self.pull(&puller, destination).await
        };
        let work = transfer::in_time(self.pull.deadline, work);
        let outcome = transfer::run(&progress, transfer::fetched, work)?;
        let (seconds, failed) = (started.elapsed().as_secs_f64(), outcome.failed);
        let (fetched, cached) = (progress.wire_bytes.value(), progress.known_bytes.value());
        let reused = progress.reused_bytes.value();
        if self.json {
            let totals = json!({
                "files": outcome.files, "failed": failed, "bytes": outcome.bytes, "fetched_bytes": fetched,
                "from_cache_bytes": cached, "reused_bytes": reused, "resumed_files": progress.resumed_files.value(),
                "leftovers_removed": progress.leftovers.value(), "retries": progress.retries.value(),
                "seconds": seconds,
            });
            print_json(&mut io::stdout(), &totals)?;
        } else if !to_stdout {
            transfer::report_leftovers(&progress);
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            let [bytes, fetched, cached, reused] = [outcome.bytes, fetched, cached, reused].map(BinaryBytes);
            let sources = format!("{fetched} fetched, {cached} from the cache, {reused} here already");
            complain(&format_args!("{} files{failed}, {bytes}: {sources}; {seconds:.1} s", outcome.files));
        }
        Ok(exit_code(failed == 0))
    }

    async fn puller(&self) -> Result<Puller, CliError> {
        let options = self.pull.options(self.cache.cache(&self.target.cache_dir)?);
        if self.cache.offline {
            return Ok(Puller::offline(options));
        }
        let opened = self.target.open(TokenScope::Read).await?;
        Ok(Puller::new(opened.cas, options))
    }

    /// Output of one file; a directory with --from-json.
    fn destination(&self) -> Result<Destination, CliError> {
        if self.from_json.is_some() {
            return match self.output == Path::new("-") {
                true => fail(ONE_FILE),
                false => Ok(Destination::File(self.output.clone())),
            };
        }
        let destination =
            Destination::resolve(&self.output).map_err(|error| CliError::io(&self.output, error))?;
        if destination == Destination::Stdout && (self.json || self.sparse) {
            return fail(ONE_FILE);
        }
        if self.sparse && !matches!(destination, Destination::File(_)) {
            let path = self.output.display();
            return fail(format!("{path}: --sparse needs a regular file; a stream has no holes"));
        }
        Ok(destination)
    }

    async fn pull(&self, puller: &Puller, destination: Destination) -> Result<Outcome, CliError> {
        if let Some(list) = &self.from_json {
            return self.pull_list(puller, list).await;
        }
        let Some(file) = self.hash else { return Ok(Outcome::default()) };
        let bytes = match (self.range.as_slice(), destination) {
            ([], Destination::File(target)) => {
                let wanted = FileRequest { file, target, sha256: self.sha256 };
                puller.file(&wanted).await?.bytes
            }
            (ranges, Destination::File(target)) if self.sparse => {
                puller.sparse(file, ranges, &target).await?
            }
            ([], _) => self.pull_ranges(puller, file, std::slice::from_ref(&(0..u64::MAX))).await?,
            (ranges, _) => self.pull_ranges(puller, file, ranges).await?,
        };
        Ok(Outcome { files: 1, failed: 0, bytes })
    }

    /// The bytes of the ranges, one after another.
    async fn pull_ranges(
        &self,
        puller: &Puller,
        file: FileHash,
        ranges: &[Range<u64>],
    ) -> Result<u64, CliError> {
        let named = |error| CliError::io(&self.output, error);
        let out = OutputFile::create(&self.output).map_err(named)?;
        let mut out = Digested { out, digest: self.sha256.map(|_| Sha2::new()) };
        let mut bytes = 0;
        for range in ranges {
            bytes += puller.stream(file, range.clone(), &mut out).await?;
        }
        let Digested { out, digest } = out;
        let found = digest.map(|digest| Sha256::new(digest.finalize().into()));
        if let (Some(expected), Some(found)) = (self.sha256, found)
            && expected != found
        {
            let path = self.output.display();
            let message =
                format!("{path}: the file has SHA-256 {found}, not {expected}; what was written is not it");
            return fail(message);
        }
        out.finish(false).map_err(named)?;
        Ok(bytes)
    }

    async fn pull_list(&self, puller: &Puller, list: &Path) -> Result<Outcome, CliError> {
        let wanted = list::read(list, &self.output)?;
        let mut outcome = Outcome::default();
        let mut each = |place: usize, result: client::Result<client::pull::Pulled>| match result {
            Ok(pulled) => {
                outcome.files += 1;
                outcome.bytes += pulled.bytes;
            }
            Err(error) => {
                outcome.failed += 1;
                let name =
                    wanted.get(place).map(|wanted| wanted.target.display().to_string()).unwrap_or_default();
                complain(&format_args!("{name}: {error}"));
            }
        };
        puller.files(&wanted, &self.output, &mut each).await?;
        Ok(outcome)
    }
}

/// An output file, and the digest of what was written to it, where one was given.
struct Digested {
    out: OutputFile,
    digest: Option<Sha2>,
}

impl io::Write for Digested {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes.get(..written).unwrap_or_default());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

const ONE_FILE: &str = "standard output takes the bytes of one file, and nothing else";

/// Reads `A-B` or `A-`.
pub(crate) fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let refuse = || format!("{text:?} is not a range such as 0-100, or 100- for the rest");
    let (start, end) = text.split_once('-').ok_or_else(refuse)?;
    let start = start.parse().map_err(|_| refuse())?;
    let end = if end.is_empty() { u64::MAX } else { end.parse().map_err(|_| refuse())? };
    if start >= end {
        return Err(format!("{text:?} has no bytes: the end is not part of it"));
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_half_open_and_has_bytes() {
        assert_eq!(parse_range("0-100"), Ok(0..100));
        assert_eq!(parse_range("7-"), Ok(7..u64::MAX));
        for bad in ["", "-", "-5", "5", "5-5", "6-5", "a-b", "0x1-2", "1-2-3"] {
            assert!(parse_range(bad).is_err(), "{bad:?}");
        }
    }
}
