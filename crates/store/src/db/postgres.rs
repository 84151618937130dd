//! The database in PostgreSQL, for many machines. Lists travel as arrays, so every statement has one text and is prepared
//! once.

use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow, PgTypeInfo};
use sqlx::{
    Arguments as _, Column as _, ConnectOptions as _, Connection as _, Either, Encode, Executor as _,
    Postgres as PostgresDatabase, Row as _, Type, TypeInfo as _,
};

use crate::db::row::Row;
use crate::db::sql::{Arg, Sql, Value};
use crate::db::{ChangeToken, Done, Engine, Isolation, Probe, SCHEMA, STORE_ID, Transaction, collision};
use crate::error::{Error, ErrorKind, Result};

/// A database of a PostgreSQL server.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: PgPool,
}

impl Postgres {
    /// Connects to the database of a URL. `statement-cache-capacity=0` in it suits a transaction pooler.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let options = PgPoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(30));
        let pool = options.connect(url).await.map_err(|source| match &source {
            sqlx::Error::Configuration(_) => Error::caused(ErrorKind::Invalid, "catalog URL", source),
            _ => Error::caused(ErrorKind::Unavailable, "catalog: connect", translated(source)),
        })?;
        Ok(Self { pool })
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn read(&self, sql: &Sql<'_>) -> Result<Vec<Row>> {
        let mut connection = self.pool.acquire().await.map_err(translated)?;
        Ok(run(&mut connection, sql).await?.rows)
    }

    fn read_now(&self, _: &Sql<'_>) -> Option<Result<Vec<Row>>> {
        None
    }

    async fn begin(&self, isolation: Isolation) -> Result<Box<dyn Transaction>> {
        let begin = match isolation {
            Isolation::Committed => "BEGIN",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        };
        let inner = self.pool.begin_with(begin).await.map_err(translated)?;
        Ok(Box::new(PostgresTransaction { inner }))
    }

    fn is_local(&self) -> bool {
        false
    }

    fn change_token(&self) -> Option<ChangeToken> {
        None
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction; the driver rolls it back when it is dropped.
struct PostgresTransaction {
    inner: sqlx::Transaction<'static, PostgresDatabase>,
}

#[async_trait]
impl Transaction for PostgresTransaction {
    async fn run(&mut self, sql: &Sql<'_>) -> Result<Done> {
        run(&mut self.inner, sql).await
    }

    async fn script(&mut self, script: &str) -> Result<()> {
        let script = sqlx::raw_sql(sqlx::AssertSqlSafe(script.to_owned()));
        script.execute(&mut *self.inner).await.map(|_| ()).map_err(translated)
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.inner.commit().await.map_err(translated)
    }
}

/// What the database of a URL tells. Creates and changes nothing.
pub(crate) async fn probe(url: &str) -> Result<Probe> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|source: sqlx::Error| Error::caused(ErrorKind::Invalid, "catalog URL", source))?;
    let probe = async {
        let mut connection = options.connect().await?;
        let schema: Option<Option<i64>> =
            optional(sqlx::query_scalar(SCHEMA).fetch_optional(&mut connection).await)?;
        let store_id = optional(sqlx::query_scalar(STORE_ID).fetch_optional(&mut connection).await)?;
        let now = "SELECT CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)";
        let now_s: i64 = sqlx::query_scalar(now).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Probe {
            schema: schema.flatten().and_then(|version| u64::try_from(version).ok()),
            store_id,
            now_s: u64::try_from(now_s).ok(),
        })
    };
    let probed: sqlx::Result<Probe> = probe.await;
    probed.map_err(|source| {
        let error = translated(source);
        Error::caused(error.kind(), "catalog: connect", error)
    })
}

/// A database without our tables is empty, not broken.
fn optional<T>(row: sqlx::Result<Option<T>>) -> sqlx::Result<Option<T>> {
    match row {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P01") => Ok(None),
        other => other,
    }
}

async fn run(connection: &mut sqlx::PgConnection, sql: &Sql<'_>) -> Result<Done> {
    if matches!(sql.args(), [Arg::Rows(rows)] if rows.is_empty()) {
        return Ok(Done::default());
    }
    let (text, arguments) = render(sql).map_err(translated)?;
    let query = sqlx::query_with(sqlx::AssertSqlSafe(text), arguments);
    let mut done = Done::default();
    let mut results = connection.fetch_many(query);
    while let Some(result) = results.try_next().await.map_err(translated)? {
        match result {
            Either::Left(end) => done.changed += end.rows_affected(),
            Either::Right(row) => done.rows.push(row_of(&row).map_err(translated)?),
        }
    }
    Ok(done)
}

fn row_of(row: &PgRow) -> sqlx::Result<Row> {
    let value = |(at, column): (usize, &sqlx::postgres::PgColumn)| -> sqlx::Result<Value<'static>> {
        Ok(match column.type_info().name() {
            "INT8" => row.try_get::<Option<i64>, _>(at)?.map_or(Value::Null, Value::Int),
            "INT4" => {
                row.try_get::<Option<i32>, _>(at)?.map_or(Value::Null, |number| Value::Int(number.into()))
            }
            "BOOL" => row.try_get::<Option<bool>, _>(at)?.map_or(Value::Null, |flag| Value::Int(flag.into())),
            "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(at)?.into(),
            "TEXT" | "VARCHAR" | "NAME" => row.try_get::<Option<String>, _>(at)?.into(),
            other => return Err(sqlx::Error::Decode(format!("a column of type {other}").into())),
        })
    };
    Ok(Row::new(row.columns().iter().enumerate().map(value).collect::<sqlx::Result<_>>()?))
}

