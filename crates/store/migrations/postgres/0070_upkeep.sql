-- What was done to the store itself is looked for among all that was done.
CREATE INDEX audit_upkeep ON audit (id) WHERE action IN ('sweep', 'verify');
