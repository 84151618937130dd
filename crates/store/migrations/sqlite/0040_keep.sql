-- For whoever keeps the store: how much may be in it and is, who did what, and where refs were before they moved away.
CREATE TABLE quotas (
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    logical_soft INTEGER,
    logical_hard INTEGER,
    physical_soft INTEGER,
    physical_hard INTEGER,
    PRIMARY KEY (namespace, repo)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    logical_bytes INTEGER NOT NULL,
    physical_bytes INTEGER NOT NULL
) STRICT;

CREATE INDEX usage_by_repo ON usage (namespace, repo);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time_s INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL,
    request TEXT NOT NULL
) STRICT;

CREATE TABLE reflog (
    repo BLOB NOT NULL,
    oid BLOB NOT NULL,
    name TEXT NOT NULL,
    left_s INTEGER NOT NULL,
    reclaim_s INTEGER NOT NULL,
    PRIMARY KEY (repo, oid, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE repos ADD COLUMN git_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE repos SET git_bytes = (SELECT COALESCE(SUM(g.bytes), 0) FROM git_objects g WHERE g.repo = repos.id);
INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes)
    SELECT r.namespace, r.repo, SUM(f.file_bytes), 0 FROM repo_files r JOIN files f ON f.hash = r.file
    GROUP BY r.namespace, r.repo;
INSERT INTO usage (namespace, repo, logical_bytes, physical_bytes)
    SELECT r.namespace, r.repo, 0, SUM(x.object_bytes) FROM repo_xorbs r JOIN xorbs x ON x.hash = r.xorb
    GROUP BY r.namespace, r.repo;
