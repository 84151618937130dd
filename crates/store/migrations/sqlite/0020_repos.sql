-- What the Hub side needs: repositories, where their branches and tags point, their git objects, who belongs to whom.
CREATE TABLE repos (
    id BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    private INTEGER NOT NULL,
    created_s INTEGER NOT NULL,
    updated_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX repos_by_name ON repos (kind, namespace, name);

CREATE TABLE refs (
    repo BLOB NOT NULL,
    name TEXT NOT NULL,
    target BLOB NOT NULL,
    PRIMARY KEY (repo, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE git_objects (
    repo BLOB NOT NULL,
    oid BLOB NOT NULL,
    kind INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB,
    bundle BLOB NOT NULL,
    bundle_offset INTEGER NOT NULL,
    parent BLOB,
    depth INTEGER NOT NULL,
    sha256 BLOB,
    linked_bytes INTEGER,
    file BLOB,
    PRIMARY KEY (repo, oid)
) STRICT;

CREATE TABLE pulls (
    repo BLOB NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    author TEXT NOT NULL,
    created_s INTEGER NOT NULL,
    PRIMARY KEY (repo, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE namespaces (
    name TEXT PRIMARY KEY,
    kind INTEGER NOT NULL,
    created_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    namespace TEXT NOT NULL,
    member TEXT NOT NULL,
    role INTEGER NOT NULL,
    PRIMARY KEY (namespace, member)
) STRICT, WITHOUT ROWID;
