//! Looks at a catalog without making or changing anything, so that it can be asked before a server starts.

use sqlx::{ConnectOptions as _, Connection as _};

use super::{postgres, sqlite, translate};
use crate::error::{Error, ErrorKind, Result};

/// What a catalog tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// The version of its tables; `None` where there are none yet.
    pub schema: Option<i64>,
    /// The version this program knows. Older tables are brought up to date when a server starts; newer ones are refused.
    pub known_schema: i64,
    /// Its clock, Unix seconds, where it has one of its own.
    pub now_s: Option<u64>,
}

/// Whether the catalog a URL names answers, and what it tells.
pub async fn probe(url: &str) -> Result<Probed> {
    let invalid = |source: sqlx::Error| Error::caused(ErrorKind::Invalid, "catalog URL", source);
    let known = |scripts: &[(i64, &str, &str)]| scripts.iter().map(|(version, ..)| *version).max();
    match url.split(':').next() {
        Some("sqlite") => {
            let options: sqlx::sqlite::SqliteConnectOptions = url.parse().map_err(invalid)?;
            let asked = async {
                let mut connection = options.read_only(true).connect().await?;
                let schema = sqlx::query_scalar(SCHEMA).fetch_one(&mut connection).await;
                connection.close().await?;
                unless_missing(schema)
            };
            let schema = asked.await.map_err(|source| translate("open", source))?;
            Ok(Probed { schema, known_schema: known(sqlite::MIGRATIONS).unwrap_or(0), now_s: None })
        }
        Some("postgres" | "postgresql") => {
            let options: sqlx::postgres::PgConnectOptions = url.parse().map_err(invalid)?;
            let asked = async {
                let mut connection = options.connect().await?;
                let schema = sqlx::query_scalar(SCHEMA).fetch_one(&mut connection).await;
                let now_s: i64 = sqlx::query_scalar("SELECT CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)")
                    .fetch_one(&mut connection)
                    .await?;
                connection.close().await?;
                Ok((unless_missing(schema)?, u64::try_from(now_s).ok()))
            };
            let (schema, now_s) = asked.await.map_err(|source| translate("connect", source))?;
            Ok(Probed { schema, known_schema: known(postgres::MIGRATIONS).unwrap_or(0), now_s })
        }
        _ => Err(Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")),
    }
}

/// A database without our tables is empty, not broken.
fn unless_missing(schema: sqlx::Result<Option<i64>>) -> sqlx::Result<Option<i64>> {
    match schema {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some("42P01") || error.message().starts_with("no such table") =>
        {
            Ok(None)
        }
        other => other,
    }
}

const SCHEMA: &str = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";

#[cfg(test)]
mod tests {
    use testkit::postgres::Postgres;

    use super::*;
    use crate::catalog::{SqliteCatalog, open, open_or_create};

    #[tokio::test]
    async fn tables_are_not_there_then_up_to_date_then_too_new() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.db");
        let url = format!("sqlite://{}", file.display());
        assert!(probe(&url).await.is_err(), "nothing is made");
        std::fs::write(&file, b"").unwrap();
        let empty = probe(&url).await.unwrap();
        assert_eq!((empty.schema, empty.now_s), (None, None));
        let catalog = SqliteCatalog::open(&file).await.unwrap();
        let made = probe(&url).await.unwrap();
        assert_eq!(made.schema, Some(made.known_schema));
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (9999, 'later', true, x'00', 0)";
        sqlx::query(later).execute(&catalog.writes).await.unwrap();
        assert_eq!(probe(&url).await.unwrap().schema, Some(9999));
    }

    #[tokio::test]
    async fn postgres_tells_its_clock() {
        let Some(postgres) = Postgres::start() else { return };
        let url = postgres.fresh_database();
        let empty = probe(&url).await.unwrap();
        assert_eq!(empty.schema, None);
        assert!(empty.now_s.unwrap() > 1_700_000_000);
        assert!(open(&url).await.is_err(), "no tables were made");
        open_or_create(&url).await.unwrap();
        open(&url).await.unwrap();
        let made = probe(&url).await.unwrap();
        assert_eq!(made.schema, Some(made.known_schema));
        assert!(probe("mysql://host/name").await.is_err());
    }
}
