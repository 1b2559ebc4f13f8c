UPDATE schedule SET revision = ?, look = ?, data = ? WHERE name = ? AND id = ? AND revision = ? RETURNING name
