-- Reads work in READ ONLY transactions; writes say that they do not.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;

-- (A new session, so that nothing is prepared yet.)
\c -
BEGIN READ ONLY;
SELECT partition_key, row_key, properties FROM get_entity('Employees', 'p', 'r');
SELECT partition_key, row_key, properties FROM get_entity('EMPLOYEES', 'p', 'r', 'b');
SELECT row_key FROM get_entities('Employees', 'p', '{r, s}');
SELECT table_name FROM query_tables();
SELECT create_table('Employees', if_not_exists => true);
SELECT delete_table('Nobody', if_exists => true);
-- No transaction id was needed, so all this works on a standby too.
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_id;
-- What would have been an error is one.
SAVEPOINT s;
SELECT get_entity('Nobody', 'p', 'r');
:state
ROLLBACK TO s;
SELECT create_table('Other');
:state
ROLLBACK TO s;
SELECT delete_table('Employees');
:state
ROLLBACK TO s;
SELECT insert_entity('Employees', 'p', 's', '{}');
:state
ROLLBACK TO s;
SELECT replace_entity('Employees', 'p', 'r', '{}', '*');
:state
ROLLBACK TO s;
SELECT merge_entity('Employees', 'p', 'r', '{}', 'W/"x"');
:state
ROLLBACK TO s;
SELECT insert_or_replace_entity('Employees', 'p', 'r', '{}');
:state
ROLLBACK TO s;
SELECT insert_or_merge_entity('Employees', 'p', 'r', '{}');
:state
ROLLBACK TO s;
SELECT delete_entity('Employees', 'p', 'r');
:state
ROLLBACK TO s;
COMMIT;

-- Nothing happened.
SELECT row_key FROM table_service_data."Employees";
SELECT delete_table('Employees');
