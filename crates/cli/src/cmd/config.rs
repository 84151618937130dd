//! `drystone config`: the effective settings of a server, and whether they work.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use server::ServeConfig;
use server::check_config;

use super::serve::Serve;
use crate::output::{CliError, block_on, exit_code, print_result};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print every setting with its origin, then test the configuration
    ///
    /// Reads the file, the environment and the flags as `drystone serve` does. Then tests whether the data directory can be written, whether
    /// objects and catalog answer, and whether the key fits the certificate. Changes nothing. Exits with 1 if anything is wrong.
    #[command(
        after_help = "Examples:\n  drystone config check --config hub.toml\n  drystone config check --data /srv/drystone --json"
    )]
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    serve: Serve,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ConfigVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Check(check) => check.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<ExitCode, CliError> {
        let layers = self.serve.layers()?;
        let config = ServeConfig::load(&layers).map_err(CliError::message)?;
        let checks = block_on(async { Ok(check_config(&config).await) })?;
        let checks: Vec<_> = checks.into_iter().map(|check| (check.what, check.outcome)).collect();
        let all_well = checks.iter().all(|(_, outcome)| outcome.is_ok());
        let checks = checks.iter().map(|(what, outcome)| {
            let (Ok(message) | Err(message)) = outcome;
            (*what, outcome.is_ok(), message)
        });
        let settings = config.effective(&layers);
        let value = json!({
            "settings": settings.iter().map(|setting| {
                json!({"name": setting.name, "value": setting.value, "source": setting.source.to_string()})
            }).collect::<Vec<_>>(),
            "checks": checks.clone().map(|(what, ok, message)| {
                json!({"what": what, "ok": ok, "message": message})
            }).collect::<Vec<_>>(),
        });
        let settings = settings.iter().map(|setting| {
            let value = setting.value.as_deref().unwrap_or("-");
            format!("{:21} {value}  ({})", setting.name, setting.source)
        });
        let checks = checks.map(|(what, ok, message)| {
            let word = if ok { "ok" } else { "WRONG" };
            format!("{word:5} {what}: {message}")
        });
        print_result(self.json, &value, settings.chain([String::new()]).chain(checks))?;
        Ok(exit_code(all_well))
    }
}
