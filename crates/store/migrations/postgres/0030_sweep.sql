-- What sweep needs: who uses which xorb and which shard, what is on its way out, who sweeps.
CREATE TABLE file_xorbs (
    xorb BYTEA NOT NULL,
    file BYTEA NOT NULL,
    PRIMARY KEY (xorb, file)
);

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    expires_s BIGINT NOT NULL,
    place TEXT NOT NULL
);

ALTER TABLE xorbs ADD COLUMN condemned_s BIGINT NOT NULL DEFAULT 0;
ALTER TABLE files ADD COLUMN shard BYTEA;
ALTER TABLE shards ADD COLUMN state BIGINT NOT NULL DEFAULT 0;
ALTER TABLE shards ADD COLUMN condemned_s BIGINT NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN swept BIGINT NOT NULL DEFAULT -1;
ALTER TABLE git_objects ADD COLUMN touched_s BIGINT NOT NULL DEFAULT 0;

CREATE INDEX files_by_shard ON files (shard);
CREATE INDEX repo_files_by_file ON repo_files (file);
CREATE INDEX dedup_by_xorb ON dedup (xorb);
CREATE INDEX git_objects_by_file ON git_objects (repo, file) WHERE file IS NOT NULL;
CREATE INDEX git_objects_by_bundle ON git_objects (repo, bundle);
