//! Pull requests: opened, listed, closed; the merge is in [`merge`](super::merge).

use crate::db::Catalog;
use crate::db::row::{FromRow, Row};
use crate::db::sql::Sql;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::refs::pull_ref;
use crate::hub::refs::{MESSAGE_BYTES_MAX, TITLE_BYTES_MAX, expect_short};
use crate::hub::rows::{RefChange, RepoRow};
use crate::ids::{Oid, RepoId};

/// Adds a pull request under the next free number, which is returned; the row's own number is ignored.
pub(crate) async fn add_pull(db: &Catalog, repo: RepoId, row: &PullRow) -> Result<u64> {
    let mut tries = 0;
    loop {
        let insert = Sql::new(
            "INSERT INTO pulls (repo, number, title, description, author, created_s) \
             SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5 FROM pulls WHERE repo = $1 \
             ON CONFLICT DO NOTHING RETURNING number",
        );
        let insert =
            insert.bind(repo).bind(&row.title).bind(&row.description).bind(&row.author).bind(row.created_s);
        let done = db.write_one("add a pull request", insert).await?;
        if let Some(mut added) = done.rows.into_iter().next() {
            return added.number("number of a pull request");
        }
        // Another writer took the number: the next try finds another.
        tries += 1;
        if tries > 100 {
            let message = "catalog: too many pull requests at once";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
    }
}

/// The pull requests of these numbers; unknown ones are left out.
pub(crate) async fn pulls(db: &Catalog, repo: RepoId, numbers: &[u64]) -> Result<Vec<PullRow>> {
    let query = format!("SELECT {PULL_COLUMNS} FROM pulls WHERE repo = $1 AND number = $2");
    let mut found = Vec::new();
    for number in numbers {
        let query = Sql::new(query.as_str()).bind(repo).bind(*number).short();
        let row: Option<PullRow> = db.read_one("find a pull request", query).await?;
        found.extend(row);
    }
    Ok(found)
}

/// Pull requests that match a query, newest first, and how many there are on all pages.
pub(crate) async fn list_pulls(db: &Catalog, repo: RepoId, query: &PullQuery) -> Result<(Vec<PullRow>, u64)> {
    let select = |what: &str| {
        let mut sql = Sql::new(format!("SELECT {what} FROM pulls WHERE repo = "));
        sql.push_bind(repo);
        if let Some(is_open) = query.is_open {
            sql.push(" AND CASE WHEN state = 0 THEN 1 ELSE 0 END = ").push_bind(is_open);
        }
        if let Some(author) = &query.author {
            sql.push(" AND author = ").push_bind(author);
        }
        sql
    };
    let count: Option<u64> = db.read_one("list pull requests", select("COUNT(*)")).await?;
    let mut page = select(PULL_COLUMNS);
    page.push(" ORDER BY number DESC LIMIT ").push_bind(query.limit);
    page.push(" OFFSET ").push_bind(query.skip);
    Ok((db.read("list pull requests", page).await?, count.unwrap_or(0)))
}

/// Sets the state of a pull request; returns whether it was not merged before.
pub(crate) async fn set_pull(db: &Catalog, repo: RepoId, number: u64, state: PullState) -> Result<bool> {
    let update = Sql::new(
        "UPDATE pulls SET state = $1, merged = $2 WHERE repo = $3 AND number = $4 AND merged IS NULL",
    );
    let update = update.bind(state.number()).bind(state.merged()).bind(repo).bind(number);
    Ok(db.write_one("change a pull request", update).await?.changed > 0)
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRow {
    /// Counted from 1 in each repository.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Who opened it.
    pub author: String,
    /// When, Unix seconds.
    pub created_s: u64,
    /// What became of it.
    pub state: PullState,
}

/// What became of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullState {
    /// Nothing yet.
    Open,
    /// Closed without a merge; it can be reopened.
    Closed,
    /// It is in this commit.
    Merged(Oid),
}

impl PullState {
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Closed => 1,
            Self::Merged(_) => MERGED,
        }
    }

    /// The commit that it was merged into.
    pub(crate) const fn merged(self) -> Option<Oid> {
        match self {
            Self::Merged(oid) => Some(oid),
            Self::Open | Self::Closed => None,
        }
    }
}

const MERGED: i64 = 2;

/// Pull requests to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullQuery {
    /// Only open ones, or with `false` only closed and merged ones.
    pub is_open: Option<bool>,
    /// Only those that this user opened.
    pub author: Option<String>,
    /// Number of rows to leave out.
    pub skip: u64,
    /// At most this many.
    pub limit: u64,
}

/// The columns of a [`PullRow`].
pub(crate) const PULL_COLUMNS: &str = "number, title, description, author, created_s, state, merged";

impl FromRow for PullRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let number = row.number("number of a pull request")?;
        let title = row.text("title of a pull request")?;
        let description = row.text("description of a pull request")?;
        let author = row.text("author of a pull request")?;
        let created_s = row.number("time created")?;
        let state = row.signed("state of a pull request")?;
        let merged = row.optional_array("object id")?.map(Oid::new);
        let state = match (state, merged) {
            (0, None) => PullState::Open,
            (1, None) => PullState::Closed,
            (MERGED, Some(oid)) => PullState::Merged(oid),
            _ => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "the catalog holds an impossible state of a pull request",
                ));
            }
        };
        Ok(Self { number, title, description, author, created_s, state })
    }
}

impl Hub {
    /// The pull requests of these numbers; unknown ones are left out.
    pub async fn pulls(&self, repo: RepoId, numbers: &[u64]) -> Result<Vec<PullRow>> {
        pulls(&self.db, repo, numbers).await
    }

    /// Pull requests, the newest first, and how many there are on all pages.
    pub async fn list_pulls(&self, repo: RepoId, query: &PullQuery) -> Result<(Vec<PullRow>, u64)> {
        list_pulls(&self.db, repo, query).await
    }

    /// Sets the state of a pull request; returns whether it was not merged before.
    pub async fn set_pull(&self, repo: RepoId, number: u64, state: PullState) -> Result<bool> {
        let was_set = set_pull(&self.db, repo, number, state).await?;
        self.persist_snapshot(repo).await?;
        Ok(was_set)
    }
}

impl Hub {
    /// Opens a pull request that begins at a commit; answers with its number.
    pub async fn open_pull(
        &self,
        repo: &RepoRow,
        at: Oid,
        author: &str,
        title: &str,
        description: &str,
    ) -> Result<PullRow> {
        expect_short("title", title, TITLE_BYTES_MAX)?;
        expect_short("description", description, MESSAGE_BYTES_MAX)?;
        let now_s = self.clock.now_s();
        let mut row = PullRow {
            number: 0,
            title: title.replace('\0', ""),
            description: description.replace('\0', ""),
            author: author.to_owned(),
            created_s: now_s,
            state: PullState::Open,
        };
        row.number = add_pull(&self.db, repo.id, &row).await?;
        let change = RefChange { name: pull_ref(row.number), from: None, to: Some(at) };
        match self.move_refs(repo.id, &[change], now_s).await? {
            true => Ok(row),
            false => {
                Err(Error::new(ErrorKind::Conflict, format!("{} is there already", pull_ref(row.number))))
            }
        }
    }
}
