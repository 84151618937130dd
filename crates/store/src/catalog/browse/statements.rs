//! The statements of [`BrowseCatalog`](super::BrowseCatalog), for a catalog of either database.

/// Implements [`BrowseCatalog`](super::BrowseCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`.
macro_rules! implement_browse_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Query = sqlx::QueryBuilder<$database>;
        type Connection = <$database as sqlx::Database>::Connection;
        type SizedColumns =
            (Vec<u8>, i64, String, String, i64, i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

        #[async_trait]
        impl BrowseCatalog for $catalog {
            async fn repo_page(&self, query: &BrowseQuery) -> Result<Vec<SizedRepo>> {
                let mut select = Query::new(
                    "SELECT r.id, r.kind, r.namespace, r.name, r.private, r.created_s, r.updated_s, r.reclaim_s, \
                     s.files, s.logical_bytes, s.stored_bytes \
                     FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id WHERE r.reclaim_s IS NULL",
                );
                push_wanted(&mut select, query);
                select.push(match query.order {
                    Order::Name => " ORDER BY r.namespace, r.name, r.kind",
                    Order::Updated => " ORDER BY r.updated_s DESC, r.namespace, r.name, r.kind",
                    Order::Size => " ORDER BY COALESCE(s.logical_bytes, -1) DESC, r.namespace, r.name, r.kind",
                });
                select.push(" LIMIT ").push_bind(column(query.limit));
                select.push(" OFFSET ").push_bind(column(query.skip));
                let rows = select.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                let rows: Vec<SizedColumns> = rows.map_err(|source| translate("list repositories", source))?;
                let sized = |columns: SizedColumns| {
                    let (id, kind, namespace, name, private, created, updated, reclaim, files, logical, stored) =
                        columns;
                    let row = (id, kind, namespace, name, private, created, updated, reclaim);
                    let size = files.zip(logical).zip(stored);
                    Ok(SizedRepo {
                        row: RepoRow::try_from(row)?,
                        size: size.map(|((files, logical), stored)| size_of(files, logical, stored)).transpose()?,
                    })
                };
                rows.into_iter().map(sized).collect()
            }

            async fn repo_totals(&self, query: &BrowseQuery) -> Result<(u64, RepoSize)> {
                let mut select = Query::new(
                    "SELECT COUNT(*), CAST(COALESCE(SUM(s.files), 0) AS BIGINT), \
                     CAST(COALESCE(SUM(s.logical_bytes), 0) AS BIGINT), \
                     CAST(COALESCE(SUM(s.stored_bytes), 0) AS BIGINT) \
                     FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id WHERE r.reclaim_s IS NULL",
                );
                push_wanted(&mut select, query);
                let row = select.build_query_as().persistent(false).fetch_one(&self.$reads).await;
                let (repos, files, logical, stored): (i64, i64, i64, i64) =
                    row.map_err(|source| translate("count repositories", source))?;
                Ok((number("count", repos)?, size_of(files, logical, stored)?))
            }

            async fn unmeasured(&self, before_s: u64, limit: u64) -> Result<Vec<RepoRow>> {
                let columns = REPO_COLUMNS.replace(", ", ", r.");
                let query = format!(
                    "SELECT r.{columns} FROM repos r LEFT JOIN repo_sizes s ON s.repo = r.id \
                     WHERE r.reclaim_s IS NULL \
                     AND (s.measured_s IS NULL OR s.measured_s <= r.updated_s OR s.measured_s < $1) \
                     ORDER BY r.updated_s DESC, r.id LIMIT $2"
                );
                let query =
                    sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(column(before_s)).bind(column(limit));
                let rows: Sql<Vec<RepoColumns>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("find repositories to measure", source))?;
                rows.into_iter().map(RepoRow::try_from).collect()
            }

            async fn measure(&self, repos: &[RepoRow], now_s: u64) -> Result<()> {
                let mut sizes = Vec::with_capacity(repos.len());
                for repo in repos {
                    let mut reads =
                        self.$reads.acquire().await.map_err(|source| translate("measure a repository", source))?;
                    let measured = measured(&mut reads, repo.id, &repo.scope()?).await;
                    sizes.push((repo.id, measured.map_err(|source| translate("measure a repository", source))?));
                }
                for sizes in sizes.chunks(BATCH_ROWS) {
                    let work = || async {
                        let mut insert = Query::new(
                            "INSERT INTO repo_sizes (repo, measured_s, files, logical_bytes, stored_bytes) ",
                        );
                        insert.push_values(sizes, |mut values, (repo, (files, logical, stored))| {
                            values.push_bind(repo.as_bytes().to_vec()).push_bind(column(now_s));
                            values.push_bind(*files).push_bind(*logical).push_bind(*stored);
                        });
                        insert.push(
                            " ON CONFLICT (repo) DO UPDATE SET measured_s = excluded.measured_s, \
                             files = excluded.files, logical_bytes = excluded.logical_bytes, \
                             stored_bytes = excluded.stored_bytes",
                        );
                        let mut tx = self.$writes.begin_with($begin).await?;
                        insert.build().persistent(false).execute(&mut *tx).await?;
                        tx.commit().await
                    };
                    retried!("note the size of repositories", work());
                }
                Ok(())
            }

            async fn largest_files(
                &self,
                private_of: Option<&[String]>,
                limit: u64,
            ) -> Result<Vec<(FileHash, u64, Scope)>> {
                // Of several repositories that have a file, the first by name is told.
                let mut select = Query::new(
                    "SELECT f.hash, f.file_bytes, MIN(u.namespace || '/' || u.repo) FROM files f \
                     JOIN repo_files u ON u.file = f.hash JOIN repos r ON r.namespace = u.namespace \
                     AND u.repo = CASE r.kind WHEN 0 THEN 'models/' WHEN 1 THEN 'datasets/' ELSE 'spaces/' END || r.name \
                     WHERE r.reclaim_s IS NULL",
                );
                push_visible(&mut select, private_of);
                select.push(" GROUP BY f.hash, f.file_bytes ORDER BY f.file_bytes DESC, f.hash LIMIT ");
                select.push_bind(column(limit));
                let rows = select.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                let rows: Vec<(Vec<u8>, i64, String)> =
                    rows.map_err(|source| translate("find the largest files", source))?;
                let row = |(hash, bytes, scope): (Vec<u8>, i64, String)| {
                    let scope: Scope = scope.parse()?;
                    Ok((FileHash::new(array("file hash", hash)?), number("length of a file", bytes)?, scope))
                };
                rows.into_iter().map(row).collect()
            }

            async fn growth(&self) -> Result<Vec<(u64, u64, u64)>> {
                let query = "SELECT day, CAST(SUM(logical) AS BIGINT), CAST(SUM(stored) AS BIGINT) FROM (\
                     SELECT created_s / 86400 AS day, SUM(file_bytes) AS logical, 0 AS stored FROM files GROUP BY 1 \
                     UNION ALL \
                     SELECT created_s / 86400 AS day, 0 AS logical, SUM(object_bytes) AS stored FROM xorbs \
                     WHERE state NOT IN (2, 3) GROUP BY 1) AS both_sides GROUP BY day ORDER BY day";
                let rows: Sql<Vec<(i64, i64, i64)>> = sqlx::query_as(query).fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("count what came when", source))?;
                let row = |(day, logical, stored): (i64, i64, i64)| {
                    Ok((number("day", day)?, number("bytes", logical)?, number("bytes", stored)?))
                };
                rows.into_iter().map(row).collect()
            }

            async fn upkeep(&self) -> Result<Upkeep> {
                let query = "SELECT \
                     CAST(COALESCE(SUM(CASE WHEN state = 0 AND NOT EXISTS \
                     (SELECT 1 FROM file_xorbs u WHERE u.xorb = x.hash) THEN object_bytes END), 0) AS BIGINT), \
                     CAST(COALESCE(SUM(CASE WHEN state IN (1, 2) THEN object_bytes END), 0) AS BIGINT), \
                     COUNT(CASE WHEN state = 4 THEN 1 END), \
                     MIN(CASE WHEN state = 0 THEN verified_s END) FROM xorbs x";
                let row: Sql<(i64, i64, i64, Option<i64>)> =
                    sqlx::query_as(query).fetch_one(&self.$reads).await;
                let (unused, condemned, damaged, verified) =
                    row.map_err(|source| translate("look for what is to do", source))?;
                Ok(Upkeep {
                    unused_bytes: number("bytes", unused)?,
                    condemned_bytes: number("bytes", condemned)?,
                    damaged_xorbs: number("count", damaged)?,
                    verified_s: verified.map(|time| number("time verified", time)).transpose()?,
                })
            }
        }

        async fn measured(connection: &mut Connection, repo: RepoId, scope: &Scope) -> Sql<(i64, i64, i64)> {
            let files = "SELECT COUNT(*), CAST(COALESCE(SUM(f.file_bytes), 0) AS BIGINT) FROM repo_files u \
                JOIN files f ON f.hash = u.file WHERE u.namespace = $1 AND u.repo = $2";
            let files = sqlx::query_as(files).bind(scope.namespace()).bind(scope.repo());
            let (files, bytes): (i64, i64) = files.fetch_one(&mut *connection).await?;
            let stored = "SELECT CAST(COALESCE(SUM(x.object_bytes), 0) AS BIGINT) FROM repo_xorbs u \
                JOIN xorbs x ON x.hash = u.xorb WHERE u.namespace = $1 AND u.repo = $2 AND x.state NOT IN (2, 3)";
            let stored = sqlx::query_as(stored).bind(scope.namespace()).bind(scope.repo());
            let (stored,): (i64,) = stored.fetch_one(&mut *connection).await?;
            let blobs = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM git_objects \
                WHERE repo = $1 AND kind = 3 AND file IS NULL";
            let blobs = sqlx::query_as(blobs).bind(repo.as_bytes().to_vec());
            let (blobs,): (i64,) = blobs.fetch_one(&mut *connection).await?;
            Ok((files, bytes.saturating_add(blobs), stored.saturating_add(blobs)))
        }

        fn push_wanted(select: &mut Query, query: &BrowseQuery) {
            if let Some(kind) = query.kind {
                select.push(" AND r.kind = ").push_bind(kind.number());
            }
            if let Some(search) = &query.search {
                let pattern = format!("%{}%", like(&search.to_lowercase()));
                select.push(" AND LOWER(r.namespace || '/' || r.name) LIKE ").push_bind(pattern);
                select.push(" ESCAPE '!'");
            }
            push_visible(select, query.private_of.as_deref());
        }

        fn push_visible(select: &mut Query, private_of: Option<&[String]>) {
            let Some(namespaces) = private_of else { return };
            select.push(" AND (r.private = 0");
            for namespace in namespaces {
                select.push(" OR r.namespace = ").push_bind(namespace.clone());
            }
            select.push(")");
        }

        fn size_of(files: i64, logical: i64, stored: i64) -> Result<RepoSize> {
            Ok(RepoSize {
                files: number("count", files)?,
                logical_bytes: number("bytes", logical)?,
                stored_bytes: number("bytes", stored)?,
            })
        }
    };
}

pub(in crate::catalog) use implement_browse_catalog;
