-- A token for one repository is bound to the repository's id. It has none until a repository of its name is created.
ALTER TABLE tokens ADD COLUMN repo_id BLOB;
UPDATE tokens SET repo_id = (
    SELECT r.id FROM repos r
    WHERE r.namespace = tokens.namespace
    AND CASE r.kind WHEN 0 THEN 'models/' WHEN 1 THEN 'datasets/' ELSE 'spaces/' END || r.name = tokens.repo
    ORDER BY CASE WHEN r.reclaim_s IS NULL THEN 0 ELSE 1 END, r.created_s DESC LIMIT 1
) WHERE repo IS NOT NULL;
