-- The ids of the database and of its incarnations, of which the last one is the present: accepting a restore adds one.

INSERT INTO meta (key, value) VALUES ('incarnations', lower(hex(randomblob(16))));
