//! Secrets that all servers of one store share: the first value stored under a name wins.

use crate::db::Catalog;
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};

impl Catalog {
    /// Stores a secret under a name, unless there is one already. Answers with the one that is stored: the same for
    /// everyone, ever.
    pub async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>> {
        let stored = self.write("agree on a secret", |mut tx| async move {
            let insert = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            tx.run(Sql::new(insert).bind(name).bind(value)).await?;
            let stored = tx.row(Sql::new("SELECT value FROM secrets WHERE name = $1").bind(name)).await?;
            tx.commit().await?;
            Ok(stored)
        });
        stored.await?.ok_or_else(|| Error::new(ErrorKind::Internal, "catalog: a secret is gone"))
    }

    /// The value that [`agree`](Self::agree) stored under a name.
    pub async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let query = Sql::new("SELECT value FROM secrets WHERE name = $1").bind(name).short();
        self.read_one("find a secret", query).await
    }
}
