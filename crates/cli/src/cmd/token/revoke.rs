//! `drystone token revoke`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use server::House;
use store::hub::{TokenRow, Tokens};

use super::{Shown, StoreArgs, block_on, now_s};
use crate::output::CliError;

/// Take a token back
///
/// A running server refuses it within a few seconds. CAS tokens that were got with it stay good until they expire (`token_ttl_s`).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone token revoke 3f9c2a41b7de\n  drystone token revoke ci --data /srv/drystone"
)]
pub(super) struct Revoke {
    /// The token's id, or its label if no other live token has it
    #[arg(value_name = "ID|LABEL")]
    which: String,

    #[command(flatten)]
    place: StoreArgs,

    /// Print JSON: the token as it stands now
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let now_s = now_s();
        let config = self.place.config()?;
        let row = block_on(async {
            let catalog = self.place.open_catalog().await?;
            let id =
                pick(&Tokens::new(&catalog).all().await.map_err(CliError::message)?, &self.which, now_s)?;
            let row = Tokens::new(&catalog).revoke(&id, now_s).await.map_err(CliError::message)?;
            row.ok_or_else(|| CliError::Message(format!("no token {id}")))
        })?;
        let house = House::new(&config.data);
        let file = house.admin_token_file();
        let removed = house.remove_admin_token(&row).map_err(|error| CliError::io(&file, error))?;
        let mut out = io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string(&Shown::new(&row, now_s))?)?,
            false => {
                writeln!(out, "revoked {} ({})", row.id, row.label)?;
                if removed {
                    writeln!(out, "removed {}", file.display())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The id of the one token that is meant.
fn pick(rows: &[TokenRow], which: &str, now_s: u64) -> Result<String, CliError> {
    if let Some(row) = rows.iter().find(|row| row.id == which) {
        return Ok(row.id.clone());
    }
    let labelled: Vec<_> = rows.iter().filter(|row| row.label == which && row.is_live(now_s)).collect();
    match labelled.as_slice() {
        [row] => Ok(row.id.clone()),
        [] => Err(CliError::Message(format!(
            "no live token has the id or label {which}: see `drystone token list`"
        ))),
        several => {
            let ids: Vec<_> = several.iter().map(|row| row.id.as_str()).collect();
            Err(CliError::Message(format!(
                "several tokens are labelled {which}, name one: {}",
                ids.join(", ")
            )))
        }
    }
}
