-- Direct SQL on the tables: INSERT, UPDATE, COPY, DELETE and MERGE. What holds for the functions holds for them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SELECT create_table('Employees');

-- Without a Timestamp an INSERT gets the clock's. RETURNING gives what was stored.
INSERT INTO table_service_data."Employees" (partition_key, row_key, properties) VALUES ('p', '1', '{"Age": 34}'), ('p', '2', '{"Age": 35}')
RETURNING partition_key, row_key, properties, "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
-- An INSERT may bring its own, as a restore does: finite, and from 1601 to 9998.
INSERT INTO table_service_data."Employees" VALUES ('p', '3', '2020-01-01 12:00:00.123456+00', '{}') RETURNING "timestamp";
SELECT "timestamp", pg_temp.outcome(format('INSERT INTO table_service_data."Employees" VALUES (''t'', %L, %L, ''{}'') RETURNING "timestamp"', "timestamp", "timestamp"))
FROM (VALUES ('1601-01-01 00:00:00+00'), ('9998-12-31 23:59:59.999999+00'), ('1600-12-31 23:59:59.999999+00'), ('9999-01-01 00:00:00+00'), ('9999-12-31 23:59:59+00'),
    ('10000-01-01 00:00:00+00'), ('294276-12-31'), ('0044-03-15 BC'), ('infinity'), ('-infinity')) AS v ("timestamp");

-- The errors are those of the functions.
SELECT what, pg_temp.outcome('INSERT INTO table_service_data."Employees" (partition_key, row_key, properties) VALUES ' || "values")
FROM (VALUES ('characters', '(''a/b'', ''r'', ''{}'')'), ('characters', '(''p'', E''a\tb'', ''{}'')'), ('length', '(''p'', repeat(''r'', 1025), ''{}'')'),
    ('malformed', '(''p'', ''r'', ''{'')'), ('nested', '(''p'', ''r'', ''{"a": {}}'')'),
    -- NULLs and duplicates get PostgreSQL's own message, with the SQLSTATE of the functions.
    ('no key', '(NULL, ''r'', ''{}'')'), ('no key', '(''p'', NULL, ''{}'')'), ('no properties', '(''p'', ''r'', NULL)')) AS v (what, "values");
\set VERBOSITY sqlstate
INSERT INTO table_service_data."Employees" VALUES ('p', '1', DEFAULT, '{}');
INSERT INTO table_service_data."Employees" VALUES ('p', 'r', NULL, '{}');
\set VERBOSITY default
INSERT INTO table_service_data."Employees" VALUES ('p', '1', DEFAULT, '{"Age": 36}') ON CONFLICT (partition_key, row_key)
DO UPDATE SET properties = excluded.properties RETURNING row_key, properties;

-- An UPDATE makes a new version: it cannot keep the Timestamp, set it back, or forge another.
SELECT etag(e) AS etag, "timestamp" AS before FROM table_service_data."Employees" AS e WHERE row_key = '1' \gset
UPDATE table_service_data."Employees" SET properties = properties || '{"Name": "Don"}' WHERE row_key = '1' RETURNING properties, "timestamp" > :'before' AS rises;
UPDATE table_service_data."Employees" SET "timestamp" = "timestamp" WHERE row_key = '1' RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
UPDATE table_service_data."Employees" SET "timestamp" = :'before' WHERE row_key = '1' RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
UPDATE table_service_data."Employees" SET "timestamp" = '2000-01-01' WHERE row_key = '1' RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
UPDATE table_service_data."Employees" SET "timestamp" = 'infinity' WHERE row_key = '1' RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
UPDATE table_service_data."Employees" SET "timestamp" = NULL WHERE row_key = '1' RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
INSERT INTO table_service_data."Employees" VALUES ('p', '1', '2000-01-01', '{}') ON CONFLICT (partition_key, row_key)
DO UPDATE SET "timestamp" = excluded."timestamp" RETURNING "timestamp" BETWEEN now() AND clock_timestamp() AS is_now;
-- So who holds the old ETag is told.
SELECT merge_entity('Employees', 'p', '1', '{"Age": 1}', :'etag');
:state
-- A Timestamp in the future stays ahead, by a microsecond each time.
INSERT INTO table_service_data."Employees" VALUES ('p', 'ahead', '2999-12-31 23:59:59.999999+00', '{}');
UPDATE table_service_data."Employees" SET properties = '{"a": 1}' WHERE row_key = 'ahead' RETURNING "timestamp";
UPDATE table_service_data."Employees" SET "timestamp" = '2020-01-01' WHERE row_key = 'ahead' RETURNING "timestamp";
-- At the very end of time there is no next Timestamp.
UPDATE table_service_data."Employees" SET properties = '{"a": 1}' WHERE row_key LIKE '9998%';
:state
SELECT merge_entity('Employees', 't', '9998-12-31 23:59:59.999999+00', '{"a": 1}', '*');
:state

-- Keys may be updated as those of any table.
UPDATE table_service_data."Employees" SET row_key = 'two' WHERE row_key = '2';
SELECT partition_key, row_key, properties FROM get_entity('Employees', 'p', 'two');
SELECT what, pg_temp.outcome('UPDATE table_service_data."Employees" SET ' || assignment || ' WHERE row_key = ''two''')
FROM (VALUES ('characters', 'row_key = ''a?b'''), ('length', 'partition_key = repeat(''日'', 894)'), ('malformed', 'properties = ''[]'''),
    ('no key', 'partition_key = NULL'), ('no properties', 'properties = NULL')) AS v (what, assignment);
