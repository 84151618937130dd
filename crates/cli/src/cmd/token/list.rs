//! `drystone token list`.

use std::process::ExitCode;

use clap::Args;
use store::hub::{Bound, TokenRow, Tokens};

use super::{StoreArgs, repo_text, run_as_operator, state_of, token_json};
use crate::clock::now_s;
use crate::output::{CliError, print_result};

/// List the tokens of a server, without their secrets
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone token list --data /srv/drystone\n  drystone token list --all --json"
)]
pub(crate) struct List {
    #[command(flatten)]
    place: StoreArgs,

    /// Include expired and revoked tokens
    #[arg(long)]
    all: bool,

    /// Print JSON: a list
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let now_s = now_s();
        let rows = run_as_operator(async {
            Tokens::new(&*self.place.open_catalog().await?).all().await.map_err(CliError::message)
        })?;
        let rows: Vec<_> = rows.iter().filter(|row| self.all || row.is_live(now_s)).collect();
        let values: Vec<_> = rows.iter().map(|row| token_json(row)).collect();
        let mut lines =
            vec![["id", "scope", "where", "whose", "state", "last used", "label"].map(str::to_owned)];
        lines.extend(rows.iter().map(|row| line(row, now_s)));
        print_result(self.json, &values, aligned(&lines))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn line(row: &TokenRow, now_s: u64) -> [String; 7] {
    let place = match &row.bound {
        Bound::Everywhere => "everywhere".to_owned(),
        Bound::Namespace(namespace) => format!("{namespace}/*"),
        Bound::Repo(scope) => repo_text(scope),
    };
    let state = match (state_of(row, now_s), row.expires_s) {
        ("live", Some(expires_s)) => format!("{} left", span(expires_s.saturating_sub(now_s))),
        (state, _) => state.to_owned(),
    };
    let used = row.used_s.map_or("never".to_owned(), |used_s| {
        // The catalog knows the hour, not more.
        let hours = now_s.saturating_sub(used_s) / 3600;
        if hours == 0 { "this hour".to_owned() } else { format!("{} ago", span(hours * 3600)) }
    });
    let scope = row.rights.as_str().to_owned();
    [row.id.clone(), scope, place, row.subject.clone(), state, used, row.label.clone()]
}

/// A time in its largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Aligns columns; the last is not padded.
fn aligned<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..N).map(|at| width(at).unwrap_or(0)).collect();
    let text = |line: &[String; N]| {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_their_largest_unit() {
        for (seconds, text) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
        {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn columns_stand_under_each_other() {
        let lines = [["a", "b"], ["long", "c"]].map(|line| line.map(str::to_owned));
        assert_eq!(aligned(&lines), ["a     b", "long  c"]);
    }
}
