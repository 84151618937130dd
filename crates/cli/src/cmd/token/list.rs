//! `drystone token list`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use store::hub::{Bound, TokenRow, Tokens};

use super::{Shown, StoreArgs, block_on, now_s, repo_text, state_of};
use crate::output::CliError;

/// List the tokens of a server, never what they are
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone token list --data /srv/drystone\n  drystone token list --all --json"
)]
pub(super) struct List {
    #[command(flatten)]
    place: StoreArgs,

    /// Also those that have expired or were revoked
    #[arg(long)]
    all: bool,

    /// Print JSON: a list
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let now_s = now_s();
        let rows = block_on(async {
            Tokens::new(&*self.place.open_catalog().await?).all().await.map_err(CliError::message)
        })?;
        let rows: Vec<_> = rows.iter().filter(|row| self.all || row.is_live(now_s)).collect();
        let mut out = io::stdout().lock();
        if self.json {
            let shown: Vec<_> = rows.iter().map(|row| Shown::new(row, now_s)).collect();
            writeln!(out, "{}", serde_json::to_string(&shown)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines =
            vec![["id", "scope", "where", "whose", "state", "last used", "label"].map(str::to_owned)];
        lines.extend(rows.iter().map(|row| line(row, now_s)));
        for line in aligned(&lines) {
            writeln!(out, "{line}")?;
        }
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

/// Columns under each other; the last is as long as it is.
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
    fn times_are_told_in_their_largest_unit() {
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
