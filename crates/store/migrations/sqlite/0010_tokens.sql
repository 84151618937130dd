-- The tokens people keep: what they open, and a digest to know them by. Never the tokens themselves.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    rights INTEGER NOT NULL,
    namespace TEXT,
    repo TEXT,
    created_s INTEGER NOT NULL,
    expires_s INTEGER,
    used_s INTEGER,
    revoked_s INTEGER
) STRICT;
