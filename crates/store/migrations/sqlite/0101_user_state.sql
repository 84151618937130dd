-- State of a user: 0 active, 1 disabled, 2 deleted. A deleted user's row reserves the name.
ALTER TABLE namespaces ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
