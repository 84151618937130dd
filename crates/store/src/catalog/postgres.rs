//! The catalog in PostgreSQL, for many machines.
//!
//! Batches travel as arrays. A registration is serializable: if what it found was changed by another transaction, it
//! fails and is tried again, here. Smaller writes lock the rows they change, which is enough.

mod browse;
mod care;
pub(in crate::catalog) mod keep;
mod records;
mod repo;
mod review;
mod sweep;
mod uploads;

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{PgConnection, Postgres, QueryBuilder};
use xet::{ChunkHash, FileHash, Sha256, ShardHash, XorbHash};

use super::rows::{
    AddedXorb, CountColumns, Counts, DedupHit, FileColumns, FileRow, HitColumns, Reach, Registered,
    Registration, ShardRow, XorbColumns, XorbRow, XorbState, array, column, number,
};
use super::tokens::Tokens;
use super::{
    BATCH_ROWS, BrowseCatalog, COUNT_ROWS, CareCatalog, Catalog, IS_DEDUP_OFF, KeepCatalog, REVIVE_SHARD,
    RepoCatalog, SweepCatalog, TOUCH_REPO_FILES, Tries, UploadCatalog, XORB_COLUMNS, bytes_of, migrator,
    push_nameable, push_reach, translate, unique, used,
};
use crate::access::Scope;
use crate::error::{Error, ErrorKind, Result};

/// A catalog in a database of a PostgreSQL server.
#[derive(Debug, Clone)]
pub struct PostgresCatalog {
    pub(super) pool: PgPool,
}

type Sql<T> = std::result::Result<T, sqlx::Error>;

