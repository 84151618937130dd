//! Runs a built binary as a user would, and keeps what it said.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// One call of a program. The caller passes `env!("CARGO_BIN_EXE_name")`.
#[derive(Debug)]
pub struct Call {
    command: Command,
    stdin: Vec<u8>,
    timeout: Duration,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: String,
}

impl Call {
    /// A call without arguments. Settings of the person who runs the tests do not reach the program.
    pub fn new(program: impl AsRef<Path>) -> Self {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os() {
            let foreign = ["DRYSTONE_", "HF_", "HUGGING_FACE_", "XET_"];
            if name.to_str().is_some_and(|name| foreign.iter().any(|start| name.starts_with(start))) {
                command.env_remove(name);
            }
        }
        Self { command, stdin: Vec::new(), timeout: Duration::from_secs(60) }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets its working folder.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir.as_ref());
        self
    }

    /// Gives it bytes to read.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Ends it by force after this long. A minute unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// If it does not start, or does not end in time.
    pub fn run(mut self) -> Ended {
        let pipes = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));

        // Each pipe on its own thread: a program that reads and writes at once would otherwise block.
        let mut input = child.stdin.take().expect("stdin is piped");
        let bytes = self.stdin;
        let write = thread::spawn(move || {
            // A program may end without reading everything.
            let _ = input.write_all(&bytes);
        });
        let stdout = drain(child.stdout.take().expect("stdout is piped"));
        let stderr = drain(child.stderr.take().expect("stderr is piped"));

        let code = wait(&mut child, self.timeout)
            .unwrap_or_else(|| panic!("{:?} did not end within {:?}", self.command, self.timeout));
        write.join().expect("writing to a pipe does not panic");
        let stdout = stdout.join().expect("reading a pipe does not panic");
        let stderr = stderr.join().expect("reading a pipe does not panic");
        Ended { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
    }
}

impl Ended {
    /// What it printed, as text, after checking that it ended well.
    ///
    /// # Panics
    ///
    /// If the exit code is not 0 or the output is not text.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        String::from_utf8(self.stdout).expect("output is UTF-8")
    }

    /// What it complained of, after checking that it ended with `code`.
    ///
    /// # Panics
    ///
    /// If it ended otherwise.
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self.stderr
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// The exit code, or nothing when the time is over and the child was killed.
fn wait(child: &mut Child, timeout: Duration) -> Option<Option<i32>> {
    let end = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return Some(status.code());
        }
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(3));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_than_a_pipe_holds_come_back() {
        let bytes = vec![b'x'; 1 << 20];
        let ended = Call::new("/bin/cat").stdin(bytes.clone()).run();
        assert_eq!((ended.code, ended.stdout), (Some(0), bytes));
    }

    #[test]
    fn a_failure_keeps_its_code_and_words() {
        let ended = Call::new("/bin/sh").args(["-c", "echo no >&2; exit 3"]).run();
        assert_eq!(ended.fails(3), "no\n");
    }

    #[test]
    #[should_panic(expected = "did not end")]
    fn a_program_that_hangs_is_ended() {
        Call::new("/bin/sleep").args(["60"]).timeout(Duration::from_millis(50)).run();
    }
}
