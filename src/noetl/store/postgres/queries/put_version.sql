INSERT INTO meta (key, value) VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value
