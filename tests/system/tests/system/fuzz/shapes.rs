//! Tables of the shapes that users can give them, and the changes to them while others work with them.

/// The statements that make the tables. A role without privileges of its own runs them, with CREATE on the schema of the
/// tables. `table_service` is on its search_path.
pub const TABLES: &str = r#"
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; IF NEW.row_key = '' THEN RETURN NULL; END IF; RETURN NEW; END $$;
CREATE FUNCTION moody(text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN 1 / (length($1) - 7); END $$;

SELECT create_table(name) FROM unnest(ARRAY['Plain', 'Large', 'Indexed', 'Found', 'Odd', 'Triggered', 'Secured', 'Open', 'Ruled', 'Moody', 'Named']) AS name;
INSERT INTO table_service_data."Plain" SELECT 'p', 'r' || i, '2026-01-01', '{"A": 1, "B": "x"}' FROM generate_series(1, 50) AS i;
ALTER TABLE table_service_data."Large" ALTER COLUMN properties SET STORAGE EXTERNAL;
INSERT INTO table_service_data."Large" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i, 'B', repeat('x', 9000), 'C', repeat('y', 30000))
  FROM generate_series(1, 20) AS i;

-- Indexes: ordinary ones, property indexes, and those that only look like them.
CREATE INDEX ON table_service_data."Indexed" (get_int32(properties, 'A'));
CREATE UNIQUE INDEX ON table_service_data."Indexed" (get_string(properties, 'B'));
SELECT create_property_index('Indexed', 'A');
SELECT create_property_index('Found', 'A'), create_property_index('Found', 'B');
INSERT INTO table_service_data."Found" SELECT 'p' || i % 5, 'r' || i, '2026-01-01', jsonb_build_object('A', i % 7, 'B', 'x' || i) FROM generate_series(1, 2000) AS i;
CREATE INDEX ON table_service_data."Odd" USING hash (property_index_key(partition_key, row_key, properties, 'A'));
CREATE INDEX ON table_service_data."Odd" USING brin (property_index_key(partition_key, row_key, properties, 'A'));
CREATE INDEX ON table_service_data."Odd" (property_index_key(partition_key, row_key, properties, 'A') DESC NULLS LAST);
CREATE INDEX ON table_service_data."Odd" (property_index_key(row_key, partition_key, properties, 'A'));
CREATE INDEX ON table_service_data."Odd" (property_index_key(partition_key, row_key, properties, row_key));
CREATE INDEX ON table_service_data."Odd" (property_index_key(partition_key, row_key, properties, 'B')) WHERE row_key <> 'r';
CREATE INDEX ON table_service_data."Odd" (property_index_key(partition_key, row_key, properties, 'B'), row_key);
CREATE UNIQUE INDEX ON table_service_data."Odd" (property_index_key(partition_key, row_key, properties, 'B')) INCLUDE (row_key);
INSERT INTO table_service_data."Odd" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i % 7, 'B', i) FROM generate_series(1, 100) AS i;
CREATE INDEX ON table_service_data."Moody" (moody(row_key));

-- What runs with a write.
CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON table_service_data."Triggered" FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER b AFTER INSERT ON table_service_data."Triggered" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
CREATE RULE a AS ON UPDATE TO table_service_data."Ruled" WHERE NEW.row_key = 'r1' DO INSTEAD NOTHING;
CREATE TABLE pointers (partition_key text COLLATE "C", row_key text COLLATE "C",
  FOREIGN KEY (partition_key, row_key) REFERENCES table_service_data."Named" ON UPDATE CASCADE);
INSERT INTO table_service_data."Named" SELECT 'p', 'r' || i, '2026-01-01', '{"A": 1}' FROM generate_series(1, 5) AS i;
INSERT INTO pointers VALUES ('p', 'r1');
ALTER TABLE table_service_data."Secured" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY rows ON table_service_data."Secured" USING (row_key <> 'r1') WITH CHECK (row_key <> 'r2');
SELECT create_property_index('Secured', 'A');

-- Columns that are NULL, added, generated, dropped, in another order.
ALTER TABLE table_service_data."Open" ALTER COLUMN properties DROP NOT NULL, ALTER COLUMN "timestamp" DROP NOT NULL;
SELECT create_property_index('Open', 'A');
INSERT INTO table_service_data."Open" VALUES ('p', 'r', '2026-01-01', NULL), ('p', 'r1', NULL, '{"A": 1}');
CREATE TABLE table_service_data."Bare" OF table_service.entity;
INSERT INTO table_service_data."Bare" VALUES ('p', 'r', '2026-01-01', NULL), (NULL, NULL, NULL, NULL), ('p', 'r', 'infinity', '{}'), ('p', E'a/b\n', '4713-01-01 BC', '{"A": 1}');
CREATE TABLE table_service_data."Grown" (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz, PRIMARY KEY (partition_key, row_key));
INSERT INTO table_service_data."Grown" VALUES ('p', 'r', '2026-01-01');
ALTER TABLE table_service_data."Grown" ADD COLUMN properties table_service.properties DEFAULT '{"A": 1}';
ALTER TABLE table_service_data."Grown" OF table_service.entity;
CREATE TABLE table_service_data."Made" (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz,
  properties table_service.properties GENERATED ALWAYS AS ('{"A": 1}'::table_service.properties) STORED, PRIMARY KEY (partition_key, row_key));
