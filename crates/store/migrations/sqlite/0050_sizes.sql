-- How much each repository has, as last measured, so that lists can be sorted by it; and its xorbs by its name.
CREATE TABLE repo_sizes (
    repo BLOB PRIMARY KEY,
    measured_s INTEGER NOT NULL,
    files INTEGER NOT NULL,
    logical_bytes INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX repo_xorbs_by_repo ON repo_xorbs (namespace, repo);
