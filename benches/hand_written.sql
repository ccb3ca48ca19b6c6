-- The yardstick: the same entities in a jsonb table, as one writes it by hand for speed. The statements that run on it are in
-- src/work.rs, beside ours.

CREATE TABLE hand (
    partition_key text COLLATE "C",
    row_key       text COLLATE "C",
    ts            timestamptz NOT NULL DEFAULT clock_timestamp(),
    props         jsonb NOT NULL,
    PRIMARY KEY (partition_key, row_key)
) WITH (fillfactor = 90);
