//! Probes a catalog without creating or changing anything, so that it can be checked before a server starts.

use crate::db::open::unknown_kind;
use crate::db::{self, Catalog, schema};
use crate::error::Result;
use crate::ids::StoreId;

/// Facts about a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// The version of its tables; `None` where there are none yet.
    pub schema: Option<u64>,
    /// The version this program knows. Older tables are brought up to date when a server starts; newer ones are refused.
    pub known_schema: u64,
    /// Its clock, Unix seconds, where it has one of its own.
    pub now_s: Option<u64>,
    /// The store it belongs to; `None` where that was not written yet.
    pub store_id: Option<StoreId>,
}

impl Catalog {
    /// Whether the catalog a URL names answers, and what it tells.
    pub async fn probe(url: &str) -> Result<Probed> {
        let (found, steps) = match url.split(':').next() {
            Some("sqlite") => (db::sqlite::probe(&db::sqlite::file_of(url)?)?, schema::SQLITE),
            Some("postgres" | "postgresql") => (db::postgres::probe(url).await?, schema::POSTGRES),
            _ => return Err(unknown_kind()),
        };
        let store_id = found.store_id.map(StoreId::from_catalog).transpose()?;
        let known_schema = schema::newest(steps);
        Ok(Probed { schema: found.schema, known_schema, now_s: found.now_s, store_id })
    }
}

#[cfg(test)]
mod tests {
    use testkit::postgres::Postgres;

    use super::*;
    use crate::db::sql::Sql;

    #[tokio::test]
    async fn tables_are_not_there_then_up_to_date_then_too_new() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalog.db");
        let url = format!("sqlite://{}", file.display());
        assert!(Catalog::probe(&url).await.is_err(), "nothing is made");
        std::fs::write(&file, b"").unwrap();
        let empty = Catalog::probe(&url).await.unwrap();
        assert_eq!((empty.schema, empty.now_s), (None, None));
        let catalog = Catalog::open_file(&file).await.unwrap();
        let made = Catalog::probe(&url).await.unwrap();
        assert_eq!(made.schema, Some(made.known_schema));
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (9999, 'later', true, x'00', 0)";
        catalog.write_one("add a step", Sql::new(later)).await.unwrap();
        assert_eq!(Catalog::probe(&url).await.unwrap().schema, Some(9999));
        catalog.close().await;
        let error = Catalog::open_file(&file).await.unwrap_err().to_string();
        assert!(error.contains("newer program"), "{error}");
    }

    #[tokio::test]
    async fn postgres_reports_its_clock() {
        let Some(postgres) = Postgres::start() else { return };
        let url = postgres.fresh_database();
        let empty = Catalog::probe(&url).await.unwrap();
        assert_eq!(empty.schema, None);
        assert!(empty.now_s.unwrap() > 1_700_000_000);
        assert!(Catalog::open(&url).await.is_err(), "no tables were made");
        Catalog::open_or_create(&url).await.unwrap();
        Catalog::open(&url).await.unwrap();
        let made = Catalog::probe(&url).await.unwrap();
        assert_eq!(made.schema, Some(made.known_schema));
        assert!(Catalog::probe("mysql://host/name").await.is_err());
    }
}
