//! `drystone doctor`: checks of a server's surroundings, with advice.

mod kernels;
mod machine;
mod services;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use server::ServeConfig;

use super::serve::Serve;
use crate::output::{CliError, block_on, exit_code, print_result};

/// Check everything a server needs, with advice for each problem
///
/// Takes the settings of `drystone serve`. Checks the data directory, its disk and the latency of fsync, the port, the clock,
/// the catalog and its tables, the bucket (writes, reads by range and deletes an object of a few bytes), limits of files and memory, the speed of the
/// CPU kernels beside the portable code, and the certificate. Works beside a running server. Exits with 1 if a check fails; warnings do not count.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone doctor --data /srv/drystone\n  \
                        drystone doctor --config /etc/drystone/drystone.toml\n  \
                        drystone doctor --objects s3://bucket/prefix --catalog postgres://host/name --json")]
pub(crate) struct Doctor {
    #[command(flatten)]
    serve: Serve,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    /// Recommended action.
    advice: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, state: State::Ok, found: found.into(), advice: None }
    }

    fn warn(what: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self { what, state: State::Warn, found: found.into(), advice: Some(advice) }
    }

    fn fail(what: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self { what, state: State::Fail, found: found.into(), advice: Some(advice) }
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let config = ServeConfig::load(&self.serve.layers()?)?;
        let speeds = kernels::measure();
        let findings = block_on(async { Ok(examine(&config, &speeds).await) })?;
        let is_well = findings.iter().all(|finding| finding.state != State::Fail);
        let value = json!({"well": is_well, "findings": findings, "kernels": speeds});
        print_result(self.json, &value, lines(&findings))?;
        Ok(exit_code(is_well))
    }
}

async fn examine(config: &ServeConfig, speeds: &[kernels::Speed]) -> Vec<Finding> {
    let mut findings = machine::disk(config);
    findings.push(machine::port(config).await);
    findings.extend([machine::open_files(config), machine::memory(config)]);
    findings.extend(speeds.iter().map(kernels::finding));
    let (catalog, catalog_off_s) = services::catalog_of(config).await;
    let (bucket, bucket_off_s) = services::objects(config).await;
    findings.push(catalog);
    findings.extend(bucket);
    // Reported above already.
    let is_down =
        |finding: &Finding| finding.state == State::Fail && ["catalog", "bucket"].contains(&finding.what);
    if !findings.iter().any(is_down) {
        findings.push(services::store(config).await);
    }
    findings.push(services::clock(crate::clock::now_s(), catalog_off_s, bucket_off_s));
    findings.extend(services::certificate(config));
    findings
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    for Finding { what, state, found, advice } in findings {
        let word = match state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        lines.push(format!("{word:<5} {what}: {found}"));
        lines.extend(advice.map(|advice| format!("      -> {advice}")));
    }
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (ok, warnings, failed) = (count(State::Ok), count(State::Warn), count(State::Fail));
    lines.push(format!("{ok} ok, {warnings} warnings, {failed} failed"));
    lines
}
