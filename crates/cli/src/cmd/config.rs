//! `drystone config`: the effective settings of a server, and whether they work.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use server::ServeConfig;
use server::check_config;

use super::serve::Serve;
use crate::output::CliError;

/// Look at the settings of a server without starting it
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every setting with its origin, then test the configuration
    ///
    /// Reads the file, the environment and the flags as `drystone serve` does. Then tries whether the data folder can be written, whether
    /// objects and catalog answer, and whether the key fits the certificate. Changes nothing. Ends with 1 if anything is wrong.
    #[command(
        about = "Print every setting with its origin, then test the configuration",
        long_about = "Print every setting with its origin, then test the configuration\n\nReads the file, the environment \
                      and the flags as `drystone serve` does. Then tries whether the data folder can be written, whether \
                      objects and catalog answer, and whether the key fits the certificate. Changes nothing. Ends with 1 \
                      if anything is wrong.",
        after_help = "Examples:\n  drystone config check --config hub.toml\n  \
                      drystone config check --data /srv/drystone --json"
    )]
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    serve: Serve,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    settings: Vec<Setting>,
    checks: Vec<Outcome>,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    value: Option<String>,
    source: String,
}

#[derive(Serialize)]
struct Outcome {
    what: &'static str,
    ok: bool,
    message: String,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Check(check) => check.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<ExitCode, CliError> {
        let layers = self.serve.layers()?;
        let config = ServeConfig::load(&layers).map_err(|error| CliError::Message(error.to_string()))?;
        let runtime = tokio::runtime::Runtime::new();
        let runtime = runtime.map_err(|error| CliError::Io("threads".to_owned(), error))?;
        let setting = |setting: server::EffectiveSetting| Setting {
            name: setting.name,
            value: setting.value,
            source: setting.source.to_string(),
        };
        let outcome = |checked: server::Checked| Outcome {
            what: checked.what,
            ok: checked.outcome.is_ok(),
            message: checked.outcome.unwrap_or_else(|wrong| wrong),
        };
        let report = Report {
            settings: config.effective(&layers).into_iter().map(setting).collect(),
            checks: runtime.block_on(check_config(&config)).into_iter().map(outcome).collect(),
        };
        let all_well = report.checks.iter().all(|check| check.ok);
        let mut out = io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
            false => print(&mut out, &report)?,
        }
        Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn print(out: &mut impl io::Write, report: &Report) -> io::Result<()> {
    for setting in &report.settings {
        let value = setting.value.as_deref().unwrap_or("-");
        writeln!(out, "{:21} {value}  ({})", setting.name, setting.source)?;
    }
    writeln!(out)?;
    for check in &report.checks {
        let word = if check.ok { "ok" } else { "WRONG" };
        writeln!(out, "{word:5} {}: {}", check.what, check.message)?;
    }
    Ok(())
}
