//! Snapshot: all rows of a catalog as they were at one moment, in a SQLite file of their own.
//!
//! SQLite copies its own file beside writers. From PostgreSQL every table is read in one transaction that sees one moment.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt as _;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{ConnectOptions as _, PgConnection, Row as _};

use crate::db::Catalog;
use crate::db::postgres::translated;
use crate::db::tables::{Column, Holds, Table, tables};
use crate::error::{Error, ErrorKind, Result};
use crate::upkeep::backup::sqlite_file;

/// How many rows were copied from PostgreSQL. Anyone may look.
#[derive(Debug, Default)]
pub struct SnapshotProgress {
    rows: AtomicU64,
}

impl SnapshotProgress {
    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// Writes the catalog at `url` to a file, which must not be there, for its owner alone.
pub async fn snapshot(url: &str, file: &Path, progress: &SnapshotProgress) -> Result<()> {
    make_private(file).map_err(|source| super::failed(file, source))?;
    match url.split(':').next() {
        Some("sqlite") => {
            let (from, to) = (sqlite_file(url)?, file.to_owned());
            let copied = tokio::task::spawn_blocking(move || copy_sqlite(&from, &to)).await;
            copied.map_err(|source| Error::caused(ErrorKind::Internal, "snapshot of the catalog", source))?
        }
        Some("postgres" | "postgresql") => copy_postgres(url, file, progress).await,
        _ => Err(Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")),
    }
}

/// Makes an empty file for its owner alone: what is in a catalog is not for everybody on the machine.
pub(crate) fn make_private(file: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(|_| ())
}

/// Copies a database within one read transaction. Nothing but SQLite may open its files.
pub(crate) fn copy_sqlite(from: &Path, to: &Path) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copied = Connection::open_with_flags(from, flags).and_then(|connection| {
        connection.busy_timeout(std::time::Duration::from_secs(30))?;
        let name = to.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(to.to_owned()))?;
        connection.execute("VACUUM INTO ?1", [name]).map(|_| ())
    });
    copied.map_err(|source| {
        let kind = match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Corrupt,
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked,
            ) => ErrorKind::Unavailable,
            _ => ErrorKind::Internal,
        };
        Error::caused(kind, format!("copy {} to {}", from.display(), to.display()), source)
    })
}

async fn copy_postgres(url: &str, file: &Path, progress: &SnapshotProgress) -> Result<()> {
    // Makes the tables.
    Catalog::open_file(file).await?.close().await;
    let invalid = |source: sqlx::Error| Error::caused(ErrorKind::Invalid, "catalog URL", source);
    let options = PgConnectOptions::from_str(url).map_err(invalid)?;
    let failed = |source| failed_read("snapshot of PostgreSQL", source);
    let mut source = options.connect().await.map_err(failed)?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
    sqlx::query(begin).execute(&mut source).await.map_err(failed)?;
    let mut target = Target::open(file.to_owned())?;
    for table in tables(&target.connection)? {
        target = copy_table(&mut source, target, &table, progress).await?;
    }
    sqlx::query("COMMIT").execute(&mut source).await.map_err(failed)?;
    target.finish()
}

async fn copy_table(
    source: &mut PgConnection,
    mut target: Target,
    table: &Table,
    progress: &SnapshotProgress,
) -> Result<Target> {
    let names = table.column_names();
    let failed = |source| failed_read(&format!("snapshot of table {}", table.name), source);
    let query = sqlx::AssertSqlSafe(format!("SELECT {names} FROM {}", table.name));
    let places: Vec<_> = (1..=table.columns.len()).map(|place| format!("?{place}")).collect();
    let insert = format!("INSERT INTO {} ({names}) VALUES ({})", table.name, places.join(", "));
    target.execute(&format!("DELETE FROM {}", table.name))?;
    let mut rows = sqlx::query(query).fetch(source);
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    loop {
        let row = rows.try_next().await.map_err(failed)?;
        let is_last = row.is_none();
        if let Some(row) = row {
            let values = values(&row, table).map_err(failed)?;
            batch_bytes += values.iter().map(weight_bytes).sum::<usize>();
            batch.push(values);
        }
        if is_last || batch.len() >= BATCH_ROWS_MAX || batch_bytes >= BATCH_BYTES_MAX {
            progress.rows.fetch_add(batch.len() as u64, Ordering::Relaxed);
            let (batch, insert) = (std::mem::take(&mut batch), insert.clone());
            batch_bytes = 0;
            let wrote = tokio::task::spawn_blocking(move || target.insert(&insert, batch).map(|()| target));
            let wrote = wrote.await;
            target =
                wrote.map_err(|source| Error::caused(ErrorKind::Internal, "write a snapshot", source))??;
        }
        if is_last {
            return Ok(target);
        }
    }
}

type Value = rusqlite::types::Value;

fn values(row: &PgRow, table: &Table) -> std::result::Result<Vec<Value>, sqlx::Error> {
    let value = |(at, column): (usize, &Column)| {
        Ok(match column.holds {
            Holds::Bytes => row.try_get::<Option<Vec<u8>>, _>(at)?.map_or(Value::Null, Value::Blob),
            Holds::Number => row.try_get::<Option<i64>, _>(at)?.map_or(Value::Null, Value::Integer),
            Holds::Text => row.try_get::<Option<String>, _>(at)?.map_or(Value::Null, Value::Text),
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

fn weight_bytes(value: &Value) -> usize {
    match value {
        Value::Blob(bytes) => bytes.len() + 32,
        Value::Text(text) => text.len() + 32,
        _ => 32,
    }
}

/// The file that is written, in one transaction.
struct Target {
    connection: Connection,
    file: PathBuf,
}

impl Target {
    fn open(file: PathBuf) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let opened = Connection::open_with_flags(&file, flags).and_then(|connection| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Ok(Self { connection, file }),
            Err(source) => Err(failed(&file, source)),
        }
    }

    fn execute(&self, statement: &str) -> Result<()> {
        self.connection.execute(statement, []).map(|_| ()).map_err(|source| failed(&self.file, source))
    }

    fn insert(&self, statement: &str, batch: Vec<Vec<Value>>) -> Result<()> {
        let write = || {
            let mut statement = self.connection.prepare_cached(statement)?;
            batch
                .into_iter()
                .try_for_each(|row| statement.execute(rusqlite::params_from_iter(row)).map(|_| ()))
        };
        write().map_err(|source| failed(&self.file, source))
    }

    fn finish(self) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(|source| failed(&self.file, source))?;
        self.connection.close().map_err(|(_, source)| failed(&self.file, source))
    }
}

fn failed_read(what: &str, source: sqlx::Error) -> Error {
    let error = translated(source);
    Error::caused(error.kind(), format!("catalog: {what}"), error)
}

fn failed(file: &Path, source: rusqlite::Error) -> Error {
    let kind = match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, file.display().to_string(), source)
}

const BATCH_ROWS_MAX: usize = 1000;

/// What a batch holds in memory, besides as much again on its way.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
