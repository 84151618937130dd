-- The tokens people keep: what they open, and a digest to know them by. Never the tokens themselves.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    digest BYTEA NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    rights BIGINT NOT NULL,
    namespace TEXT,
    repo TEXT,
    created_s BIGINT NOT NULL,
    expires_s BIGINT,
    used_s BIGINT,
    revoked_s BIGINT
);
