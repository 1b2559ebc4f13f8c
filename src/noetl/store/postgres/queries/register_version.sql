-- The version is the next one under the path, or the one that this content has already.
WITH given AS (SELECT %s::text COLLATE "C" AS path, %s::text AS digest, %s::text AS label, %s::float8 AS at)
INSERT INTO catalog (path, digest, label, version, turn, registered)
SELECT given.path, given.digest, given.label,
    (SELECT coalesce(max(version), 0) + 1 FROM catalog WHERE catalog.path = given.path),
    (SELECT coalesce(max(turn), 0) + 1 FROM catalog WHERE catalog.path = given.path),
    coalesce(given.at, extract(epoch FROM clock_timestamp())::float8)
FROM given
ON CONFLICT (path, digest) DO UPDATE
SET label = excluded.label, turn = excluded.turn, registered = excluded.registered
RETURNING version
