-- What users add to a table of theirs holds for the functions too: triggers, constraints, indexes, policies, rules, partitions.
\set SHOW_CONTEXT never
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
CREATE TABLE log (entry bigint GENERATED ALWAYS AS IDENTITY, what text);
CREATE FUNCTION write_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log (what) VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, to_jsonb(NEW) ->> 'row_key', to_jsonb(NEW) ->> 'properties'));
  RETURN NEW;
END $$;

-- Triggers, of every kind, on inserts and on updates.
SELECT create_table('Logged');
CREATE TRIGGER a BEFORE INSERT ON table_service_data."Logged" FOR EACH ROW EXECUTE FUNCTION write_log();
SELECT insert_entity('Logged', 'p', '1', '{"A": 1}') IS NOT NULL AS inserted;
DROP TRIGGER a ON table_service_data."Logged";
CREATE TRIGGER a AFTER INSERT ON table_service_data."Logged" FOR EACH ROW EXECUTE FUNCTION write_log();
SELECT insert_entity('Logged', 'p', '2', '{"A": 1}') IS NOT NULL AS inserted;
DROP TRIGGER a ON table_service_data."Logged";
CREATE TRIGGER a BEFORE INSERT ON table_service_data."Logged" EXECUTE FUNCTION write_log();
CREATE TRIGGER b AFTER INSERT ON table_service_data."Logged" EXECUTE FUNCTION write_log();
SELECT insert_entity('Logged', 'p', '3', '{"A": 1}') IS NOT NULL AS inserted;
DROP TRIGGER a ON table_service_data."Logged";
DROP TRIGGER b ON table_service_data."Logged";
CREATE TRIGGER a BEFORE UPDATE ON table_service_data."Logged" FOR EACH ROW EXECUTE FUNCTION write_log();
SELECT merge_entity('Logged', 'p', '1', '{"B": 1}', '*') IS NOT NULL AS merged, replace_entity('Logged', 'p', '2', '{"B": 2}', '*') IS NOT NULL AS replaced;
DROP TRIGGER a ON table_service_data."Logged";
CREATE TRIGGER a AFTER UPDATE ON table_service_data."Logged" FOR EACH ROW EXECUTE FUNCTION write_log();
SELECT merge_entity('Logged', 'p', '1', '{"C": 1}', '*') IS NOT NULL AS merged;
DROP TRIGGER a ON table_service_data."Logged";
CREATE TRIGGER a BEFORE UPDATE ON table_service_data."Logged" EXECUTE FUNCTION write_log();
CREATE TRIGGER b AFTER UPDATE ON table_service_data."Logged" EXECUTE FUNCTION write_log();
SELECT merge_entity('Logged', 'p', '1', '{"D": 1}', '*') IS NOT NULL AS merged;
DROP TRIGGER a ON table_service_data."Logged";
DROP TRIGGER b ON table_service_data."Logged";
SELECT merge_entity('Logged', 'p', '1', '{"E": 1}', '*') IS NOT NULL AS without_triggers;
-- A transition table.
CREATE FUNCTION log_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log (what) SELECT 'new row ' || row_key FROM new_rows;
  RETURN NULL;
END $$;
CREATE TRIGGER a AFTER INSERT ON table_service_data."Logged" REFERENCING NEW TABLE AS new_rows EXECUTE FUNCTION log_rows();
SELECT insert_entity('Logged', 'p', '4', '{}') IS NOT NULL AS inserted;
SELECT what FROM log ORDER BY entry;

-- A trigger may change what is written.
SELECT create_table('Stamped');
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.properties := NEW.properties || jsonb_build_object('By', TG_OP)::properties;
  RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON table_service_data."Stamped" FOR EACH ROW EXECUTE FUNCTION stamp();
SELECT insert_entity('Stamped', 'p', '1', '{"A": 1}') IS NOT NULL AS inserted;
SELECT properties FROM get_entity('Stamped', 'p', '1');
SELECT replace_entity('Stamped', 'p', '1', '{"A": 2}', '*') IS NOT NULL AS replaced;
SELECT properties FROM get_entity('Stamped', 'p', '1');

