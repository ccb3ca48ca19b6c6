-- The yardstick: the same entities in a jsonb table, as one writes it by hand for speed. The statements that run on it are in
-- src/operation.rs, beside ours.

CREATE TABLE hand (
    partition_key text COLLATE "C",
    row_key       text COLLATE "C",
    ts            timestamptz NOT NULL DEFAULT clock_timestamp(),
    props         jsonb NOT NULL,
    PRIMARY KEY (partition_key, row_key)
) WITH (fillfactor = 90);

-- The same with two indexes on properties. The second one also has the keys, so that pages of a large result need no sort.
CREATE TABLE hand_indexed (LIKE hand INCLUDING ALL) WITH (fillfactor = 90);
CREATE INDEX hand_indexed_name ON hand_indexed ((props ->> 'Name'));
CREATE INDEX hand_indexed_age ON hand_indexed (((props ->> 'Age')::int), partition_key, row_key);
