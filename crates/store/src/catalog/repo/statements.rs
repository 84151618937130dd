//! The statements of [`RepoCatalog`](super::RepoCatalog), for a catalog of either database.

/// Does work again for as long as it collides with others.
macro_rules! retried {
    ($what:literal, $work:expr) => {{
        let mut tries = Tries::new($what);
        loop {
            match $work.await {
                Ok(done) => break done,
                Err(error) => tries.again(error).await?,
            }
        }
    }};
}

/// A ref moves to a commit that was just added within this time.
pub(in crate::catalog) const FRESH_S: u64 = 3600;

/// Implements [`RepoCatalog`](super::RepoCatalog) for `$catalog`, which reads from the pool `$reads` and writes by
/// transactions of the pool `$writes` that begin with `$begin`.
macro_rules! implement_repo_catalog {
    ($catalog:ty, $database:ty, $reads:ident, $writes:ident, $begin:expr) => {
        type Sql<T> = std::result::Result<T, sqlx::Error>;
        type Query = sqlx::QueryBuilder<$database>;
        type Connection = <$database as sqlx::Database>::Connection;

        #[async_trait]
        impl RepoCatalog for $catalog {
            async fn create_repo(&self, row: &RepoRow, objects: &[GitRow], refs: &[RefRow]) -> Result<bool> {
                let scope = row.name.scope()?;
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    if !is_spelled(&mut tx, &row.name.namespace).await? {
                        return Ok(false);
                    }
                    let insert = "INSERT INTO repos (id, kind, namespace, name, private, created_s, updated_s) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
                    let insert = sqlx::query(insert)
                        .bind(row.id.as_bytes().as_slice())
                        .bind(row.name.kind.number())
                        .bind(&row.name.namespace)
                        .bind(&row.name.name)
                        .bind(i64::from(row.private))
                        .bind(column(row.created_s))
                        .bind(column(row.updated_s));
                    if insert.execute(&mut *tx).await?.rows_affected() == 0 {
                        return Ok(false);
                    }
                    insert_objects(&mut tx, row.id, objects, row.created_s).await?;
                    for given in refs {
                        insert_ref(&mut tx, row.id, &given.name, given.target).await?;
                    }
                    if row.reclaim_s.is_none() {
                        let bind = sqlx::query(BIND_TOKENS)
                            .bind(row.id.as_bytes().to_vec())
                            .bind(scope.namespace())
                            .bind(scope.repo());
                        bind.execute(&mut *tx).await?;
                    }
                    let detail = if row.private { "private" } else { "public" };
                    note(&mut tx, &Deed::new("repo.create", row.name.to_string(), detail)).await?;
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("add a repository", work()))
            }

            async fn repos(&self, names: &[RepoName]) -> Result<Vec<RepoRow>> {
                let mut rows = Vec::new();
                for name in names {
                    let query = format!(
                        "SELECT {REPO_COLUMNS} FROM repos WHERE kind = $1 AND folded = $2 AND reclaim_s IS NULL \
                         ORDER BY CASE WHEN namespace = $3 AND name = $4 THEN 0 ELSE 1 END, twin LIMIT 1"
                    );
                    let query = sqlx::query_as(sqlx::AssertSqlSafe(query))
                        .bind(name.kind.number())
                        .bind(name.folded())
                        .bind(&name.namespace)
                        .bind(&name.name);
                    let row: Sql<Option<RepoColumns>> = query.fetch_optional(&self.$reads).await;
                    let row = row.map_err(|source| translate("find a repository", source))?;
                    rows.extend(row.map(RepoRow::try_from).transpose()?);
                }
                Ok(rows)
            }

            async fn list_repos(&self, query: &RepoQuery) -> Result<Vec<RepoRow>> {
                let mut select = Query::new(format!(
                    "SELECT {REPO_COLUMNS} FROM repos WHERE reclaim_s IS NULL AND kind = "
                ));
                select.push_bind(query.kind.number());
                if let Some(namespace) = &query.namespace {
                    select.push(" AND namespace = ").push_bind(namespace);
                }
                if let Some(search) = &query.search {
                    let pattern = format!("%{}%", like(&search.to_lowercase()));
                    select.push(" AND LOWER(namespace || '/' || name) LIKE ").push_bind(pattern);
                    select.push(" ESCAPE '!'");
                }
                if let Some(namespaces) = &query.private_of {
                    select.push(" AND (private = 0");
                    for namespace in namespaces {
                        select.push(" OR namespace = ").push_bind(namespace);
                    }
                    select.push(")");
                }
                if let Some((namespace, name)) = &query.after {
                    select.push(" AND (namespace > ").push_bind(namespace);
                    select.push(" OR (namespace = ").push_bind(namespace);
                    select.push(" AND name > ").push_bind(name).push("))");
                }
                select.push(" ORDER BY namespace, name LIMIT ").push_bind(column(query.limit));
                let rows = select.build_query_as().persistent(false).fetch_all(&self.$reads);
                let rows: Vec<RepoColumns> =
                    rows.await.map_err(|source| translate("list repositories", source))?;
                rows.into_iter().map(RepoRow::try_from).collect()
            }

            async fn trash(&self) -> Result<Vec<RepoRow>> {
                let query = format!(
                    "SELECT {REPO_COLUMNS} FROM repos WHERE reclaim_s IS NOT NULL ORDER BY reclaim_s, id"
                );
                let rows = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_all(&self.$reads);
                let rows: Vec<RepoColumns> = rows.await.map_err(|source| translate("list the trash", source))?;
                rows.into_iter().map(RepoRow::try_from).collect()
            }

            async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> Result<bool> {
                let (old, new) = (from.scope()?, to.scope()?);
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // One that keeps its name may have a twin from before names were unique without regard to case.
                    let is_renamed = from.name != to.name || from.reclaim_s.is_some();
                    if to.reclaim_s.is_none() && is_renamed {
                        let taken = "SELECT id FROM repos WHERE kind = $1 AND folded = $2 AND reclaim_s IS NULL \
                            AND id <> $3";
                        let taken = sqlx::query(taken)
                            .bind(to.name.kind.number())
                            .bind(to.name.folded())
                            .bind(from.id.as_bytes().as_slice());
                        if taken.fetch_optional(&mut *tx).await?.is_some()
                            || !is_spelled(&mut tx, &to.name.namespace).await?
                        {
                            return Ok(false);
                        }
                    }
                    let twin = if is_renamed { "0" } else { "twin" };
                    let update = format!("UPDATE repos SET kind = $1, namespace = $2, name = $3, private = $4, \
                        reclaim_s = $5, twin = {twin} WHERE id = $6 AND kind = $7 AND namespace = $8 AND name = $9 \
                        AND COALESCE(reclaim_s, -1) = $10");
                    let update = sqlx::query(sqlx::AssertSqlSafe(update))
                        .bind(to.name.kind.number())
                        .bind(&to.name.namespace)
                        .bind(&to.name.name)
                        .bind(i64::from(to.private))
                        .bind(to.reclaim_s.map(column))
                        .bind(from.id.as_bytes().as_slice())
                        .bind(from.name.kind.number())
                        .bind(&from.name.namespace)
                        .bind(&from.name.name)
                        .bind(from.reclaim_s.map_or(-1, column));
                    if update.execute(&mut *tx).await?.rows_affected() == 0 {
                        return Ok(false);
                    }
                    if old != new {
                        // Copied, then removed: the new name may have rows of its own.
                        for copy in [
                            "INSERT INTO repo_files (namespace, repo, file, created_s, sha256) \
                                SELECT $1, $2, file, created_s, sha256 FROM repo_files WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
                            "INSERT INTO repo_sha256s (namespace, repo, sha256, file) SELECT $1, $2, sha256, file \
                                FROM repo_sha256s WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
                            "INSERT INTO repo_xorbs (xorb, namespace, repo) SELECT xorb, $1, $2 \
                                FROM repo_xorbs WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
                            "INSERT INTO dedup (chunk, namespace, repo, xorb, chunk_index) \
                                SELECT chunk, $1, $2, xorb, chunk_index \
                                FROM dedup WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
                            "UPDATE usage SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4",
                            "INSERT INTO uploads (xorb, namespace, repo, object_bytes, uploaded_s, is_first) \
                                SELECT xorb, $1, $2, object_bytes, uploaded_s, is_first \
                                FROM uploads WHERE namespace = $3 AND repo = $4 ON CONFLICT DO NOTHING",
                            "UPDATE dedup_policies SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4 \
                                AND NOT EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = $1 AND p.repo = $2)",
                            // The policy of the new namespace may be `off`.
                            "DELETE FROM dedup WHERE namespace = $1 AND repo = $2 AND $3 <> '' AND $4 <> '' \
                                AND EXISTS (SELECT 1 FROM dedup_policies p WHERE p.namespace = $1 \
                                AND p.repo IN ('', $2) AND p.policy >= 3)",
                            "UPDATE quotas SET namespace = $1, repo = $2 WHERE namespace = $3 AND repo = $4 \
                                AND NOT EXISTS (SELECT 1 FROM quotas q WHERE q.namespace = $1 AND q.repo = $2)",
                        ] {
                            let copy = sqlx::query(copy)
                                .bind(new.namespace())
                                .bind(new.repo())
                                .bind(old.namespace())
                                .bind(old.repo());
                            copy.execute(&mut *tx).await?;
                        }
                        forget(&mut tx, &old).await?;
                    }
                    // Tokens of the repository are shown by its name.
                    if old != new && to.reclaim_s.is_none() {
                        let update = sqlx::query("UPDATE tokens SET namespace = $1, repo = $2 WHERE repo_id = $3");
                        let update = update.bind(new.namespace()).bind(new.repo());
                        update.bind(to.id.as_bytes().to_vec()).execute(&mut *tx).await?;
                    }
                    note(&mut tx, &from.deed(to)).await?;
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("change a repository", work()))
            }

            async fn delete_repo(&self, row: &RepoRow) -> Result<Vec<Oid>> {
                let scope = row.scope()?;
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let bundles = "SELECT DISTINCT bundle FROM git_objects WHERE repo = $1";
                    let bundles: Vec<(Vec<u8>,)> =
                        sqlx::query_as(bundles).bind(row.id.as_bytes().as_slice()).fetch_all(&mut *tx).await?;
                    for delete in [
                        "DELETE FROM git_objects WHERE repo = $1",
                        "DELETE FROM refs WHERE repo = $1",
                        "DELETE FROM pulls WHERE repo = $1",
                        "DELETE FROM locks WHERE repo = $1",
                        "DELETE FROM reflog WHERE repo = $1",
                        "DELETE FROM records WHERE id = $1",
                        "DELETE FROM repo_sizes WHERE repo = $1",
                        "DELETE FROM parts WHERE repo = $1",
                        "DELETE FROM repos WHERE id = $1",
                    ] {
                        sqlx::query(delete).bind(row.id.as_bytes().as_slice()).execute(&mut *tx).await?;
                    }
                    forget(&mut tx, &scope).await?;
                    note(&mut tx, &Deed::new("repo.delete", row.name.to_string(), row.id.to_string())).await?;
                    tx.commit().await?;
                    Ok(bundles)
                };
                let bundles = retried!("delete a repository", work());
                bundles.into_iter().map(|(bundle,)| oid_of(bundle)).collect()
            }

            async fn refs(&self, repo: RepoId, prefix: &str) -> Result<Vec<RefRow>> {
                let query = "SELECT name, target FROM refs WHERE repo = $1 AND name LIKE $2 ESCAPE '!' ORDER BY name";
                let query = sqlx::query_as(query)
                    .bind(repo.as_bytes().to_vec())
                    .bind(format!("{}%", like(prefix)));
                ref_rows(query.fetch_all(&self.$reads).await)
            }

            async fn repo_at(
                &self,
                name: &RepoName,
                refs: &[String; 2],
            ) -> Result<Option<(RepoRow, Vec<RefRow>)>> {
                let query = format!(
                    "SELECT r.id, r.kind, r.namespace, r.name, r.private, r.created_s, r.updated_s, r.reclaim_s, \
                     refs.name, refs.target \
                     FROM (SELECT {REPO_COLUMNS} FROM repos WHERE kind = $3 AND folded = $4 AND reclaim_s IS NULL \
                         ORDER BY CASE WHEN namespace = $5 AND name = $6 THEN 0 ELSE 1 END, twin LIMIT 1) r \
                     LEFT JOIN refs ON refs.repo = r.id AND refs.name IN ($1, $2)"
                );
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query))
                    .bind(&refs[0])
                    .bind(&refs[1])
                    .bind(name.kind.number())
                    .bind(name.folded())
                    .bind(&name.namespace)
                    .bind(&name.name);
                let rows: Sql<Vec<RepoAtColumns>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("find a repository and its ref", source))?;
                let (mut found, mut refs) = (None, Vec::new());
                for (id, kind, namespace, name, private, created, updated, reclaim, of, target) in rows {
                    found = Some((id, kind, namespace, name, private, created, updated, reclaim));
                    refs.extend(of.zip(target));
                }
                let Some(found) = found else { return Ok(None) };
                Ok(Some((RepoRow::try_from(found)?, ref_rows(Ok(refs))?)))
            }

            async fn refs_named(&self, repo: RepoId, names: &[String]) -> Result<Vec<RefRow>> {
                if names.is_empty() {
                    return Ok(Vec::new());
                }
                let mut query = Query::new("SELECT name, target FROM refs WHERE repo = ");
                query.push_bind(repo.as_bytes().to_vec()).push(" AND name IN (");
                let mut list = query.separated(", ");
                for name in names {
                    list.push_bind(name.clone());
                }
                query.push(")");
                ref_rows(query.build_query_as().persistent(false).fetch_all(&self.$reads).await)
            }

            async fn move_refs(
                &self,
                repo: RepoId,
                changes: &[RefChange],
                now_s: u64,
                keep_s: u64,
            ) -> Result<bool> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // First, so that sweep of this repository waits here, or this waits for it.
                    let update = format!(
                        "UPDATE repos SET updated_s = $1, swept = -1 WHERE id = $2 RETURNING {REPO_COLUMNS}"
                    );
                    let update = sqlx::query_as(sqlx::AssertSqlSafe(update));
                    let update = update.bind(column(now_s)).bind(repo.as_bytes().as_slice());
                    let row: Option<RepoColumns> = update.fetch_optional(&mut *tx).await?;
                    // A repository that was deleted meanwhile has no refs to move.
                    let Some(row) = row else { return Ok(false) };
                    let row = RepoRow::try_from(row).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
                    let mut is_old = false;
                    for change in changes {
                        // A commit that follows the one before leads to it.
                        let mut leads_on = false;
                        // Sweep drops a commit before anything it needs: one that is there is whole.
                        if let Some(to) = change.to {
                            let found = "SELECT touched_s, parent FROM git_objects WHERE repo = $1 AND oid = $2";
                            let found = sqlx::query_as(found)
                                .bind(repo.as_bytes().as_slice())
                                .bind(to.as_bytes().as_slice());
                            let found: Option<(i64, Option<Vec<u8>>)> = found.fetch_optional(&mut *tx).await?;
                            let Some((touched_s, parent)) = found else { return Ok(false) };
                            leads_on = parent.as_deref() == change.from.as_ref().map(|from| from.as_bytes().as_slice());
                            is_old |= touched_s < column(now_s.saturating_sub(FRESH_S));
                        }
                        let moved = match (change.from, change.to) {
                            (None, Some(to)) => insert_ref(&mut tx, repo, &change.name, to).await?,
                            (Some(from), Some(to)) => {
                                let update =
                                    "UPDATE refs SET target = $1 WHERE repo = $2 AND name = $3 AND target = $4";
                                let update = sqlx::query(update)
                                    .bind(to.as_bytes().as_slice())
                                    .bind(repo.as_bytes().as_slice())
                                    .bind(&change.name)
                                    .bind(from.as_bytes().as_slice());
                                update.execute(&mut *tx).await?.rows_affected()
                            }
                            (Some(from), None) => {
                                let delete = "DELETE FROM refs WHERE repo = $1 AND name = $2 AND target = $3";
                                let delete = sqlx::query(delete)
                                    .bind(repo.as_bytes().as_slice())
                                    .bind(&change.name)
                                    .bind(from.as_bytes().as_slice());
                                delete.execute(&mut *tx).await?.rows_affected()
                            }
                            (None, None) => 1,
                        };
                        if moved == 0 {
                            return Ok(false);
                        }
                        // Whoever reads the commit that the ref left may do so for a while.
                        if let Some(from) = change.from {
                            let touch = "UPDATE git_objects SET touched_s = $1 \
                                WHERE repo = $2 AND oid = $3 AND touched_s < $1";
                            let touch = sqlx::query(touch).bind(column(now_s)).bind(repo.as_bytes().as_slice());
                            touch.bind(from.as_bytes().as_slice()).execute(&mut *tx).await?;
                            if keep_s > 0 && !leads_on && change.to != Some(from) {
                                let reclaim_s = now_s.saturating_add(keep_s);
                                let left = LeftRow { oid: from, name: change.name.clone(), left_s: now_s, reclaim_s };
                                leave(&mut tx, repo, &left).await?;
                            }
                        }
                        note(&mut tx, &change.deed(&row.name)).await?;
                    }
                    // A commit that was just added is safe from sweep, and so is all it needs. One that a ref comes back
                    // to may have been found unreachable a moment ago.
                    if is_old {
                        let update = "UPDATE repos SET generation = generation + 1 WHERE id = $1";
                        sqlx::query(update).bind(repo.as_bytes().as_slice()).execute(&mut *tx).await?;
                    }
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("move refs", work()))
            }

            async fn add_git_objects(&self, repo: RepoId, rows: &[GitRow], now_s: u64) -> Result<bool> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    // Sweep of this repository waits here, or this waits for it.
                    let update = "UPDATE repos SET swept = -1 WHERE id = $1 \
                        RETURNING id, kind, namespace, name, private, created_s, updated_s, reclaim_s";
                    let update = sqlx::query_as(update).bind(repo.as_bytes().as_slice());
                    let found: Option<RepoColumns> = update.fetch_optional(&mut *tx).await?;
                    let Some(found) = found else { return Ok(false) };
                    let scope = RepoRow::try_from(found).and_then(|row| row.scope());
                    let scope = scope.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
                    if !has_files(&mut tx, &scope, rows).await? {
                        return Ok(false);
                    }
                    insert_objects(&mut tx, repo, rows, now_s).await?;
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("add git objects", work()))
            }

            async fn git_objects(&self, repo: RepoId, oids: &[Oid]) -> Result<Vec<GitRow>> {
                let mut oids = oids.to_vec();
                oids.sort_unstable();
                oids.dedup();
                let mut found = Vec::new();
                for oids in oids.chunks(BATCH_ROWS) {
                    // Each is looked up by its key. Asked for by `IN`, SQLite would rather read all of the repository.
                    let mut query = Query::new("WITH asked (wanted) AS (VALUES (");
                    let mut list = query.separated("), (");
                    for oid in oids {
                        list.push_bind(oid.as_bytes().to_vec());
                    }
                    query.push(format!(
                        ")) SELECT {GIT_COLUMNS} FROM asked CROSS JOIN git_objects WHERE oid = wanted AND repo = "
                    ));
                    query.push_bind(repo.as_bytes().to_vec());
                    // One is asked for again and again: that statement is kept.
                    let query = query.build_query_as().persistent(oids.len() == 1);
                    let rows: Vec<GitColumns> = query
                        .fetch_all(&self.$reads)
                        .await
                        .map_err(|source| translate("find git objects", source))?;
                    for row in rows {
                        found.push(GitRow::try_from(row)?);
                    }
                }
                Ok(found)
            }

            async fn history(&self, repo: RepoId, from: Oid, skip: u64, limit: u64) -> Result<Vec<GitRow>> {
                let columns = format!("g.{}", GIT_COLUMNS.replace(", ", ", g."));
                let query = crate::catalog::repo::history_statement(&columns);
                if limit == 0 {
                    return Ok(Vec::new());
                }
                let last = skip.saturating_add(limit - 1);
                let query = sqlx::query_as(sqlx::AssertSqlSafe(query))
                    .bind(repo.as_bytes().to_vec())
                    .bind(from.as_bytes().to_vec())
                    .bind(column(skip))
                    .bind(column(last));
                let rows: Sql<Vec<GitColumns>> = query.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("walk the history", source))?;
                rows.into_iter().map(GitRow::try_from).collect()
            }

            async fn linked_files(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<LinkedFile>> {
                let mut found = Vec::new();
                for digests in unique(digests).chunks(BATCH_ROWS) {
                    let mut query = Query::new(
                        "SELECT s.sha256, s.file, f.file_bytes FROM repo_sha256s s JOIN files f ON f.hash = s.file \
                         JOIN repo_files r ON r.namespace = s.namespace AND r.repo = s.repo AND r.file = s.file \
                         AND r.sha256 = s.sha256 WHERE s.namespace = ",
                    );
                    query.push_bind(scope.namespace()).push(" AND s.repo = ").push_bind(scope.repo());
                    query.push(" AND s.sha256 IN (");
                    let mut list = query.separated(", ");
                    for digest in digests {
                        list.push_bind(digest.to_vec());
                    }
                    query.push(") ORDER BY s.sha256, s.file");
                    let rows = query.build_query_as().persistent(false).fetch_all(&self.$reads);
                    let rows: Vec<(Vec<u8>, Vec<u8>, i64)> =
                        rows.await.map_err(|source| translate("find files by digest", source))?;
                    for (sha256, file, bytes) in rows {
                        found.push(LinkedFile {
                            sha256: Sha256::new(array("digest", sha256)?),
                            file: FileHash::new(array("file hash", file)?),
                            bytes: number("length of a file", bytes)?,
                        });
                    }
                }
                Ok(found)
            }

            async fn spellings(&self, name: &str) -> Result<Vec<String>> {
                let query = "SELECT name FROM spellings WHERE folded = $1 \
                    ORDER BY CASE WHEN name = $2 THEN 0 ELSE 1 END, twin";
                let query = sqlx::query_scalar(query).bind(name.to_ascii_lowercase()).bind(name);
                let found: Sql<Vec<String>> = query.fetch_all(&self.$reads).await;
                found.map_err(|source| translate("find a namespace", source))
            }

            async fn add_spelling(&self, name: &str) -> Result<()> {
                let insert = "INSERT INTO spellings (folded, twin, name) \
                    SELECT $1, COALESCE(MAX(twin) + 1, 0), $2 FROM spellings WHERE folded = $1 \
                    ON CONFLICT DO NOTHING";
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let insert = sqlx::query(insert).bind(name.to_ascii_lowercase()).bind(name);
                    insert.execute(&mut *tx).await?;
                    tx.commit().await
                };
                retried!("add a spelling", work());
                Ok(())
            }

            async fn add_namespaces(&self, rows: &[NamespaceRow]) -> Result<Vec<String>> {
                let mut added = Vec::new();
                for row in rows {
                    let work = || async {
                        let mut tx = self.$writes.begin_with($begin).await?;
                        let insert = "INSERT INTO namespaces (name, kind, created_s, state) VALUES ($1, $2, $3, $4) \
                            ON CONFLICT DO NOTHING";
                        let insert = sqlx::query(insert)
                            .bind(&row.name)
                            .bind(i64::from(row.is_organisation))
                            .bind(column(row.created_s))
                            .bind(row.state.number());
                        let is_new = is_spelled(&mut tx, &row.name).await?
                            && insert.execute(&mut *tx).await?.rows_affected() > 0;
                        if is_new {
                            let action = if row.is_organisation { "org.create" } else { "user.create" };
                            note(&mut tx, &Deed::new(action, row.name.as_str(), "")).await?;
                        }
                        tx.commit().await?;
                        Ok(is_new)
                    };
                    if retried!("add a namespace", work()) {
                        added.push(row.name.clone());
                    }
                }
                Ok(added)
            }

            async fn namespaces(&self) -> Result<Vec<NamespaceRow>> {
                let rows = sqlx::query_as("SELECT name, kind, created_s, state FROM namespaces ORDER BY name");
                let rows: Sql<Vec<NamespaceColumns>> = rows.fetch_all(&self.$reads).await;
                let rows = rows.map_err(|source| translate("list namespaces", source))?;
                rows.into_iter().map(NamespaceRow::try_from).collect()
            }

            async fn namespace(&self, name: &str) -> Result<Option<NamespaceRow>> {
                let row = sqlx::query_as("SELECT name, kind, created_s, state FROM namespaces WHERE name = $1");
                let row: Sql<Option<NamespaceColumns>> = row.bind(name).fetch_optional(&self.$reads).await;
                row.map_err(|source| translate("find a namespace", source))?.map(NamespaceRow::try_from).transpose()
            }

            async fn set_user_disabled(&self, name: &str, disabled: bool, now_s: u64) -> Result<bool> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let (state, deed) = match disabled {
                        true => (NamespaceState::Disabled, "user.disable"),
                        false => (NamespaceState::Active, "user.enable"),
                    };
                    // A deleted user stays deleted when disabled.
                    let update = "UPDATE namespaces SET state = $1 WHERE name = $2 AND kind = 0 AND ($1 = 0 OR state <> 2)";
                    let update = sqlx::query(update).bind(state.number()).bind(name);
                    if update.execute(&mut *tx).await?.rows_affected() == 0 {
                        return Ok(false);
                    }
                    if disabled {
                        let end = "UPDATE tokens SET revoked_s = $1 \
                            WHERE revoked_s IS NULL AND subject = $2 AND session = id";
                        sqlx::query(end).bind(column(now_s)).bind(name).execute(&mut *tx).await?;
                    }
                    note(&mut tx, &Deed::new(deed, name, "")).await?;
                    tx.commit().await?;
                    Ok(true)
                };
                Ok(retried!("change a user", work()))
            }

            async fn delete_namespace(&self, name: &str, now_s: u64) -> Result<Vec<RepoName>> {
                let work = || async {
                    let mut tx = self.$writes.begin_with($begin).await?;
                    let update = "UPDATE namespaces SET state = 2 WHERE name = $1 RETURNING kind";
                    let kind: Option<(i64,)> = sqlx::query_as(update).bind(name).fetch_optional(&mut *tx).await?;
                    let owned = format!(
                        "SELECT {REPO_COLUMNS} FROM repos WHERE namespace = $1 AND reclaim_s IS NULL \
                         ORDER BY kind, name LIMIT 20"
                    );
                    let owned = sqlx::query_as(sqlx::AssertSqlSafe(owned)).bind(name);
                    let owned: Vec<RepoColumns> = owned.fetch_all(&mut *tx).await?;
                    let Some((kind,)) = kind.filter(|_| owned.is_empty()) else { return Ok(owned) };
                    for delete in [
                        "DELETE FROM members WHERE namespace = $1 OR member = $1",
                        "DELETE FROM passwords WHERE name = $1",
                    ] {
                        sqlx::query(delete).bind(name).execute(&mut *tx).await?;
                    }
                    let revoke = "UPDATE tokens SET revoked_s = $1 WHERE revoked_s IS NULL AND subject = $2";
                    sqlx::query(revoke).bind(column(now_s)).bind(name).execute(&mut *tx).await?;
                    let action = if kind == 0 { "user.delete" } else { "org.delete" };
                    note(&mut tx, &Deed::new(action, name, "")).await?;
                    tx.commit().await?;
                    Ok(Vec::new())
                };
                let owned = retried!("delete a namespace", work());
                owned.into_iter().map(|row| Ok(RepoRow::try_from(row)?.name)).collect()
            }

            async fn set_members(&self, rows: &[MemberRow]) -> Result<()> {
                for row in rows {
                    let work = || async {
                        let mut tx = self.$writes.begin_with($begin).await?;
                        let insert = "INSERT INTO members (namespace, member, role) VALUES ($1, $2, $3) \
                            ON CONFLICT (namespace, member) DO UPDATE SET role = excluded.role";
                        let insert = sqlx::query(insert)
                            .bind(&row.namespace)
                            .bind(&row.member)
                            .bind(i64::from(row.writes));
                        insert.execute(&mut *tx).await?;
                        let target = format!("{}/{}", row.namespace, row.member);
                        let role = if row.writes { "write" } else { "read" };
                        note(&mut tx, &Deed::new("member.set", target, role)).await?;
                        tx.commit().await
                    };
                    retried!("add a member", work());
                }
                Ok(())
            }

            async fn remove_members(&self, namespace: &str, members: &[String]) -> Result<u64> {
                let mut removed = 0;
                for member in members {
                    let work = || async {
                        let mut tx = self.$writes.begin_with($begin).await?;
                        let delete = sqlx::query("DELETE FROM members WHERE namespace = $1 AND member = $2");
                        let found = delete.bind(namespace).bind(member).execute(&mut *tx).await?.rows_affected();
                        if found > 0 {
                            note(&mut tx, &Deed::new("member.remove", format!("{namespace}/{member}"), "")).await?;
                        }
                        tx.commit().await?;
                        Ok(found)
                    };
                    removed += retried!("remove a member", work());
                }
                Ok(removed)
            }

            async fn memberships(&self, member: &str) -> Result<Vec<MemberRow>> {
                let query = "SELECT namespace, member, role FROM members WHERE member = $1 ORDER BY namespace";
                member_rows(sqlx::query_as(query).bind(member).fetch_all(&self.$reads).await)
            }

            async fn members(&self, namespace: &str) -> Result<Vec<MemberRow>> {
                let query = "SELECT namespace, member, role FROM members WHERE namespace = $1 ORDER BY member";
                member_rows(sqlx::query_as(query).bind(namespace).fetch_all(&self.$reads).await)
            }
        }

        /// Takes a spelling of a namespace, if the namespace has no other; returns whether it has this one.
        async fn is_spelled(connection: &mut Connection, name: &str) -> Sql<bool> {
            let folded = name.to_ascii_lowercase();
            for is_last in [false, true] {
                // A second caller waits here for the first one's transaction.
                let insert = "INSERT INTO spellings (folded, twin, name) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING";
                sqlx::query(insert).bind(&folded).bind(name).execute(&mut *connection).await?;
                let found = sqlx::query("SELECT 1 FROM spellings WHERE name = $1").bind(name);
                if found.fetch_optional(&mut *connection).await?.is_some() {
                    return Ok(true);
                }
                if !is_last {
                    // Spellings of what was deleted are free.
                    let delete = "DELETE FROM spellings WHERE folded = $1 \
                        AND NOT EXISTS (SELECT 1 FROM repos WHERE repos.namespace = spellings.name) \
                        AND NOT EXISTS (SELECT 1 FROM namespaces WHERE namespaces.name = spellings.name)";
                    sqlx::query(delete).bind(&folded).execute(&mut *connection).await?;
                }
            }
            Ok(false)
        }

        async fn insert_objects(
            connection: &mut Connection,
            repo: RepoId,
            rows: &[GitRow],
            now_s: u64,
        ) -> Sql<()> {
            // Sorted, because two transactions that lock rows in one order cannot wait for each other.
            let mut rows: Vec<_> = rows.iter().collect();
            rows.sort_unstable_by_key(|row| row.oid);
            rows.dedup_by_key(|row| row.oid);
            let mut new_bytes = 0;
            for rows in rows.chunks(GIT_BATCH_ROWS) {
                let mut insert = Query::new(format!("INSERT INTO git_objects (repo, {GIT_COLUMNS}, touched_s) "));
                insert.push_values(rows, |mut values, row| {
                    let linked = row.linked;
                    values
                        .push_bind(repo.as_bytes().to_vec())
                        .push_bind(row.oid.as_bytes().to_vec())
                        .push_bind(i64::from(row.kind.number()))
                        .push_bind(column(row.bytes))
                        .push_bind(row.body.clone())
                        .push_bind(row.bundle.as_bytes().to_vec())
                        .push_bind(column(row.offset))
                        .push_bind(row.parent.map(|parent| parent.as_bytes().to_vec()))
                        .push_bind(column(row.depth))
                        .push_bind(linked.map(|linked| linked.sha256.as_bytes().to_vec()))
                        .push_bind(linked.map(|linked| column(linked.bytes)))
                        .push_bind(linked.map(|linked| linked.file.as_bytes().to_vec()))
                        .push_bind(column(now_s));
                });
                insert.push(" ON CONFLICT DO NOTHING RETURNING oid");
                let added: Vec<(Vec<u8>,)> =
                    insert.build_query_as().persistent(false).fetch_all(&mut *connection).await?;
                let added: std::collections::HashSet<_> = added.into_iter().map(|(oid,)| oid).collect();
                let is_new = |row: &&&GitRow| added.contains(row.oid.as_bytes().as_slice());
                new_bytes += rows.iter().filter(is_new).map(|row| column(row.bytes)).sum::<i64>();
                if added.len() < rows.len() {
                    // One that is there stays, and sweep lets it live a while longer.
                    let mut touch = Query::new("UPDATE git_objects SET touched_s = ");
                    touch.push_bind(column(now_s)).push(" WHERE repo = ").push_bind(repo.as_bytes().to_vec());
                    touch.push(" AND oid IN (");
                    let mut list = touch.separated(", ");
                    for row in rows.iter().filter(|row| !is_new(row)) {
                        list.push_bind(row.oid.as_bytes().to_vec());
                    }
                    touch.push(")").build().persistent(false).execute(&mut *connection).await?;
                }
            }
            let update = sqlx::query("UPDATE repos SET git_bytes = git_bytes + $1 WHERE id = $2");
            update.bind(new_bytes).bind(repo.as_bytes().as_slice()).execute(connection).await?;
            Ok(())
        }

        /// Whether all files that these pointers stand for are the repository's.
        async fn has_files(connection: &mut Connection, scope: &Scope, rows: &[GitRow]) -> Sql<bool> {
            let files: std::collections::BTreeSet<_> =
                rows.iter().filter_map(|row| Some(row.linked?.file.as_bytes().to_vec())).collect();
            let files: Vec<_> = files.into_iter().collect();
            for files in files.chunks(BATCH_ROWS) {
                let mut query = Query::new("SELECT COUNT(*) FROM repo_files WHERE namespace = ");
                query.push_bind(scope.namespace()).push(" AND repo = ").push_bind(scope.repo());
                query.push(" AND file IN (");
                let mut list = query.separated(", ");
                for file in files {
                    list.push_bind(file.clone());
                }
                query.push(")");
                let (count,): (i64,) =
                    query.build_query_as().persistent(false).fetch_one(&mut *connection).await?;
                if usize::try_from(count).unwrap_or(0) < files.len() {
                    return Ok(false);
                }
            }
            Ok(true)
        }

        async fn insert_ref(connection: &mut Connection, repo: RepoId, name: &str, target: Oid) -> Sql<u64> {
            let insert = "INSERT INTO refs (repo, name, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            let insert = sqlx::query(insert)
                .bind(repo.as_bytes().to_vec())
                .bind(name)
                .bind(target.as_bytes().to_vec());
            Ok(insert.execute(connection).await?.rows_affected())
        }

        /// Removes what a repository may read and find.
        async fn forget(connection: &mut Connection, scope: &Scope) -> Sql<()> {
            for delete in [
                "DELETE FROM repo_files WHERE namespace = $1 AND repo = $2",
                "DELETE FROM repo_sha256s WHERE namespace = $1 AND repo = $2",
                "DELETE FROM repo_xorbs WHERE namespace = $1 AND repo = $2",
                "DELETE FROM dedup WHERE namespace = $1 AND repo = $2",
                "DELETE FROM usage WHERE namespace = $1 AND repo = $2",
                "DELETE FROM quotas WHERE namespace = $1 AND repo = $2",
                "DELETE FROM uploads WHERE namespace = $1 AND repo = $2",
                "DELETE FROM dedup_policies WHERE namespace = $1 AND repo = $2",
            ] {
                let delete = sqlx::query(delete).bind(scope.namespace()).bind(scope.repo());
                delete.execute(&mut *connection).await?;
            }
            Ok(())
        }

        fn ref_rows(rows: Sql<Vec<(String, Vec<u8>)>>) -> Result<Vec<RefRow>> {
            let rows = rows.map_err(|source| translate("find refs", source))?;
            rows.into_iter().map(|(name, target)| Ok(RefRow { name, target: oid_of(target)? })).collect()
        }

        fn member_rows(rows: Sql<Vec<(String, String, i64)>>) -> Result<Vec<MemberRow>> {
            let rows = rows.map_err(|source| translate("find members", source))?;
            let row = |(namespace, member, role)| MemberRow { namespace, member, writes: role != 0 };
            Ok(rows.into_iter().map(row).collect())
        }
    };
}

pub(in crate::catalog) use implement_repo_catalog;
pub(in crate::catalog) use retried;