-- A trigger may take a row away, and what was not written is not called a success, nor a conflict that it is not.
SELECT create_table('Swallowed');
SELECT insert_entity('Swallowed', 'p', 'there', '{}') IS NOT NULL AS inserted;
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.row_key LIKE 'not%' THEN RETURN NULL; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER swallow BEFORE INSERT ON table_service_data."Swallowed" FOR EACH ROW EXECUTE FUNCTION swallow();
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES ('insert_entity(''Swallowed'', ''p'', ''not'', ''{}'')'), ('insert_entity(''Swallowed'', ''p'', ''there'', ''{}'')'),
    ('insert_or_replace_entity(''Swallowed'', ''p'', ''not'', ''{}'')'), ('insert_or_merge_entity(''Swallowed'', ''p'', ''not'', ''{}'')'),
    ('execute_batch(''Swallowed'', ''p'', batch_insert(''good'', ''{}''), batch_insert(''not'', ''{}''))'),
    ('execute_batch(''Swallowed'', ''p'', batch_insert(''there'', ''{}''), batch_insert(''not'', ''{}''))'),
    ('execute_batch(''Swallowed'', ''p'', batch_insert(''not 2'', ''{}''), batch_insert(''not 1'', ''{}''), batch_insert(''there'', ''{}''))'),
    ('execute_batch(''Swallowed'', ''p'', batch_insert_or_replace(''good'', ''{}''), batch_insert_or_replace(''not'', ''{}''))'),
    ('execute_batch(''Swallowed'', ''p'', batch_insert_or_merge(''there'', ''{}''), batch_insert_or_merge(''not'', ''{}''))')) AS v (call);
-- To be told so takes no right but INSERT.
CREATE ROLE writer_of_swallowed;
GRANT INSERT ON table_service_data."Swallowed" TO writer_of_swallowed;
SET ROLE writer_of_swallowed;
\set VERBOSITY terse
SELECT insert_entity('Swallowed', 'p', 'not', '{}');
SELECT insert_entity('Swallowed', 'p', 'there', '{}');
\set VERBOSITY default
RESET ROLE;
SELECT row_key FROM table_service_data."Swallowed";
DROP TABLE table_service_data."Swallowed";
DROP FUNCTION swallow;
DROP ROLE writer_of_swallowed;

-- A constraint beside ours, and one instead of ours.
SELECT create_table('Constrained');
ALTER TABLE table_service_data."Constrained" ADD CONSTRAINT adults CHECK (table_service.get_int32(properties, 'Age') >= 18);
SELECT pg_temp.outcome($$SELECT insert_entity('Constrained', 'p', '1', '{"Age": 17}')$$);
SELECT insert_entity('Constrained', 'p', '1', '{"Age": 18}') IS NOT NULL AS inserted;
SELECT pg_temp.outcome($$SELECT merge_entity('Constrained', 'p', '1', '{"Age": 17}', '*')$$);
SELECT conname AS ours FROM pg_constraint WHERE conrelid = 'table_service_data."Constrained"'::regclass AND contype = 'c' AND conname <> 'adults' \gset
ALTER TABLE table_service_data."Constrained" DROP CONSTRAINT :"ours";
SELECT pg_temp.outcome($$SELECT insert_entity('Constrained', 'p', '2', '{"Age": 17}')$$);
SELECT pg_temp.outcome($$SELECT merge_entity('Constrained', 'p', '1', '{"Age": 17}', '*')$$);

-- Indexes are kept up.
SELECT create_table('Indexed');
CREATE UNIQUE INDEX email ON table_service_data."Indexed" (table_service.get_string(properties, 'Email'));
SELECT insert_entity('Indexed', 'p', '1', '{"Email": "a@b.c"}') IS NOT NULL AS inserted;
SELECT merge_entity('Indexed', 'p', '1', '{"Email": "d@e.f"}', '*') IS NOT NULL AS merged;
SET enable_seqscan = off;
SELECT row_key FROM table_service_data."Indexed" WHERE table_service.get_string(properties, 'Email') = 'd@e.f';
SELECT row_key FROM table_service_data."Indexed" WHERE table_service.get_string(properties, 'Email') = 'a@b.c';
RESET enable_seqscan;
SELECT insert_entity('Indexed', 'p', '2', '{"Email": "g@h.i"}') IS NOT NULL AS inserted;
SELECT pg_temp.outcome($$SELECT merge_entity('Indexed', 'p', '2', '{"Email": "d@e.f"}', '*')$$);

-- A foreign key that refers to a table.
SELECT create_table('Referred');
CREATE TABLE referring (p text, r text, FOREIGN KEY (p, r) REFERENCES table_service_data."Referred");
SELECT insert_entity('Referred', 'p', '1', '{}') IS NOT NULL AS inserted;
INSERT INTO referring VALUES ('p', '1');
SELECT merge_entity('Referred', 'p', '1', '{"A": 1}', '*') IS NOT NULL AS merged;
SELECT pg_temp.outcome($$SELECT delete_entity('Referred', 'p', '1')$$);

-- Another primary key.
SELECT create_table('Keyed');
SELECT conname AS ours FROM pg_constraint WHERE conrelid = 'table_service_data."Keyed"'::regclass AND contype = 'p' \gset
ALTER TABLE table_service_data."Keyed" DROP CONSTRAINT :"ours", ADD PRIMARY KEY (row_key, partition_key);
SELECT insert_entity('Keyed', 'p', 'r', '{}') IS NOT NULL AS inserted, merge_entity('Keyed', 'p', 'r', '{"A": 1}', '*') IS NOT NULL AS merged;
SELECT partition_key, row_key, properties FROM get_entity('Keyed', 'p', 'r') UNION ALL SELECT partition_key, row_key, properties FROM get_entity('Keyed', 'r', 'p');

