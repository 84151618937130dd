-- Which repository may know of which xorb: it registered something that is made of it.
CREATE TABLE repo_xorbs (
    xorb BLOB NOT NULL,
    namespace TEXT NOT NULL,
    repo TEXT NOT NULL,
    PRIMARY KEY (xorb, namespace, repo)
) STRICT, WITHOUT ROWID;
