-- Parts of the fold as rows, written in the transaction of the events that changed them. Rows come and go all the time,
-- so what is dead is cleared away after a thousand of them, whatever the share.
CREATE TABLE ready (
    execution uuid NOT NULL,
    run       text NOT NULL,
    pool      text NOT NULL,
    PRIMARY KEY (execution, run)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ready_by_pool ON ready (pool, execution);

CREATE TABLE lease (
    execution uuid NOT NULL,
    fence     bigint NOT NULL,
    run       text NOT NULL,
    worker    text NOT NULL,
    since     float8 NOT NULL,
    ttl       float8 NOT NULL,  -- seconds after the worker was last heard at which it is over
    PRIMARY KEY (execution, fence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX lease_by_worker ON lease (worker);

CREATE TABLE timer (
    execution uuid NOT NULL,
    name      text NOT NULL,
    due       float8 NOT NULL,
    PRIMARY KEY (execution, name)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX timer_by_due ON timer (due);
