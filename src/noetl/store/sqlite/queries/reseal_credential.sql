-- Only what is still as it was read: somebody may have set it anew in between.
UPDATE credential SET sealed = ? WHERE name = ? AND sealed = ? RETURNING name
