//! The statements of [`SweepCatalog`](super::SweepCatalog), for a catalog of either database.

/// Implements [`SweepCatalog`](super::SweepCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`: serializable, since they act on what they do not find.
macro_rules! implement_sweep_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Query = sqlx::QueryBuilder<$database>;

        impl $catalog {
            /// One statement, and how many rows it changed.
            async fn change(&self, query: Query) -> Sql<u64> {
                self.change_all(std::iter::once(query)).await
            }

            /// Statements that take effect together, and how many rows they changed.
            async fn change_all(&self, queries: impl Iterator<Item = Query> + Send) -> Sql<u64> {
                let mut tx = self.$writes.begin_with($begin).await?;
                let mut changed = 0;
                for mut query in queries {
                    changed += query.build().persistent(false).execute(&mut *tx).await?.rows_affected();
                }
                tx.commit().await?;
                Ok(changed)
            }

            /// The hashes a question finds.
            async fn page(&self, mut query: Query) -> Result<Vec<[u8; 32]>> {
                let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                let rows: Vec<(Vec<u8>,)> = rows.map_err(|source| translate("look for what is unused", source))?;
                rows.into_iter().map(|(hash,)| array("hash", hash)).collect()
            }
        }

        #[async_trait]
        impl SweepCatalog for $catalog {
            async fn take_lease(
                &self,
                name: &str,
                holder: &str,
                now_s: u64,
                until_s: u64,
            ) -> Result<Option<String>> {
                let work = || async {
                    let insert = "INSERT INTO leases (name, holder, expires_s, place) VALUES ($1, $2, $3, '') \
                        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_s = excluded.expires_s \
                        WHERE leases.expires_s <= $4 OR leases.holder = excluded.holder \
                        OR leases.expires_s > $3 + 86400 RETURNING place";
                    let insert = sqlx::query_as(insert).bind(name).bind(holder);
                    let insert = insert.bind(column(until_s)).bind(column(now_s));
                    let place: Option<(String,)> = insert.fetch_optional(&self.$writes).await?;
                    Ok(place.map(|(place,)| place))
                };
                Ok(retried!("take a lease", work()))
            }

            async fn keep_lease(&self, name: &str, holder: &str, until_s: u64, place: &str) -> Result<bool> {
                let work = || {
                    let update =
                        "UPDATE leases SET expires_s = $1, place = $2 WHERE name = $3 AND holder = $4";
                    let update = sqlx::query(update).bind(column(until_s)).bind(place);
                    update.bind(name).bind(holder).execute(&self.$writes)
                };
                Ok(retried!("keep a lease", work()).rows_affected() > 0)
            }

            async fn all_repos(&self, after: &[u8], limit: u64) -> Result<Vec<SweptRepo>> {
                let query = format!(
                    "SELECT {REPO_COLUMNS}, generation, swept FROM repos WHERE id > $1 ORDER BY id LIMIT $2"
                );
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>, i64, String, String, i64, i64, i64, Option<i64>, i64, i64)>> =
                    query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list repositories", source))?;
                let row = |(id, kind, namespace, name, private, created, updated, reclaim, generation, swept)| {
                    let columns = (id, kind, namespace, name, private, created, updated, reclaim);
                    Ok(SweptRepo {
                        row: RepoRow::try_from(columns)?,
                        generation: number("generation", generation)?,
                        is_swept: swept == generation,
                    })
                };
                rows.into_iter().map(row).collect()
            }

            async fn git_page(&self, repo: RepoId, after: &[u8], limit: u64) -> Result<Vec<SweptObject>> {
                let query = "SELECT oid, kind, touched_s, file FROM git_objects WHERE repo = $1 AND oid > $2 \
                    ORDER BY oid LIMIT $3";
                let query =
                    sqlx::query_as(query).bind(repo.as_bytes().to_vec()).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>, i64, i64, Option<Vec<u8>>)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list git objects", source))?;
                let row = |(oid, kind, touched, file): (_, _, _, Option<_>)| {
                    let wrong = || Error::new(ErrorKind::Corrupt, "the catalog holds an impossible kind of an object");
                    Ok(SweptObject {
                        oid: oid_of(oid)?,
                        kind: ObjectKind::from_number(kind).ok_or_else(wrong)?,
                        touched_s: number("time added", touched)?,
                        file: file.map(|file| array("file hash", file)).transpose()?.map(FileHash::new),
                    })
                };
                rows.into_iter().map(row).collect()
            }

            async fn begin_repo(&self, repo: RepoId) -> Result<Option<u64>> {
                let work = || async {
                    let update = sqlx::query_as("UPDATE repos SET swept = -2 WHERE id = $1 RETURNING generation");
                    let found: Option<(i64,)> =
                        update.bind(repo.as_bytes().to_vec()).fetch_optional(&self.$writes).await?;
                    Ok(found)
                };
                let found = retried!("begin to sweep a repository", work());
                found.map(|(generation,)| number("generation", generation)).transpose()
            }

            async fn drop_git(
                &self,
                repo: RepoId,
                generation: u64,
                oids: &[Oid],
                before_s: u64,
            ) -> Result<bool> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // Whoever adds objects or moves refs writes this row: from here on they wait.
                    let fence = "UPDATE repos SET generation = generation WHERE id = $1 AND generation = $2";
                    let fence = sqlx::query(fence).bind(repo.as_bytes().to_vec()).bind(column(generation));
                    if fence.execute(&mut *tx).await?.rows_affected() == 0 {
                        return Ok(false);
                    }
                    for oids in oids.chunks(BATCH_ROWS) {
                        let mut delete = Query::new("DELETE FROM git_objects WHERE touched_s < ");
                        delete.push_bind(column(before_s)).push(" AND (repo, oid) IN (VALUES ");
                        let mut list = delete.separated(", ");
                        for oid in oids {
                            list.push("(").push_bind_unseparated(repo.as_bytes().to_vec());
                            list.push_unseparated(", ").push_bind_unseparated(oid.as_bytes().to_vec());
                            list.push_unseparated(")");
                        }
                        delete.push(") RETURNING bytes");
                        let dropped: Vec<(i64,)> =
                            delete.build_query_as().persistent(false).fetch_all(&mut *tx).await?;
                        let bytes: i64 = dropped.iter().map(|(bytes,)| bytes).sum();
                        let update = sqlx::query("UPDATE repos SET git_bytes = git_bytes - $1 WHERE id = $2");
                        update.bind(bytes).bind(repo.as_bytes().to_vec()).execute(&mut *tx).await?;
                    }
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("drop git objects", work()))
            }

            async fn note_swept(&self, repo: RepoId, generation: u64) -> Result<()> {
                let work = || {
                    let update = sqlx::query("UPDATE repos SET swept = $1 WHERE id = $2 AND generation = $1 AND swept = -2");
                    update.bind(column(generation)).bind(repo.as_bytes().to_vec()).execute(&self.$writes)
                };
                retried!("note a sweep", work());
                Ok(())
            }

            async fn used_bundles(&self, repo: RepoId, bundles: &[Oid]) -> Result<Vec<Oid>> {
                let mut used = Vec::new();
                for bundles in bundles.chunks(BATCH_ROWS) {
                    let mut query = Query::new("SELECT DISTINCT bundle FROM git_objects WHERE repo = ");
                    query.push_bind(repo.as_bytes().to_vec()).push(" AND bundle");
                    push_in(&mut query, bundles.iter().map(|oid| oid.as_bytes().as_slice()));
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<(Vec<u8>,)> = rows.map_err(|source| translate("look for bundles", source))?;
                    for (oid,) in rows {
                        used.push(oid_of(oid)?);
                    }
                }
                Ok(used)
            }

            async fn idle_repo_files(
                &self,
                repo: &SweptRepo,
                before_s: u64,
                after: &[u8],
                limit: u64,
            ) -> Result<Vec<FileHash>> {
                let mut query = Query::new("SELECT file FROM repo_files WHERE file > ");
                query.push_bind(after.to_vec());
                push_idle(&mut query, repo, &repo.scope()?, before_s);
                query.push(" ORDER BY file LIMIT ").push_bind(column(limit));
                Ok(self.page(query).await?.into_iter().map(FileHash::new).collect())
            }

            async fn drop_repo_files(
                &self,
                repo: &SweptRepo,
                files: &[FileHash],
                before_s: u64,
            ) -> Result<u64> {
                let scope = repo.scope()?;
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // Commits wait here, or this waits for them. Under another name it has other files.
                    let fence = "UPDATE repos SET generation = generation WHERE id = $1 AND kind = $2 \
                        AND namespace = $3 AND name = $4 AND COALESCE(reclaim_s, -1) = $5";
                    let fence = sqlx::query(fence)
                        .bind(repo.row.id.as_bytes().to_vec())
                        .bind(repo.row.name.kind.number())
                        .bind(&repo.row.name.namespace)
                        .bind(&repo.row.name.name)
                        .bind(repo.row.reclaim_s.map_or(-1, column));
                    if fence.execute(&mut *tx).await?.rows_affected() == 0 {
                        return Ok(0);
                    }
                    let mut dropped = 0;
                    for files in files.chunks(BATCH_ROWS) {
                        let mut delete = Query::new("DELETE FROM repo_files WHERE file");
                        push_in(&mut delete, files.iter().map(|file| file.as_bytes().as_slice()));
                        push_idle(&mut delete, repo, &scope, before_s);
                        delete.push(" RETURNING file");
                        let taken: Vec<(Vec<u8>,)> =
                            delete.build_query_as().persistent(false).fetch_all(&mut *tx).await?;
                        dropped += taken.len() as u64;
                        if taken.is_empty() {
                            continue;
                        }
                        let mut bytes =
                            Query::new("SELECT CAST(COALESCE(SUM(file_bytes), 0) AS BIGINT) FROM files WHERE hash");
                        push_in(&mut bytes, taken.iter().map(|(file,)| file.as_slice()));
                        let (bytes,): (i64,) = bytes.build_query_as().persistent(false).fetch_one(&mut *tx).await?;
                        add_line(&mut tx, scope.namespace(), scope.repo(), -bytes, 0).await?;
                    }
                    tx.commit().await?;
                    Ok(dropped)
                };
                Ok(retried!("take files from a repository", work()))
            }

            async fn drop_digests(&self, scope: &Scope, limit: u64) -> Result<u64> {
                const IDLE: &str = "NOT EXISTS (SELECT 1 FROM repo_files f WHERE f.namespace = repo_sha256s.namespace \
                    AND f.repo = repo_sha256s.repo AND f.file = repo_sha256s.file)";
                let query = format!(
                    "SELECT sha256 FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND {IDLE} LIMIT $3"
                );
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(scope.namespace()).bind(scope.repo());
                let query = query.bind(column(limit));
                let idle: Sql<Vec<(Vec<u8>,)>> = query.fetch_all(&self.$reads).await;
                let idle = idle.map_err(|source| translate("look for digests", source))?;
                if idle.is_empty() {
                    return Ok(0);
                }
                let delete = |idle: &[(Vec<u8>,)]| {
                    let mut delete = Query::new("DELETE FROM repo_sha256s WHERE namespace = ");
                    delete.push_bind(scope.namespace().to_owned());
                    delete.push(" AND repo = ").push_bind(scope.repo().to_owned());
                    delete.push(" AND ").push(IDLE).push(" AND sha256");
                    push_in(&mut delete, idle.iter().map(|(digest,)| digest.as_slice()));
                    delete
                };
                let work = || self.change_all(idle.chunks(BATCH_ROWS).map(delete));
                Ok(retried!("drop digests", work()))
            }

            async fn unread_files(&self, after: &[u8], limit: u64) -> Result<Vec<FileHash>> {
                let mut query = Query::new("SELECT hash FROM files WHERE hash > ");
                query.push_bind(after.to_vec()).push(" AND ").push(UNREAD);
                query.push(" ORDER BY hash LIMIT ").push_bind(column(limit));
                Ok(self.page(query).await?.into_iter().map(FileHash::new).collect())
            }

            async fn drop_files(&self, files: &[FileHash]) -> Result<u64> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let mut dropped = 0;
                    for files in files.chunks(BATCH_ROWS) {
                        let mut delete = Query::new("DELETE FROM files WHERE hash");
                        push_in(&mut delete, files.iter().map(|file| file.as_bytes().as_slice()));
                        delete.push(" AND ").push(UNREAD).push(" RETURNING hash, layout, created_s");
                        let rows: Vec<FileColumns> =
                            delete.build_query_as().persistent(false).fetch_all(&mut *tx).await?;
                        dropped += rows.len() as u64;
                        let rows = rows.into_iter().map(FileRow::try_from).collect::<Result<Vec<_>>>();
                        let rows = rows.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
                        let pairs: Vec<_> = pairs(&rows).collect();
                        for pairs in pairs.chunks(BATCH_ROWS) {
                            let mut delete = Query::new("DELETE FROM file_xorbs WHERE (xorb, file) IN (VALUES ");
                            let mut list = delete.separated(", ");
                            for (xorb, file) in pairs {
                                list.push("(").push_bind_unseparated(xorb.to_vec());
                                list.push_unseparated(", ").push_bind_unseparated(file.to_vec());
                                list.push_unseparated(")");
                            }
                            delete.push(")").build().persistent(false).execute(&mut *tx).await?;
                        }
                    }
                    tx.commit().await?;
                    Ok(dropped)
                };
                Ok(retried!("drop files", work()))
            }

            async fn unrelated_files(&self, limit: u64) -> Result<Vec<FileRow>> {
                let query = "SELECT hash, layout, created_s FROM files WHERE shard IS NULL LIMIT $1";
                let rows: Sql<Vec<FileColumns>> =
                    sqlx::query_as(query).bind(column(limit)).fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("look for files of an older version", source))?;
                rows.into_iter().map(FileRow::try_from).collect()
            }

            #[cfg(test)]
            async fn forget_relations(&self) -> Result<()> {
                for statement in ["DELETE FROM file_xorbs", "UPDATE files SET shard = NULL"] {
                    sqlx::query(statement).execute(&self.$writes).await.map_err(|e| translate("forget", e))?;
                }
                Ok(())
            }

            async fn relate_files(&self, rows: &[FileRow]) -> Result<()> {
                let pairs: Vec<_> = pairs(rows).collect();
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    for pairs in pairs.chunks(BATCH_ROWS) {
                        let mut insert = Query::new("INSERT INTO file_xorbs (xorb, file) ");
                        insert.push_values(pairs, |mut values, (xorb, file)| {
                            values.push_bind(xorb.to_vec()).push_bind(file.to_vec());
                        });
                        insert.push(" ON CONFLICT DO NOTHING");
                        insert.build().persistent(false).execute(&mut *tx).await?;
                    }
                    for rows in rows.chunks(BATCH_ROWS) {
                        let mut update = Query::new("UPDATE files SET shard = ");
                        update.push_bind(Vec::<u8>::new()).push(" WHERE shard IS NULL AND hash");
                        push_in(&mut update, rows.iter().map(|row| row.hash.as_bytes().as_slice()));
                        update.build().persistent(false).execute(&mut *tx).await?;
                    }
                    tx.commit().await
                };
                retried!("note what files are made of", work());
                Ok(())
            }

            async fn unused(
                &self,
                of: Kept,
                before_s: u64,
                after: &[u8],
                limit: u64,
            ) -> Result<Vec<[u8; 32]>> {
                let mut query = Query::new(format!("SELECT hash FROM {} WHERE hash > ", of.table()));
                query.push_bind(after.to_vec()).push(" AND state = 0 AND ").push(of.seen());
                query.push(" < ").push_bind(column(before_s)).push(of.unused());
                query.push(" ORDER BY hash LIMIT ").push_bind(column(limit));
                self.page(query).await
            }

            async fn condemn(
                &self,
                of: Kept,
                hashes: &[[u8; 32]],
                before_s: u64,
                now_s: u64,
            ) -> Result<u64> {
                let update = |hashes: &[[u8; 32]]| {
                    let mut update = Query::new(format!("UPDATE {} SET state = 1, condemned_s = ", of.table()));
                    update.push_bind(column(now_s)).push(" WHERE state = 0 AND ").push(of.seen());
                    update.push(" < ").push_bind(column(before_s)).push(of.unused()).push(" AND hash");
                    push_in(&mut update, hashes.iter().map(<[u8; 32]>::as_slice));
                    update
                };
                let work = || self.change_all(hashes.chunks(BATCH_ROWS).map(update));
                Ok(if hashes.is_empty() { 0 } else { retried!("condemn", work()) })
            }

            async fn ripe(&self, of: Kept, before_s: u64, after: &[u8], limit: u64) -> Result<Vec<[u8; 32]>> {
                let mut query = Query::new(format!("SELECT hash FROM {} WHERE hash > ", of.table()));
                query.push_bind(after.to_vec());
                push_ripe(&mut query, of, before_s);
                query.push(" ORDER BY hash LIMIT ").push_bind(column(limit));
                self.page(query).await
            }

            async fn abandoned(&self, before_s: u64, after: &[u8], limit: u64) -> Result<Vec<[u8; 32]>> {
                let mut query = Query::new("SELECT hash FROM xorbs WHERE hash > ");
                query.push_bind(after.to_vec());
                push_abandoned(&mut query, before_s);
                query.push(" ORDER BY hash LIMIT ").push_bind(column(limit));
                self.page(query).await
            }

            async fn doom_abandoned(&self, xorbs: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let mut doomed = 0;
                    for hashes in xorbs.chunks(BATCH_ROWS) {
                        let ripe = |query: &mut Query| push_abandoned(query, before_s);
                        doomed += doom_some(&mut tx, Kept::Xorbs, hashes, ripe, now_s).await?;
                    }
                    tx.commit().await?;
                    Ok(doomed)
                };
                Ok(if xorbs.is_empty() { 0 } else { retried!("give up abandoned xorbs", work()) })
            }

            async fn doom(&self, of: Kept, hashes: &[[u8; 32]], before_s: u64, now_s: u64) -> Result<u64> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let mut doomed = 0;
                    for hashes in hashes.chunks(BATCH_ROWS) {
                        let ripe = |query: &mut Query| push_ripe(query, of, before_s);
                        doomed += doom_some(&mut tx, of, hashes, ripe, now_s).await?;
                    }
                    tx.commit().await?;
                    Ok(doomed)
                };
                Ok(if hashes.is_empty() { 0 } else { retried!("give up objects", work()) })
            }

            async fn doomed(&self, of: Kept, after: &[u8], limit: u64) -> Result<Vec<Doomed>> {
                let query = format!(
                    "SELECT hash, {}, object_bytes FROM {} WHERE state = 2 AND hash > $1 ORDER BY hash LIMIT $2",
                    of.digest(),
                    of.table()
                );
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(after).bind(column(limit));
                let rows: Sql<Vec<(Vec<u8>, Vec<u8>, i64)>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("look for what is to be deleted", source))?;
                let row = |(hash, digest, bytes)| {
                    let hash = array("hash", hash)?;
                    let key = of.key(hash, array("digest", digest)?);
                    Ok(Doomed { hash, key, bytes: number("object bytes", bytes)? })
                };
                rows.into_iter().map(row).collect()
            }

            async fn bury(&self, of: Kept, hashes: &[[u8; 32]], now_s: u64) -> Result<()> {
                let update = |hashes: &[[u8; 32]]| {
                    let mut update = Query::new(format!("UPDATE {} SET state = 3, condemned_s = ", of.table()));
                    update.push_bind(column(now_s)).push(" WHERE state = 2 AND hash");
                    push_in(&mut update, hashes.iter().map(<[u8; 32]>::as_slice));
                    update
                };
                let work = || self.change_all(hashes.chunks(BATCH_ROWS).map(update));
                if !hashes.is_empty() {
                    retried!("note deletions", work());
                }
                Ok(())
            }

            async fn forget_buried(&self, of: Kept, before_s: u64) -> Result<u64> {
                let work = || {
                    let mut delete = Query::new(format!("DELETE FROM {} WHERE state = 3 AND condemned_s < ", of.table()));
                    delete.push_bind(column(before_s));
                    self.change(delete)
                };
                Ok(retried!("forget deletions", work()))
            }

            async fn claim(&self, found: &[(ObjectKey, u64)], now_s: u64) -> Result<Vec<ObjectKey>> {
                let mut loose = Vec::new();
                for of in Kept::ALL {
                    let mut keys = Vec::new();
                    for (key, bytes) in found {
                        match (of, key) {
                            (Kept::Xorbs, ObjectKey::Xorb(xorb)) => {
                                keys.push((*key, *xorb.hash.as_bytes(), *xorb.digest.as_bytes(), *bytes));
                            }
                            (Kept::Shards, ObjectKey::Shard(hash)) => {
                                keys.push((*key, *hash.as_bytes(), *hash.as_bytes(), *bytes));
                            }
                            _ => {}
                        }
                    }
                    for keys in keys.chunks(BATCH_ROWS / 2) {
                        let work = || claim_some(self, of, keys, now_s);
                        let rows = retried!("claim objects", work());
                        let rows: std::collections::HashMap<_, _> =
                            rows.into_iter().map(|(hash, digest, state)| (hash, (digest, state))).collect();
                        let is_loose = |hash: &[u8; 32], digest: &[u8; 32]| {
                            rows.get(hash.as_slice()).is_some_and(|(counts, state)| {
                                counts.as_slice() != digest || *state == 3
                            })
                        };
                        let keys = keys.iter().filter(|(_, hash, digest, _)| is_loose(hash, digest));
                        loose.extend(keys.map(|(key, ..)| *key));
                    }
                }
                Ok(loose)
            }

            async fn replace_swept(&self, row: &XorbRow) -> Result<bool> {
                let work = || {
                    let update = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
                        state = 0, created_s = $5, referenced_s = $6, verified_s = $7 \
                        WHERE hash = $8 AND state IN (2, 3) AND digest <> $1";
                    sqlx::query(update)
                        .bind(row.key.digest.as_bytes().as_slice())
                        .bind(column(row.object_bytes))
                        .bind(column(row.raw_bytes))
                        .bind(i64::from(row.chunk_count))
                        .bind(column(row.created_s))
                        .bind(column(row.referenced_s))
                        .bind(column(row.verified_s))
                        .bind(row.key.hash.as_bytes().as_slice())
                        .execute(&self.$writes)
                };
                Ok(retried!("store a xorb again", work()).rows_affected() > 0)
            }

            async fn layouts(&self, files: &[FileHash]) -> Result<Vec<FileRow>> {
                let mut found = Vec::new();
                for files in files.chunks(BATCH_ROWS) {
                    let mut query = Query::new("SELECT hash, layout, created_s FROM files WHERE hash");
                    push_in(&mut query, files.iter().map(|file| file.as_bytes().as_slice()));
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<FileColumns> = rows.map_err(|source| translate("find files", source))?;
                    for row in rows {
                        found.push(FileRow::try_from(row)?);
                    }
                }
                Ok(found)
            }

            async fn uses(&self, of: Use, hashes: &[[u8; 32]]) -> Result<Vec<([u8; 32], u64)>> {
                let (table, key) = match of {
                    Use::Files => ("repo_files", "file"),
                    Use::Xorbs => ("file_xorbs", "xorb"),
                };
                let mut found = Vec::new();
                for hashes in hashes.chunks(BATCH_ROWS) {
                    let mut query = Query::new(format!("SELECT {key}, COUNT(*) FROM {table} WHERE {key}"));
                    push_in(&mut query, hashes.iter().map(<[u8; 32]>::as_slice));
                    query.push(format!(" GROUP BY {key}"));
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<(Vec<u8>, i64)> = rows.map_err(|source| translate("count uses", source))?;
                    for (hash, count) in rows {
                        found.push((array("hash", hash)?, number("count", count)?));
                    }
                }
                Ok(found)
            }
        }

        /// Dooms those that are still ripe, and what names them goes with them; tells how many.
        async fn doom_some(
            tx: &mut sqlx::Transaction<'_, $database>,
            of: Kept,
            hashes: &[[u8; 32]],
            push_ripe: impl Fn(&mut Query),
            now_s: u64,
        ) -> Sql<u64> {
            let mut update = Query::new(format!("UPDATE {} SET state = 2, condemned_s = ", of.table()));
            update.push_bind(column(now_s)).push(" WHERE hash");
            push_in(&mut update, hashes.iter().map(<[u8; 32]>::as_slice));
            push_ripe(&mut update);
            let update = update.push(" RETURNING hash").build_query_as().persistent(false);
            let doomed: Vec<(Vec<u8>,)> = update.fetch_all(&mut **tx).await?;
            if of == Kept::Xorbs && !doomed.is_empty() {
                let mut less = Query::new(
                    "INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes) \
                     SELECT r.namespace, r.repo, 0, -SUM(x.object_bytes) FROM repo_xorbs r \
                     JOIN xorbs x ON x.hash = r.xorb WHERE r.xorb",
                );
                push_in(&mut less, doomed.iter().map(|(hash,)| hash.as_slice()));
                less.push(" GROUP BY r.namespace, r.repo");
                less.build().persistent(false).execute(&mut **tx).await?;
                for table in ["dedup", "repo_xorbs", "uploads", "xorb_senders"] {
                    let mut delete = Query::new(format!("DELETE FROM {table} WHERE xorb"));
                    push_in(&mut delete, doomed.iter().map(|(hash,)| hash.as_slice()));
                    delete.build().persistent(false).execute(&mut **tx).await?;
                }
            }
            Ok(doomed.len() as u64)
        }

        /// Dooms those that no row knows; answers with all their rows: hash, digest, state.
        async fn claim_some(
            catalog: &$catalog,
            of: Kept,
            keys: &[(ObjectKey, [u8; 32], [u8; 32], u64)],
            now_s: u64,
        ) -> Sql<Vec<(Vec<u8>, Vec<u8>, i64)>> {
            let mut tx = catalog.$writes.begin_with($begin).await?;
            let mut insert = Query::new(match of {
                Kept::Xorbs => "INSERT INTO xorbs (hash, object_bytes, state, created_s, condemned_s, digest, \
                    raw_bytes, chunk_count, referenced_s, verified_s) ",
                Kept::Shards => "INSERT INTO shards (hash, object_bytes, state, created_s, condemned_s) ",
            });
            insert.push_values(keys, |mut values, (_, hash, digest, bytes)| {
                values.push_bind(hash.to_vec()).push_bind(column(*bytes)).push_bind(2_i64);
                values.push_bind(column(now_s)).push_bind(column(now_s));
                if of == Kept::Xorbs {
                    values.push_bind(digest.to_vec()).push_bind(0_i64).push_bind(0_i64);
                    values.push_bind(column(now_s)).push_bind(0_i64);
                }
            });
            insert.push(" ON CONFLICT DO NOTHING").build().persistent(false).execute(&mut *tx).await?;
            let mut query =
                Query::new(format!("SELECT hash, {}, state FROM {} WHERE hash", of.digest(), of.table()));
            push_in(&mut query, keys.iter().map(|(_, hash, ..)| hash.as_slice()));
            let rows = query.build_query_as().persistent(false).fetch_all(&mut *tx).await?;
            tx.commit().await?;
            Ok(rows)
        }

        const UNREAD: &str = "NOT EXISTS (SELECT 1 FROM repo_files r WHERE r.file = files.hash)";

        fn push_idle(query: &mut Query, repo: &SweptRepo, scope: &Scope, before_s: u64) {
            query.push(" AND namespace = ").push_bind(scope.namespace().to_owned());
            query.push(" AND repo = ").push_bind(scope.repo().to_owned());
            query.push(" AND created_s < ").push_bind(column(before_s));
            query.push(" AND NOT EXISTS (SELECT 1 FROM git_objects g WHERE g.repo = ");
            query.push_bind(repo.row.id.as_bytes().to_vec()).push(" AND g.file = repo_files.file)");
        }

        fn push_ripe(query: &mut Query, of: Kept, before_s: u64) {
            query.push(" AND state IN (1, 4) AND condemned_s < ").push_bind(column(before_s));
            query.push(" AND ").push(of.seen()).push(" < ").push_bind(column(before_s)).push(of.unused());
        }

        /// A registration by any repository takes the mark of the first upload away for good.
        fn push_abandoned(query: &mut Query, before_s: u64) {
            query.push(" AND state IN (0, 1, 4) AND referenced_s < ").push_bind(column(before_s));
            query.push(Kept::Xorbs.unused());
            query.push(
                " AND EXISTS (SELECT 1 FROM uploads u WHERE u.xorb = xorbs.hash AND u.is_first = 1) \
                 AND NOT EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = xorbs.hash) \
                 AND NOT EXISTS (SELECT 1 FROM uploads u JOIN uploads o ON o.namespace = u.namespace AND o.repo = u.repo \
                 WHERE u.xorb = xorbs.hash AND o.uploaded_s >= ",
            );
            query.push_bind(column(before_s)).push(")");
        }

        fn push_in<'a>(query: &mut Query, keys: impl Iterator<Item = &'a [u8]>) {
            query.push(" IN (");
            let mut list = query.separated(", ");
            keys.for_each(|key| {
                list.push_bind(key.to_vec());
            });
            query.push(")");
        }

        /// Each file with each of its xorbs.
        fn pairs(rows: &[FileRow]) -> impl Iterator<Item = (&[u8; 32], &[u8; 32])> {
            rows.iter().flat_map(|row| {
                row.layout.xorbs.iter().map(|xorb| (xorb.key.hash.as_bytes(), row.hash.as_bytes()))
            })
        }
    };
}

pub(in crate::catalog) use implement_sweep_catalog;
