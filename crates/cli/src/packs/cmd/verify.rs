//! `shardpack verify`: whether packs are sound.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use shardpack::check::{self, Report, VerifyOptions};
use shardpack::{Error, ErrorKind};

use super::{names, source};
use crate::output::{CliError, complain, print_json, stdout, without_nulls};
use crate::packs::http::Network;
use crate::progress::Progress;

/// Check packs: structure, every CRC, padding, index and digests against the records
///
/// Exits with 0 if all are sound, 1 if one is damaged or unreadable, 2 if one is not a pack.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardpack verify train.shardpack
  shardpack verify 'train-*.shardpack' --quick
  shardpack verify train.shardpack --json | jq '.faults[].key'")]
pub(crate) struct Verify {
    /// Packs, patterns or folders
    #[arg(required = true)]
    packs: Vec<String>,

    /// Check footer, index and sections only
    #[arg(long)]
    quick: bool,

    /// Print JSON, one document for each pack
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self, network: &Network) -> Result<ExitCode, CliError> {
        let mut out = stdout();
        let mut code = 0;
        for name in names(&self.packs)? {
            let ended = match self.verify(&name, network) {
                Ok(report) => self.show(&name, &report, true, &mut out)?,
                Err(CliError::Pack(error)) if error.kind() == ErrorKind::Invalid => {
                    self.show_no_pack(&name, &error, &mut out)?
                }
                Err(failure @ CliError::Output(_)) => return Err(failure),
                Err(failure) => {
                    complain(&failure);
                    1
                }
            };
            code = code.max(ended);
        }
        out.flush()?;
        Ok(ExitCode::from(code))
    }

    fn verify(&self, name: &str, network: &Network) -> Result<Report, CliError> {
        let source = source(name, network)?;
        let mut progress = Progress::new(source.size().unwrap_or(0));
        let options = VerifyOptions { quick: self.quick, decode_bytes_max: 1 << 30 };
        Ok(check::verify(&source, options, |bytes| progress.set(bytes))?)
    }

    fn show(&self, name: &str, report: &Report, is_pack: bool, out: &mut impl Write) -> Result<u8, CliError> {
        let sound = report.is_sound();
        if self.json {
            let fault = |fault: &check::Fault| {
                let (key, entry) = (&fault.key, &fault.entry);
                without_nulls(json!({"offset": fault.offset, "key": key, "entry": entry, "what": fault.what}))
            };
            let value = json!({
                "pack": name, "sound": sound, "is_pack": is_pack, "bytes": report.bytes, "records": report.records,
                "fault_count": report.fault_count, "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
            });
            print_json(out, &value)?;
        } else if sound {
            writeln!(out, "{name}: sound, {} records, {} bytes", report.records, report.bytes)?;
        } else {
            let Report { fault_count, records, faults, .. } = report;
            writeln!(out, "{name}: DAMAGED, {fault_count} faults, {records} sound records")?;
            for fault in faults.iter().take(SHOWN_MAX) {
                let mut place = String::new();
                if let Some(key) = &fault.key {
                    place += &format!("record {key:?}: ");
                }
                if let Some(entry) = &fault.entry {
                    place += &format!("entry {entry:?}: ");
                }
                if !fault.what.starts_with("offset ") {
                    place += &format!("offset {}: ", fault.offset);
                }
                writeln!(out, "  {place}{}", fault.what)?;
            }
            if let Some(more @ 1..) = fault_count.checked_sub(SHOWN_MAX as u64) {
                writeln!(out, "  and {more} more; --json shows up to a thousand")?;
            }
        }
        Ok(u8::from(!sound))
    }

    fn show_no_pack(&self, name: &str, error: &Error, out: &mut impl Write) -> Result<u8, CliError> {
        complain(error);
        if self.json {
            let report = Report { fault_count: 1, ..Report::default() };
            self.show(name, &report, false, out)?;
        }
        Ok(2)
    }
}

const SHOWN_MAX: usize = 20;
