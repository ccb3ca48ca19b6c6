-- Answers of a database with data.sql. They are the same with every version of the extension that reads it. Nothing is changed.
SELECT 'Types', e.partition_key, e.row_key, e.properties, table_service.etag(e), encode(table_service.properties_send(e.properties), 'hex')
FROM table_service_data."Types" AS e ORDER BY e.partition_key, e.row_key;
SELECT 'Renamed', e.* FROM table_service_data."Renamed" AS e;
SELECT 'Employees', count(*), md5(string_agg(e::text, ' ' ORDER BY e.partition_key, e.row_key)), md5(string_agg(table_service.etag(e), ' ' ORDER BY e.row_key))
FROM table_service_data."Employees" AS e;
SELECT table_name FROM table_service.query_tables();
SELECT table_name, table_service.get_access_policies(table_name) FROM table_service.query_tables();
SELECT table_service.get_service_properties();
SELECT * FROM table_service.get_entity('types', 'p', 'r');
SELECT row_key FROM table_service.get_entities('Employees', 'dept3', ARRAY['00003', '00010', 'none']);
SELECT row_key, properties FROM table_service.query_entities('Employees', 'PartitionKey eq ''dept3'' and Age lt 3');
SELECT row_key, continuation_token FROM table_service.query_page('Employees', 'Age gt 58', top => 3);
SELECT row_key, continuation_token FROM table_service.query_page('Employees', 'Age gt 58', top => 3,
    continuation_token => (SELECT max(continuation_token) FROM table_service.query_page('Employees', 'Age gt 58', top => 3)));
SELECT table_service.query_page_json('Employees', top => 2);
SELECT count(*), sum(age) FROM public.mirror;
SELECT * FROM public.departments ORDER BY partition_key;
SELECT * FROM public.expressions ORDER BY row_key;
-- Since 0.3.0 the filter of filter_to_sql names the type of its texts, which changes no answer of it.
SELECT row_key, replace(public.expressions(properties), '::pg_catalog.text', '') FROM table_service_data."Employees" WHERE row_key <= '00003' ORDER BY row_key;
SELECT row_key FROM table_service_data."Employees" WHERE table_service.get_string(properties, 'Name') = 'name42';
SELECT partition_key, entities FROM table_service.partition_statistics('Employees');
SELECT replace(table_service.filter_to_sql('Age ge 18 and Name ne ''x'''), '::pg_catalog.text', '');

-- Writes. Their new ETags differ from run to run, so only what they leave is shown.
BEGIN;
SELECT 1 FROM table_service.insert_entity('Empty', 'p', 'r', '{"A": 1}') AS tag, LATERAL table_service.merge_entity('Empty', 'p', 'r', '{"B": 2}', tag);
SELECT 1 FROM table_service.replace_entity('Types', 'p', 'r', '{"Only": "this"}', 'W/"datetime''2024-02-29T12%3A00%3A00.123456Z''"');
SELECT 1 FROM table_service.insert_or_merge_entity('Types', 'p', 'r', '{"Also": true}');
SELECT 1 FROM table_service.insert_or_replace_entity('Renamed', 'p', 'new', '{}');
SELECT index, row_key, etag IS NULL FROM table_service.execute_batch('Employees', 'dept1',
    table_service.batch_insert('new', '{"Age": 30}'), table_service.batch_merge('00001', '{"Age": 31}', '*'), table_service.batch_delete('00008'));
SELECT table_service.delete_entity('Types', 'toast', '1');
UPDATE table_service_data."Employees" SET properties = table_service.merge_properties(properties, '{"Raised": true}') WHERE row_key = '00015';
SELECT properties FROM table_service_data."Empty";
SELECT e.partition_key, e.row_key, left(e.properties::text, 100) FROM table_service_data."Types" AS e ORDER BY 1, 2;
SELECT row_key, properties FROM table_service_data."Employees" WHERE partition_key = 'dept1' AND (row_key < '00020' OR row_key = 'new') ORDER BY row_key;
ROLLBACK;
