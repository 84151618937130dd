-- What the Hub side needs: repositories, where their branches and tags point, their git objects, who belongs to whom.
CREATE TABLE repos (
    id BYTEA PRIMARY KEY,
    kind BIGINT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    private BIGINT NOT NULL,
    created_s BIGINT NOT NULL,
    updated_s BIGINT NOT NULL
);

CREATE UNIQUE INDEX repos_by_name ON repos (kind, namespace, name);

CREATE TABLE refs (
    repo BYTEA NOT NULL,
    name TEXT NOT NULL,
    target BYTEA NOT NULL,
    PRIMARY KEY (repo, name)
);

CREATE TABLE git_objects (
    repo BYTEA NOT NULL,
    oid BYTEA NOT NULL,
    kind BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    body BYTEA,
    bundle BYTEA NOT NULL,
    bundle_offset BIGINT NOT NULL,
    parent BYTEA,
    depth BIGINT NOT NULL,
    sha256 BYTEA,
    linked_bytes BIGINT,
    file BYTEA,
    PRIMARY KEY (repo, oid)
);

CREATE TABLE pulls (
    repo BYTEA NOT NULL,
    number BIGINT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    author TEXT NOT NULL,
    created_s BIGINT NOT NULL,
    PRIMARY KEY (repo, number)
);

CREATE TABLE namespaces (
    name TEXT PRIMARY KEY,
    kind BIGINT NOT NULL,
    created_s BIGINT NOT NULL
);

CREATE TABLE members (
    namespace TEXT NOT NULL,
    member TEXT NOT NULL,
    role BIGINT NOT NULL,
    PRIMARY KEY (namespace, member)
);
