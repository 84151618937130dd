//! The statements of [`Review`](super::Review), for a catalog of either database.

/// Implements [`Review`](super::Review) for `$catalog`, which reads from the pool `$reads` and writes to `$writes`.
macro_rules! implement_review {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;

        #[async_trait]
        impl Review for $catalog {
            async fn add_pull(&self, repo: RepoId, row: &PullRow) -> Result<u64> {
                let mut tries = 0;
                loop {
                    let insert = "INSERT INTO pulls (repo, number, title, description, author, created_s) \
                        SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5 FROM pulls WHERE repo = $1 \
                        ON CONFLICT DO NOTHING RETURNING number";
                    let insert = sqlx::query_as(insert)
                        .bind(repo.as_bytes().to_vec())
                        .bind(&row.title)
                        .bind(&row.description)
                        .bind(&row.author)
                        .bind(column(row.created_s));
                    let added: Sql<Option<(i64,)>> = insert.fetch_optional(&self.$writes).await;
                    let added = added.map_err(|source| translate("add a pull request", source))?;
                    if let Some((added,)) = added {
                        return number("number of a pull request", added);
                    }
                    // Somebody took the number: the next look finds another.
                    tries += 1;
                    if tries > 100 {
                        let message = "catalog: too many pull requests at once";
                        return Err(Error::new(ErrorKind::Unavailable, message));
                    }
                }
            }

            async fn pulls(&self, repo: RepoId, numbers: &[u64]) -> Result<Vec<PullRow>> {
                let mut found = Vec::new();
                let query = format!("SELECT {PULL_COLUMNS} FROM pulls WHERE repo = $1 AND number = $2");
                for asked in numbers {
                    let query = sqlx::query_as(sqlx::AssertSqlSafe(query.clone()));
                    let query = query.bind(repo.as_bytes().to_vec()).bind(column(*asked));
                    let row: Sql<Option<PullColumns>> = query.fetch_optional(&self.$reads).await;
                    let row = row.map_err(|source| translate("find a pull request", source))?;
                    found.extend(row.map(PullRow::try_from).transpose()?);
                }
                Ok(found)
            }

            async fn list_pulls(&self, repo: RepoId, query: &PullQuery) -> Result<(Vec<PullRow>, u64)> {
                let failed = |source| translate("list pull requests", source);
                // A parameter that is null asks for nothing; PostgreSQL must be told its type.
                let wanted = "repo = $1 \
                    AND (CAST($2 AS BIGINT) IS NULL OR $2 = CASE WHEN state = 0 THEN 1 ELSE 0 END) \
                    AND (CAST($3 AS TEXT) IS NULL OR author = $3)";
                let count = format!("SELECT COUNT(*) FROM pulls WHERE {wanted}");
                let count = sqlx::query_as(sqlx::AssertSqlSafe(count))
                    .bind(repo.as_bytes().to_vec())
                    .bind(query.is_open.map(i64::from))
                    .bind(query.author.clone());
                let (count,): (i64,) = count.fetch_one(&self.$reads).await.map_err(failed)?;
                let page = format!(
                    "SELECT {PULL_COLUMNS} FROM pulls WHERE {wanted} ORDER BY number DESC LIMIT $4 OFFSET $5"
                );
                let page = sqlx::query_as(sqlx::AssertSqlSafe(page))
                    .bind(repo.as_bytes().to_vec())
                    .bind(query.is_open.map(i64::from))
                    .bind(query.author.clone())
                    .bind(column(query.limit))
                    .bind(column(query.skip));
                let rows: Vec<PullColumns> = page.fetch_all(&self.$reads).await.map_err(failed)?;
                let rows = rows.into_iter().map(PullRow::try_from).collect::<Result<_>>()?;
                Ok((rows, number("count", count)?))
            }

            async fn set_pull(&self, repo: RepoId, number: u64, state: PullState) -> Result<bool> {
                let work = || {
                    let update = "UPDATE pulls SET state = $1, merged = $2 \
                        WHERE repo = $3 AND number = $4 AND merged IS NULL";
                    let update = sqlx::query(update)
                        .bind(state.number())
                        .bind(state.merged())
                        .bind(repo.as_bytes().to_vec())
                        .bind(column(number));
                    update.execute(&self.$writes)
                };
                Ok(retried!("change a pull request", work()).rows_affected() > 0)
            }

            async fn add_lock(&self, repo: RepoId, row: &LockRow) -> Result<LockRow> {
                let work = || {
                    let insert = "INSERT INTO locks (repo, path, id, owner, created_s) \
                        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
                    let insert = sqlx::query(insert)
                        .bind(repo.as_bytes().to_vec())
                        .bind(&row.path)
                        .bind(&row.id)
                        .bind(&row.owner)
                        .bind(column(row.created_s));
                    insert.execute(&self.$writes)
                };
                if retried!("add a lock", work()).rows_affected() > 0 {
                    return Ok(row.clone());
                }
                let query = LockQuery { path: Some(row.path.clone()), limit: 1, ..LockQuery::default() };
                let there = self.locks(repo, &query).await?.into_iter().next();
                // Unlocked between the two looks: the caller asks again.
                there.ok_or_else(|| Error::new(ErrorKind::Unavailable, "catalog: a lock came and went"))
            }

            async fn locks(&self, repo: RepoId, query: &LockQuery) -> Result<Vec<LockRow>> {
                let mut select = sqlx::QueryBuilder::<$database>::new(format!(
                    "SELECT {LOCK_COLUMNS} FROM locks WHERE repo = "
                ));
                select.push_bind(repo.as_bytes().to_vec());
                for (condition, value) in [
                    (" AND path = ", &query.path),
                    (" AND id = ", &query.id),
                    (" AND path > ", &query.after),
                ] {
                    if let Some(value) = value {
                        select.push(condition).push_bind(value);
                    }
                }
                select.push(" ORDER BY path LIMIT ").push_bind(column(query.limit));
                let rows = select.build_query_as().persistent(false).fetch_all(&self.$reads);
                let rows: Vec<LockColumns> = rows.await.map_err(|source| translate("list locks", source))?;
                rows.into_iter().map(LockRow::try_from).collect()
            }

            async fn remove_lock(&self, repo: RepoId, id: &str) -> Result<bool> {
                let work = || {
                    let delete = sqlx::query("DELETE FROM locks WHERE repo = $1 AND id = $2");
                    delete.bind(repo.as_bytes().to_vec()).bind(id).execute(&self.$writes)
                };
                Ok(retried!("remove a lock", work()).rows_affected() > 0)
            }
        }
    };
}

pub(in crate::catalog) use implement_review;
