-- delete_entity.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');
SELECT count(insert_entity('Employees', 'p', i::text, '{}')) FROM generate_series(1, 4) AS i;

-- Without a condition any version is deleted.
SELECT delete_entity('Employees', 'p', '1');
SELECT row_key FROM table_service_data."Employees" ORDER BY row_key;

-- With an ETag that version.
SELECT etag(e) AS etag FROM get_entity('Employees', 'p', '2') AS e \gset
SELECT merge_entity('Employees', 'p', '2', '{"a": 1}', :'etag') AS new_etag \gset
SELECT delete_entity('Employees', 'p', '2', :'etag');
:state
SELECT delete_entity('Employees', 'p', '2', :'new_etag');

-- There is nothing left to delete, under any condition.
SELECT delete_entity('Employees', 'p', '2');
:state
SELECT delete_entity('Employees', 'p', '2', :'new_etag');
:state
-- Unless that is fine.
SELECT delete_entity('Employees', 'p', '2', if_exists => true);
SELECT delete_entity('Employees', 'p', '2', :'new_etag', if_exists => true);
SELECT delete_entity('Employees', 'p', '3', if_exists => true);
-- if_exists is about entities: another version is still an error, and so is a missing table.
SELECT delete_entity('Employees', 'p', '4', :'new_etag', if_exists => true);
:state
SELECT delete_entity('Nobody', 'p', '4', if_exists => true);
:state

-- Deleted and inserted again, it is another version.
SELECT etag(e) AS etag FROM get_entity('Employees', 'p', '4') AS e \gset
SELECT delete_entity('Employees', 'p', '4') AS deleted, insert_entity('Employees', 'p', '4', '{}') <> :'etag' AS is_new;
SELECT delete_entity('Employees', 'p', '4', :'etag');
:state

SELECT delete_table('Employees');
