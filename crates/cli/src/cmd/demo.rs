//! `drystone demo`: a tour in a minute, on a temporary hub.

mod files;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::steps::Session;
use super::store_args::human;
use crate::output::{CliError, block_on, fail, print_result};
use crate::transfer::saved_percent;

/// Show what a hub does, with a temporary one
///
/// Starts a server on a free port of this machine, pushes a generated model, changes one layer in a hundred, pushes it again, pulls it and
/// compares, packs pictures into a dataset, pushes that and reads records of it at random from the hub. Prints every command before it runs
/// it, and finally what was saved. Leaves nothing behind.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  drystone demo\n  drystone demo --keep demo    # then look at its files\n  drystone demo --files samples"
)]
pub(crate) struct Demo {
    /// Work in this folder, which must be empty or new, and leave everything there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Only write the generated files into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "json"])]
    files: Option<PathBuf>,

    /// Size of the model
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    model_mib: u64,

    /// Print the commands and the table as JSON
    #[arg(long)]
    json: bool,
}

/// One push, and what the hub held after it.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    pushed_bytes: u64,
    sent_bytes: u64,
    logical_bytes: u64,
    stored_bytes: u64,
    saved_percent: f64,
}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        if let Some(folder) = &self.files {
            files::write(folder, self.model_mib)?;
            return Ok(ExitCode::SUCCESS);
        }
        block_on(async {
            // Dropped with everything it owns on Ctrl-C: the server stops, the directory is deleted.
            tokio::select! {
                done = self.show() => done,
                () = server::stop_signal() => {
                    fail("interrupted; the server is stopped")
                }
            }
        })
    }

    async fn show(&self) -> Result<ExitCode, CliError> {
        let temporary;
        let folder: &Path = match &self.keep {
            Some(folder) => {
                take(folder)?;
                folder
            }
            None => {
                temporary = tempfile::Builder::new().prefix("drystone-demo-").tempdir()?;
                temporary.path()
            }
        };
        let mut session = Session::new(folder, self.json)?;
        let rows = self.run_story(&mut session).await?;
        let report = json!({"commands": session.commands(), "pushes": rows, "kept": self.keep});
        drop(session);
        print_result(self.json, &report, table(&rows))?;
        if let (false, Some(folder)) = (self.json, &self.keep) {
            let folder = folder.display();
            println!("\neverything is in {folder}; look around: drystone serve --data {folder}/hub");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Every command in its order.
    async fn run_story(&self, session: &mut Session) -> Result<Vec<Row>, CliError> {
        session.say("A model, the same with one layer of a hundred trained further, and pictures:")?;
        session.run(&format!("drystone demo --files . --model-mib {}", self.model_mib)).await?;
        session.say("A hub:")?;
        let url = session.serve("drystone serve --listen 127.0.0.1:0 --data hub").await?;

        session.say("The model goes there:")?;
        let first = push(session, "drystone push --json --create before/ demo/model", "model").await?;
        session.say("One layer changed, and a longer header moved every byte behind it:")?;
        let second = push(session, "drystone push --json after/ demo/model", "1 % changed").await?;
        session.say("It comes back, and is the same:")?;
        session.run("drystone pull demo/model copy/").await?;
        let line = "drystone hash after/model.safetensors copy/model.safetensors";
        let hashes = session.run_and_show(line).await?;
        let hash = |line: Option<&str>| line.and_then(|line| Some(line.split(' ').next()?.to_owned()));
        let mut lines = hashes.lines();
        if hash(lines.next()) != hash(lines.next()) {
            return fail("what was pulled is not what was pushed");
        }

        session.say("Pictures and their metadata become one pack:")?;
        session.run_and_show("shardpack create --input pictures --output pictures.shardpack").await?;
        let push_pack = "drystone push --json --create pictures.shardpack datasets/demo/pictures";
        let third = push(session, push_pack, "pictures").await?;
        session.say("Records are read from the hub, by number, without the rest of the pack:")?;
        for number in [417, 8, 263] {
            let pack = format!("{url}/datasets/demo/pictures/resolve/main/pictures.shardpack");
            let read = session.run(&format!("shardpack cat {pack} --ordinal {number} picture.png")).await?;
            let name = files::picture_name(number);
            let path = session.folder().join("pictures").join(&name);
            let written = std::fs::read(&path).map_err(|error| CliError::io(&path, error))?;
            if read != written {
                return fail(format!("record {number} is not pictures/{name}"));
            }
            session.print_note(&format!("{} bytes, the same as pictures/{name}", written.len()))?;
        }
        Ok(vec![first, second, third])
    }
}

/// Pushes, and queries what the hub stores after that.
async fn push(session: &mut Session, command: &str, what: &'static str) -> Result<Row, CliError> {
    let pushed = session.run_for_json(command).await?;
    session.print_note(&format!(
        "{}: {} new, {} sent",
        human(number(&pushed, "logical_bytes")?),
        human(number(&pushed, "new_bytes")?),
        human(number(&pushed, "sent_bytes")?)
    ))?;
    let stats = session.run_for_json("drystone stats --data hub --json").await?;
    let (logical_bytes, stored_bytes) =
        (number(&stats, "repository_bytes")?, number(&stats, "stored_bytes")?);
    session.print_note(&format!(
        "{} in repositories, {} stored",
        human(logical_bytes),
        human(stored_bytes)
    ))?;
    Ok(Row {
        what,
        pushed_bytes: number(&pushed, "logical_bytes")?,
        sent_bytes: number(&pushed, "sent_bytes")?,
        logical_bytes,
        stored_bytes,
        saved_percent: saved_percent(logical_bytes, stored_bytes),
    })
}

fn number(value: &Value, field: &str) -> Result<u64, CliError> {
    value[field].as_u64().ok_or_else(|| CliError::Message(format!("no number {field} in {value}")))
}

/// Refuses a directory with other files in it.
fn take(folder: &Path) -> Result<(), CliError> {
    let name = |error| CliError::io(folder, error);
    std::fs::create_dir_all(folder).map_err(name)?;
    match std::fs::read_dir(folder).map_err(name)?.next() {
        None => Ok(()),
        Some(_) => {
            let folder = folder.display();
            fail(format!("{folder} is not empty; name a new folder with --keep"))
        }
    }
}

fn table(rows: &[Row]) -> Vec<String> {
    let line = |what: &str, [files, sent, logical, stored]: [&str; 4], saved: &str| {
        format!("{what:<12} {files:>12} {sent:>12} {logical:>16} {stored:>12} {saved:>8}")
    };
    let head = line("push", ["files", "sent", "in repositories", "stored"], "saved");
    let row = |row: &Row| {
        let bytes = [row.pushed_bytes, row.sent_bytes, row.logical_bytes, row.stored_bytes].map(human);
        line(row.what, bytes.each_ref().map(String::as_str), &format!("{:.1} %", row.saved_percent))
    };
    [String::new(), head].into_iter().chain(rows.iter().map(row)).collect()
}