impl PostgresCatalog {
    /// Connects to the database of a URL. `statement-cache-capacity=0` in it suits a transaction pooler.
    pub async fn open(url: &str) -> Result<Self> {
        let options = PgPoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(30));
        let pool = options.connect(url).await.map_err(|source| match &source {
            sqlx::Error::Configuration(_) => Error::caused(ErrorKind::Invalid, "catalog URL", source),
            _ => translate("connect", source),
        })?;
        migrate(&pool).await?;
        Ok(Self { pool })
    }

    async fn try_add_xorbs(&self, rows: &[XorbRow]) -> Sql<Vec<(XorbColumns, bool)>> {
        let mut tx = self.pool.begin().await?;
        let column_of =
            |of: fn(&XorbRow) -> u64| rows.iter().map(|row| column(of(row))).collect::<Vec<i64>>();
        let hashes: Vec<_> = rows.iter().map(|row| row.key.hash.as_bytes().as_slice()).collect();
        let insert = "INSERT INTO xorbs (hash, digest, object_bytes, raw_bytes, chunk_count, state, created_s, \
            referenced_s, verified_s) SELECT * FROM UNNEST($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], \
            $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) \
            ON CONFLICT DO NOTHING RETURNING hash";
        let inserted: Vec<(Vec<u8>,)> = sqlx::query_as(insert)
            .bind(&hashes)
            .bind(rows.iter().map(|row| row.key.digest.as_bytes().as_slice()).collect::<Vec<_>>())
            .bind(column_of(|row| row.object_bytes))
            .bind(column_of(|row| row.raw_bytes))
            .bind(column_of(|row| u64::from(row.chunk_count)))
            .bind(rows.iter().map(|row| row.state.number()).collect::<Vec<_>>())
            .bind(column_of(|row| row.created_s))
            .bind(column_of(|row| row.referenced_s))
            .bind(column_of(|row| row.verified_s))
            .fetch_all(&mut *tx)
            .await?;
        let now_s = rows.iter().map(|row| row.referenced_s).max().unwrap_or(0);
        let revive = "UPDATE xorbs SET state = $1, referenced_s = $2 WHERE state = $4 AND hash = ANY($3)";
        let revive = sqlx::query(revive)
            .bind(XorbState::Live.number())
            .bind(column(now_s))
            .bind(&hashes)
            .bind(XorbState::Condemned.number());
        revive.execute(&mut *tx).await?;

        let answers = xorbs_of(&mut tx, &hashes).await?;
        tx.commit().await?;
        let is_new = |hash: &Vec<u8>| inserted.iter().any(|(inserted,)| inserted == hash);
        Ok(answers.into_iter().map(|row| (is_new(&row.0), row)).map(|(is_new, row)| (row, is_new)).collect())
    }

    /// Two statements, no transaction: nothing ever changes or removes what the first one finds.
    async fn try_agree(&self, name: &str, value: &[u8]) -> Sql<Vec<u8>> {
        let insert = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(name).bind(value).execute(&self.pool).await?;
        let query = sqlx::query_as("SELECT value FROM secrets WHERE name = $1").bind(name);
        let (kept,): (Vec<u8>,) = query.fetch_one(&self.pool).await?;
        Ok(kept)
    }

    async fn try_touch(&self, hashes: &[XorbHash], now_s: u64) -> Sql<Vec<Vec<u8>>> {
        touch(&mut *self.pool.acquire().await?, hashes, now_s).await
    }

    async fn try_register(&self, r: &Registration) -> Sql<Registered> {
        let mut tx = self.pool.begin_with(BEGIN).await?;
        let live = touch(&mut tx, &r.xorbs, r.now_s).await?;
        if let Some(missing) =
            r.xorbs.iter().find(|hash| live.binary_search(&hash.as_bytes().to_vec()).is_err())
        {
            return Ok(Registered::Missing(*missing));
        }
        let shard =
            "INSERT INTO shards (hash, object_bytes, created_s) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let shard = sqlx::query(shard)
            .bind(r.shard.hash.as_bytes().as_slice())
            .bind(column(r.shard.object_bytes))
            .bind(column(r.shard.created_s));
        if shard.execute(&mut *tx).await?.rows_affected() == 0 {
            let revive = sqlx::query(REVIVE_SHARD).bind(r.shard.hash.as_bytes().as_slice());
            if revive.execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(Registered::ShardSwept);
            }
        }
        let (namespace, repo) = (r.scope.namespace(), r.scope.repo());
        let (mut new_xorbs, mut new_bytes, mut new_rows) = (Vec::new(), 0, 0);

        for xorbs in r.xorbs.chunks(BATCH_ROWS) {
            let insert = "INSERT INTO repo_xorbs (xorb, namespace, repo) \
                SELECT xorb, $1, $2 FROM UNNEST($3::bytea[]) AS given (xorb) ON CONFLICT DO NOTHING RETURNING xorb";
            let insert = sqlx::query_as(insert).bind(namespace).bind(repo).bind(unique(xorbs));
            let added: Vec<(Vec<u8>,)> = insert.fetch_all(&mut *tx).await?;
            new_xorbs.extend(added.into_iter().map(|(xorb,)| xorb));
            // The repository has registered them: they are uploads no longer.
            let uploads = "DELETE FROM uploads WHERE namespace = $1 AND repo = $2 AND xorb = ANY($3)";
            let uploads = sqlx::query(uploads).bind(namespace).bind(repo).bind(unique(xorbs));
            uploads.execute(&mut *tx).await?;
            let others =
                sqlx::query("UPDATE uploads SET is_first = 0 WHERE xorb = ANY($1) AND is_first <> 0");
            others.bind(unique(xorbs)).execute(&mut *tx).await?;
        }
        for files in r.files.chunks(BATCH_ROWS) {
            let hashes: Vec<_> = files.iter().map(|file| file.hash.as_bytes().as_slice()).collect();
            let insert = "INSERT INTO files (hash, file_bytes, layout, created_s, shard) \
                SELECT *, $5::bytea FROM UNNEST($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[]) \
                ON CONFLICT DO NOTHING RETURNING hash";
            let insert = sqlx::query_as(insert)
                .bind(&hashes)
                .bind(files.iter().map(|file| column(file.layout.file_bytes())).collect::<Vec<_>>())
                .bind(files.iter().map(|file| file.layout.encode()).collect::<Vec<_>>())
                .bind(files.iter().map(|file| column(file.created_s)).collect::<Vec<_>>())
                .bind(r.shard.hash.as_bytes().as_slice());
            let added: Vec<(Vec<u8>,)> = insert.fetch_all(&mut *tx).await?;
            // What was there is held until the end: nobody may drop it before the repository's row is in.
            let hold = "SELECT hash FROM files WHERE hash = ANY($1) FOR SHARE";
            sqlx::query(hold).bind(&hashes).execute(&mut *tx).await?;
            for pairs in used(files, &added).chunks(BATCH_ROWS) {
                let insert = "INSERT INTO file_xorbs (xorb, file) SELECT * FROM UNNEST($1::bytea[], $2::bytea[]) \
                    ON CONFLICT DO NOTHING";
                let (xorbs, files): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                sqlx::query(insert).bind(xorbs).bind(files).execute(&mut *tx).await?;
            }
            let insert = "INSERT INTO repo_files (namespace, repo, file, created_s) \
                SELECT DISTINCT $1, $2, file, $3::bigint FROM UNNEST($4::bytea[]) AS given (file) \
                ON CONFLICT DO NOTHING RETURNING file";
            let insert =
                sqlx::query_as(insert).bind(namespace).bind(repo).bind(column(r.now_s)).bind(&hashes);
            let added: Vec<(Vec<u8>,)> = insert.fetch_all(&mut *tx).await?;
            new_bytes += bytes_of(files, &added);
            new_rows += added.len();
            if added.len() < files.len() {
                let touch =
                    format!("{TOUCH_REPO_FILES} $1 WHERE namespace = $2 AND repo = $3 AND file = ANY($4)");
                let touch = sqlx::query(sqlx::AssertSqlSafe(touch)).bind(column(r.now_s));
                touch.bind(namespace).bind(repo).bind(&hashes).execute(&mut *tx).await?;
            }
        }
        let bytes = "SELECT CAST(COALESCE(SUM(object_bytes), 0) AS BIGINT) FROM xorbs WHERE hash = ANY($1)";
        let (stored_bytes,): (i64,) = sqlx::query_as(bytes).bind(&new_xorbs).fetch_one(&mut *tx).await?;
        keep::add_line(&mut tx, namespace, repo, new_bytes, stored_bytes).await?;
        for digests in r.sha256s.chunks(BATCH_ROWS) {
            let insert = "INSERT INTO repo_sha256s (namespace, repo, sha256, file) SELECT $1, $2, sha256, file \
                FROM UNNEST($3::bytea[], $4::bytea[]) AS given (sha256, file) ON CONFLICT DO NOTHING";
            let insert = sqlx::query(insert)
                .bind(namespace)
                .bind(repo)
                .bind(digests.iter().map(|(sha256, _)| sha256.as_bytes().as_slice()).collect::<Vec<_>>())
                .bind(digests.iter().map(|(_, file)| file.as_bytes().as_slice()).collect::<Vec<_>>());
            new_rows += usize::try_from(insert.execute(&mut *tx).await?.rows_affected()).unwrap_or(1);
        }
        new_rows += new_xorbs.len();
        let off: Option<(String,)> =
            sqlx::query_as(IS_DEDUP_OFF).bind(namespace).bind(repo).fetch_optional(&mut *tx).await?;
        let found_again = if off.is_some() { &[] } else { r.dedup.as_slice() };
        for chunks in found_again.chunks(BATCH_ROWS) {
            let insert = "INSERT INTO dedup (chunk, namespace, repo, xorb, chunk_index) SELECT chunk, $1, $2, xorb, \
                chunk_index FROM UNNEST($3::bytea[], $4::bytea[], $5::bigint[]) AS given (chunk, xorb, chunk_index) \
                ON CONFLICT DO NOTHING";
            let insert = sqlx::query(insert)
                .bind(namespace)
                .bind(repo)
                .bind(chunks.iter().map(|row| row.chunk.as_bytes().as_slice()).collect::<Vec<_>>())
                .bind(chunks.iter().map(|row| row.xorb.as_bytes().as_slice()).collect::<Vec<_>>())
                .bind(chunks.iter().map(|row| i64::from(row.chunk_index)).collect::<Vec<_>>());
            insert.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(Registered::Done { was_inserted: new_rows > 0 })
    }

    async fn try_dedup(&self, reach: &Reach, chunk: &ChunkHash) -> Sql<Option<HitColumns>> {
        let mut query = QueryBuilder::<Postgres>::new(format!(
            "SELECT d.chunk_index, x.{} FROM dedup d JOIN xorbs x ON x.hash = d.xorb WHERE d.chunk = ",
            XORB_COLUMNS.replace(", ", ", x.")
        ));
        query.push_bind(chunk.as_bytes().as_slice());
        query.push(" AND x.state = ").push_bind(XorbState::Live.number());
        push_reach(&mut query, "d", reach);
        push_nameable(&mut query, reach);
        let query = query.push(" LIMIT 1").build_query_as();
        query.fetch_optional(&self.pool).await
    }
}

