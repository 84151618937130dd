//! The statements of [`CareCatalog`](super::CareCatalog), for a catalog of either database.

/// Implements [`CareCatalog`](super::CareCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`.
macro_rules! implement_care_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Query = sqlx::QueryBuilder<$database>;

        #[async_trait]
        impl CareCatalog for $catalog {
            async fn xorb_page(&self, after: &[u8], limit: u64) -> Result<Vec<XorbRow>> {
                let query = format!(
                    "SELECT {XORB_COLUMNS} FROM xorbs WHERE state NOT IN (2, 3) AND hash > $1 ORDER BY hash LIMIT $2"
                );
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(after).bind(column(limit));
                let rows: Sql<Vec<XorbColumns>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list xorbs", source))?;
                rows.into_iter().map(XorbRow::try_from).collect()
            }

            async fn shard_page(&self, after: &[u8], limit: u64) -> Result<Vec<ShardRow>> {
                let query = "SELECT hash, object_bytes, created_s FROM shards WHERE state NOT IN (2, 3) \
                    AND hash > $1 ORDER BY hash LIMIT $2";
                let query = sqlx::query_as(query).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>, i64, i64)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list shards", source))?;
                let row = |(hash, bytes, created)| {
                    Ok(ShardRow {
                        hash: ShardHash::new(array("shard hash", hash)?),
                        object_bytes: number("object bytes", bytes)?,
                        created_s: number("time created", created)?,
                    })
                };
                rows.into_iter().map(row).collect()
            }

            async fn file_page(&self, after: &[u8], limit: u64) -> Result<Vec<FileRow>> {
                let query =
                    "SELECT hash, layout, created_s FROM files WHERE hash > $1 ORDER BY hash LIMIT $2";
                let query = sqlx::query_as(query).bind(after).bind(column(limit));
                let rows: Sql<Vec<FileColumns>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list files", source))?;
                rows.into_iter().map(FileRow::try_from).collect()
            }

            async fn bundle_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<Oid>> {
                let query = "SELECT DISTINCT bundle FROM git_objects WHERE repo = $1 AND bundle > $2 \
                    ORDER BY bundle LIMIT $3";
                let query =
                    sqlx::query_as(query).bind(repo.as_bytes().to_vec()).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>,)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list bundles", source))?;
                rows.into_iter().map(|(oid,)| oid_of(oid)).collect()
            }

            async fn files_of(&self, xorb: XorbHash, after: &[u8], limit: u64) -> Result<Vec<FileHash>> {
                let query = "SELECT file FROM file_xorbs WHERE xorb = $1 AND file > $2 ORDER BY file LIMIT $3";
                let query =
                    sqlx::query_as(query).bind(xorb.as_bytes().to_vec()).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>,)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("find the files of a xorb", source))?;
                rows.into_iter().map(|(file,)| Ok(FileHash::new(array("file hash", file)?))).collect()
            }

            async fn readers(&self, files: &[FileHash]) -> Result<Vec<(FileHash, Scope)>> {
                let mut found = Vec::new();
                for files in files.chunks(BATCH_ROWS) {
                    let mut query = Query::new("SELECT file, namespace, repo FROM repo_files WHERE file");
                    push_in(&mut query, files.iter().map(|file| file.as_bytes().as_slice()));
                    query.push(" ORDER BY file, namespace, repo");
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<(Vec<u8>, String, String)> =
                        rows.map_err(|source| translate("find who reads files", source))?;
                    for (file, namespace, repo) in rows {
                        found.push((FileHash::new(array("file hash", file)?), Scope::new(namespace, repo)?));
                    }
                }
                Ok(found)
            }

            async fn note_verified(&self, xorbs: &[XorbKey], now_s: u64) -> Result<()> {
                for xorbs in xorbs.chunks(BATCH_ROWS) {
                    let work = || async {
                        let mut update = Query::new(
                            "UPDATE xorbs SET state = CASE WHEN state = 4 THEN 0 ELSE state END, verified_s = ",
                        );
                        update.push_bind(column(now_s)).push(" WHERE state NOT IN (2, 3) AND (hash, digest) IN (VALUES ");
                        push_keys(&mut update, xorbs);
                        update.build().persistent(false).execute(&self.$writes).await
                    };
                    retried!("note what is sound", work());
                }
                Ok(())
            }

            async fn mark_damaged(&self, xorbs: &[XorbKey], now_s: u64) -> Result<u64> {
                let mut marked = 0;
                for xorbs in xorbs.chunks(BATCH_ROWS) {
                    let work = || async {
                        let mut update = Query::new("UPDATE xorbs SET state = 4, condemned_s = ");
                        update.push_bind(column(now_s));
                        update.push(" WHERE state IN (0, 1) AND (hash, digest) IN (VALUES ");
                        push_keys(&mut update, xorbs);
                        update.build().persistent(false).execute(&self.$writes).await
                    };
                    marked += retried!("mark what is damaged", work()).rows_affected();
                }
                Ok(marked)
            }

            async fn relay(&self, relay: &Relay) -> Result<bool> {
                Ok(retried!("move files to another object", try_relay(self, relay)))
            }

            async fn restore_rights(
                &self,
                scope: &Scope,
                files: &[(Sha256, FileHash)],
                now_s: u64,
            ) -> Result<()> {
                for files in files.chunks(BATCH_ROWS) {
                    let work = || async {
                        let mut tx = self.$writes.begin_with($begin).await?;
                        let mut insert = Query::new("INSERT INTO repo_files (namespace, repo, file, created_s) ");
                        insert.push_values(files, |mut values, (_, file)| {
                            values.push_bind(scope.namespace().to_owned()).push_bind(scope.repo().to_owned());
                            values.push_bind(file.as_bytes().to_vec()).push_bind(column(now_s));
                        });
                        insert.push(" ON CONFLICT DO NOTHING");
                        insert.build().persistent(false).execute(&mut *tx).await?;
                        let mut insert = Query::new("INSERT INTO repo_sha256s (namespace, repo, sha256, file) ");
                        insert.push_values(files, |mut values, (sha256, file)| {
                            values.push_bind(scope.namespace().to_owned()).push_bind(scope.repo().to_owned());
                            values.push_bind(sha256.as_bytes().to_vec()).push_bind(file.as_bytes().to_vec());
                        });
                        insert.push(" ON CONFLICT DO NOTHING");
                        insert.build().persistent(false).execute(&mut *tx).await?;
                        tx.commit().await
                    };
                    retried!("restore rights", work());
                }
                Ok(())
            }

            async fn digest_claims(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<DigestClaim>> {
                let mut claims = Vec::new();
                for digests in unique(digests).chunks(BATCH_ROWS) {
                    let mut query = Query::new(CLAIMS);
                    query.push(" AND s.namespace = ").push_bind(scope.namespace().to_owned());
                    query.push(" AND s.repo = ").push_bind(scope.repo().to_owned()).push(" AND s.sha256");
                    push_in(&mut query, digests.iter().copied());
                    claims.extend(claim_rows(query.build_query_as().persistent(false).fetch_all(&self.$reads).await)?);
                }
                Ok(claims)
            }

            async fn claim_page(&self, after: Option<&DigestClaim>, limit: u64) -> Result<Vec<DigestClaim>> {
                let mut query = Query::new(CLAIMS);
                if let Some(after) = after {
                    query.push(" AND (s.namespace, s.repo, s.sha256, s.file) > (");
                    let mut list = query.separated(", ");
                    list.push_bind(after.scope.namespace().to_owned()).push_bind(after.scope.repo().to_owned());
                    list.push_bind(after.sha256.as_bytes().to_vec()).push_bind(after.file.as_bytes().to_vec());
                    query.push(")");
                }
                query.push(" ORDER BY s.namespace, s.repo, s.sha256, s.file LIMIT ").push_bind(column(limit));
                claim_rows(query.build_query_as().persistent(false).fetch_all(&self.$reads).await)
            }

            async fn computed_sha256s(
                &self,
                reach: &Reach,
                files: &[FileHash],
            ) -> Result<Vec<(FileHash, Sha256)>> {
                let mut found = Vec::new();
                for files in unique(files).chunks(BATCH_ROWS) {
                    let mut query =
                        Query::new("SELECT DISTINCT r.file, r.sha256 FROM repo_files r WHERE r.sha256 IS NOT NULL");
                    push_reach(&mut query, "r", reach);
                    query.push(" AND r.file");
                    push_in(&mut query, files.iter().copied());
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<(Vec<u8>, Vec<u8>)> =
                        rows.map_err(|source| translate("find computed digests", source))?;
                    for (file, sha256) in rows {
                        found.push((FileHash::new(array("file hash", file)?), Sha256::new(array("digest", sha256)?)));
                    }
                }
                Ok(found)
            }

            async fn settle_claims(
                &self,
                scope: &Scope,
                computed: &[(FileHash, Sha256)],
                refuted: &[DigestClaim],
            ) -> Result<()> {
                let (namespace, repo) = (scope.namespace(), scope.repo());
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    for computed in computed.chunks(BATCH_ROWS) {
                        let mut update = Query::new("UPDATE repo_files SET sha256 = v.column2 FROM (");
                        update.push_values(computed, |mut values, (file, sha256)| {
                            values.push_bind(file.as_bytes().to_vec()).push_bind(sha256.as_bytes().to_vec());
                        });
                        update.push(") AS v WHERE namespace = ").push_bind(namespace.to_owned());
                        update.push(" AND repo = ").push_bind(repo.to_owned()).push(" AND file = v.column1");
                        update.build().persistent(false).execute(&mut *tx).await?;
                    }
                    let mut removed = Vec::new();
                    for claim in refuted {
                        let delete = "DELETE FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND sha256 = $3 \
                            AND file = $4";
                        let delete = sqlx::query(delete).bind(namespace).bind(repo);
                        let delete = delete.bind(claim.sha256.as_bytes().as_slice());
                        let deleted = delete.bind(claim.file.as_bytes().as_slice()).execute(&mut *tx).await?;
                        if deleted.rows_affected() > 0 {
                            removed.push(claim);
                        }
                    }
                    if let Some(event) = DigestClaim::refusal(&removed) {
                        note(&mut tx, &event).await?;
                    }
                    tx.commit().await
                };
                retried!("note computed digests", work());
                Ok(())
            }

            async fn move_file(
                &self,
                file: FileHash,
                from: &Layout,
                to: &Layout,
                shard: ShardHash,
            ) -> Result<bool> {
                Ok(retried!("move a file to other xorbs", try_move_file(self, file, from, to, shard)))
            }

            async fn logical_bytes(&self) -> Result<u64> {
                let query = "SELECT CAST(COALESCE(SUM(f.file_bytes), 0) AS BIGINT) FROM repo_files r \
                    JOIN files f ON f.hash = r.file";
                let bytes: Sql<(i64,)> = sqlx::query_as(query).fetch_one(&self.$reads).await;
                number("bytes", bytes.map_err(|source| translate("count what repositories have", source))?.0)
            }

            async fn top_repos(&self, limit: u64) -> Result<Vec<(Scope, u64, u64)>> {
                let query = "SELECT r.namespace, r.repo, COUNT(*), CAST(SUM(f.file_bytes) AS BIGINT) \
                    FROM repo_files r JOIN files f ON f.hash = r.file GROUP BY r.namespace, r.repo \
                    ORDER BY 4 DESC, 1, 2 LIMIT $1";
                let query = sqlx::query_as(query).bind(column(limit));
                let rows: Sql<Vec<(String, String, i64, i64)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("count what repositories have", source))?;
                let row = |(namespace, repo, files, bytes): (String, String, i64, i64)| {
                    let scope = Scope::new(namespace, repo)?;
                    Ok((scope, number("count", files)?, number("bytes", bytes)?))
                };
                rows.into_iter().map(row).collect()
            }
        }

        /// Claims without a computed digest, or with one that disagrees.
        const CLAIMS: &str = "SELECT s.namespace, s.repo, s.sha256, s.file, r.sha256 FROM repo_sha256s s \
            JOIN repo_files r ON r.namespace = s.namespace AND r.repo = s.repo AND r.file = s.file \
            WHERE (r.sha256 IS NULL OR r.sha256 <> s.sha256)";

        type ClaimColumns = (String, String, Vec<u8>, Vec<u8>, Option<Vec<u8>>);

        fn claim_rows(rows: Sql<Vec<ClaimColumns>>) -> Result<Vec<DigestClaim>> {
            let rows = rows.map_err(|source| translate("find claimed digests", source))?;
            let claim = |(namespace, repo, sha256, file, computed): ClaimColumns| {
                let computed = computed.map(|computed| array("digest", computed)).transpose()?;
                Ok(DigestClaim {
                    scope: Scope::new(namespace, repo)?,
                    sha256: Sha256::new(array("digest", sha256)?),
                    file: FileHash::new(array("file hash", file)?),
                    computed: computed.map(Sha256::new),
                })
            };
            rows.into_iter().map(claim).collect()
        }

        async fn try_move_file(
            catalog: &$catalog,
            file: FileHash,
            from: &Layout,
            to: &Layout,
            shard: ShardHash,
        ) -> Sql<bool> {
            let mut tx = catalog.$writes.begin_with($begin).await?;
            let file = file.as_bytes().as_slice();
            for xorb in &to.xorbs {
                // Held until the end, so that nobody gives it up meanwhile.
                let hold = "UPDATE xorbs SET state = state WHERE hash = $1 AND digest = $2 AND state = 0";
                let hold = sqlx::query(hold).bind(xorb.key.hash.as_bytes().as_slice());
                let held = hold.bind(xorb.key.digest.as_bytes().as_slice()).execute(&mut *tx).await?;
                if held.rows_affected() == 0 {
                    return Ok(false);
                }
            }
            let update = "UPDATE files SET layout = $1, shard = $2 WHERE hash = $3 AND layout = $4";
            let update = sqlx::query(update).bind(to.encode()).bind(shard.as_bytes().as_slice()).bind(file);
            if update.bind(from.encode()).execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(false);
            }
            for (statement, layout) in [
                ("DELETE FROM file_xorbs WHERE xorb = $1 AND file = $2", from),
                ("INSERT INTO file_xorbs (xorb, file) VALUES ($1, $2) ON CONFLICT DO NOTHING", to),
            ] {
                for xorb in &layout.xorbs {
                    let change = sqlx::query(statement).bind(xorb.key.hash.as_bytes().as_slice());
                    change.bind(file).execute(&mut *tx).await?;
                }
            }
            tx.commit().await?;
            Ok(true)
        }

        async fn try_relay(catalog: &$catalog, relay: &Relay) -> Sql<bool> {
            let mut tx = catalog.$writes.begin_with($begin).await?;
            let (hash, digest) = (relay.from.hash.as_bytes().as_slice(), relay.from.digest.as_bytes().as_slice());
            // Whoever registers a file of this xorb waits here, or this finds that file below.
            let held = match &relay.heal {
                Some(row) => {
                    let update = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
                        state = 0, referenced_s = $5, verified_s = $5 WHERE hash = $6 AND digest = $7 AND state = 4";
                    let update = sqlx::query(update)
                        .bind(row.key.digest.as_bytes().as_slice())
                        .bind(column(row.object_bytes))
                        .bind(column(row.raw_bytes))
                        .bind(i64::from(row.chunk_count))
                        .bind(column(relay.now_s));
                    update.bind(hash).bind(digest).execute(&mut *tx).await?
                }
                None => {
                    let update = "UPDATE xorbs SET state = state WHERE hash = $1 AND digest = $2 AND state = 0";
                    sqlx::query(update).bind(hash).bind(digest).execute(&mut *tx).await?
                }
            };
            let count = sqlx::query_as("SELECT COUNT(*) FROM file_xorbs WHERE xorb = $1").bind(hash);
            let (count,): (i64,) = count.fetch_one(&mut *tx).await?;
            if held.rows_affected() == 0 || usize::try_from(count).unwrap_or(usize::MAX) != relay.files.len() {
                return Ok(false);
            }
            if let Some(shard) = &relay.shard {
                let insert = "INSERT INTO shards (hash, object_bytes, created_s) VALUES ($1, $2, $3) \
                    ON CONFLICT DO NOTHING";
                let insert = sqlx::query(insert)
                    .bind(shard.hash.as_bytes().as_slice())
                    .bind(column(shard.object_bytes))
                    .bind(column(shard.created_s));
                insert.execute(&mut *tx).await?;
                let revive = sqlx::query(REVIVE_SHARD).bind(shard.hash.as_bytes().as_slice());
                if revive.execute(&mut *tx).await?.rows_affected() == 0 {
                    return Ok(false);
                }
            }
            for (file, from, to) in &relay.files {
                let update = "UPDATE files SET layout = $1, shard = COALESCE($2, shard) WHERE hash = $3 AND layout = $4";
                let update = sqlx::query(update)
                    .bind(to.encode())
                    .bind(relay.shard.as_ref().map(|shard| shard.hash.as_bytes().to_vec()))
                    .bind(file.as_bytes().as_slice())
                    .bind(from.encode());
                if update.execute(&mut *tx).await?.rows_affected() == 0 {
                    return Ok(false);
                }
            }
            let Some(onto) = &relay.onto else {
                tx.commit().await?;
                return Ok(true);
            };
            let onto = onto.as_bytes().as_slice();
            let touch = "UPDATE xorbs SET state = 0, referenced_s = $1 WHERE hash = $2 AND state <= 1";
            let touch = sqlx::query(touch).bind(column(relay.now_s)).bind(onto);
            if touch.execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let more = "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                SELECT r.namespace, r.repo, 0, x.object_bytes FROM repo_xorbs r JOIN xorbs x ON x.hash = $1 \
                WHERE r.xorb = $2 AND NOT EXISTS (SELECT 1 FROM repo_xorbs o WHERE o.xorb = $1 \
                AND o.namespace = r.namespace AND o.repo = r.repo)";
            sqlx::query(more).bind(onto).bind(hash).execute(&mut *tx).await?;
            for statement in [
                "INSERT INTO file_xorbs (xorb, file) SELECT $1, file FROM file_xorbs WHERE xorb = $2 \
                    ON CONFLICT DO NOTHING",
                "INSERT INTO repo_xorbs (xorb, namespace, repo) SELECT $1, namespace, repo FROM repo_xorbs \
                    WHERE xorb = $2 ON CONFLICT DO NOTHING",
            ] {
                sqlx::query(statement).bind(onto).bind(hash).execute(&mut *tx).await?;
            }
            sqlx::query("DELETE FROM file_xorbs WHERE xorb = $1").bind(hash).execute(&mut *tx).await?;
            let known = sqlx::query_as("SELECT DISTINCT chunk FROM dedup WHERE xorb = $1").bind(hash);
            let known: Vec<(Vec<u8>,)> = known.fetch_all(&mut *tx).await?;
            for (chunk,) in known {
                let moved = relay.chunks.iter().find(|(moved, _)| moved.as_bytes().as_slice() == chunk);
                if let Some((_, index)) = moved {
                    let update = "UPDATE dedup SET xorb = $1, chunk_index = $2 WHERE xorb = $3 AND chunk = $4";
                    let update = sqlx::query(update).bind(onto).bind(i64::from(*index)).bind(hash);
                    update.bind(chunk).execute(&mut *tx).await?;
                }
            }
            tx.commit().await?;
            Ok(true)
        }

        fn push_in<'a>(query: &mut Query, keys: impl Iterator<Item = &'a [u8]>) {
            query.push(" IN (");
            let mut list = query.separated(", ");
            keys.for_each(|key| {
                list.push_bind(key.to_vec());
            });
            query.push(")");
        }

        fn push_keys(query: &mut Query, keys: &[XorbKey]) {
            let mut list = query.separated(", ");
            for key in keys {
                list.push("(").push_bind_unseparated(key.hash.as_bytes().to_vec());
                list.push_unseparated(", ").push_bind_unseparated(key.digest.as_bytes().to_vec());
                list.push_unseparated(")");
            }
            query.push(")");
        }
    };
}

pub(in crate::catalog) use implement_care_catalog;