ALTER TABLE table_service_data."Made" OF table_service.entity;
INSERT INTO table_service_data."Made" (partition_key, row_key, "timestamp") VALUES ('p', 'r', '2026-01-01');
CREATE TABLE table_service_data."Holes" (gone int, partition_key text COLLATE "C", row_key text COLLATE "C", gone2 text, "timestamp" timestamptz,
  properties table_service.properties, gone3 int, PRIMARY KEY (partition_key, row_key));
INSERT INTO table_service_data."Holes" SELECT 7, 'p', 'r' || i, 'x', '2026-01-01', '{"A": 1}' FROM generate_series(1, 9) AS i;
ALTER TABLE table_service_data."Holes" DROP COLUMN gone, DROP COLUMN gone2, DROP COLUMN gone3;
ALTER TABLE table_service_data."Holes" OF table_service.entity;
CREATE INDEX ON table_service_data."Holes" (property_index_key(partition_key, row_key, properties, 'A'));

-- Other keys, other kinds of tables.
CREATE TABLE table_service_data."Timed" OF table_service.entity (PRIMARY KEY ("timestamp"));
CREATE TABLE table_service_data."OneKey" OF table_service.entity (PRIMARY KEY (row_key));
CREATE TABLE table_service_data."Reversed" OF table_service.entity (PRIMARY KEY (row_key, partition_key) DEFERRABLE);
CREATE TABLE table_service_data."Bagged" OF table_service.entity (PRIMARY KEY (properties, partition_key), EXCLUDE USING hash (row_key WITH =));
CREATE UNLOGGED TABLE table_service_data."Unlogged" OF table_service.entity (PRIMARY KEY (partition_key, row_key) INCLUDE (properties));
CREATE TABLE table_service_data."Divided" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE table_service_data."Divided_0" PARTITION OF table_service_data."Divided" FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE table_service_data."Ranged" OF table_service.entity PARTITION BY RANGE (partition_key, row_key);
CREATE TABLE table_service_data."Ranged_0" (x int, properties table_service.properties, "timestamp" timestamptz, row_key text COLLATE "C", partition_key text COLLATE "C");
ALTER TABLE table_service_data."Ranged_0" DROP COLUMN x;
ALTER TABLE table_service_data."Ranged" ATTACH PARTITION table_service_data."Ranged_0" FOR VALUES FROM (MINVALUE, MINVALUE) TO ('q', MINVALUE);
SELECT create_property_index(name, 'A') FROM unnest(ARRAY['Timed', 'OneKey', 'Reversed', 'Bagged', 'Unlogged', 'Divided', 'Ranged']) AS name;
INSERT INTO table_service_data."Timed" SELECT 'p', 'r' || i, '2026-01-01'::timestamptz + i * interval '1 s', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."OneKey" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."Reversed" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."Bagged" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."Unlogged" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."Divided" SELECT 'p' || i, 'r', '2026-01-01', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
INSERT INTO table_service_data."Ranged" SELECT 'p', 'r' || i, '2026-01-01', jsonb_build_object('A', i % 3) FROM generate_series(1, 300) AS i;
CREATE VIEW table_service_data."Seen" AS SELECT * FROM table_service_data."Plain";
CREATE MATERIALIZED VIEW table_service_data."Kept" AS SELECT * FROM table_service_data."Plain";
CREATE TABLE table_service_data."other" (a int);
"#;

/// Names that calls are made with: those of the tables above, and of others that come and go or never exist.
pub const NAMES: [&str; 38] = [
    "Plain",
    "Plain",
    "Plain",
    "Large",
    "Indexed",
    "Found",
    "Found",
    "Odd",
    "Triggered",
    "Secured",
    "Open",
    "Ruled",
    "Moody",
    "Named",
    "Bare",
    "Grown",
    "Made",
    "Holes",
    "Timed",
    "OneKey",
    "Reversed",
    "Bagged",
    "Unlogged",
    "Divided",
    "Divided_0",
    "Ranged",
    "Seen",
    "Kept",
    "other",
    "plain",
    "FOUND",
    "Fleeting",
    "Fleeting",
    "Absent",
    "Renamed",
    "Found_A",
    "access_policies",
    "Zz",
];

