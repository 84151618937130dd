//! The tables of a catalog and their columns, for those who copy all of it, whatever it means.

use rusqlite::Connection;

use crate::db::sqlite::translated;
use crate::error::{Error, ErrorKind, Result};

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

/// A column and what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) holds: Holds,
}

/// The types that our tables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Bytes,
    Number,
    Text,
}

impl Table {
    /// The names of the columns, separated by commas.
    pub(crate) fn column_names(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
        names.join(", ")
    }
}

/// The tables of a SQLite database in the order of their names, without SQLite's own and the one of migrations.
pub(crate) fn tables(connection: &Connection) -> Result<Vec<Table>> {
    let query = "SELECT m.name, p.name, p.type FROM sqlite_master m JOIN pragma_table_info(m.name) p \
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.name NOT LIKE '!_sqlx%' ESCAPE '!' \
        ORDER BY m.name, p.cid";
    let read = || {
        let mut query = connection.prepare(query)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<rusqlite::Result<Vec<(String, String, String)>>>()
    };
    let mut tables: Vec<Table> = Vec::new();
    for (table, name, holds) in read().map_err(translated)? {
        let holds = match holds.as_str() {
            "BLOB" => Holds::Bytes,
            "INTEGER" => Holds::Number,
            "TEXT" => Holds::Text,
            other => {
                return Err(Error::new(ErrorKind::Internal, format!("column {table}.{name} holds {other}")));
            }
        };
        let column = Column { name, holds };
        match tables.last_mut().filter(|last| last.name == table) {
            Some(last) => last.columns.push(column),
            None => tables.push(Table { name: table, columns: vec![column] }),
        }
    }
    Ok(tables)
}
