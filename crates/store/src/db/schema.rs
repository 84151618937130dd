//! The tables of the catalog, step by step. Steps are only ever appended: one that ran somewhere is never edited.

use crate::db::migrations::Migration;

/// The steps of SQLite. Both databases have the same tables and columns.
pub(crate) const SQLITE: &[Migration] = &[
    Migration::new(1, "content store", include_str!("../../migrations/sqlite/0001_cas.sql")),
    Migration::new(5, "secrets", include_str!("../../migrations/sqlite/0005_secrets.sql")),
    Migration::new(10, "tokens", include_str!("../../migrations/sqlite/0010_tokens.sql")),
    Migration::new(11, "xorbs of repositories", include_str!("../../migrations/sqlite/0011_repo_xorbs.sql")),
    Migration::new(20, "repositories", include_str!("../../migrations/sqlite/0020_repos.sql")),
    Migration::new(21, "trash", include_str!("../../migrations/sqlite/0021_trash.sql")),
    Migration::new(22, "review", include_str!("../../migrations/sqlite/0022_review.sql")),
    Migration::new(23, "records", include_str!("../../migrations/sqlite/0023_records.sql")),
    Migration::new(30, "sweep", include_str!("../../migrations/sqlite/0030_sweep.sql")),
    Migration::new(40, "keeping", include_str!("../../migrations/sqlite/0040_keep.sql")),
    Migration::new(50, "sizes", include_str!("../../migrations/sqlite/0050_sizes.sql")),
    Migration::new(60, "passwords", include_str!("../../migrations/sqlite/0060_passwords.sql")),
    Migration::new(70, "upkeep", include_str!("../../migrations/sqlite/0070_upkeep.sql")),
    Migration::new(80, "uploads", include_str!("../../migrations/sqlite/0080_uploads.sql")),
    Migration::new(85, "computed digests", include_str!("../../migrations/sqlite/0085_sha256.sql")),
    Migration::new(100, "token_repo", include_str!("../../migrations/sqlite/0100_token_repo.sql")),
    Migration::new(101, "user_state", include_str!("../../migrations/sqlite/0101_user_state.sql")),
    Migration::new(102, "token_session", include_str!("../../migrations/sqlite/0102_token_session.sql")),
    Migration::new(110, "names", include_str!("../../migrations/sqlite/0110_names.sql")),
    Migration::new(120, "uploads by time", include_str!("../../migrations/sqlite/0120_uploads_by_time.sql")),
];

/// The steps of PostgreSQL.
pub(crate) const POSTGRES: &[Migration] = &[
    Migration::new(1, "content store", include_str!("../../migrations/postgres/0001_cas.sql")),
    Migration::new(5, "secrets", include_str!("../../migrations/postgres/0005_secrets.sql")),
    Migration::new(10, "tokens", include_str!("../../migrations/postgres/0010_tokens.sql")),
    Migration::new(
        11,
        "xorbs of repositories",
        include_str!("../../migrations/postgres/0011_repo_xorbs.sql"),
    ),
    Migration::new(20, "repositories", include_str!("../../migrations/postgres/0020_repos.sql")),
    Migration::new(21, "trash", include_str!("../../migrations/postgres/0021_trash.sql")),
    Migration::new(22, "review", include_str!("../../migrations/postgres/0022_review.sql")),
    Migration::new(23, "records", include_str!("../../migrations/postgres/0023_records.sql")),
    Migration::new(30, "sweep", include_str!("../../migrations/postgres/0030_sweep.sql")),
    Migration::new(40, "keeping", include_str!("../../migrations/postgres/0040_keep.sql")),
    Migration::new(50, "sizes", include_str!("../../migrations/postgres/0050_sizes.sql")),
    Migration::new(60, "passwords", include_str!("../../migrations/postgres/0060_passwords.sql")),
    Migration::new(70, "upkeep", include_str!("../../migrations/postgres/0070_upkeep.sql")),
    Migration::new(80, "uploads", include_str!("../../migrations/postgres/0080_uploads.sql")),
    Migration::new(85, "computed digests", include_str!("../../migrations/postgres/0085_sha256.sql")),
    Migration::new(100, "token_repo", include_str!("../../migrations/postgres/0100_token_repo.sql")),
    Migration::new(101, "user_state", include_str!("../../migrations/postgres/0101_user_state.sql")),
    Migration::new(102, "token_session", include_str!("../../migrations/postgres/0102_token_session.sql")),
    Migration::new(110, "names", include_str!("../../migrations/postgres/0110_names.sql")),
    Migration::new(
        120,
        "uploads by time",
        include_str!("../../migrations/postgres/0120_uploads_by_time.sql"),
    ),
];

/// The version of the tables after all steps.
pub(crate) fn newest(steps: &[Migration]) -> u64 {
    steps.iter().map(|step| step.version).max().unwrap_or(0)
}
