//! `drystone token revoke`.

use std::process::ExitCode;

use clap::Args;
use server::DataDir;
use store::hub::{TokenRow, Tokens};

use super::{StoreArgs, run_as_operator, token_json};
use crate::clock::now_s;
use crate::output::{CliError, fail, print_result};

/// Revoke a token
///
/// A running server refuses it within 2 seconds, and with it the sessions, CAS tokens and LFS URLs that were issued for it. Data URLs that clients
/// have already stay valid until they expire (`url_ttl_s`).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone token revoke 3f9c2a41b7de\n  drystone token revoke ci --data /srv/drystone"
)]
pub(crate) struct Revoke {
    /// The token's id, or its label if no other live token has it
    #[arg(value_name = "ID|LABEL")]
    which: String,

    #[command(flatten)]
    place: StoreArgs,

    /// Print the token as JSON
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let now_s = now_s();
        let config = self.place.config()?;
        let row = run_as_operator(async {
            let catalog = self.place.open_catalog().await?;
            let id = pick(&Tokens::new(&catalog).all().await?, &self.which, now_s)?;
            let row = Tokens::new(&catalog).revoke(&id, now_s).await?;
            row.ok_or_else(|| CliError::Message(format!("no token {id}")))
        })?;
        let data_dir = DataDir::new(&config.data);
        let file = data_dir.admin_token_file();
        let removed = data_dir.remove_admin_token(&row).map_err(|error| CliError::io(&file, error))?;
        let mut lines = vec![format!("revoked {} ({})", row.id, row.label)];
        lines.extend(removed.then(|| format!("removed {}", file.display())));
        print_result(self.json, &token_json(&row), lines)?;
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
        [] => fail(format!("no live token has the id or label {which}: see `drystone token list`")),
        several => {
            let ids: Vec<_> = several.iter().map(|row| row.id.as_str()).collect();
            fail(format!("several tokens are labelled {which}, name one: {}", ids.join(", ")))
        }
    }
}
