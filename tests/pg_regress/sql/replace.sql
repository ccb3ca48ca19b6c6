-- replace_entity: other properties for an entity that must exist.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Don", "Age": 34}') AS etag \gset

-- The caller says which version to replace. All old properties go.
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Age": 35}', :'etag') AS new_etag \gset
SELECT properties, etag(e) = :'new_etag' AS is_returned, :'etag' <> :'new_etag' AS is_new
FROM get_entity('Employees', 'Marketing', '00001') AS e;

-- The old ETag is no longer valid: somebody (we) changed the entity.
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Age": 36}', :'etag');
:state
SELECT properties, etag(e) = :'new_etag' AS is_unchanged FROM get_entity('Employees', 'Marketing', '00001') AS e;

-- '*' is any version.
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Age": 37}', '*') IS NOT NULL AS replaced;
SELECT properties FROM get_entity('Employees', 'Marketing', '00001');

-- A replace with equal content is a write too: it makes a new version.
SELECT etag(e) AS etag FROM get_entity('Employees', 'Marketing', '00001') AS e \gset
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Age": 37}', :'etag') <> :'etag' AS is_new;

-- An entity without properties is an entity; null is no value.
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Age": null}', '*') IS NOT NULL AS replaced;
SELECT properties FROM get_entity('Employees', 'Marketing', '00001');

-- No such entity, whatever the version; no such table.
SELECT replace_entity('Employees', 'Marketing', '00002', '{}', '*');
:state
SELECT replace_entity('Employees', 'Marketing', '00002', '{}', :'etag');
:state
SELECT replace_entity('Nobody', 'Marketing', '00001', '{}', '*');
:state
SELECT count(*) FROM table_service_data."Employees";

-- if_match has no default: who does not want to check says '*'.
\set VERBOSITY terse
SELECT replace_entity('Employees', 'Marketing', '00001', '{}');
:state
\set VERBOSITY default

-- Several writes in one statement see each other.
SELECT replace_entity('Employees', 'Marketing', '00001', '{"Step": 1}', '*')
    <> replace_entity('Employees', 'Marketing', '00001', '{"Step": 2}', '*') AS are_two_versions;
SELECT properties FROM get_entity('Employees', 'Marketing', '00001');

SELECT delete_table('Employees');
