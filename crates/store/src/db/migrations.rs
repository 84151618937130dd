//! Brings the tables of a database up to date.
//!
//! What ran is noted in `_sqlx_migrations`, with the columns and checksums of the library that did this before: programs of
//! every version agree on what ran. Scripts are only ever appended: one that ran somewhere is never edited.

use sha2::{Digest as _, Sha384};

use crate::db::Catalog;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};

/// One step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: u64,
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
}

impl Migration {
    pub(crate) const fn new(version: u64, name: &'static str, script: &'static str) -> Self {
        Self { version, name, script }
    }
}

/// A step that ran.
struct Ran {
    version: u64,
    checksum: Vec<u8>,
    is_done: bool,
}

impl FromRow for Ran {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            version: row.number("version of a migration")?,
            checksum: row.bytes("checksum of a migration")?,
            is_done: row.flag("state of a migration")?,
        })
    }
}

/// Runs the migrations that have not run yet. `table` creates the table that notes them.
pub(crate) async fn run(db: &Catalog, table: &'static str, migrations: &[Migration]) -> Result<()> {
    db.write("create the table of migrations", |mut tx| async move {
        tx.script(table).await?;
        tx.commit().await
    })
    .await?;
    let query = Sql::new("SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version");
    let ran: Vec<Ran> = db.read("read migrations", query).await?;
    for ran in &ran {
        let known = migrations.iter().find(|known| known.version == ran.version);
        let wrong = match known {
            _ if !ran.is_done => "did not end",
            None => "is of a newer program; use that one",
            Some(known) if checksum(known.script) != ran.checksum => "had another text",
            Some(_) => continue,
        };
        let message = format!("catalog: migration {} {wrong}", ran.version);
        return Err(Error::new(ErrorKind::Internal, message));
    }
    for migration in migrations {
        if !ran.iter().any(|ran| ran.version == migration.version) {
            apply(db, migration).await?;
        }
    }
    Ok(())
}

async fn apply(db: &Catalog, migration: &Migration) -> Result<()> {
    db.write("bring the tables up to date", |mut tx| async move {
        // First, so that of two who begin at once one waits for the other and then finds it done.
        let insert = Sql::new(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES ($1, $2, TRUE, $3, 0) ON CONFLICT DO NOTHING",
        );
        let insert = insert.bind(migration.version).bind(migration.name).bind(checksum(migration.script));
        if tx.run(insert).await? > 0 {
            tx.script(migration.script).await?;
        }
        tx.commit().await
    })
    .await
}

fn checksum(script: &str) -> Vec<u8> {
    Sha384::digest(script.as_bytes()).to_vec()
}

/// The table as SQLite has it.
pub(crate) const SQLITE_TABLE: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (version BIGINT PRIMARY KEY, \
    description TEXT NOT NULL, installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
    checksum BLOB NOT NULL, execution_time BIGINT NOT NULL)";

/// The table as PostgreSQL has it.
pub(crate) const POSTGRES_TABLE: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (version BIGINT PRIMARY KEY, \
    description TEXT NOT NULL, installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL, \
    checksum BYTEA NOT NULL, execution_time BIGINT NOT NULL)";
