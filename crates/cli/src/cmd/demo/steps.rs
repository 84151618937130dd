//! The demo's commands: each is printed as it could be typed, then run as it was printed.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::output::{CliError, fail};

/// A directory in which commands run one after another, beside a server.
pub(super) struct Session {
    folder: PathBuf,
    programs: PathBuf,
    /// Environment variables of the commands.
    variables: Vec<(&'static str, String)>,
    server: Option<Child>,
    running: Option<Child>,
    commands: Vec<String>,
    /// Prints nothing: the caller prints JSON.
    quiet: bool,
}

impl Session {
    pub(super) fn new(folder: &Path, quiet: bool) -> Result<Self, CliError> {
        let own = std::env::current_exe().map_err(|error| CliError::Io("this program".to_owned(), error))?;
        let programs = own.parent().map(Path::to_owned).unwrap_or_default();
        let folder = folder.canonicalize().map_err(|error| CliError::io(folder, error))?;
        // Independent of the user's hub and cache.
        let variables = vec![("DRYSTONE_CACHE_DIR", folder.join("cache").display().to_string())];
        let session =
            Self { folder, programs, variables, server: None, running: None, commands: Vec::new(), quiet };
        session.print(&format!("$ cd {}", session.folder.display()))?;
        Ok(session)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Prints a sentence before a step.
    pub(super) fn say(&self, what: &str) -> Result<(), CliError> {
        self.print(&format!("\n# {what}"))
    }

    /// Prints a line about the JSON output of a command.
    pub(super) fn print_note(&self, what: &str) -> Result<(), CliError> {
        self.print(&format!("  {what}"))
    }

    /// Prints a command, runs it to its end, and returns its output.
    pub(super) async fn run(&mut self, line: &str) -> Result<Vec<u8>, CliError> {
        let mut child = self.start(line, "")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let running = self.running.insert(child);
        let (stdout, stderr) = tokio::join!(read_all(stdout), read_all(stderr));
        let status = running.wait().await.map_err(|error| CliError::Io(line.to_owned(), error))?;
        self.running = None;
        match status.success() {
            true => Ok(stdout),
            false => fail(format!("{line}: {status}: {}", String::from_utf8_lossy(&stderr).trim_end())),
        }
    }

    /// [`Session::run`], with the output printed too.
    pub(super) async fn run_and_show(&mut self, line: &str) -> Result<String, CliError> {
        let stdout = self.run(line).await?;
        if !self.quiet {
            io::stdout().write_all(&stdout)?;
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// [`Session::run`], with the output parsed.
    pub(super) async fn run_for_json(&mut self, line: &str) -> Result<Value, CliError> {
        Ok(serde_json::from_slice(&self.run(line).await?)?)
    }

    /// Prints a command and leaves it running; sets what clients need. Returns its URL.
    pub(super) async fn serve(&mut self, line: &str) -> Result<String, CliError> {
        let mut child = self.start(line, " &")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        self.server = Some(child);
        let Some(stdout) = stdout else { return fail(format!("{line}: no output")) };
        let mut lines = BufReader::new(stdout).lines();
        let url = loop {
            match lines.next_line().await {
                Ok(Some(line)) if line.starts_with("listening on ") => {
                    break line.replace("listening on ", "");
                }
                Ok(Some(_)) => {}
                _ => return fail(format!("{line}: it ended before it listened")),
            }
        };
        // A full pipe would stop the server: both are read to their end.
        tokio::spawn(read_all(stderr));
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let token_file = self.folder.join("hub/admin.token");
        let token = std::fs::read_to_string(&token_file).map_err(|error| CliError::io(&token_file, error))?;
        self.print_note(&format!("listening on {url}"))?;
        let line = format!("export DRYSTONE_ENDPOINT={url} DRYSTONE_TOKEN=$(cat hub/admin.token)");
        self.print(&format!("$ {line}"))?;
        self.commands.push(line);
        self.variables.push(("DRYSTONE_ENDPOINT", url.clone()));
        self.variables.push(("DRYSTONE_TOKEN", token.trim().to_owned()));
        Ok(url)
    }

    /// The commands that ran.
    pub(super) fn commands(&self) -> &[String] {
        &self.commands
    }

    fn start(&mut self, line: &str, after: &str) -> Result<Child, CliError> {
        self.print(&format!("$ {line}{after}"))?;
        self.commands.push(format!("{line}{after}"));
        let mut words = line.split(' ');
        let program = self.programs.join(words.next().unwrap_or_default());
        let mut command = Command::new(&program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["DRYSTONE_", "HF_"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(&*name);
            }
        }
        command.args(words).current_dir(&self.folder).envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| CliError::io(&program, error))
    }

    fn print(&self, line: &str) -> Result<(), CliError> {
        match self.quiet {
            true => Ok(()),
            false => Ok(writeln!(io::stdout(), "{line}")?),
        }
    }
}

impl Drop for Session {
    /// Kills what still runs and waits for its end: the directory is deleted next. What the server stored is on the disk.
    fn drop(&mut self) {
        for child in [&mut self.running, &mut self.server].into_iter().flatten() {
            while child.start_kill().is_ok() && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes).await;
    }
    bytes
}