INSERT INTO table_service_data."Keyed" (partition_key, row_key, properties) VALUES ('q', 's', '{}');
SELECT partition_key, row_key FROM get_entity('Keyed', 'q', 's');

-- Without a replica identity, an update cannot be published.
SELECT create_table('Published');
SELECT insert_entity('Published', 'p', 'r', '{}') IS NOT NULL AS inserted;
ALTER TABLE table_service_data."Published" REPLICA IDENTITY NOTHING;
SET client_min_messages = error;
CREATE PUBLICATION updates FOR TABLE table_service_data."Published";
SELECT pg_temp.outcome($$SELECT merge_entity('Published', 'p', 'r', '{"A": 1}', '*')$$);
DROP PUBLICATION updates;
RESET client_min_messages;

-- A batch of inserts, with a trigger, and without.
SELECT create_table('Batched');
CREATE TRIGGER a AFTER INSERT ON table_service_data."Batched" FOR EACH ROW EXECUTE FUNCTION write_log();
TRUNCATE log;
SELECT count(*) FROM execute_batch('Batched', 'p', VARIADIC (SELECT array_agg(batch_insert(n::text, '{}')) FROM generate_series(1, 10) AS n));
SELECT count(*) FROM log;
DROP TRIGGER a ON table_service_data."Batched";
SELECT count(*) FROM execute_batch('Batched', 'p', VARIADIC (SELECT array_agg(batch_insert(n::text, '{}') ORDER BY n DESC) FROM generate_series(11, 20) AS n));
SELECT count(*), count(DISTINCT "timestamp") FROM table_service_data."Batched" WHERE row_key::int > 10;
-- The operation with the lowest index that fails, not the lowest key.
SELECT pg_temp.outcome($$SELECT execute_batch('Batched', 'p', VARIADIC (SELECT array_agg(batch_insert(n::text, '{}') ORDER BY n DESC) FROM generate_series(15, 30) AS n))$$);
SELECT count(*) FROM table_service_data."Batched";

-- Policies. A row that one hides is no entity for its reader.
SELECT create_table('Guarded');
SELECT insert_entity('Guarded', 'mine', '1', '{}') IS NOT NULL AS inserted, insert_entity('Guarded', 'theirs', '1', '{}') IS NOT NULL AS inserted;
CREATE ROLE reader_of_guarded;
GRANT SELECT, INSERT, UPDATE ON table_service_data."Guarded" TO reader_of_guarded;
ALTER TABLE table_service_data."Guarded" ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON table_service_data."Guarded" USING (partition_key = 'mine');
SET ROLE reader_of_guarded;
SELECT partition_key FROM get_entity('Guarded', 'mine', '1') UNION ALL SELECT partition_key FROM get_entity('Guarded', 'theirs', '1');
SELECT merge_entity('Guarded', 'mine', '1', '{"A": 1}', '*') IS NOT NULL AS merged;
RESET ROLE;
SET ROLE reader_of_guarded;
\set VERBOSITY sqlstate
SELECT merge_entity('Guarded', 'theirs', '1', '{"A": 1}', '*');
SELECT insert_entity('Guarded', 'theirs', '2', '{"A": 1}');
\set VERBOSITY default
RESET ROLE;
DROP TABLE table_service_data."Guarded";
DROP ROLE reader_of_guarded;

-- A rule on inserts is none that ON CONFLICT goes along with: PostgreSQL says so, and nothing is written past the rule.
SELECT create_table('Ruled');
CREATE RULE nothing AS ON INSERT TO table_service_data."Ruled" DO ALSO INSERT INTO log (what) VALUES ('rule');
SELECT pg_temp.outcome($$SELECT insert_entity('Ruled', 'p', '1', '{}')$$);

-- Partitions.
CREATE TABLE table_service_data."Parted" OF entity (partition_key WITH OPTIONS NOT NULL, row_key WITH OPTIONS NOT NULL, "timestamp" WITH OPTIONS NOT NULL, properties WITH OPTIONS NOT NULL,
  PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE parted_0 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT count(insert_entity('Parted', n::text, '1', '{}')) FROM generate_series(1, 10) AS n;
SELECT partition_key, merge_entity('Parted', '7', '1', '{"A": 1}', '*') IS NOT NULL AS merged FROM get_entity('Parted', '7', '1');
SET client_min_messages = warning;
DROP TABLE referring, log CASCADE;
SELECT count(delete_table(table_name)) AS deleted FROM query_tables();
DROP FUNCTION write_log, log_rows, stamp;