/// The statements of another session on the tables at the same time. Each has a row to work on, so that it rewrites,
/// checks or indexes something.
pub const DDL: [&str; 47] = [
    "CREATE INDEX extra ON table_service_data.\"Plain\" (get_string(properties, 'B'))",
    "DROP INDEX table_service_data.extra",
    "CREATE INDEX CONCURRENTLY slow ON table_service_data.\"Plain\" (get_string(properties, 'B'))",
    "DROP INDEX CONCURRENTLY IF EXISTS table_service_data.slow",
    "ALTER TABLE table_service_data.\"Plain\" RENAME TO \"Renamed\"",
    "ALTER TABLE table_service_data.\"Renamed\" RENAME TO \"Plain\"",
    "ALTER TABLE table_service_data.\"Plain\" SET (fillfactor = 50)",
    "ALTER TABLE table_service_data.\"Plain\" NOT OF",
    "ALTER TABLE table_service_data.\"Plain\" OF table_service.entity",
    "ALTER TABLE table_service_data.\"Plain\" NOT OF; ALTER TABLE table_service_data.\"Plain\" ADD COLUMN more int DEFAULT 3",
    "ALTER TABLE table_service_data.\"Plain\" DROP COLUMN more; ALTER TABLE table_service_data.\"Plain\" OF table_service.entity",
    "ALTER TABLE table_service_data.\"Plain\" ALTER COLUMN properties DROP NOT NULL",
    "ALTER TABLE table_service_data.\"Plain\" ALTER COLUMN properties SET STORAGE EXTERNAL",
    "ALTER TABLE table_service_data.\"Plain\" ADD CONSTRAINT extra CHECK (row_key <> 'x') NOT VALID",
    "ALTER TABLE table_service_data.\"Plain\" VALIDATE CONSTRAINT extra",
    "ALTER TABLE table_service_data.\"Plain\" DROP CONSTRAINT extra",
    "ALTER TABLE table_service_data.\"Plain\" SET SCHEMA public",
    "ALTER TABLE public.\"Plain\" SET SCHEMA table_service_data",
    "ALTER TABLE table_service_data.\"Plain\" SET UNLOGGED",
    "ALTER TABLE table_service_data.\"Plain\" SET LOGGED",
    "ALTER TABLE table_service_data.\"Plain\" REPLICA IDENTITY FULL",
    "CREATE TRIGGER b BEFORE INSERT ON table_service_data.\"Plain\" FOR EACH ROW EXECUTE FUNCTION note()",
    "DROP TRIGGER b ON table_service_data.\"Plain\"",
    "ALTER TABLE table_service_data.\"Plain\" DISABLE TRIGGER ALL",
    "ALTER TABLE table_service_data.\"Plain\" ENABLE TRIGGER ALL",
    "ALTER TABLE table_service_data.\"Plain\" ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE table_service_data.\"Plain\" DISABLE ROW LEVEL SECURITY",
    "CREATE RULE b AS ON INSERT TO table_service_data.\"Plain\" DO ALSO NOTHING",
    "DROP RULE b ON table_service_data.\"Plain\"",
    "DO $$ BEGIN EXECUTE format('ALTER TABLE table_service_data.\"Plain\" DROP CONSTRAINT %I', (SELECT conname FROM pg_constraint WHERE conrelid = 'table_service_data.\"Plain\"'::regclass AND contype = 'p')); END $$",
    "ALTER TABLE table_service_data.\"Plain\" ADD CONSTRAINT own PRIMARY KEY (partition_key, row_key)",
    "ALTER TABLE table_service_data.\"Plain\" ADD CONSTRAINT own PRIMARY KEY (row_key)",
    "TRUNCATE table_service_data.\"Indexed\"",
    "CLUSTER table_service_data.\"Plain\"",
    "VACUUM FULL table_service_data.\"Triggered\"",
    "VACUUM table_service_data.\"Found\"",
    "ANALYZE table_service_data.\"Found\"",
    "REINDEX TABLE table_service_data.\"Found\"",
    "REINDEX TABLE CONCURRENTLY table_service_data.\"Found\"",
    // Drops the indexes that these leave when they fail. With hundreds of indexes, the next one takes minutes.
    "DO $$ BEGIN EXECUTE (SELECT string_agg(format('DROP INDEX %s', indexrelid::regclass), ';') FROM pg_index WHERE NOT indisvalid AND indrelid = 'table_service_data.\"Found\"'::regclass); END $$",
    "SELECT drop_property_index('Found', 'A', true)",
    "SELECT create_property_index('Found', 'A', true)",
    "CREATE UNIQUE INDEX CONCURRENTLY unique_a ON table_service_data.\"Found\" (property_index_key(partition_key, row_key, properties, 'A'))",
    "ALTER TABLE table_service_data.\"Ranged\" DETACH PARTITION table_service_data.\"Ranged_0\"",
    "ALTER TABLE table_service_data.\"Ranged\" ATTACH PARTITION table_service_data.\"Ranged_0\" FOR VALUES FROM (MINVALUE, MINVALUE) TO ('q', MINVALUE)",
    "SELECT delete_table('Fleeting', true)",
    "SELECT create_table('Fleeting', true); INSERT INTO table_service_data.\"Fleeting\" SELECT 'p', 'r' || i, now(), '{\"A\": 1}' FROM generate_series(1, 20) AS i",
];
