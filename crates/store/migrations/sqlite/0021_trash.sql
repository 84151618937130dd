-- Deleted repositories stay until a time, under a name that others may take meanwhile.
ALTER TABLE repos ADD COLUMN reclaim_s INTEGER;
DROP INDEX repos_by_name;
CREATE UNIQUE INDEX repos_by_name ON repos (kind, namespace, name) WHERE reclaim_s IS NULL;
