-- Batches as parts of transactions, and under privileges.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Orders');
SELECT create_table('Stock');
CREATE TABLE invoice (id int PRIMARY KEY, order_key text);

-- Several batches on several partitions and tables, and the user's own tables, commit together: more than the Table service offers.
BEGIN;
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_insert('1', '{"item": "pen"}'), batch_insert('2', '{"item": "ink"}'));
SELECT count(*) FROM execute_batch('Orders', 'Bob', batch_insert('1', '{"item": "pen"}'));
SELECT count(*) FROM execute_batch('Stock', 'things', batch_insert_or_replace('pen', '{"n": 8}'), batch_insert_or_merge('ink', '{"n": 9}'));
INSERT INTO invoice SELECT 1, o.row_key FROM get_entity('Orders', 'Ann', '1') AS o;
-- A batch sees what the transaction has written before.
SELECT index, row_key, etag IS NULL AS is_deleted FROM execute_batch('Orders', 'Ann', batch_merge('1', '{"paid": true}', '*'), batch_delete('2'));
COMMIT;
SELECT 'Orders' AS "table", partition_key, row_key, properties FROM table_service_data."Orders"
UNION ALL SELECT 'Stock', partition_key, row_key, properties FROM table_service_data."Stock" ORDER BY 1, 2, 3;
SELECT * FROM invoice;

-- All of it goes back together, too.
BEGIN;
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_delete('1'));
SELECT count(*) FROM execute_batch('Stock', 'things', batch_delete('pen'), batch_delete('ink'));
ROLLBACK;
SELECT count(*) FROM table_service_data."Stock";

-- A batch that fails aborts the transaction, as any error does; after a rollback to a savepoint the rest is there.
BEGIN;
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_insert('3', '{}'));
SAVEPOINT batch;
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_insert('4', '{}'), batch_merge('1', '{"lost": true}', '*'), batch_insert('3', '{}'));
:state
SELECT 1;
:state
ROLLBACK TO batch;
SELECT row_key, properties FROM get_entities('Orders', 'Ann', ARRAY['1', '2', '3', '4']);
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_insert('4', '{}'), batch_merge('1', '{"lost": false}', '*'));
SAVEPOINT again;
SELECT count(*) FROM execute_batch('Orders', 'Ann', batch_delete('4'), batch_delete('1'));
ROLLBACK TO again;
COMMIT;
SELECT row_key, properties FROM get_entities('Orders', 'Ann', ARRAY['1', '2', '3', '4']);

-- An exception block catches the error and keeps the rest; SQLERRM has code and index.
DO $$
BEGIN
    PERFORM execute_batch('Orders', 'Ann', batch_delete('3'));
    BEGIN
        PERFORM execute_batch('Orders', 'Ann', batch_insert('5', '{}'), batch_insert('4', '{}'));
    EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE '%', SQLERRM;
    END;
    BEGIN
        PERFORM execute_batch('Orders', 'Ann', batch_insert('5', '{}'), batch_merge('4', '{}', 'W/"x"'));
    EXCEPTION WHEN transaction_rollback THEN
        RAISE NOTICE '%', SQLERRM;
    END;
    BEGIN
        PERFORM execute_batch('Orders', 'Ann', batch_insert('5', '{}'), batch_merge('6', '{}', '*'));
    EXCEPTION WHEN no_data_found THEN
        RAISE NOTICE '%', SQLERRM;
    END;
END $$;
SELECT row_key FROM get_entities('Orders', 'Ann', ARRAY['3', '4', '5', '6']);

-- Timestamps rise within a transaction. One statement of a batch has one clock: what it inserts has one Timestamp.
BEGIN;
SELECT etag AS first FROM execute_batch('Orders', 'Ann', batch_insert('7', '{}')) \gset
SELECT etag AS second FROM execute_batch('Orders', 'Ann', batch_merge('7', '{}', :'first')) \gset
SELECT :'first' <> :'second' AS is_new;
COMMIT;

-- Batches write, so READ ONLY transactions refuse them, before anything else that may be wrong with the data.
BEGIN READ ONLY;
SELECT * FROM execute_batch('Orders', 'Ann', batch_insert('1', '{}'));
:state
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM execute_batch_json('Nobody', 'Ann', 'nonsense');
:state
ROLLBACK;
BEGIN READ ONLY;
SELECT row_key FROM execute_batch('Orders', 'Ann', VARIADIC NULL);
:state
ROLLBACK;
-- Making an operation is no write.
BEGIN READ ONLY;
SELECT batch_insert('1', '{}');
ROLLBACK;

-- As a row source like any other: joined, filtered, inserted elsewhere.
WITH written AS MATERIALIZED (
    SELECT * FROM execute_batch('Orders', 'Ann', batch_insert('8', '{}'), batch_delete('7'))
) INSERT INTO invoice SELECT 10 + index, row_key FROM written WHERE etag IS NOT NULL RETURNING *;
-- In the select list, too.
SELECT (execute_batch('Orders', 'Ann', batch_delete('8'), batch_insert('9', '{}'))).row_key;
-- For each row of a query: one batch a partition.
SELECT c.name, count(*) FROM (VALUES ('Ann'), ('Bob'), ('Eve')) AS c (name),
    LATERAL execute_batch('Orders', c.name, batch_insert_or_merge('total', '{"orders": 1}'), batch_insert_or_merge('last', '{}')) GROUP BY c.name ORDER BY 1;

