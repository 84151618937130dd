//! The demo's commands: each is printed as it could be typed, then run as it was printed.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::output::{CliError, fail};

/// A folder in which commands run one after another, beside a server.
pub(super) struct Session {
    folder: PathBuf,
    programs: PathBuf,
    /// Environment variables of the commands.
    variables: Vec<(&'static str, String)>,
    server: Option<Running>,
    commands: Vec<String>,
    /// Says nothing: the caller wants JSON.
    quiet: bool,
}

/// Output of a command.
pub(super) struct Printed {
    pub(super) stdout: Vec<u8>,
    quiet: bool,
}

impl Session {
    pub(super) fn new(folder: &Path, quiet: bool) -> Result<Self, CliError> {
        let own = std::env::current_exe().map_err(|error| CliError::Io("this program".to_owned(), error))?;
        let programs = own.parent().map(Path::to_owned).unwrap_or_default();
        let folder = folder.canonicalize().map_err(|error| CliError::io(folder, error))?;
        // Neither the user's hub nor the user's cache has a part in this.
        let cache = folder.join("cache").display().to_string();
        let variables = vec![("DRYSTONE_CACHE_DIR", cache)];
        let session = Self { folder, programs, variables, server: None, commands: Vec::new(), quiet };
        session.print(&format!("$ cd {}", session.folder.display()))?;
        Ok(session)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A sentence before a step.
    pub(super) fn say(&self, what: &str) -> Result<(), CliError> {
        self.print(&format!("\n# {what}"))
    }

    /// A line about what a command printed for programs.
    pub(super) fn print_note(&self, what: &str) -> Result<(), CliError> {
        self.print(&format!("  {what}"))
    }

    /// Prints a command and runs it to its end.
    pub(super) async fn run(&mut self, line: &str) -> Result<Printed, CliError> {
        let mut running = self.start(line, "")?;
        let (stdout, stderr) = (running.drain_stdout(), running.drain_stderr());
        let status = running.ended().await?;
        let (stdout, stderr) = (stdout.await, stderr.await);
        let lost = |error| CliError::Message(format!("{line}: {error}"));
        let (stdout, stderr) = (stdout.map_err(lost)?, stderr.map_err(lost)?);
        match status.success() {
            true => Ok(Printed { stdout, quiet: self.quiet }),
            false => {
                let message = String::from_utf8_lossy(&stderr);
                fail(format!("{line}: {status}: {}", message.trim_end()))
            }
        }
    }

    /// Prints a command and leaves it running; sets what clients need. Tells where it listens.
    pub(super) async fn serve(&mut self, line: &str) -> Result<String, CliError> {
        let mut running = self.start(line, " &")?;
        drop(running.drain_stderr());
        let stdout = running.0.stdout.take();
        self.server = Some(running);
        let listening = tokio::task::spawn_blocking(move || {
            let lines = stdout.map(|pipe| BufReader::new(pipe).lines()).into_iter().flatten();
            lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()))
        });
        let Some(url) = listening.await.ok().flatten() else {
            return fail(format!("{line}: it ended before it listened"));
        };
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

    /// Stops the server; the commands that ran.
    pub(super) async fn end(mut self) -> Result<Vec<String>, CliError> {
        if let Some(mut server) = self.server.take() {
            server.stop();
            server.ended().await?;
        }
        Ok(self.commands)
    }

    fn start(&mut self, line: &str, after: &str) -> Result<Running, CliError> {
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
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.map(Running).map_err(|error| CliError::io(&program, error))
    }

    fn print(&self, line: &str) -> Result<(), CliError> {
        match self.quiet {
            true => Ok(()),
            false => Ok(writeln!(io::stdout(), "{line}")?),
        }
    }
}

impl Printed {
    /// As it is, on our own output too.
    pub(super) fn shown(self) -> Result<String, CliError> {
        if !self.quiet {
            io::stdout().write_all(&self.stdout)?;
        }
        Ok(String::from_utf8_lossy(&self.stdout).into_owned())
    }

    pub(super) fn json(self) -> Result<Value, CliError> {
        Ok(serde_json::from_slice(&self.stdout)?)
    }
}

/// A program that does not outlive us.
struct Running(Child);

impl Running {
    async fn ended(&mut self) -> Result<ExitStatus, CliError> {
        loop {
            let status = self.0.try_wait().map_err(|error| CliError::Io("a command".to_owned(), error))?;
            if let Some(status) = status {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything it prints, read beside it: a full pipe would stop it.
    fn drain_stdout(&mut self) -> tokio::task::JoinHandle<Vec<u8>> {
        drain(self.0.stdout.take())
    }

    fn drain_stderr(&mut self) -> tokio::task::JoinHandle<Vec<u8>> {
        drain(self.0.stderr.take())
    }

    fn stop(&mut self) {
        // It may have ended by itself. What it stored is on the disk; nothing is lost by not asking it kindly.
        let _ = self.0.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        let _ = self.0.wait();
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> tokio::task::JoinHandle<Vec<u8>> {
    tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}