#[async_trait]
impl Catalog for PostgresCatalog {
    async fn xorbs(&self, hashes: &[XorbHash]) -> Result<Vec<XorbRow>> {
        let read = async { xorbs_of(&mut *self.pool.acquire().await?, &unique(hashes)).await };
        let rows: Sql<Vec<XorbColumns>> = read.await;
        let rows = rows.map_err(|source| translate("find xorbs", source))?;
        rows.into_iter().map(XorbRow::try_from).collect()
    }

    async fn add_xorbs(&self, rows: &[XorbRow]) -> Result<Vec<AddedXorb>> {
        let mut tries = Tries::new("add xorbs");
        let rows = loop {
            match self.try_add_xorbs(rows).await {
                Ok(rows) => break rows,
                Err(error) => tries.again(error).await?,
            }
        };
        rows.into_iter()
            .map(|(row, was_inserted)| Ok(AddedXorb { row: row.try_into()?, was_inserted }))
            .collect()
    }

    async fn touch_xorbs(&self, hashes: &[XorbHash], now_s: u64) -> Result<Vec<XorbHash>> {
        let mut tries = Tries::new("touch xorbs");
        let live = loop {
            match self.try_touch(hashes, now_s).await {
                Ok(live) => break live,
                Err(error) => tries.again(error).await?,
            }
        };
        live.into_iter().map(|hash| Ok(XorbHash::new(array("xorb hash", hash)?))).collect()
    }