-- Privileges are those on the table. A batch says of each entity that it was written, so it needs SELECT, where insert_entity does not.
CREATE ROLE golden_clerk;
GRANT INSERT ON table_service_data."Orders" TO golden_clerk;
SET ROLE golden_clerk;
SELECT insert_entity('Orders', 'Clerk', '0', '{}') IS NOT NULL AS inserted;
SELECT * FROM execute_batch('Orders', 'Clerk', batch_insert('1', '{}'));
:state
RESET ROLE;
GRANT SELECT, INSERT ON table_service_data."Orders" TO golden_clerk;
SET ROLE golden_clerk;
SELECT index, row_key FROM execute_batch('Orders', 'Clerk', batch_insert('1', '{}'), batch_insert('2', '{}'));
SELECT * FROM execute_batch('Orders', 'Clerk', batch_insert('2', '{}'), batch_insert('3', '{}'));
:state
SELECT * FROM execute_batch('Orders', 'Clerk', batch_insert('4', '{}'), batch_insert_or_merge('3', '{}'));
:state
SELECT * FROM execute_batch('Orders', 'Clerk', batch_insert('4', '{}'), batch_merge('1', '{}', '*'));
:state
SELECT * FROM execute_batch('Orders', 'Clerk', batch_delete('1'));
:state
SELECT * FROM execute_batch('Stock', 'Clerk', batch_insert('1', '{}'));
:state
RESET ROLE;
GRANT UPDATE ON table_service_data."Orders" TO golden_clerk;
SET ROLE golden_clerk;
SELECT index, row_key FROM execute_batch('Orders', 'Clerk', batch_insert_or_merge('3', '{}'), batch_merge('1', '{}', '*'), batch_insert_or_replace('1b', '{}'), batch_replace('2', '{}', '*'));
SELECT * FROM execute_batch('Orders', 'Clerk', batch_merge('1', '{}', '*'), batch_delete('2'));
:state
RESET ROLE;
-- It locks before it writes, so a delete needs UPDATE, too, where delete_entity does not.
REVOKE UPDATE ON table_service_data."Orders" FROM golden_clerk;
GRANT DELETE ON table_service_data."Orders" TO golden_clerk;
SET ROLE golden_clerk;
SELECT delete_entity('Orders', 'Clerk', '0');
SELECT * FROM execute_batch('Orders', 'Clerk', batch_delete('2'));
:state
RESET ROLE;
GRANT UPDATE ON table_service_data."Orders" TO golden_clerk;
SET ROLE golden_clerk;
SELECT index, row_key FROM execute_batch('Orders', 'Clerk', batch_merge('1', '{}', '*'), batch_delete('2'));
RESET ROLE;

-- Row-level security: who may read an entity and not write it gets an error that says so, and at which operation.
ALTER TABLE table_service_data."Orders" ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_may_read ON table_service_data."Orders" FOR SELECT USING (true);
CREATE POLICY clerks_may_write ON table_service_data."Orders" FOR UPDATE USING (partition_key = 'Clerk');
CREATE POLICY clerks_may_insert ON table_service_data."Orders" FOR INSERT WITH CHECK (partition_key = 'Clerk');
SET ROLE golden_clerk;
SELECT index, row_key FROM execute_batch('Orders', 'Clerk', batch_insert('5', '{}'), batch_merge('1', '{}', '*'));
SELECT * FROM execute_batch('Orders', 'Ann', batch_insert('5', '{}'));
:state
SELECT * FROM execute_batch('Orders', 'Ann', batch_merge('4', '{}', '*'));
:state
SELECT * FROM execute_batch('Orders', 'Ann', batch_merge('none', '{}', '*'), batch_merge('4', '{}', '*'));
:state
SELECT * FROM execute_batch('Orders', 'Clerk', batch_merge('3', '{}', '*'), batch_delete('1'));
:state
RESET ROLE;

-- A trigger that takes the write away is reported the same way.
CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER never BEFORE INSERT OR UPDATE OR DELETE ON table_service_data."Stock" FOR EACH ROW EXECUTE FUNCTION never();
SELECT * FROM execute_batch('Stock', 'things', batch_insert_or_merge('new', '{}'), batch_insert_or_merge('pen', '{}'));
:state
SELECT * FROM execute_batch('Stock', 'things', batch_merge('pen', '{}', '*'));
:state
SELECT * FROM execute_batch('Stock', 'things', batch_delete('pen'));
:state
SELECT row_key, properties FROM table_service_data."Stock" ORDER BY row_key;

DROP OWNED BY golden_clerk;
DROP ROLE golden_clerk;
DROP TABLE invoice;
SELECT delete_table('Orders'), delete_table('Stock');
DROP FUNCTION never;
