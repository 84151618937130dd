-- Names are unique without regard to case. Repositories and namespaces of before that differ in case only stay: each gets a
-- number of its own, and only new ones are refused.
ALTER TABLE repos ADD COLUMN folded TEXT COLLATE "C"
    GENERATED ALWAYS AS (lower((namespace || '/' || name) COLLATE "C")) STORED;
ALTER TABLE repos ADD COLUMN twin BIGINT NOT NULL DEFAULT 0;
UPDATE repos SET twin = older.twin FROM (
    SELECT id, ROW_NUMBER() OVER (PARTITION BY kind, folded ORDER BY created_s, id) - 1 AS twin
    FROM repos WHERE reclaim_s IS NULL
) older WHERE older.id = repos.id AND older.twin > 0;
CREATE UNIQUE INDEX repos_by_folded ON repos (kind, folded, twin) WHERE reclaim_s IS NULL;

-- How each namespace is spelled that has a user, an organisation or a repository.
CREATE TABLE spellings (
    folded TEXT COLLATE "C" NOT NULL,
    twin BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    PRIMARY KEY (folded, twin)
);
INSERT INTO spellings (folded, twin, name)
    SELECT lower(name COLLATE "C"), ROW_NUMBER() OVER (PARTITION BY lower(name COLLATE "C") ORDER BY name COLLATE "C") - 1, name
    FROM (SELECT name FROM namespaces UNION SELECT namespace FROM repos) names;
