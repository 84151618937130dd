-- How much each repository has, as last measured, so that lists can be sorted by it; and its xorbs by its name.
CREATE TABLE repo_sizes (
    repo BYTEA PRIMARY KEY,
    measured_s BIGINT NOT NULL,
    files BIGINT NOT NULL,
    logical_bytes BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL
);

CREATE INDEX repo_xorbs_by_repo ON repo_xorbs (namespace, repo);
