//! The database in one SQLite file: the default, for one machine.
//!
//! One connection writes, so writers of this process queue instead of colliding; others read beside it. Another process
//! on the same file is waited for, and then retried. SQLite alone opens its files: closing any other descriptor of them
//! would drop the locks it holds in this process.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use crate::db::row::Row;
use crate::db::sql::{Arg, Sql, Value};
use crate::db::{
    ChangeToken, Done, Engine, Isolation, Probe, SCHEMA, STORE_ID, Transaction, collision, in_place,
};
use crate::error::{Error, ErrorKind, Result};

/// A database in a file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    /// The connection that writes; `None` before its first use and after an error.
    writer: Arc<tokio::sync::Mutex<Option<Connected>>>,
    /// Connections that read and are not in use.
    idle: Mutex<Vec<Connected>>,
    /// How many may read at once.
    readers: Semaphore,
    /// The connection that is polled for changes.
    watcher: Mutex<Option<Watcher>>,
}

/// A connection that gives back, once in a while, the pages it keeps in memory: a page that was not used for a minute is
/// read again as quickly from the system's cache.
#[derive(Debug)]
struct Connected {
    connection: Connection,
    emptied: Instant,
}

impl Connected {
    fn new(connection: Connection) -> Self {
        Self { connection, emptied: Instant::now() }
    }

    fn empty_when_due(&mut self) {
        if self.emptied.elapsed() >= PAGES_AGE_MAX {
            // A failure leaves the pages where they are.
            let _ = self.connection.execute_batch("PRAGMA shrink_memory");
            self.emptied = Instant::now();
        }
    }
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    connection: Connection,
}

impl Sqlite {
    /// The database in this file, which is created if it is not there.
    pub(crate) fn open(file: &Path) -> Result<Self> {
        let writer =
            open_writer(file).map_err(|source| failed(&format!("open {}", file.display()), source))?;
        Ok(Self {
            file: file.to_owned(),
            writer: Arc::new(tokio::sync::Mutex::new(Some(Connected::new(writer)))),
            idle: Mutex::default(),
            readers: Semaphore::new(READERS_MAX),
            watcher: Mutex::default(),
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connected>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a query on a connection that is not in use. Blocks.
    fn query(&self, sql: &Sql<'_>) -> Result<Vec<Row>> {
        let idle = self.idle().pop();
        let run = || -> rusqlite::Result<(Done, Connected)> {
            let connected = match idle {
                Some(connected) => connected,
                None => Connected::new(open_reader(&self.file)?),
            };
            Ok((run(&connected.connection, sql)?, connected))
        };
        // After an error the connection is dropped.
        let (done, mut connected) = run().map_err(translated)?;
        connected.empty_when_due();
        self.idle().push(connected);
        Ok(done.rows)
    }
}

#[async_trait]
impl Engine for Sqlite {
    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<Row>> {
        let _turn = self.readers.acquire().await.map_err(|_| closed())?;
        match sql.is_short() {
            true => self.query(sql),
            false => in_place(|| self.query(sql)),
        }
    }

    fn read_now(&self, sql: &Sql<'_>) -> Option<Result<Vec<Row>>> {
        let _turn = self.readers.try_acquire().ok()?;
        Some(self.query(sql))
    }

    async fn begin(&self, _: Isolation) -> Result<Box<dyn Transaction>> {
        let mut writer = self.writer.clone().lock_owned().await;
        // A transaction that will write says so when it begins: one that turns from reading to writing cannot wait for
        // others. With one writer at a time, every isolation is serializable.
        in_place(|| {
            let mut connected = match writer.take() {
                Some(connected) => connected,
                None => Connected::new(open_writer(&self.file)?),
            };
            connected.empty_when_due();
            connected.connection.execute_batch("BEGIN IMMEDIATE")?;
            *writer = Some(connected);
            Ok(())
        })
        .map_err(translated)?;
        Ok(Box::new(SqliteTransaction { writer, is_open: true }))
    }

    fn is_local(&self) -> bool {
        true
    }

    /// SQLite gives a connection that never writes another `data_version` after every commit of any other connection, of
    /// this process or another.
    fn change_token(&self) -> Option<ChangeToken> {
        let mut held = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            let number = WATCHERS.fetch_add(1, Ordering::Relaxed);
            *held = Some(Watcher { number, connection: open_reader(&self.file).ok()? });
        }
        let Watcher { number, connection } = held.as_ref()?;
        let version = connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut query| query.query_row([], |row| row.get(0)))
            .ok()?;
        Some(ChangeToken { connection: *number, version })
    }

    async fn close(&self) {
        self.readers.close();
        let mut writer = self.writer.lock().await;
        self.idle().clear();
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *writer = None;
    }
}

static WATCHERS: AtomicU64 = AtomicU64::new(0);

/// A transaction on the connection that writes, which others wait for meanwhile.
struct SqliteTransaction {
    writer: OwnedMutexGuard<Option<Connected>>,
    is_open: bool,
}

impl SqliteTransaction {
    fn connection(&self) -> Result<&Connection> {
        self.writer.as_ref().map(|connected| &connected.connection).ok_or_else(closed)
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn run(&mut self, sql: &Sql<'_>) -> Result<Done> {
        // One transaction writes at a time: there is nobody to lock rows against.
        if sql.is_lock() {
            return Ok(Done::default());
        }
        run(self.connection()?, sql).map_err(translated)
    }

    async fn script(&mut self, script: &str) -> Result<()> {
        self.connection()?.execute_batch(script).map_err(translated)
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let done = in_place(|| Ok(self.connection()?.execute_batch("COMMIT").map_err(translated)))?;
        // A commit that failed is rolled back by dropping this.
        if done.is_ok() {
            self.is_open = false;
        }
        done
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        if self.is_open
            && let Some(connected) = &*self.writer
            && connected.connection.execute_batch("ROLLBACK").is_err()
        {
            // The next transaction opens another, and SQLite rolls back what this one began.
            *self.writer = None;
        }
    }
}

/// Runs one statement: its rows, and how many rows it changed.
fn run(connection: &Connection, sql: &Sql<'_>) -> rusqlite::Result<Done> {
    match sql.args() {
        // Prepared once and run for every row, an insert takes a third of the time that it takes with all rows at once.
        [Arg::Rows(rows)] if sql.text().trim_start().starts_with("INSERT") => insert(connection, sql, rows),
        _ => {
            let (text, values) = render(sql);
            let mut statement = connection.prepare_cached(&text)?;
            for (place, value) in values.into_iter().enumerate() {
                match value {
                    Bound::One(value) => bind(&mut statement, place + 1, value)?,
                    Bound::List(list) => statement.raw_bind_parameter(place + 1, array(list))?,
                }
            }
            let mut done = Done::default();
            step(connection, &mut statement, &mut done)?;
            Ok(done)
        }
    }
}

fn insert(connection: &Connection, sql: &Sql<'_>, rows: &[Vec<Value<'_>>]) -> rusqlite::Result<Done> {
    let mut done = Done::default();
    let Some(first) = rows.first() else { return Ok(done) };
    let (pieces, rest) = sql.pieces();
    let mut text = pieces.first().map_or(String::new(), |(before, _)| (*before).to_owned());
    push_places(&mut text, first.len(), 1);
    text.push_str(rest);
    let mut statement = connection.prepare_cached(&text)?;
    for row in rows {
        for (place, value) in row.iter().enumerate() {
            bind(&mut statement, place + 1, value)?;
        }
        step(connection, &mut statement, &mut done)?;
    }
    Ok(done)
}

/// Runs a statement to its end.
fn step(
    connection: &Connection,
    statement: &mut CachedStatement<'_>,
    done: &mut Done,
) -> rusqlite::Result<()> {
    let (columns, is_read) = (statement.column_count(), statement.readonly());
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|at| row.get_ref(at).map(value)).collect::<rusqlite::Result<_>>()?;
        done.rows.push(Row::new(values));
    }
    if !is_read {
        done.changed += connection.changes();
    }
    Ok(())
}

