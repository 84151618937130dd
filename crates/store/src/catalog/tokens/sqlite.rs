//! Tokens in SQLite.

use async_trait::async_trait;

use super::{
    Bound, COLUMNS, END_SESSIONS, REPO_OF_SCOPE, REVOKE, SET_PASSWORD, TokenColumns, TokenRow, Tokens,
    kind_and_name, repo_id_of, revoked,
};
use crate::access::Scope;
use crate::audit::Deed;
use crate::catalog::rows::column;
use crate::catalog::sqlite::SqliteCatalog;
use crate::catalog::sqlite::keep::note;
use crate::catalog::{Tries, translate};
use crate::error::Result;
use crate::repo::RepoId;

type Sql<T> = std::result::Result<T, sqlx::Error>;

impl SqliteCatalog {
    async fn try_add_token(&self, row: &TokenRow) -> Sql<bool> {
        let insert = format!(
            "INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        );
        let (namespace, repo) = row.bound.columns();
        let mut tx = self.writes.begin().await?;
        let mut repo_id = row.repo_id.map(|id| id.as_bytes().to_vec());
        if let (None, Bound::Repo(scope)) = (&repo_id, &row.bound)
            && let Some((kind, name)) = kind_and_name(scope)
        {
            let query = sqlx::query_scalar(REPO_OF_SCOPE).bind(kind).bind(scope.namespace()).bind(name);
            repo_id = query.fetch_optional(&mut *tx).await?;
        }
        let insert = sqlx::query(sqlx::AssertSqlSafe(insert))
            .bind(&row.id)
            .bind(&row.label)
            .bind(row.digest.as_slice())
            .bind(&row.subject)
            .bind(row.rights.number())
            .bind(namespace)
            .bind(repo)
            .bind(column(row.created_s))
            .bind(row.expires_s.map(column))
            .bind(row.used_s.map(column))
            .bind(row.revoked_s.map(column))
            .bind(repo_id)
            .bind(&row.session);
        let is_new = insert.execute(&mut *tx).await?.rows_affected() > 0;
        if is_new {
            note(&mut tx, &row.deed()).await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }

    async fn try_revoke_token(&self, id: &str, now_s: u64) -> Sql<Option<TokenColumns>> {
        let update = format!("{REVOKE} RETURNING {COLUMNS}");
        let update = sqlx::query_as(sqlx::AssertSqlSafe(update)).bind(column(now_s)).bind(id);
        let mut tx = self.writes.begin().await?;
        let found = revoked(update.fetch_all(&mut *tx).await?, id);
        if let Some((_, deed)) = &found {
            note(&mut tx, deed).await?;
        }
        tx.commit().await?;
        Ok(found.map(|(row, _)| row))
    }

    async fn try_set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        now_s: u64,
        kept_session: Option<&str>,
    ) -> Sql<()> {
        let set = match hash {
            Some(hash) => sqlx::query(SET_PASSWORD).bind(name).bind(hash).bind(column(now_s)),
            None => sqlx::query("DELETE FROM passwords WHERE name = $1").bind(name),
        };
        let mut tx = self.writes.begin().await?;
        set.execute(&mut *tx).await?;
        let end =
            sqlx::query(END_SESSIONS).bind(column(now_s)).bind(name).bind(kept_session.unwrap_or_default());
        end.execute(&mut *tx).await?;
        note(&mut tx, &Deed::new("password.set", name, "")).await?;
        tx.commit().await
    }

    async fn try_note_use(&self, id: &str, now_s: u64) -> Sql<()> {
        let update = "UPDATE tokens SET used_s = MAX(COALESCE(used_s, 0), ?) WHERE id = ?";
        sqlx::query(update).bind(column(now_s)).bind(id).execute(&self.writes).await.map(|_| ())
    }
}

#[async_trait]
impl Tokens for SqliteCatalog {
    async fn add(&self, row: &TokenRow) -> Result<bool> {
        let mut tries = Tries::new("add a token");
        loop {
            match self.try_add_token(row).await {
                Ok(added) => return Ok(added),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn by_digest(&self, digest: &[u8; 32]) -> Result<Option<TokenRow>> {
        let query = format!("SELECT {COLUMNS} FROM tokens WHERE digest = ?");
        let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(digest.as_slice());
        let row: Sql<Option<TokenColumns>> = query.fetch_optional(&self.reads).await;
        row.map_err(|source| translate("find a token", source))?.map(TokenRow::try_from).transpose()
    }

    async fn by_id(&self, id: &str) -> Result<Option<TokenRow>> {
        let query = format!("SELECT {COLUMNS} FROM tokens WHERE id = ?");
        let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(id);
        let row: Sql<Option<TokenColumns>> = query.fetch_optional(&self.reads).await;
        row.map_err(|source| translate("find a token", source))?.map(TokenRow::try_from).transpose()
    }

    async fn repo_of_scope(&self, scope: &Scope) -> Result<Option<RepoId>> {
        let Some((kind, name)) = kind_and_name(scope) else { return Ok(None) };
        let query = sqlx::query_scalar(REPO_OF_SCOPE).bind(kind).bind(scope.namespace()).bind(name);
        let id: Sql<Option<Vec<u8>>> = query.fetch_optional(&self.reads).await;
        id.map_err(|source| translate("find a repository", source))?.map(repo_id_of).transpose()
    }

    async fn all(&self) -> Result<Vec<TokenRow>> {
        let query = format!("SELECT {COLUMNS} FROM tokens ORDER BY created_s, id");
        let rows: Sql<Vec<TokenColumns>> =
            sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_all(&self.reads).await;
        rows.map_err(|source| translate("list tokens", source))?.into_iter().map(TokenRow::try_from).collect()
    }

    async fn revoke(&self, id: &str, now_s: u64) -> Result<Option<TokenRow>> {
        let mut tries = Tries::new("revoke a token");
        let row = loop {
            match self.try_revoke_token(id, now_s).await {
                Ok(row) => break row,
                Err(error) => tries.again(error).await?,
            }
        };
        row.map(TokenRow::try_from).transpose()
    }

    async fn note_use(&self, id: &str, now_s: u64) -> Result<()> {
        let mut tries = Tries::new("note the use of a token");
        loop {
            match self.try_note_use(id, now_s).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn password(&self, name: &str) -> Result<Option<String>> {
        let query = sqlx::query_scalar("SELECT hash FROM passwords WHERE name = $1").bind(name);
        query.fetch_optional(&self.reads).await.map_err(|source| translate("find a password", source))
    }

    async fn set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        now_s: u64,
        kept_session: Option<&str>,
    ) -> Result<()> {
        let mut tries = Tries::new("set a password");
        loop {
            match self.try_set_password(name, hash, now_s, kept_session).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.again(error).await?,
            }
        }
    }
}
