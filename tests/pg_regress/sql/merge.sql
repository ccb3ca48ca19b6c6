-- merge_entity: some properties of an entity that must exist; the others stay.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Don", "Age": 34}') AS etag \gset

-- Given properties are set, the others stay.
SELECT merge_entity('Employees', 'Marketing', '00001', '{"Age": 35, "Email": "donh@contoso.com"}', :'etag') AS new_etag \gset
SELECT properties, etag(e) = :'new_etag' AS is_returned FROM get_entity('Employees', 'Marketing', '00001') AS e;

-- The type of a property may change.
SELECT merge_entity('Employees', 'Marketing', '00001', '{"Age": "thirty-five"}', '*') IS NOT NULL AS merged;
-- null leaves the stored value as it is: a merge cannot remove a property.
SELECT merge_entity('Employees', 'Marketing', '00001', '{"Age": null, "Email": null}', '*') IS NOT NULL AS merged;
SELECT properties FROM get_entity('Employees', 'Marketing', '00001');

-- A merge of nothing is a write too: it makes a new version.
SELECT etag(e) AS etag FROM get_entity('Employees', 'Marketing', '00001') AS e \gset
SELECT merge_entity('Employees', 'Marketing', '00001', '{}', :'etag') <> :'etag' AS is_new;
SELECT properties FROM get_entity('Employees', 'Marketing', '00001');

-- Another version; no such entity; no such table.
SELECT merge_entity('Employees', 'Marketing', '00001', '{"Age": 1}', :'etag');
:state
SELECT merge_entity('Employees', 'Marketing', '00002', '{"Age": 1}', :'etag');
:state
SELECT merge_entity('Employees', 'Marketing', '00002', '{"Age": 1}', '*');
:state
SELECT merge_entity('Nobody', 'Marketing', '00001', '{"Age": 1}', '*');
:state
SELECT properties FROM table_service_data."Employees";

SELECT delete_table('Employees');