/// The text as PostgreSQL wants it, and its arguments.
fn render(sql: &Sql<'_>) -> sqlx::Result<(String, PgArguments)> {
    let mut text = String::with_capacity(sql.text().len() + 32);
    let mut arguments = PgArguments::default();
    let mut places = vec![None; sql.args().len()];
    let (pieces, rest) = sql.pieces();
    let mut skipped = 0;
    for (before, at) in pieces {
        let before = &before[skipped..];
        skipped = 0;
        match &sql.args()[at] {
            Arg::One(value) => {
                text.push_str(before);
                if places[at].is_none() {
                    add(&mut arguments, value)?;
                    places[at] = Some(arguments.len());
                }
                text.push_str(&format!("${}", places[at].unwrap_or(0)));
            }
            Arg::List(values) => {
                let kind = kind_of(values.iter());
                if places[at].is_none() {
                    add_array(&mut arguments, kind, values.iter())?;
                    places[at] = Some(arguments.len());
                }
                let array = format!("${}::{}[]", places[at].unwrap_or(0), kind.name());
                if let Some(before) = before.strip_suffix("list(") {
                    text.push_str(&format!("{before}UNNEST({array}) AS list (value)"));
                    skipped = 1;
                } else if let Some(before) = before.strip_suffix("IN ") {
                    text.push_str(&format!("{before}= ANY({array})"));
                } else {
                    return Err(sqlx::Error::Encode(format!("a list stands alone: {}", sql.text()).into()));
                }
            }
            Arg::Rows(rows) => {
                let before = before.strip_suffix("VALUES ").ok_or_else(|| {
                    sqlx::Error::Encode(format!("rows without VALUES: {}", sql.text()).into())
                })?;
                text.push_str(before);
                push_rows(&mut text, &mut arguments, rows)?;
            }
        }
    }
    text.push_str(&rest[skipped..]);
    Ok((text, arguments))
}

/// `SELECT c1, c2 FROM UNNEST($1, $2) AS rows (c1, c2)`: one array for each column. A column of nothing is written as such.
fn push_rows(text: &mut String, arguments: &mut PgArguments, rows: &[Vec<Value<'_>>]) -> sqlx::Result<()> {
    let width = rows.first().map_or(0, Vec::len);
    let (mut selected, mut arrays, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..width {
        let column = || rows.iter().map(move |row| &row[at]);
        if column().all(|value| *value == Value::Null) && !arrays.is_empty() {
            selected.push("NULL".to_owned());
            continue;
        }
        let kind = kind_of(column());
        add_array(arguments, kind, column())?;
        arrays.push(format!("${}::{}[]", arguments.len(), kind.name()));
        names.push(format!("c{at}"));
        selected.push(format!("c{at}"));
    }
    text.push_str(&format!(
        "SELECT {} FROM UNNEST({}) AS given ({})",
        selected.join(", "),
        arrays.join(", "),
        names.join(", ")
    ));
    Ok(())
}

/// What the values of a list are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Int,
    Text,
    Bytes,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Int => "bigint",
            Self::Text => "text",
            Self::Bytes => "bytea",
        }
    }
}

fn kind_of<'a>(mut values: impl Iterator<Item = &'a Value<'a>>) -> Kind {
    let first = values.find(|value| **value != Value::Null);
    match first {
        Some(Value::Int(_)) => Kind::Int,
        Some(Value::Text(_)) => Kind::Text,
        _ => Kind::Bytes,
    }
}

fn add(arguments: &mut PgArguments, value: &Value<'_>) -> sqlx::Result<()> {
    let added = match value {
        Value::Null => arguments.add(Untyped),
        Value::Int(number) => arguments.add(number),
        Value::Text(text) => arguments.add(text.as_ref()),
        Value::Bytes(bytes) => arguments.add(bytes.as_ref()),
    };
    added.map_err(sqlx::Error::Encode)
}

fn add_array<'a>(
    arguments: &mut PgArguments,
    kind: Kind,
    values: impl Iterator<Item = &'a Value<'a>>,
) -> sqlx::Result<()> {
    let added = match kind {
        Kind::Int => arguments.add(
            values
                .map(|value| match value {
                    Value::Int(number) => Some(*number),
                    _ => None,
                })
                .collect::<Vec<Option<i64>>>(),
        ),
        Kind::Text => arguments.add(
            values
                .map(|value| match value {
                    Value::Text(text) => Some(text.as_ref()),
                    _ => None,
                })
                .collect::<Vec<Option<&str>>>(),
        ),
        Kind::Bytes => arguments.add(
            values
                .map(|value| match value {
                    Value::Bytes(bytes) => Some(bytes.as_ref()),
                    _ => None,
                })
                .collect::<Vec<Option<&[u8]>>>(),
        ),
    };
    added.map_err(sqlx::Error::Encode)
}

/// Nothing, of the type that the server finds fitting.
struct Untyped;

impl Type<PostgresDatabase> for Untyped {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(sqlx::postgres::types::Oid(0))
    }
}

impl Encode<'_, PostgresDatabase> for Untyped {
    fn encode_by_ref(
        &self,
        _: &mut sqlx::postgres::PgArgumentBuffer,
    ) -> std::result::Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
        Ok(sqlx::encode::IsNull::Yes)
    }
}

pub(crate) fn translated(source: sqlx::Error) -> Error {
    use sqlx::Error as E;
    let kind = match &source {
        E::Io(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::Tls(_) => ErrorKind::Unavailable,
        E::Database(error) => match error.code().as_deref() {
            // Serialization failure, deadlock.
            Some("40001" | "40P01") => return collision(source),
            // Connection trouble, out of something, shutting down or starting.
            Some(code) if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => {
                ErrorKind::Unavailable
            }
            _ => ErrorKind::Internal,
        },
        E::ColumnDecode { .. } | E::Decode(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::caused(kind, "PostgreSQL", source)
}