    async fn register(&self, registration: &Registration) -> Result<Registered> {
        let mut tries = Tries::new("register a shard");
        loop {
            match self.try_register(registration).await {
                Ok(registered) => return Ok(registered),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn files(&self, scope: &Scope, hashes: &[FileHash]) -> Result<Vec<FileRow>> {
        let query = "SELECT f.hash, f.layout, f.created_s FROM files f JOIN repo_files r ON r.file = f.hash \
            WHERE r.namespace = $1 AND r.repo = $2 AND r.file = ANY($3)";
        let query = sqlx::query_as(query).bind(scope.namespace()).bind(scope.repo()).bind(unique(hashes));
        let rows: Sql<Vec<FileColumns>> = query.fetch_all(&self.pool).await;
        let rows = rows.map_err(|source| translate("find files", source))?;
        rows.into_iter().map(FileRow::try_from).collect()
    }

    async fn files_by_sha256(&self, scope: &Scope, digests: &[Sha256]) -> Result<Vec<(Sha256, FileHash)>> {
        let query =
            "SELECT sha256, file FROM repo_sha256s WHERE namespace = $1 AND repo = $2 AND sha256 = ANY($3)";
        let query = sqlx::query_as(query).bind(scope.namespace()).bind(scope.repo()).bind(unique(digests));
        let rows: Sql<Vec<(Vec<u8>, Vec<u8>)>> = query.fetch_all(&self.pool).await;
        let rows = rows.map_err(|source| translate("find files by digest", source))?;
        let pair = |(sha256, file)| {
            Ok((Sha256::new(array("digest", sha256)?), FileHash::new(array("file hash", file)?)))
        };
        rows.into_iter().map(pair).collect()
    }

    async fn dedup(&self, reach: &Reach, chunks: &[ChunkHash]) -> Result<Vec<DedupHit>> {
        let mut hits = Vec::new();
        // One look for each: a chunk that every repository has must not fetch a row of every repository.
        for chunk in chunks {
            let row =
                self.try_dedup(reach, chunk).await.map_err(|source| translate("find chunks", source))?;
            if let Some(row) = row {
                hits.push(DedupHit::new(*chunk, row)?);
            }
        }
        Ok(hits)
    }

    async fn has_xorb(&self, reach: &Reach, xorb: XorbHash) -> Result<bool> {
        let mut query =
            QueryBuilder::<Postgres>::new("SELECT COUNT(*) FROM (SELECT 1 FROM repo_xorbs r WHERE r.xorb = ");
        query.push_bind(xorb.as_bytes().as_slice());
        push_reach(&mut query, "r", reach);
        let query = query.push(" LIMIT 1) AS found").build_query_as();
        let count: Sql<(i64,)> = query.fetch_one(&self.pool).await;
        Ok(count.map_err(|source| translate("find a xorb", source))?.0 > 0)
    }

    async fn shards(&self, hashes: &[ShardHash]) -> Result<Vec<ShardRow>> {
        let query = "SELECT hash, object_bytes, created_s FROM shards WHERE hash = ANY($1)";
        let rows: Sql<Vec<(Vec<u8>, i64, i64)>> =
            sqlx::query_as(query).bind(unique(hashes)).fetch_all(&self.pool).await;
        let rows = rows.map_err(|source| translate("find shards", source))?;
        let row = |(hash, object_bytes, created_s)| {
            Ok(ShardRow {
                hash: ShardHash::new(array("shard hash", hash)?),
                object_bytes: number("object bytes", object_bytes)?,
                created_s: number("time created", created_s)?,
            })
        };
        rows.into_iter().map(row).collect()
    }

    fn tokens(&self) -> &dyn Tokens {
        self
    }

    async fn agree(&self, name: &str, value: &[u8]) -> Result<Vec<u8>> {
        let mut tries = Tries::new("agree on a secret");
        loop {
            match self.try_agree(name, value).await {
                Ok(kept) => return Ok(kept),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn agreed(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let query = sqlx::query_as("SELECT value FROM secrets WHERE name = $1").bind(name);
        let row: Sql<Option<(Vec<u8>,)>> = query.fetch_optional(&self.pool).await;
        Ok(row.map_err(|source| translate("find a secret", source))?.map(|(value,)| value))
    }

    async fn counts(&self) -> Result<Counts> {
        let row: Sql<CountColumns> = sqlx::query_as(COUNT_ROWS).fetch_one(&self.pool).await;
        row.map_err(|source| translate("count rows", source))?.try_into()
    }

    fn hub(&self) -> &dyn RepoCatalog {
        self
    }

    fn sweep(&self) -> &dyn SweepCatalog {
        self
    }

    fn care(&self) -> &dyn CareCatalog {
        self
    }

    fn browse(&self) -> &dyn BrowseCatalog {
        self
    }

    fn keep(&self) -> &dyn KeepCatalog {
        self
    }

    fn uploads(&self) -> &dyn UploadCatalog {
        self
    }
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

pub(super) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "content store", include_str!("../../migrations/postgres/0001_cas.sql")),
    (5, "secrets", include_str!("../../migrations/postgres/0005_secrets.sql")),
    (10, "tokens", include_str!("../../migrations/postgres/0010_tokens.sql")),
    (11, "xorbs of repositories", include_str!("../../migrations/postgres/0011_repo_xorbs.sql")),
    (20, "repositories", include_str!("../../migrations/postgres/0020_repos.sql")),
    (21, "trash", include_str!("../../migrations/postgres/0021_trash.sql")),
    (22, "review", include_str!("../../migrations/postgres/0022_review.sql")),
    (23, "records", include_str!("../../migrations/postgres/0023_records.sql")),
    (30, "sweep", include_str!("../../migrations/postgres/0030_sweep.sql")),
    (40, "keeping", include_str!("../../migrations/postgres/0040_keep.sql")),
    (50, "sizes", include_str!("../../migrations/postgres/0050_sizes.sql")),
    (60, "passwords", include_str!("../../migrations/postgres/0060_passwords.sql")),
    (70, "upkeep", include_str!("../../migrations/postgres/0070_upkeep.sql")),
    (80, "uploads", include_str!("../../migrations/postgres/0080_uploads.sql")),
    (85, "computed digests", include_str!("../../migrations/postgres/0085_sha256.sql")),
    (100, "token_repo", include_str!("../../migrations/postgres/0100_token_repo.sql")),
    (101, "user_state", include_str!("../../migrations/postgres/0101_user_state.sql")),
    (102, "token_session", include_str!("../../migrations/postgres/0102_token_session.sql")),
    (110, "names", include_str!("../../migrations/postgres/0110_names.sql")),
    (120, "uploads by time", include_str!("../../migrations/postgres/0120_uploads_by_time.sql")),
];

/// Brings the tables up to date. Servers that start at once trip over each other's statements: the one that fell looks
/// again, and finds the work done.
async fn migrate(pool: &PgPool) -> Result<()> {
    let mut left = 5;
    loop {
        match migrator(MIGRATIONS).run(pool).await {
            Ok(()) => return Ok(()),
            Err(source) if left == 0 => {
                return Err(Error::caused(
                    ErrorKind::Internal,
                    "catalog: bring the tables up to date",
                    source,
                ));
            }
            Err(_) => {
                left -= 1;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Notes that these xorbs were referred to, which revives what was condemned; tells which are live, sorted.
async fn touch(connection: &mut PgConnection, hashes: &[XorbHash], now_s: u64) -> Sql<Vec<Vec<u8>>> {
    // Time never goes back, or a late clock would bring sweep nearer.
    let update = "UPDATE xorbs SET state = $4, referenced_s = GREATEST(referenced_s, $1) WHERE state <= $2 \
        AND hash = ANY($3) RETURNING hash";
    let update = sqlx::query_as(update)
        .bind(column(now_s))
        .bind(XorbState::Condemned.number())
        .bind(unique(hashes))
        .bind(XorbState::Live.number());
    let rows: Vec<(Vec<u8>,)> = update.fetch_all(connection).await?;
    let mut live: Vec<_> = rows.into_iter().map(|(hash,)| hash).collect();
    live.sort_unstable();
    Ok(live)
}

async fn xorbs_of(connection: &mut PgConnection, hashes: &[&[u8]]) -> Sql<Vec<XorbColumns>> {
    let query = "SELECT hash, digest, object_bytes, raw_bytes, chunk_count, state, created_s, referenced_s, \
        verified_s FROM xorbs WHERE hash = ANY($1)";
    sqlx::query_as(query).bind(hashes).fetch_all(connection).await
}
