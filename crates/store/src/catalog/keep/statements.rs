//! The statements of [`KeepCatalog`](super::KeepCatalog), for a catalog of either database.

/// Implements [`KeepCatalog`](super::KeepCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`.
macro_rules! implement_keep_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Connection = <$database as sqlx::Database>::Connection;

        #[async_trait]
        impl KeepCatalog for $catalog {
            async fn quotas(&self) -> Result<Vec<QuotaRow>> {
                let query = "SELECT namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard \
                    FROM quotas ORDER BY namespace, repo";
                type Columns = (String, String, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
                let rows: Sql<Vec<Columns>> = sqlx::query_as(query).fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list quotas", source))?;
                let bytes = |column: Option<i64>| column.map(|bytes| number("bytes of a quota", bytes)).transpose();
                let row = |(namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard): Columns| {
                    Ok(QuotaRow {
                        of: QuotaOf::from_columns(namespace, repo)?,
                        logical: Limit { soft: bytes(logical_soft)?, hard: bytes(logical_hard)? },
                        physical: Limit { soft: bytes(physical_soft)?, hard: bytes(physical_hard)? },
                    })
                };
                rows.into_iter().map(row).collect()
            }

            async fn set_quota(&self, row: &QuotaRow) -> Result<()> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let (namespace, repo) = row.of.columns();
                    let set = "INSERT INTO quotas (namespace, repo, logical_soft, logical_hard, physical_soft, physical_hard) \
                        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (namespace, repo) DO UPDATE SET \
                        logical_soft = excluded.logical_soft, logical_hard = excluded.logical_hard, \
                        physical_soft = excluded.physical_soft, physical_hard = excluded.physical_hard";
                    let set = sqlx::query(set)
                        .bind(namespace)
                        .bind(repo)
                        .bind(row.logical.soft.map(column))
                        .bind(row.logical.hard.map(column))
                        .bind(row.physical.soft.map(column))
                        .bind(row.physical.hard.map(column));
                    set.execute(&mut *tx).await?;
                    let detail = format!("logical {} physical {}", row.logical, row.physical);
                    note(&mut tx, &Deed::new("quota.set", row.of.to_string(), detail)).await?;
                    tx.commit().await
                };
                Ok(retried!("set a quota", work()))
            }

            async fn remove_quota(&self, of: &QuotaOf) -> Result<bool> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let (namespace, repo) = of.columns();
                    let delete = sqlx::query("DELETE FROM quotas WHERE namespace = $1 AND repo = $2");
                    let removed = delete.bind(namespace).bind(repo).execute(&mut *tx).await?.rows_affected() > 0;
                    if removed {
                        note(&mut tx, &Deed::new("quota.remove", of.to_string(), "")).await?;
                    }
                    tx.commit().await?;
                    Ok(removed)
                };
                Ok(retried!("remove a quota", work()))
            }

            async fn usage(&self, of: &QuotaOf) -> Result<Usage> {
                let (namespace, repo) = of.columns();
                let lines = "SELECT CAST(COALESCE(SUM(logical_bytes), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(physical_bytes), 0) AS BIGINT) FROM usage WHERE namespace = $1";
                let git = "SELECT CAST(COALESCE(SUM(git_bytes), 0) AS BIGINT), CAST(COALESCE(SUM((SELECT SUM(p.bytes) \
                    FROM parts p WHERE p.repo = repos.id)), 0) AS BIGINT) FROM repos WHERE namespace = $1";
                // What no shard has registered yet takes room all the same.
                let uploads = "SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM uploads WHERE namespace = $1";
                let (lines, git, uploads) = match of {
                    QuotaOf::Namespace(_) => (lines.to_owned(), git.to_owned(), uploads.to_owned()),
                    QuotaOf::Repo(_) => (
                        format!("{lines} AND repo = $2"),
                        format!("{git} AND reclaim_s IS NULL AND kind = $2 AND name = $3"),
                        format!("{uploads} AND repo = $2"),
                    ),
                };
                let mut lines = sqlx::query_as(sqlx::AssertSqlSafe(lines)).bind(namespace);
                let mut git = sqlx::query_as(sqlx::AssertSqlSafe(git)).bind(namespace);
                let mut uploads = sqlx::query_as(sqlx::AssertSqlSafe(uploads)).bind(namespace);
                if let QuotaOf::Repo(_) = of {
                    let (kind, name) = repo.split_once('/').unwrap_or(("", repo));
                    let kind = Kind::ALL.into_iter().find(|known| known.plural() == kind);
                    lines = lines.bind(repo);
                    uploads = uploads.bind(repo);
                    git = git.bind(kind.map_or(-1, Kind::number)).bind(name);
                }
                let read = async {
                    let lines: (i64, i64) = lines.fetch_one(&self.$reads).await?;
                    let (git, parts): (i64, i64) = git.fetch_one(&self.$reads).await?;
                    let (uploads,): (i64,) = uploads.fetch_one(&self.$reads).await?;
                    let stored = lines.1.saturating_add(git).saturating_add(parts).saturating_add(uploads);
                    Ok((lines.0.saturating_add(git), stored))
                };
                let read: Sql<(i64, i64)> = read.await;
                let (logical, physical) = read.map_err(|source| translate("add up usage", source))?;
                // Never less than nothing, whatever a difference got wrong.
                let bytes = |sum: i64| u64::try_from(sum).unwrap_or(0);
                Ok(Usage { logical_bytes: bytes(logical), physical_bytes: bytes(physical) })
            }

            async fn fold_usage(&self) -> Result<()> {
                let many = "SELECT namespace, repo FROM usage GROUP BY namespace, repo HAVING COUNT(*) > 1";
                let many: Sql<Vec<(String, String)>> = sqlx::query_as(many).fetch_all(&self.$reads).await;
                for (namespace, repo) in many.map_err(|source| translate("look at usage", source))? {
                    let work = || async {
                        let mut tx = self.$writes.begin_with($begin).await?;
                        let delete = "DELETE FROM usage WHERE namespace = $1 AND repo = $2 \
                            RETURNING logical_bytes, physical_bytes";
                        let delete = sqlx::query_as(delete).bind(&namespace).bind(&repo);
                        let lines: Vec<(i64, i64)> = delete.fetch_all(&mut *tx).await?;
                        let logical = lines.iter().map(|line| line.0).sum();
                        let physical = lines.iter().map(|line| line.1).sum();
                        add_line(&mut tx, &namespace, &repo, logical, physical).await?;
                        tx.commit().await
                    };
                    retried!("fold usage", work());
                }
                Ok(())
            }

            async fn recount_usage(&self) -> Result<()> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    for statement in [
                        "DELETE FROM usage",
                        "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                            SELECT r.namespace, r.repo, SUM(f.file_bytes), 0 FROM repo_files r \
                            JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo",
                        "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                            SELECT r.namespace, r.repo, 0, SUM(x.object_bytes) FROM repo_xorbs r \
                            JOIN xorbs x ON x.hash = r.xorb GROUP BY r.namespace, r.repo",
                        "UPDATE repos SET git_bytes = \
                            (SELECT COALESCE(SUM(g.bytes), 0) FROM git_objects g WHERE g.repo = repos.id)",
                    ] {
                        sqlx::query(statement).execute(&mut *tx).await?;
                    }
                    tx.commit().await
                };
                Ok(retried!("count usage", work()))
            }

            async fn note_deed(&self, deed: &Deed) -> Result<()> {
                let work = || async { note(&mut *self.$writes.acquire().await?, deed).await };
                Ok(retried!("note a deed", work()))
            }

            async fn deeds(&self, query: &DeedQuery) -> Result<Vec<DeedRow>> {
                // As the index on them says it.
                let upkeep = if query.is_upkeep { "AND action IN ('sweep', 'verify')" } else { "" };
                let select = format!(
                    "SELECT id, time_s, who, request, action, target, detail FROM audit \
                    WHERE time_s >= $1 AND id < $2 {upkeep} ORDER BY id DESC LIMIT $3"
                );
                let select = sqlx::query_as(sqlx::AssertSqlSafe(select))
                    .bind(column(query.since_s))
                    .bind(query.before.map_or(i64::MAX, column))
                    .bind(column(query.limit));
                type Columns = (i64, i64, String, String, String, String, String);
                let rows: Sql<Vec<Columns>> = select.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("read the audit log", source))?;
                let row = |(id, time_s, who, request, action, target, detail): Columns| {
                    let deed = Deed { action, target, detail };
                    Ok(DeedRow { id: number("number", id)?, time_s: number("time", time_s)?, who, request, deed })
                };
                rows.into_iter().map(row).collect()
            }

            async fn forget_deeds(&self, before_s: u64) -> Result<u64> {
                let work = || {
                    let delete = sqlx::query("DELETE FROM audit WHERE time_s < $1");
                    delete.bind(column(before_s)).execute(&self.$writes)
                };
                Ok(retried!("forget deeds", work()).rows_affected())
            }

            async fn left(&self, repo: RepoId) -> Result<Vec<LeftRow>> {
                let read = async { left_of(&mut *self.$reads.acquire().await?, repo).await };
                let rows: Sql<Vec<LeftColumns>> = read.await;
                rows.map_err(|source| translate("look where refs were", source))?.into_iter().map(left_row).collect()
            }

            async fn note_left(&self, repo: RepoId, rows: &[LeftRow]) -> Result<()> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    for row in rows {
                        leave(&mut tx, repo, row).await?;
                    }
                    tx.commit().await
                };
                Ok(retried!("note where refs were", work()))
            }

            async fn forget_left(&self, repo: RepoId, now_s: u64) -> Result<u64> {
                let work = || {
                    let delete = sqlx::query("DELETE FROM reflog WHERE repo = $1 AND reclaim_s <= $2");
                    delete.bind(repo.as_bytes().to_vec()).bind(column(now_s)).execute(&self.$writes)
                };
                Ok(retried!("forget where refs were", work()).rows_affected())
            }
        }

        /// Notes a deed within a transaction.
        pub(in crate::catalog) async fn note(connection: &mut Connection, deed: &Deed) -> Sql<()> {
            let (time_s, who, action, target, detail, request) = deed.columns();
            let insert = "INSERT INTO audit (time_s, who, action, target, detail, request) VALUES ($1, $2, $3, $4, $5, $6)";
            let insert = sqlx::query(insert).bind(time_s).bind(who).bind(action).bind(target).bind(detail);
            insert.bind(request).execute(connection).await.map(|_| ())
        }

        /// Notes within a transaction that a ref has left a commit.
        pub(in crate::catalog) async fn leave(connection: &mut Connection, repo: RepoId, row: &LeftRow) -> Sql<()> {
            let insert = "INSERT INTO reflog (repo, oid, name, left_s, reclaim_s) VALUES ($1, $2, $3, $4, $5) \
                ON CONFLICT (repo, oid, name) DO UPDATE SET left_s = excluded.left_s, reclaim_s = excluded.reclaim_s";
            let insert = sqlx::query(insert)
                .bind(repo.as_bytes().to_vec())
                .bind(row.oid.as_bytes().to_vec())
                .bind(&row.name)
                .bind(column(row.left_s))
                .bind(column(row.reclaim_s));
            insert.execute(connection).await.map(|_| ())
        }

        pub(in crate::catalog) type LeftColumns = (Vec<u8>, String, i64, i64);

        pub(in crate::catalog) async fn left_of(connection: &mut Connection, repo: RepoId) -> Sql<Vec<LeftColumns>> {
            let query = "SELECT oid, name, left_s, reclaim_s FROM reflog WHERE repo = $1 ORDER BY reclaim_s, oid, name";
            sqlx::query_as(query).bind(repo.as_bytes().to_vec()).fetch_all(connection).await
        }

        pub(in crate::catalog) fn left_row((oid, name, left_s, reclaim_s): LeftColumns) -> Result<LeftRow> {
            let (left_s, reclaim_s) = (number("time", left_s)?, number("time", reclaim_s)?);
            Ok(LeftRow { oid: oid_of(oid)?, name, left_s, reclaim_s })
        }

        /// Notes within a transaction that a repository takes more or less.
        pub(in crate::catalog) async fn add_line(
            connection: &mut Connection,
            namespace: &str,
            repo: &str,
            logical_bytes: i64,
            physical_bytes: i64,
        ) -> Sql<()> {
            if (logical_bytes, physical_bytes) == (0, 0) {
                return Ok(());
            }
            let insert = "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) VALUES ($1, $2, $3, $4)";
            let insert = sqlx::query(insert).bind(namespace).bind(repo).bind(logical_bytes).bind(physical_bytes);
            insert.execute(connection).await.map(|_| ())
        }
    };
}

pub(in crate::catalog) use implement_keep_catalog;
