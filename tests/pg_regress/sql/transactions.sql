-- Everything is an ordinary part of the caller's transaction: several partitions, several tables, and the user's own tables.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Accounts');
SELECT insert_entity('Accounts', 'a', '1', '{"Balance": 100}') IS NOT NULL AS inserted, insert_entity('Accounts', 'b', '1', '{"Balance": 0}') IS NOT NULL AS inserted;

-- A transaction over partitions and tables, rolled back: nothing is left, not even the table.
BEGIN;
SELECT create_table('Log');
SELECT insert_entity('Log', 'l', '1', '{}') IS NOT NULL AS inserted;
SELECT merge_entity('Accounts', 'a', '1', '{"Balance": 50}', '*') IS NOT NULL AS merged, merge_entity('Accounts', 'b', '1', '{"Balance": 50}', '*') IS NOT NULL AS merged;
CREATE TEMPORARY TABLE receipts AS SELECT partition_key, properties FROM table_service_data."Accounts";
SELECT partition_key, properties FROM table_service_data."Accounts" ORDER BY 1;
ROLLBACK;
SELECT partition_key, properties FROM table_service_data."Accounts" ORDER BY 1;
SELECT to_regclass('pg_temp.receipts') IS NULL AS no_receipts, to_regclass('table_service_data."Log"') IS NULL AS no_log;
SELECT insert_entity('Log', 'l', '2', '{}');
:state

-- The same, committed.
BEGIN;
SELECT create_table('Log');
SELECT insert_entity('Log', 'l', '1', '{}') IS NOT NULL AS inserted;
SELECT merge_entity('Accounts', 'a', '1', '{"Balance": 50}', '*') IS NOT NULL AS merged, merge_entity('Accounts', 'b', '1', '{"Balance": 50}', '*') IS NOT NULL AS merged;
COMMIT;
SELECT partition_key, properties FROM table_service_data."Accounts" ORDER BY 1;
SELECT count(*) FROM table_service_data."Log";

-- An error ends a transaction, as any error of PostgreSQL does.
BEGIN;
SELECT insert_entity('Log', 'l', '2', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Log', 'l', '1', '{}');
:state
SELECT count(*) FROM table_service_data."Log";
:state
COMMIT;
SELECT count(*) FROM table_service_data."Log";

-- Savepoints keep what was before them, for every kind of error.
BEGIN;
SELECT insert_entity('Log', 'l', '2', '{}') IS NOT NULL AS inserted;
SAVEPOINT before;
SELECT insert_entity('Log', 'l', '3', '{}') IS NOT NULL AS inserted;
SELECT merge_entity('Log', 'l', 'missing', '{}', '*');
:state
ROLLBACK TO before;
SELECT delete_table('Log');
SELECT get_entity('Log', 'l', '1');
:state
ROLLBACK TO before;
SELECT create_table('log');
:state
ROLLBACK TO before;
SELECT delete_entity('Log', 'l', '1') AS deleted;
RELEASE before;
COMMIT;
SELECT row_key FROM table_service_data."Log" ORDER BY 1;

-- So do the blocks of PL/pgSQL.
DO $$
BEGIN
    FOR i IN 1..5 LOOP
        BEGIN
            PERFORM insert_entity('Log', 'block', i::text, '{}');
            PERFORM insert_entity('Log', 'l', (i + 1)::text, '{}');
        EXCEPTION WHEN unique_violation THEN
            RAISE NOTICE 'not %', i;
        END;
    END LOOP;
END $$;
SELECT partition_key, row_key FROM table_service_data."Log" ORDER BY 1, 2;

-- A table deleted and created again in one transaction, and rolled back.
BEGIN;
SELECT delete_table('Log');
SELECT create_table('LOG');
SELECT insert_entity('Log', 'new', '1', '{}') IS NOT NULL AS inserted;
SELECT partition_key, row_key FROM table_service_data."LOG";
ROLLBACK;
SELECT count(*) FROM get_entity('log', 'l', '2');

-- Reads see the caller's snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT properties FROM get_entity('Accounts', 'a', '1');
SELECT merge_entity('Accounts', 'a', '1', '{"Balance": 49}', '*') IS NOT NULL AS merged;
SELECT properties FROM get_entity('Accounts', 'a', '1');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT replace_entity('Accounts', 'a', '1', '{"Balance": 48}', etag(e)) IS NOT NULL AS replaced FROM get_entity('Accounts', 'a', '1') AS e;
SELECT insert_or_merge_entity('Accounts', 'a', '1', '{"Seen": true}') IS NOT NULL AS merged;
COMMIT;
SELECT properties FROM get_entity('Accounts', 'a', '1');

-- Several operations in one transaction have different Timestamps.
BEGIN;
SELECT insert_or_replace_entity('Accounts', 'c', '1', '{}') <> insert_or_replace_entity('Accounts', 'c', '1', '{}') AS are_two;
ROLLBACK;

SELECT delete_table('Accounts'), delete_table('Log');