\set VERBOSITY sqlstate
UPDATE table_service_data."Employees" SET row_key = '1' WHERE row_key = 'two';
\set VERBOSITY default

-- COPY is the fast way in and out.
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin;
copy	1	{"Name": "Don", "Id@odata.type": "Edm.Int64", "Id": "123"}
copy	2	{}
\.
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin (FORMAT csv);
copy,3,"{""Name"": ""Hall, Don""}"
copy,"",{}
\.
COPY (SELECT partition_key, row_key, properties FROM table_service_data."Employees" WHERE partition_key = 'copy' ORDER BY row_key) TO stdout;
-- With the same errors; the CONTEXT, which says where, is left out here.
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin;
copy	4	{}
copy	a/b	{}
\.
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin;
copy	4	{"a": [1]}
\.
COPY table_service_data."Employees" FROM stdin;
copy	4	infinity	{}
\.
\set VERBOSITY sqlstate
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin;
copy	\N	{}
\.
COPY table_service_data."Employees" (partition_key, row_key, properties) FROM stdin;
copy	1	{}
\.
\set VERBOSITY default
SELECT row_key FROM table_service_data."Employees" WHERE partition_key = 'copy' ORDER BY row_key;

-- DELETE and MERGE.
DELETE FROM table_service_data."Employees" WHERE partition_key = 'copy' AND row_key > '1' RETURNING row_key;
MERGE INTO table_service_data."Employees" AS e USING (VALUES ('copy', '1', '{"Age": 1}'::properties), ('copy', '9', '{"Age": 9}')) AS new (partition_key, row_key, properties)
    ON e.partition_key = new.partition_key AND e.row_key = new.row_key
    WHEN MATCHED THEN UPDATE SET properties = e.properties || new.properties
    WHEN NOT MATCHED THEN INSERT (partition_key, row_key, properties) VALUES (new.partition_key, new.row_key, new.properties);
SELECT row_key, properties FROM table_service_data."Employees" WHERE partition_key = 'copy' ORDER BY row_key;
MERGE INTO table_service_data."Employees" AS e USING (VALUES ('copy', 'a#b')) AS new (partition_key, row_key) ON e.row_key = new.row_key
    WHEN NOT MATCHED THEN INSERT (partition_key, row_key, properties) VALUES (new.partition_key, new.row_key, '{}');
:state

-- CLUSTER and VACUUM FULL work on the tables; no row changes.
SELECT md5(string_agg(e::text, '' ORDER BY partition_key, row_key)) AS before FROM table_service_data."Employees" AS e \gset
CLUSTER table_service_data."Employees";
VACUUM FULL table_service_data."Employees";
SELECT md5(string_agg(e::text, '' ORDER BY partition_key, row_key)) = :'before' AS is_equal FROM table_service_data."Employees" AS e;

-- The functions behind this, alone: the CHECK's, and the rule for the next Timestamp.
SELECT entity_is_valid('p', 'r', '2020-01-01', '{}') AS valid, entity_is_valid(NULL, 'r', '2020-01-01', '{}') IS NULL AS of_null;
SELECT entity_is_valid('p', 'r', 'infinity', '{}');
:state
SELECT next_timestamp('2020-01-01 00:00:00+00', '2020-01-01 00:00:01+00'), next_timestamp('2020-01-01 00:00:01+00', '2020-01-01 00:00:00+00'),
    next_timestamp('2020-01-01 00:00:00+00', '2020-01-01 00:00:00+00');
-- The trigger function has no other use.
SELECT rising_timestamp();
:state
CREATE TEMPORARY TABLE other (a integer);
CREATE TRIGGER wrong BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION rising_timestamp();
INSERT INTO other VALUES (1);
:state
DROP TRIGGER wrong ON other;
CREATE TRIGGER wrong BEFORE UPDATE ON other FOR EACH ROW EXECUTE FUNCTION rising_timestamp();
INSERT INTO other VALUES (1);
UPDATE other SET a = 2;
:state
CREATE TEMPORARY TABLE text_instead (a integer, b integer, "timestamp" text);
CREATE TRIGGER wrong BEFORE UPDATE ON text_instead FOR EACH ROW EXECUTE FUNCTION rising_timestamp();
INSERT INTO text_instead VALUES (1, 2, 'x');
UPDATE text_instead SET a = 2;
:state
-- A column "timestamp" may stand anywhere, as it does in some partitions.
CREATE TEMPORARY TABLE elsewhere ("timestamp" timestamptz, a integer, b text);
CREATE TRIGGER fine BEFORE UPDATE ON elsewhere FOR EACH ROW EXECUTE FUNCTION rising_timestamp();
INSERT INTO elsewhere VALUES (NULL, 1, 'x'), ('2999-12-31 23:59:59.999999+00', 2, 'y');
UPDATE elsewhere SET "timestamp" = '2000-01-01' RETURNING a, b, CASE a WHEN 1 THEN "timestamp" BETWEEN now() AND clock_timestamp() ELSE "timestamp" = '3000-01-01 00:00:00+00' END AS rises;

SELECT delete_table('Employees');
