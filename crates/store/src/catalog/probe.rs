//! Looks at a catalog without making or changing anything, so that it can be asked before a server starts.

use sqlx::{ConnectOptions as _, Connection as _};

use super::{postgres, sqlite, translate};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::StoreId;

/// What a catalog tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// The version of its tables; `None` where there are none yet.
    pub schema: Option<i64>,
    /// The version this program knows. Older tables are brought up to date when a server starts; newer ones are refused.
    pub known_schema: i64,
    /// Its clock, Unix seconds, where it has one of its own.
    pub now_s: Option<u64>,
    /// The store it belongs to; `None` where that was not written yet.
    pub store_id: Option<StoreId>,
}

/// Whether the catalog a URL names answers, and what it tells.
pub async fn probe(url: &str) -> Result<Probed> {
    let invalid = |source: sqlx::Error| Error::caused(ErrorKind::Invalid, "catalog URL", source);
    match url.split(':').next() {
        Some("sqlite") => {
            let options: sqlx::sqlite::SqliteConnectOptions = url.parse().map_err(invalid)?;
            probe_options(options).await
        }
        Some("postgres" | "postgresql") => {
            let options: sqlx::postgres::PgConnectOptions = url.parse().map_err(invalid)?;
            let asked = async {
                let mut connection = options.connect().await?;
                let schema = unless_missing(sqlx::query_scalar(SCHEMA).fetch_one(&mut connection).await)?;
                let store_id = sqlx::query_scalar(STORE_ID).fetch_optional(&mut connection).await;
                let now_s: i64 = sqlx::query_scalar("SELECT CAST(EXTRACT(EPOCH FROM now()) AS BIGINT)")
                    .fetch_one(&mut connection)
                    .await?;
                connection.close().await?;
                Ok((schema, unless_missing(store_id)?, u64::try_from(now_s).ok()))
            };
            let (schema, store_id, now_s) = asked.await.map_err(|source| translate("connect", source))?;
            let store_id = store_id.map(StoreId::from_catalog).transpose()?;
            Ok(Probed { schema, known_schema: newest(postgres::MIGRATIONS), now_s, store_id })
        }
        _ => Err(Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")),
    }
}

/// The same for a catalog in a file.
pub(super) async fn probe_options(options: sqlx::sqlite::SqliteConnectOptions) -> Result<Probed> {
    let file = options.get_filename().display().to_string();
    let asked = async {
        let mut connection = options.read_only(true).connect().await?;
        let schema = unless_missing(sqlx::query_scalar(SCHEMA).fetch_one(&mut connection).await);
        let store_id = unless_missing(sqlx::query_scalar(STORE_ID).fetch_optional(&mut connection).await);
        connection.close().await?;
        Ok((schema?, store_id?))
    };
    let (schema, store_id) = asked.await.map_err(|source| translate(&format!("open {file}"), source))?;
    let store_id = store_id.map(StoreId::from_catalog).transpose()?;
    Ok(Probed { schema, known_schema: newest(sqlite::MIGRATIONS), now_s: None, store_id })
}

fn newest(scripts: &[(i64, &str, &str)]) -> i64 {
    scripts.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// A database without our tables is empty, not broken.
fn unless_missing<T>(row: sqlx::Result<Option<T>>) -> sqlx::Result<Option<T>> {
    match row {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some("42P01") || error.message().starts_with("no such table") =>
        {
            Ok(None)
        }
        other => other,
    }
}

const STORE_ID: &str = "SELECT value FROM secrets WHERE name = 'store_id'";
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
