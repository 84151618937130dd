-- Id of the browser session that a token is, or was made in: changing a password revokes both.
ALTER TABLE tokens ADD COLUMN session TEXT;
UPDATE tokens SET session = id WHERE label IN ('browser session', 'browser session by password');
