//! Opens a catalog by its URL: a SQLite file or a PostgreSQL database, with its tables brought up to date.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::db::{self, Catalog, schema};
use crate::error::{Error, ErrorKind, Result};

impl Catalog {
    /// Opens the catalog that a URL names, `sqlite:///file` or `postgres://…`, and brings its tables up to date. One that does
    /// not exist, or a database without our tables, is an error.
    pub async fn open(url: &str) -> Result<Arc<Self>> {
        match Self::exists(url).await? {
            true => Self::open_or_create(url).await,
            false => Err(Error::new(ErrorKind::NotFound, "there is no catalog")),
        }
    }

    /// Opens the catalog that a URL names, and creates it where there is none.
    pub async fn open_or_create(url: &str) -> Result<Arc<Self>> {
        match url.split(':').next() {
            Some("sqlite") => Ok(Arc::new(Self::open_file(&db::sqlite::file_of(url)?).await?)),
            Some("postgres" | "postgresql") => Ok(Arc::new(Self::open_postgres(url).await?)),
            _ => Err(unknown_kind()),
        }
    }

    /// Whether the catalog that a URL names was created: a file, or a database with our tables. Creates and changes nothing.
    pub async fn exists(url: &str) -> Result<bool> {
        if url.starts_with("sqlite:") {
            return Self::is_in_file(&db::sqlite::file_of(url)?);
        }
        Ok(Self::probe(url).await?.schema.is_some())
    }

    /// Opens the SQLite file, which is created if it is not there, and brings its tables up to date.
    pub async fn open_file(file: &Path) -> Result<Self> {
        let db = Catalog::new(Arc::new(db::sqlite::Sqlite::open(file)?));
        db::migrations::run(&db, db::migrations::SQLITE_TABLE, schema::SQLITE).await?;
        Ok(db)
    }

    /// Whether there is a catalog in the file.
    pub fn is_in_file(file: &Path) -> Result<bool> {
        Ok(file.is_file() && db::sqlite::probe(file)?.schema.is_some())
    }

    pub(crate) async fn open_postgres(url: &str) -> Result<Self> {
        let db = Catalog::new(Arc::new(db::postgres::Postgres::open(url).await?));
        let run = || db::migrations::run(&db, db::migrations::POSTGRES_TABLE, schema::POSTGRES);
        // Servers that start at once trip over each other's statements: the one that failed retries, and finds the work
        // done.
        let mut left = 5;
        while let Err(error) = run().await {
            if left == 0 {
                return Err(error);
            }
            left -= 1;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(db)
    }
}
pub(crate) fn unknown_kind() -> Error {
    Error::new(ErrorKind::Invalid, "a catalog should be sqlite:… or postgres:…")
}
