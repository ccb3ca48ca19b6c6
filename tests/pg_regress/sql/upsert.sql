-- insert_or_replace_entity and insert_or_merge_entity: writes that do not ask whether the entity exists.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');

-- Both insert what is not there.
SELECT insert_or_replace_entity('Employees', 'p', 'replace', '{"a": 1, "b": 1}') AS replace_etag \gset
SELECT insert_or_merge_entity('Employees', 'p', 'merge', '{"a": 1, "b": 1}') AS merge_etag \gset
SELECT row_key, properties, etag(e) IN (:'replace_etag', :'merge_etag') AS is_returned
FROM get_entities('Employees', 'p', ARRAY['replace', 'merge']) AS e;

-- One replaces what is there, the other merges into it. There is a new version each time.
SELECT insert_or_replace_entity('Employees', 'p', 'replace', '{"b": 2, "c": 2}') AS new_replace_etag \gset
SELECT insert_or_merge_entity('Employees', 'p', 'merge', '{"b": 2, "c": 2}') AS new_merge_etag \gset
SELECT row_key, properties, etag(e) IN (:'new_replace_etag', :'new_merge_etag') AS is_returned
FROM get_entities('Employees', 'p', ARRAY['replace', 'merge']) AS e;
SELECT :'replace_etag' <> :'new_replace_etag' AS replace_is_new, :'merge_etag' <> :'new_merge_etag' AS merge_is_new;

-- Also when nothing changes.
SELECT insert_or_replace_entity('Employees', 'p', 'replace', '{"b": 2, "c": 2}') <> :'new_replace_etag' AS replace_is_new,
    insert_or_merge_entity('Employees', 'p', 'merge', '{"a": null}') <> :'new_merge_etag' AS merge_is_new;
SELECT row_key, properties FROM get_entities('Employees', 'p', ARRAY['replace', 'merge']);

-- No such table.
SELECT insert_or_replace_entity('Nobody', 'p', 'r', '{}');
:state
SELECT insert_or_merge_entity('Nobody', 'p', 'r', '{}');
:state

SELECT delete_table('Employees');
