-- How often what is known of a repository, or of people, was written down as an object.
CREATE TABLE records (
    id BYTEA PRIMARY KEY,
    version BIGINT NOT NULL
);
