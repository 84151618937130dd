-- Uploads that no shard has registered yet: which repository sent which xorb, with which token, and parts of files that are
-- not joined. They decide what a caller may refer to, and count against quotas.
CREATE TABLE uploads (
    xorb BYTEA NOT NULL,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    object_bytes BIGINT NOT NULL,
    uploaded_s BIGINT NOT NULL,
    is_first BIGINT NOT NULL,
    PRIMARY KEY (xorb, namespace, repo)
);

CREATE INDEX uploads_by_repo ON uploads (namespace, repo, object_bytes);

CREATE TABLE xorb_senders (
    xorb BYTEA NOT NULL,
    sender TEXT NOT NULL,
    PRIMARY KEY (xorb, sender)
);

CREATE TABLE parts (
    repo BYTEA NOT NULL,
    sha256 BYTEA NOT NULL,
    number BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    stored_s BIGINT NOT NULL,
    PRIMARY KEY (repo, sha256, number)
);

-- How far content of a namespace (repo is empty) or repository may be found by others: 0 global, 1 namespace, 2 repo, 3 off.
CREATE TABLE dedup_policies (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    policy BIGINT NOT NULL,
    PRIMARY KEY (namespace, repo)
);
