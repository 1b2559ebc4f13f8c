-- The version is the next one under the path, or the one that this content has already.
INSERT INTO catalog (path, digest, label, version, turn, registered)
SELECT ?1, ?2, ?3, coalesce(max(version), 0) + 1, coalesce(max(turn), 0) + 1, coalesce(?4, unixepoch('subsec'))
FROM catalog WHERE path = ?1
ON CONFLICT (path, digest) DO UPDATE
SET label = excluded.label, turn = excluded.turn, registered = excluded.registered
RETURNING version
