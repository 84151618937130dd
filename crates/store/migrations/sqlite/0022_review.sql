-- What became of pull requests, and who works on which file.
ALTER TABLE pulls ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pulls ADD COLUMN merged BLOB;
CREATE TABLE locks (
    repo BLOB NOT NULL,
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_s INTEGER NOT NULL,
    PRIMARY KEY (repo, path)
) STRICT, WITHOUT ROWID;
