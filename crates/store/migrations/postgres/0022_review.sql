-- What became of pull requests, and who works on which file.
ALTER TABLE pulls ADD COLUMN state BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pulls ADD COLUMN merged BYTEA;
CREATE TABLE locks (
    repo BYTEA NOT NULL,
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_s BIGINT NOT NULL,
    PRIMARY KEY (repo, path)
);
