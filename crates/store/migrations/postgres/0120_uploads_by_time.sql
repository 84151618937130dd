-- Whether a repository still sends: what it never registered is kept for as long.
CREATE INDEX uploads_by_time ON uploads (namespace, repo, uploaded_s);
