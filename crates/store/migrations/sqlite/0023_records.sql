-- How often what is known of a repository, or of people, was written down as an object.
CREATE TABLE records (
    id BLOB PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
