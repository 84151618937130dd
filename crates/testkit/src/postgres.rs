//! A real PostgreSQL server for tests: in a temporary folder, on a free port, gone when dropped.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A running server that trusts everybody on this machine.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    port: u16,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server. `None`, with a word about it, where PostgreSQL is not installed.
    ///
    /// # Panics
    ///
    /// If it is installed and does not start.
    pub fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            let _ =
                writeln!(std::io::stderr(), "skipped: PostgreSQL is not installed (make setup installs it)");
            return None;
        };
        let mut server = Self { folder: fresh_folder(), programs, port: 0, databases: AtomicU32::new(0) };
        server.own_folder();
        let data = server.data();
        let init = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"];
        expect_success("initdb", &server.run("initdb", |initdb| initdb.args(init).arg(&data)));
        server.listen();
        Some(server)
    }

    /// The URL of a new, empty database.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn fresh_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE DATABASE {name}"));
        format!("postgres://postgres@127.0.0.1:{port}/{name}", port = self.port)
    }

    /// Another server that follows this one: what this one acknowledges from now on is on both.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn standby(&self) -> Self {
        let mut standby = Self {
            folder: fresh_folder(),
            programs: self.programs.clone(),
            port: 0,
            databases: AtomicU32::new(0),
        };
        standby.own_folder();
        let (data, port) = (standby.data(), self.port.to_string());
        let args =
            ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-D"];
        expect_success("pg_basebackup", &standby.run("pg_basebackup", |copy| copy.args(args).arg(&data)));
        standby.listen();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("SELECT pg_reload_conf()");
        standby
    }

    /// Ends at once, as a machine that loses its power.
    pub fn kill(&self) {
        let data = self.data();
        self.run("pg_ctl", |pg_ctl| pg_ctl.arg("-D").arg(&data).args(["-w", "-m", "immediate", "stop"]));
    }

    /// Makes a standby one that takes writes, and waits for nobody.
    ///
    /// # Panics
    ///
    /// If it does not become one.
    pub fn promote(&self) {
        let data = self.data();
        expect_success(
            "promote",
            &self.run("pg_ctl", |pg_ctl| pg_ctl.arg("-D").arg(&data).args(["-w", "promote"])),
        );
        self.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.sql("SELECT pg_reload_conf()");
    }

    /// Where it listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn sql(&self, statement: &str) {
        let port = self.port.to_string();
        let args = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-q", "-c", statement];
        expect_success("psql", &self.run("psql", |psql| psql.args(args)));
    }

    fn own_folder(&self) {
        if is_root() {
            // The server refuses to run as root, so it gets a folder and a user of its own.
            let owned = Command::new("chown").arg("postgres").arg(&self.folder).output();
            expect_success("chown", &owned.expect("chown runs"));
        }
    }

    /// Another program may take a free port before the server does, so it tries a few.
    fn listen(&mut self) {
        let (data, log) = (self.data(), self.folder.join("log"));
        let mut last = None;
        for _ in 0..5 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
            self.port = listener.local_addr().expect("a bound port").port();
            drop(listener);
            // What is written here is thrown away: nothing is lost by not waiting for the disk.
            let options = format!(
                "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{}' -c fsync=off -c max_connections=64",
                self.port,
                self.folder.display()
            );
            let started = self.run("pg_ctl", |pg_ctl| {
                pg_ctl
                    .arg("-D")
                    .arg(&data)
                    .arg("-l")
                    .arg(&log)
                    .args(["-w", "-t", "60", "-o", &options, "start"])
            });
            if started.status.success() {
                return;
            }
            last = Some(started);
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        panic!("PostgreSQL does not start: {last:?}\n{log}");
    }

    fn run(&self, program: &str, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Output {
        let path = self.programs.join(program);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
                command
            }
            false => Command::new(path),
        };
        let command = arguments(&mut command).current_dir(&self.folder);
        command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.data();
        self.run("pg_ctl", |pg_ctl| pg_ctl.arg("-D").arg(&data).args(["-w", "-m", "immediate", "stop"]));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn fresh_folder() -> PathBuf {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let name = format!("drystone-pg-{}-{}", process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a temporary folder can be made");
    folder
}

/// The folder with the server's programs: Debian keeps them off the path.
fn find_programs() -> Option<PathBuf> {
    let on_path =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let mut debian: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    debian.sort();
    let has_all = |folder: &Path| ["initdb", "pg_ctl", "psql"].iter().all(|name| folder.join(name).is_file());
    debian.into_iter().rev().chain(on_path).find(|folder| has_all(folder))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

fn expect_success(what: &str, output: &Output) {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}
