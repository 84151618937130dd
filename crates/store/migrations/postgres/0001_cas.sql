-- What the content store needs: xorbs, files, who may read them, chunks to find again, accepted shards.
CREATE TABLE xorbs (
    hash BYTEA PRIMARY KEY,
    digest BYTEA NOT NULL,
    object_bytes BIGINT NOT NULL,
    raw_bytes BIGINT NOT NULL,
    chunk_count BIGINT NOT NULL,
    state BIGINT NOT NULL,
    created_s BIGINT NOT NULL,
    referenced_s BIGINT NOT NULL,
    verified_s BIGINT NOT NULL
);

CREATE TABLE files (
    hash BYTEA PRIMARY KEY,
    file_bytes BIGINT NOT NULL,
    layout BYTEA NOT NULL,
    created_s BIGINT NOT NULL
);

CREATE TABLE repo_files (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    file BYTEA NOT NULL,
    created_s BIGINT NOT NULL,
    PRIMARY KEY (namespace, repo, file)
);

CREATE TABLE repo_sha256s (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    sha256 BYTEA NOT NULL,
    file BYTEA NOT NULL,
    PRIMARY KEY (namespace, repo, sha256, file)
);

CREATE TABLE dedup (
    chunk BYTEA NOT NULL,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    xorb BYTEA NOT NULL,
    chunk_index BIGINT NOT NULL,
    PRIMARY KEY (chunk, namespace, repo)
);

CREATE TABLE shards (
    hash BYTEA PRIMARY KEY,
    object_bytes BIGINT NOT NULL,
    created_s BIGINT NOT NULL
);
