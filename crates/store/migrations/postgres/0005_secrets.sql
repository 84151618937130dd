-- What servers over one catalog must agree on and nobody else may know.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);
