-- What sweep needs: who uses which xorb and which shard, what is on its way out, who sweeps.
CREATE TABLE file_xorbs (
    xorb BLOB NOT NULL,
    file BLOB NOT NULL,
    PRIMARY KEY (xorb, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    expires_s INTEGER NOT NULL,
    place TEXT NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE xorbs ADD COLUMN condemned_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE files ADD COLUMN shard BLOB;
ALTER TABLE shards ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shards ADD COLUMN condemned_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN swept INTEGER NOT NULL DEFAULT -1;
ALTER TABLE git_objects ADD COLUMN touched_s INTEGER NOT NULL DEFAULT 0;

CREATE INDEX files_by_shard ON files (shard);
CREATE INDEX repo_files_by_file ON repo_files (file);
CREATE INDEX dedup_by_xorb ON dedup (xorb);
CREATE INDEX git_objects_by_file ON git_objects (repo, file) WHERE file IS NOT NULL;
CREATE INDEX git_objects_by_bundle ON git_objects (repo, bundle);
