-- Nobody waits for the disk: it is a hint.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('noetl_events', '')
