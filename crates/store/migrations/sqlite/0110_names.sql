-- Names are unique without regard to case. Repositories and namespaces of before that differ in case only stay: each gets a
-- number of its own, and only new ones are refused.
ALTER TABLE repos ADD COLUMN folded TEXT GENERATED ALWAYS AS (lower(namespace || '/' || name)) VIRTUAL;
ALTER TABLE repos ADD COLUMN twin INTEGER NOT NULL DEFAULT 0;
CREATE INDEX repos_by_age ON repos (kind, folded, created_s, id);
UPDATE repos SET twin = (
    SELECT COUNT(*) FROM repos o WHERE o.reclaim_s IS NULL AND o.kind = repos.kind AND o.folded = repos.folded
        AND (o.created_s < repos.created_s OR (o.created_s = repos.created_s AND o.id < repos.id))
) WHERE reclaim_s IS NULL;
DROP INDEX repos_by_age;
CREATE UNIQUE INDEX repos_by_folded ON repos (kind, folded, twin) WHERE reclaim_s IS NULL;

-- How each namespace is spelled that has a user, an organisation or a repository.
CREATE TABLE spellings (
    folded TEXT NOT NULL,
    twin INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,
    PRIMARY KEY (folded, twin)
) STRICT, WITHOUT ROWID;
INSERT INTO spellings (folded, twin, name)
    SELECT lower(name), ROW_NUMBER() OVER (PARTITION BY lower(name) ORDER BY name) - 1, name
    FROM (SELECT name FROM namespaces UNION SELECT namespace FROM repos) names;
