-- A server that does not wait for its disk is told to, unless that is asked for; one that waits for its standbys, too,
-- goes on doing so. Who stops in the middle of a transaction does not keep its locks for ever.
SELECT set_config('search_path', quote_ident(%s::text), false),
    set_config('synchronous_commit', CASE
        WHEN %s THEN 'off'
        WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, false),
    set_config('lock_timeout', '30s', false),
    set_config('idle_in_transaction_session_timeout', '60s', false),
    set_config('jit', 'off', false),
    current_setting('server_encoding')
