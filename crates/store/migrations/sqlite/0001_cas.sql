-- What the content store needs: xorbs, files, who may read them, chunks to find again, accepted shards.
CREATE TABLE xorbs (
    hash BLOB PRIMARY KEY,
    digest BLOB NOT NULL,
    object_bytes INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    chunk_count INTEGER NOT NULL,
    state INTEGER NOT NULL,
    created_s INTEGER NOT NULL,
    referenced_s INTEGER NOT NULL,
    verified_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    hash BLOB PRIMARY KEY,
    file_bytes INTEGER NOT NULL,
    layout BLOB NOT NULL,
    created_s INTEGER NOT NULL
) STRICT;

CREATE TABLE repo_files (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    file BLOB NOT NULL,
    created_s INTEGER NOT NULL,
    PRIMARY KEY (namespace, repo, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE repo_sha256s (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    file BLOB NOT NULL,
    PRIMARY KEY (namespace, repo, sha256, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE dedup (
    chunk BLOB NOT NULL,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    xorb BLOB NOT NULL,
    chunk_index INTEGER NOT NULL,
    PRIMARY KEY (chunk, namespace, repo)
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
    hash BLOB PRIMARY KEY,
    object_bytes INTEGER NOT NULL,
    created_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
