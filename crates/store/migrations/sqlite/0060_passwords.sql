-- What people sign in to the pages with, hashed so that guessing is slow. Like tokens they follow from no object.
CREATE TABLE passwords (
    name      TEXT    NOT NULL PRIMARY KEY,
    hash      TEXT    NOT NULL,
    changed_s INTEGER NOT NULL
);
