//! The statements of [`UploadCatalog`](super::UploadCatalog), for a catalog of either database.

/// Implements [`UploadCatalog`](super::UploadCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`: serializable, since a registration must not miss a policy;
/// those that lock the row they look at begin with `$begin_rows`.
macro_rules! implement_upload_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr, $begin_rows:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Query = sqlx::QueryBuilder<$database>;

        #[async_trait]
        impl UploadCatalog for $catalog {
            async fn record_upload(
                &self,
                upload: &UploadRow,
                object: Option<&NewObject>,
            ) -> Result<RecordedUpload> {
                let (row, was_inserted, is_new) =
                    retried!("record an upload", try_record(self, upload, object));
                let row = row.map(XorbRow::try_from).transpose()?;
                Ok(RecordedUpload { row, was_inserted, is_new })
            }

            async fn references(
                &self,
                scope: &Scope,
                sender: Option<&str>,
                within: Option<&Reach>,
                xorbs: &[XorbHash],
            ) -> Result<Vec<XorbReference>> {
                type Columns = (
                    Vec<u8>, Vec<u8>, i64, i64, i64, i64, i64, i64, i64, Option<i64>, i64, i64, i64,
                );
                let mut found = Vec::new();
                for xorbs in unique(xorbs).chunks(BATCH_ROWS) {
                    let mut query = Query::new("SELECT x.");
                    query.push(XORB_COLUMNS.replace(", ", ", x."));
                    query.push(", (SELECT u.object_bytes FROM uploads u WHERE u.xorb = x.hash AND u.namespace = ");
                    query.push_bind(scope.namespace().to_owned()).push(" AND u.repo = ");
                    query.push_bind(scope.repo().to_owned());
                    query.push("), CAST(CASE WHEN EXISTS (SELECT 1 FROM xorb_senders s WHERE s.xorb = x.hash AND s.sender = ");
                    query.push_bind(sender.unwrap_or_default().to_owned());
                    query.push(") THEN 1 ELSE 0 END AS BIGINT)");
                    query.push(", CAST(CASE WHEN EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = x.hash");
                    push_reach(&mut query, "r", &Reach::Repo(scope.clone()));
                    query.push(") THEN 1 ELSE 0 END AS BIGINT)");
                    query.push(", CAST(CASE WHEN EXISTS (SELECT 1 FROM repo_xorbs r WHERE r.xorb = x.hash");
                    match within {
                        Some(reach) => push_reach(&mut query, "r", reach),
                        None => _ = query.push(" AND 1 = 0"),
                    }
                    query.push(") THEN 1 ELSE 0 END AS BIGINT) FROM xorbs x WHERE x.hash IN (");
                    let mut list = query.separated(", ");
                    for xorb in xorbs {
                        list.push_bind(xorb.to_vec());
                    }
                    query.push(")");
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads).await;
                    let rows: Vec<Columns> = rows.map_err(|source| translate("find xorbs", source))?;
                    for (c0, c1, c2, c3, c4, c5, c6, c7, c8, sent, senders, registered, within) in rows {
                        found.push(XorbReference {
                            row: (c0, c1, c2, c3, c4, c5, c6, c7, c8).try_into()?,
                            sent_bytes: sent.map(|bytes| number("bytes of an upload", bytes)).transpose()?,
                            is_senders: sender.is_some() && senders != 0,
                            is_registered: registered != 0,
                            is_within: within != 0,
                        });
                    }
                }
                Ok(found)
            }

            async fn readable_file(&self, scope: &Scope, xorb: XorbHash) -> Result<Option<FileHash>> {
                let query = "SELECT r.file FROM file_xorbs u JOIN repo_files r ON r.file = u.file \
                    WHERE u.xorb = $1 AND r.namespace = $2 AND r.repo = $3 LIMIT 1";
                let query = sqlx::query_as(query).bind(xorb.as_bytes().as_slice());
                let query = query.bind(scope.namespace()).bind(scope.repo());
                let row: Sql<Option<(Vec<u8>,)>> = query.fetch_optional(&self.$reads).await;
                let row = row.map_err(|source| translate("find a file of a xorb", source))?;
                row.map(|(file,)| Ok(FileHash::new(array("file hash", file)?))).transpose()
            }

            async fn drop_uploads(&self, before_s: u64) -> Result<u64> {
                let work = || {
                    let delete = "DELETE FROM uploads WHERE uploaded_s < $1 \
                        AND EXISTS (SELECT 1 FROM file_xorbs u WHERE u.xorb = uploads.xorb)";
                    sqlx::query(delete).bind(column(before_s)).execute(&self.$writes)
                };
                Ok(retried!("drop uploads", work()).rows_affected())
            }

            async fn add_part(&self, part: &PartRow) -> Result<()> {
                let work = || {
                    let insert = "INSERT INTO parts (repo, sha256, number, bytes, stored_s) \
                        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (repo, sha256, number) \
                        DO UPDATE SET bytes = excluded.bytes, stored_s = excluded.stored_s";
                    sqlx::query(insert)
                        .bind(part.repo.as_bytes().to_vec())
                        .bind(part.file.as_bytes().as_slice())
                        .bind(i64::from(part.number))
                        .bind(column(part.bytes))
                        .bind(column(part.stored_s))
                        .execute(&self.$writes)
                };
                retried!("record a part", work());
                Ok(())
            }

            async fn drop_parts(&self, repo: RepoId, file: Sha256) -> Result<()> {
                let work = || {
                    let delete = sqlx::query("DELETE FROM parts WHERE repo = $1 AND sha256 = $2");
                    let delete = delete.bind(repo.as_bytes().to_vec()).bind(file.as_bytes().as_slice());
                    delete.execute(&self.$writes)
                };
                retried!("drop parts", work());
                Ok(())
            }

            async fn drop_old_parts(&self, before_s: u64) -> Result<u64> {
                let work = || {
                    let delete = sqlx::query("DELETE FROM parts WHERE stored_s < $1");
                    delete.bind(column(before_s)).execute(&self.$writes)
                };
                Ok(retried!("drop parts", work()).rows_affected())
            }

            async fn dedup_policies(&self) -> Result<Vec<(QuotaOf, DedupPolicy)>> {
                let query = "SELECT namespace, repo, policy FROM dedup_policies ORDER BY namespace, repo";
                let rows: Sql<Vec<(String, String, i64)>> =
                    sqlx::query_as(query).fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list dedup policies", source))?;
                let row = |(namespace, repo, policy)| {
                    // A number that a later version wrote: nothing may be found.
                    let policy = DedupPolicy::from_number(policy).unwrap_or(DedupPolicy::Off);
                    Ok((QuotaOf::from_columns(namespace, repo)?, policy))
                };
                rows.into_iter().map(row).collect()
            }

            async fn set_dedup_policy(&self, of: &QuotaOf, policy: Option<DedupPolicy>) -> Result<()> {
                let (namespace, repo) = of.columns();
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    match policy {
                        Some(policy) => {
                            let set = "INSERT INTO dedup_policies (namespace, repo, policy) VALUES ($1, $2, $3) \
                                ON CONFLICT (namespace, repo) DO UPDATE SET policy = excluded.policy";
                            let set = sqlx::query(set).bind(namespace).bind(repo).bind(policy.number());
                            set.execute(&mut *tx).await?;
                        }
                        None => {
                            let delete = "DELETE FROM dedup_policies WHERE namespace = $1 AND repo = $2";
                            sqlx::query(delete).bind(namespace).bind(repo).execute(&mut *tx).await?;
                        }
                    }
                    if policy == Some(DedupPolicy::Off) {
                        let delete = match repo.is_empty() {
                            true => "DELETE FROM dedup WHERE namespace = $1 AND $2 = ''",
                            false => "DELETE FROM dedup WHERE namespace = $1 AND repo = $2",
                        };
                        sqlx::query(delete).bind(namespace).bind(repo).execute(&mut *tx).await?;
                    }
                    let detail = policy.map_or("default", DedupPolicy::name);
                    note(&mut tx, &Deed::new("dedup.set", of.to_string(), detail)).await?;
                    tx.commit().await
                };
                Ok(retried!("set a dedup policy", work()))
            }
        }

        /// The row of the xorb, whether it counts the object, and whether the xorb is new to the repository.
        async fn try_record(
            catalog: &$catalog,
            upload: &UploadRow,
            object: Option<&NewObject>,
        ) -> Sql<(Option<XorbColumns>, bool, bool)> {
            let mut tx = catalog.$writes.begin_with($begin_rows).await?;
            let hash = upload.xorb.as_bytes().as_slice();
            let mut was_inserted = false;
            if let Some(NewObject { row, has_fresh_key }) = object {
                // In the place of one whose object is being deleted or was.
                let replace = "UPDATE xorbs SET digest = $1, object_bytes = $2, raw_bytes = $3, chunk_count = $4, \
                    state = 0, created_s = $5, referenced_s = $6, verified_s = $7 \
                    WHERE hash = $8 AND state IN (2, 3) AND digest <> $1";
                let insert = "INSERT INTO xorbs (digest, object_bytes, raw_bytes, chunk_count, state, created_s, \
                    referenced_s, verified_s, hash) VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
                let statements = if *has_fresh_key { [Some(replace), Some(insert)] } else { [Some(insert), None] };
                for statement in statements.into_iter().flatten() {
                    let statement = sqlx::query(statement)
                        .bind(row.key.digest.as_bytes().as_slice())
                        .bind(column(row.object_bytes))
                        .bind(column(row.raw_bytes))
                        .bind(i64::from(row.chunk_count))
                        .bind(column(row.created_s))
                        .bind(column(row.referenced_s))
                        .bind(column(row.verified_s))
                        .bind(hash);
                    was_inserted = was_inserted || statement.execute(&mut *tx).await?.rows_affected() > 0;
                }
            }
            // Time never goes back, or a late clock would bring sweep nearer.
            let touch = "UPDATE xorbs SET state = 0, referenced_s = CASE WHEN referenced_s > $1 THEN referenced_s \
                ELSE $1 END WHERE hash = $2 AND state <= 1";
            let touch = sqlx::query(touch).bind(column(upload.uploaded_s)).bind(hash);
            let is_live = touch.execute(&mut *tx).await?.rows_affected() > 0;
            let row = format!("SELECT {XORB_COLUMNS} FROM xorbs WHERE hash = $1");
            let row = sqlx::query_as(sqlx::AssertSqlSafe(row)).bind(hash);
            let row: Option<XorbColumns> = row.fetch_optional(&mut *tx).await?;
            let mut is_new = false;
            if is_live {
                let insert = "INSERT INTO uploads (xorb, namespace, repo, object_bytes, uploaded_s, is_first) \
                    SELECT $1, $2, $3, $4, $5, $6 WHERE NOT EXISTS \
                    (SELECT 1 FROM repo_xorbs r WHERE r.xorb = $1 AND r.namespace = $2 AND r.repo = $3) \
                    ON CONFLICT DO NOTHING";
                let insert = sqlx::query(insert)
                    .bind(hash)
                    .bind(upload.scope.namespace())
                    .bind(upload.scope.repo())
                    .bind(column(upload.object_bytes))
                    .bind(column(upload.uploaded_s))
                    .bind(i64::from(was_inserted));
                is_new = insert.execute(&mut *tx).await?.rows_affected() > 0;
                let again = "UPDATE uploads SET uploaded_s = $1 \
                    WHERE xorb = $2 AND namespace = $3 AND repo = $4 AND uploaded_s < $1";
                let again = sqlx::query(again).bind(column(upload.uploaded_s)).bind(hash);
                let again = again.bind(upload.scope.namespace()).bind(upload.scope.repo());
                again.execute(&mut *tx).await?;
                if let Some(sender) = &upload.sender {
                    let insert = "INSERT INTO xorb_senders (xorb, sender) VALUES ($1, $2) ON CONFLICT DO NOTHING";
                    sqlx::query(insert).bind(hash).bind(sender).execute(&mut *tx).await?;
                }
            }
            tx.commit().await?;
            Ok((row, was_inserted, is_new))
        }
    };
}

pub(in crate::catalog) use implement_upload_catalog;
