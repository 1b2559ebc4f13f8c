-- Only what is still as it was read: somebody may have set it anew in between.
UPDATE credential SET sealed = %s WHERE name = %s AND sealed = %s RETURNING name