fn value(found: ValueRef<'_>) -> Value<'static> {
    match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        // Never stored by us; reading the column reports the wrong type.
        ValueRef::Real(_) => Value::Null,
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned().into()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec().into()),
    }
}

fn bind(statement: &mut CachedStatement<'_>, place: usize, value: &Value<'_>) -> rusqlite::Result<()> {
    match value {
        Value::Null => statement.raw_bind_parameter(place, rusqlite::types::Null),
        Value::Int(number) => statement.raw_bind_parameter(place, number),
        Value::Text(text) => statement.raw_bind_parameter(place, text.as_ref()),
        Value::Bytes(bytes) => statement.raw_bind_parameter(place, bytes.as_ref()),
    }
}

/// An argument in the order SQLite wants it.
enum Bound<'a> {
    One(&'a Value<'a>),
    List(Vec<SqlValue>),
}

/// The text as SQLite wants it, and the arguments by their numbers in it.
fn render<'a>(sql: &'a Sql<'_>) -> (String, Vec<Bound<'a>>) {
    let mut text = String::with_capacity(sql.text().len() + 16);
    let mut bound: Vec<Bound<'a>> = Vec::new();
    let mut places = vec![None; sql.args().len()];
    let (pieces, mut rest) = sql.pieces();
    let ends: Vec<&str> = pieces.iter().skip(1).map(|(before, _)| *before).chain([rest]).collect();
    let mut skipped = 0;
    for ((before, at), after) in pieces.into_iter().zip(ends) {
        let before = &before[skipped..];
        skipped = 0;
        match &sql.args()[at] {
            Arg::One(value) => {
                let place = *places[at].get_or_insert_with(|| {
                    bound.push(Bound::One(value));
                    bound.len()
                });
                text.push_str(before);
                push_place(&mut text, place);
            }
            Arg::List(values) => {
                let place = *places[at].get_or_insert_with(|| {
                    bound.push(Bound::List(values.iter().map(owned).collect()));
                    bound.len()
                });
                match before.strip_suffix("list(") {
                    Some(before) => {
                        text.push_str(before);
                        text.push_str("rarray(");
                        push_place(&mut text, place);
                        text.push_str(") AS list");
                        debug_assert!(after.starts_with(')'), "list($1): {}", sql.text());
                        skipped = 1;
                    }
                    None => {
                        text.push_str(before);
                        text.push_str("(SELECT value FROM rarray(");
                        push_place(&mut text, place);
                        text.push_str("))");
                    }
                }
            }
            Arg::Rows(rows) => {
                text.push_str(before);
                for (number, row) in rows.iter().enumerate() {
                    if number > 0 {
                        text.push_str(", ");
                    }
                    push_places(&mut text, row.len(), bound.len() + 1);
                    bound.extend(row.iter().map(Bound::One));
                }
            }
        }
    }
    rest = &rest[skipped..];
    text.push_str(rest);
    (text, bound)
}

