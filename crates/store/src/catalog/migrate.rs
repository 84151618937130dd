//! Migrate: every row of a SQLite catalog into an empty PostgreSQL one, in one transaction.
//!
//! Both have the same tables and columns, so rows are copied as they are, whatever they mean: what a later version adds
//! comes along. The file is held alone meanwhile; a server that has it open is an error, not a race.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteLockingMode, SqliteRow};
use sqlx::{ConnectOptions as _, PgConnection, Postgres, QueryBuilder, Row as _};

use super::{PostgresCatalog, migrator, sqlite, translate};
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

/// Copies the catalog at `from`, `sqlite:///file`, to the one at `to`, `postgres://…`, which must be empty. `dry_run` does
/// all of it and then lets go.
pub async fn migrate(from: &str, to: &str, dry_run: bool, progress: &MigrateProgress) -> Result<Migrated> {
    let mut source = open_alone(from).await?;
    let target = PostgresCatalog::open(to).await?;
    let failed = |what: &str, source| translate(&format!("migrate {what}"), source);
    let tables = tables(&mut source).await.map_err(|error| failed("from SQLite", error))?;
    let mut tx = target.pool.begin().await.map_err(|error| failed("to PostgreSQL", error))?;
    for table in &tables {
        if !is_empty(&mut tx, &table.name).await.map_err(|error| failed(&table.name, error))? {
            let message = format!(
                "the catalog to migrate to has rows in {}: it must be a database no server has used",
                table.name
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    let mut migrated = Migrated::default();
    for table in tables {
        let rows = copy(&mut source, &mut tx, &table, progress).await;
        migrated.tables.push((table.name.clone(), rows.map_err(|error| failed(&table.name, error))?));
    }
    let ended = if dry_run { tx.rollback().await } else { tx.commit().await };
    ended.map_err(|error| failed("to PostgreSQL", error))?;
    Ok(migrated)
}

/// A table, and its columns with what they hold.
struct Table {
    name: String,
    columns: Vec<(String, Holds)>,
}

#[derive(Clone, Copy)]
enum Holds {
    Bytes,
    Number,
    Text,
}

type Sql<T> = std::result::Result<T, sqlx::Error>;

/// Opens the file so that nobody else can, which fails while somebody has it open.
async fn open_alone(url: &str) -> Result<SqliteConnection> {
    let invalid = |source: sqlx::Error| Error::caused(ErrorKind::Invalid, "catalog URL", source);
    let options: SqliteConnectOptions = url.parse().map_err(invalid)?;
    let file = options.get_filename().display().to_string();
    let options = options.locking_mode(SqliteLockingMode::Exclusive).busy_timeout(Duration::from_secs(2));
    let opened = async {
        let mut connection = options.connect().await?;
        sqlx::query("BEGIN EXCLUSIVE").execute(&mut connection).await?;
        sqlx::query("COMMIT").execute(&mut connection).await?;
        Ok(connection)
    };
    let opened: Sql<SqliteConnection> = opened.await;
    let mut connection = opened.map_err(|source| match super::is_collision(&source) {
        true => {
            Error::caused(ErrorKind::Conflict, format!("{file} is in use: stop the server first"), source)
        }
        false => translate(&format!("open {file}"), source),
    })?;
    let ran = migrator(sqlite::MIGRATIONS).run(&mut connection).await;
    ran.map_err(|source| {
        Error::caused(ErrorKind::Internal, format!("catalog: bring {file} up to date"), source)
    })?;
    Ok(connection)
}

async fn tables(source: &mut SqliteConnection) -> Sql<Vec<Table>> {
    let query = "SELECT m.name, p.name, p.type FROM sqlite_master m JOIN pragma_table_info(m.name) p \
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.name NOT LIKE '!_sqlx%' ESCAPE '!' \
        ORDER BY m.name, p.cid";
    let rows: Vec<(String, String, String)> = sqlx::query_as(query).fetch_all(source).await?;
    let mut tables: Vec<Table> = Vec::new();
    for (name, column, holds) in rows {
        let holds = match holds.as_str() {
            "BLOB" => Holds::Bytes,
            "INTEGER" => Holds::Number,
            "TEXT" => Holds::Text,
            other => return Err(sqlx::Error::Decode(format!("column {name}.{column} holds {other}").into())),
        };
        match tables.last_mut().filter(|table| table.name == name) {
            Some(table) => table.columns.push((column, holds)),
            None => tables.push(Table { name, columns: vec![(column, holds)] }),
        }
    }
    Ok(tables)
}

async fn is_empty(target: &mut PgConnection, table: &str) -> Sql<bool> {
    let query = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT 1 FROM {table} LIMIT 1")));
    Ok(query.fetch_optional(target).await?.is_none())
}

async fn copy(
    source: &mut SqliteConnection,
    target: &mut PgConnection,
    table: &Table,
    progress: &MigrateProgress,
) -> Sql<u64> {
    let names: Vec<_> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    let query = sqlx::AssertSqlSafe(format!("SELECT {names} FROM {}", table.name));
    let mut rows = sqlx::query(query).fetch(source);
    let mut copied = 0;
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    loop {
        let row = rows.try_next().await?;
        let is_last = row.is_none();
        if let Some(row) = row {
            let values = values(&row, table)?;
            batch_bytes += values.iter().map(Value::weight_bytes).sum::<usize>();
            batch.push(values);
        }
        if batch.len() >= BATCH_ROWS_MAX || batch_bytes >= BATCH_BYTES_MAX || is_last {
            copied += batch.len() as u64;
            progress.rows.fetch_add(batch.len() as u64, Ordering::Relaxed);
            insert(target, table, &names, std::mem::take(&mut batch)).await?;
            batch_bytes = 0;
        }
        if is_last {
            break;
        }
    }
    if table.columns.first().is_some_and(|(name, holds)| name == "id" && matches!(holds, Holds::Number)) {
        // Numbers the database gives out go on after those that came along.
        let next = format!(
            "SELECT setval(pg_get_serial_sequence('{0}', 'id'), MAX(id)) FROM {0} HAVING MAX(id) IS NOT NULL",
            table.name
        );
        sqlx::query(sqlx::AssertSqlSafe(next)).execute(target).await?;
    }
    Ok(copied)
}

enum Value {
    Bytes(Option<Vec<u8>>),
    Number(Option<i64>),
    Text(Option<String>),
}

impl Value {
    fn weight_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.as_ref().map_or(0, Vec::len) + 24,
            Self::Number(_) => 16,
            Self::Text(text) => text.as_ref().map_or(0, String::len) + 24,
        }
    }
}

fn values(row: &SqliteRow, table: &Table) -> Sql<Vec<Value>> {
    let value = |(at, (_, holds)): (usize, &(String, Holds))| {
        Ok(match holds {
            Holds::Bytes => Value::Bytes(row.try_get(at)?),
            Holds::Number => Value::Number(row.try_get(at)?),
            Holds::Text => Value::Text(row.try_get(at)?),
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

async fn insert(target: &mut PgConnection, table: &Table, names: &str, batch: Vec<Vec<Value>>) -> Sql<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut insert = QueryBuilder::<Postgres>::new(format!("INSERT INTO {} ({names}) ", table.name));
    insert.push_values(batch, |mut list, row| {
        for value in row {
            match value {
                Value::Bytes(bytes) => list.push_bind(bytes),
                Value::Number(number) => list.push_bind(number),
                Value::Text(text) => list.push_bind(text),
            };
        }
    });
    insert.build().persistent(false).execute(target).await.map(|_| ())
}

const BATCH_ROWS_MAX: usize = 1000;
/// What a batch holds in memory, besides as much again on its way.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
