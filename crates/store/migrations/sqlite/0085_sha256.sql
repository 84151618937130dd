-- The SHA-256 of a file, computed from its bytes for this repository. What repo_sha256s holds is only claimed until it agrees.
ALTER TABLE repo_files ADD COLUMN sha256 BLOB;
