-- Uploads that no shard has registered yet: which repository sent which xorb, with which token, and parts of files that are
-- not joined. They decide what a caller may refer to, and count against quotas.
CREATE TABLE uploads (
    xorb BLOB NOT NULL,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    object_bytes INTEGER NOT NULL,
    uploaded_s INTEGER NOT NULL,
    is_first INTEGER NOT NULL,
    PRIMARY KEY (xorb, namespace, repo)
) STRICT, WITHOUT ROWID;

CREATE INDEX uploads_by_repo ON uploads (namespace, repo, object_bytes);

CREATE TABLE xorb_senders (
    xorb BLOB NOT NULL,
    sender TEXT NOT NULL,
    PRIMARY KEY (xorb, sender)
) STRICT, WITHOUT ROWID;

CREATE TABLE parts (
    repo BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    number INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    stored_s INTEGER NOT NULL,
    PRIMARY KEY (repo, sha256, number)
) STRICT, WITHOUT ROWID;

-- How far content of a namespace (repo is empty) or repository may be found by others: 0 global, 1 namespace, 2 repo, 3 off.
CREATE TABLE dedup_policies (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    policy INTEGER NOT NULL,
    PRIMARY KEY (namespace, repo)
) STRICT, WITHOUT ROWID;
