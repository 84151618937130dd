//! Migrate: every row of a SQLite catalog into an empty PostgreSQL one, in one transaction.
//!
//! Both have the same tables and columns, so rows are copied as they are, whatever they mean: what a later version adds
//! comes along. The file is held alone meanwhile; a server that has it open is an error, not a race.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::mpsc;

use crate::db::sql::{Sql, Value};
use crate::db::sqlite::{file_of, translated};
use crate::db::tables::{Holds, Table, tables};
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Each table and how many rows it has, in the order of their names.
    pub tables: Vec<(String, u64)>,
}

/// How far it is. Anyone may look.
#[derive(Debug, Default)]
pub struct MigrateProgress {
    rows: AtomicU64,
}

impl MigrateProgress {
    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// Rows of one table, on their way.
struct Batch {
    table: Arc<Table>,
    rows: Vec<Vec<Value<'static>>>,
}

/// Copies the catalog at `from`, `sqlite:///file`, to the one at `to`, `postgres://…`, which must be empty. `dry_run` does
/// all of it and then releases it.
pub async fn migrate(from: &str, to: &str, dry_run: bool, progress: &MigrateProgress) -> Result<Migrated> {
    let file = file_of(from)?;
    if !file.is_file() {
        return Err(Error::new(ErrorKind::NotFound, format!("{}: there is no catalog", file.display())));
    }
    // Nobody may have it open, also not while its tables are brought up to date.
    drop(open_alone(&file)?);
    Catalog::open_file(&file).await?.close().await;
    let source = open_alone(&file)?;
    let target = Catalog::open_postgres(to).await?;
    let mut tx = target.begin("migrate to PostgreSQL").await?;
    let all: Vec<Arc<Table>> = tables(&source)?.into_iter().map(Arc::new).collect();
    for table in &all {
        require_empty(&mut tx, &table.name).await?;
    }
    let (sender, mut batches) = mpsc::channel(BATCHES_MAX);
    let read = tokio::task::spawn_blocking({
        let all = all.clone();
        move || all.iter().try_for_each(|table| read_table(&source, table, &sender))
    });
    let mut counts = vec![0_u64; all.len()];
    while let Some(Batch { table, rows }) = batches.recv().await {
        let count = rows.len() as u64;
        let text = format!("INSERT INTO {} ({}) VALUES $1", table.name, table.column_names());
        tx.run(Sql::new(text).rows_of(rows)).await?;
        progress.rows.fetch_add(count, Ordering::Relaxed);
        if let Some(at) = all.iter().position(|known| Arc::ptr_eq(known, &table)) {
            counts[at] += count;
        }
    }
    let read =
        read.await.map_err(|source| Error::caused(ErrorKind::Internal, "migrate from SQLite", source))?;
    read.map_err(|source| failed(&file, source))?;
    for table in &all {
        continue_numbers(&mut tx, table).await?;
    }
    if !dry_run {
        tx.commit().await?;
    }
    let tables = all.iter().zip(counts).map(|(table, count)| (table.name.clone(), count));
    Ok(Migrated { tables: tables.collect() })
}

/// Opens the file so that nobody else can, which fails while another process has it open.
fn open_alone(file: &Path) -> Result<Connection> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
        Ok(connection)
    };
    open().map_err(|source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let message = format!("{} is in use: stop the server first", file.display());
            Error::caused(ErrorKind::Conflict, message, source)
        }
        _ => failed(file, source),
    })
}

async fn require_empty(tx: &mut Tx, table: &str) -> Result<()> {
    let rows: Vec<()> = tx.rows(Sql::new(format!("SELECT 1 FROM {table} LIMIT 1"))).await?;
    match rows.is_empty() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the catalog to migrate to has rows in {table}: it must be a database no server has used"
            ),
        )),
    }
}

/// Reads a table in batches. Blocks.
fn read_table(source: &Connection, table: &Arc<Table>, to: &mpsc::Sender<Batch>) -> rusqlite::Result<()> {
    let mut query = source.prepare(&format!("SELECT {} FROM {}", table.column_names(), table.name))?;
    let mut found = query.query([])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let values = (0..table.columns.len()).map(|at| row.get_ref(at).map(value));
        let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
        bytes += values.iter().map(weight_bytes).sum::<usize>();
        rows.push(values);
        if rows.len() >= BATCH_ROWS_MAX || bytes >= BATCH_BYTES_MAX {
            bytes = 0;
            // Nobody waits for it any more: that side says why.
            if to.blocking_send(Batch { table: table.clone(), rows: std::mem::take(&mut rows) }).is_err() {
                return Ok(());
            }
        }
    }
    if !rows.is_empty() {
        let _ = to.blocking_send(Batch { table: table.clone(), rows });
    }
    Ok(())
}

fn value(found: ValueRef<'_>) -> Value<'static> {
    match found {
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => bytes.to_vec().into(),
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
    }
}

fn weight_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Null | Value::Int(_) => 16,
        Value::Text(text) => text.len() + 24,
        Value::Bytes(bytes) => bytes.len() + 24,
    }
}

/// Numbers the database gives out go on after those that came along.
async fn continue_numbers(tx: &mut Tx, table: &Table) -> Result<()> {
    if !table.columns.first().is_some_and(|column| column.name == "id" && column.holds == Holds::Number) {
        return Ok(());
    }
    let next = format!(
        "SELECT setval(pg_get_serial_sequence('{0}', 'id'), MAX(id)) FROM {0} HAVING MAX(id) IS NOT NULL",
        table.name
    );
    tx.run(Sql::new(next)).await.map(|_| ())
}

fn failed(file: &Path, source: rusqlite::Error) -> Error {
    let error = translated(source);
    Error::caused(error.kind(), format!("migrate {}", file.display()), error)
}

const BATCH_ROWS_MAX: usize = 1000;

/// What a batch holds in memory, besides as much again on its way.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Batches that were read and not written.
const BATCHES_MAX: usize = 2;
