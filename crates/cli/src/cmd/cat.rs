//! `drystone cat`: a file of a repository, to standard output.

use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use client::Progress;
use client::hub::{RepoPath, download};
use client::pull::PullOptions;

use super::cas::parse_range;
use crate::output::{CliError, fail};
use crate::remote::CachedHubArgs;
use crate::transfer;

/// Write a file of a repository, or a range of its bytes, to standard output
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone cat ann/model:config.json\n  \
                        drystone cat ann/model:model.safetensors --range 0-8 | xxd")]
pub(crate) struct Cat {
    /// The file: NAMESPACE/NAME is a model; also datasets/… and spaces/…
    #[arg(value_name = "REPO[@REVISION]:PATH")]
    from: RepoPath,

    /// Only the bytes from A up to and without B; B may be left out
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    range: Option<Range<u64>>,

    #[command(flatten)]
    hub: CachedHubArgs,

    /// Seconds after which to fail
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
}

impl Cat {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        if self.from.path.is_none() {
            return fail(format!("{}: which file? say {0}:PATH", self.from));
        }
        let progress = Arc::new(Progress::default());
        transfer::run(&progress, transfer::fetched, transfer::in_time(self.deadline, self.write()))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn write(&self) -> Result<(), CliError> {
        let (hub, cache) = self.hub.open()?;
        let options = PullOptions { cache, ..PullOptions::default() };
        let range = self.range.clone().unwrap_or(0..u64::MAX);
        let mut out = Out { to: io::stdout(), broken: None };
        let written = download::cat(&hub, &self.from, range, options, &mut out).await;
        // A closed pipe is not an error of the hub.
        if let Some(error) = out.broken {
            return Err(CliError::Output(error));
        }
        written?;
        Ok(out.to.flush()?)
    }
}

/// Standard output, and what went wrong with it.
struct Out {
    to: io::Stdout,
    broken: Option<io::Error>,
}

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        if let Err(error) = &written
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.broken = Some(error.kind().into());
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