fn push_place(text: &mut String, place: usize) {
    write!(text, "?{place}").expect("a string takes everything");
}

/// `(?1, ?2, …)`, counted from `first`.
fn push_places(text: &mut String, count: usize, first: usize) {
    text.push('(');
    for place in first..first + count {
        if place > first {
            text.push_str(", ");
        }
        push_place(text, place);
    }
    text.push(')');
}

/// A list as the table-valued function `rarray` takes it. SQLite frees it when the parameter is bound anew. (An `Rc` of rusqlite 0.39
/// would be freed as one of another type, its values never.)
fn array(list: Vec<SqlValue>) -> ToSqlOutput<'static> {
    ToSqlOutput::new_boxed(list, c"rarray")
}

fn owned(value: &Value<'_>) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Int(number) => SqlValue::Integer(*number),
        Value::Text(text) => SqlValue::Text(text.clone().into_owned()),
        Value::Bytes(bytes) => SqlValue::Blob(bytes.clone().into_owned()),
    }
}

/// A connection that writes.
fn open_writer(file: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    prepare(&connection, WRITE_CACHE_KIB)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An answer means that the disk has it.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // What undoes one statement of a transaction, some pages, would be written to a file else.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// A connection that writes nothing. Were it for reading only, and the last to be closed, the log would stay.
fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    prepare(&connection, READ_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn prepare(connection: &Connection, cache_kib: u32) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // SQLite's default page cache (2 MB) thrashes on bulk writes.
    connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    rusqlite::vtab::array::load_module(connection)
}

/// What the database in a file tells. Creates and changes nothing.
pub(crate) fn probe(file: &Path) -> Result<Probe> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let probe = || -> rusqlite::Result<Probe> {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let schema: Option<Option<i64>> = optional(connection.query_row(SCHEMA, [], |row| row.get(0)))?;
        let store_id = optional(connection.query_row(STORE_ID, [], |row| row.get(0)))?;
        Ok(Probe { schema: schema.flatten().and_then(|at| u64::try_from(at).ok()), store_id, now_s: None })
    };
    probe().map_err(|source| failed(&format!("open {}", file.display()), source))
}

/// A database without our tables is empty, not broken.
fn optional<T>(row: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
    match row {
        Ok(row) => Ok(Some(row)),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
        Err(rusqlite::Error::SqliteFailure(_, Some(message))) if message.starts_with("no such table") => {
            Ok(None)
        }
        Err(rusqlite::Error::SqlInputError { msg, .. }) if msg.starts_with("no such table") => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file that a URL `sqlite:///file` names.
pub(crate) fn file_of(url: &str) -> Result<PathBuf> {
    let invalid = |why: &str| Error::new(ErrorKind::Invalid, format!("catalog {url:?}: {why}"));
    let path = url.strip_prefix("sqlite:").ok_or_else(|| invalid("a file is named by sqlite:///PATH"))?;
    let path = path.strip_prefix("//").unwrap_or(path);
    if let Some((_, parameters)) = path.split_once('?') {
        return Err(invalid(&format!("parameter {parameters:?} is not supported")));
    }
    let path = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|_| invalid("not UTF-8"))?;
    if path.is_empty() || path == ":memory:" {
        return Err(invalid("a file is named by sqlite:///PATH"));
    }
    Ok(PathBuf::from(path.into_owned()))
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the database was closed")
}

fn failed(what: &str, source: rusqlite::Error) -> Error {
    let error = translated(source);
    Error::caused(error.kind(), format!("catalog: {what}"), error)
}

pub(crate) fn translated(source: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as C;
    let kind = match source.sqlite_error_code() {
        Some(C::DatabaseBusy | C::DatabaseLocked) => return collision(source),
        Some(C::DiskFull | C::SystemIoFailure | C::CannotOpen) => ErrorKind::Unavailable,
        Some(C::DatabaseCorrupt | C::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, "SQLite", source)
}

/// How long another process on the same file is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many may read at once; others wait.
const READERS_MAX: usize = 16;

/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 128;

/// How long a connection keeps pages in memory, used or not.
const PAGES_AGE_MAX: Duration = Duration::from_secs(60);

/// Pages of the database that a connection keeps in memory.
const WRITE_CACHE_KIB: u32 = 32 * 1024;

const READ_CACHE_KIB: u32 = 2 * 1024;
