-- get_entity and get_entities: reads by key.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Don", "LastName": "Hall", "Age": 34}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'Marketing', '00002', '{"FirstName": "Jun", "LastName": "Cao", "Age": 47}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'Marketing', 'department', '{"DepartmentName": "Marketing", "EmployeeCount": 153}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'Sales', '00010', '{"FirstName": "Ken", "LastName": "Kwok", "Age": 23}') IS NOT NULL AS inserted;

-- One entity, or no row.
SELECT partition_key, row_key, "timestamp" IS NOT NULL AS has_timestamp, properties FROM get_entity('Employees', 'Marketing', '00001');
SELECT * FROM get_entity('Employees', 'Marketing', '00010');
SELECT * FROM get_entity('Employees', 'marketing', '00001');
SELECT count(*) FROM get_entity('Employees', '', '');

-- Those of several that exist, once each, in key order.
SELECT row_key, properties ->> 'LastName' AS last_name
FROM get_entities('Employees', 'Marketing', ARRAY['department', '00002', '00010', '00001', '00002']);
SELECT count(*) FROM get_entities('Employees', 'Marketing', ARRAY[]::text[]);
SELECT count(*) FROM get_entities('Employees', 'Nobody', ARRAY['00001']);

-- Those with pairs of keys that exist, across partitions, in the order of the pairs. A pair may come twice.
SELECT index, partition_key, row_key, "timestamp" IS NOT NULL AS has_timestamp, properties ->> 'LastName' AS last_name
FROM get_entities_by_keys('Employees', ARRAY['Sales', 'Marketing', 'Marketing', 'Nobody', 'Sales'], ARRAY['00010', 'department', '00001', '00001', '00010']);
SELECT index, properties FROM get_entities_by_keys('employees', ARRAY['Sales', repeat('p', 1025)], ARRAY['00010', 'r'], 'Age');
SELECT count(*) FROM get_entities_by_keys('Employees', ARRAY[]::text[], ARRAY[]::text[]);
SELECT count(*) FROM get_entities_by_keys('Employees', ARRAY['p'], ARRAY[]::text[]);
:state
SELECT count(*) FROM get_entities_by_keys('Employees', ARRAY['a/b'], ARRAY['r']);
:state
SELECT count(*) FROM get_entities_by_keys('Nowhere', ARRAY['p'], ARRAY['r']);
:state

-- A projection chooses properties. It never blanks the keys or the Timestamp; a property that is not there is left out.
SELECT partition_key, row_key, "timestamp" IS NOT NULL AS has_timestamp, properties
FROM get_entity('Employees', 'Marketing', '00001', 'Age,FirstName');
SELECT row_key, properties FROM get_entities('Employees', 'Marketing', ARRAY['00001', 'department'], projection => 'LastName, EmployeeCount');
-- Names are case-sensitive; space around them and repetition do not count.
SELECT properties FROM get_entity('Employees', 'Marketing', '00001', ' age , LastName,LastName');
SELECT properties FROM get_entity('Employees', 'Marketing', '00001', 'PartitionKey,RowKey,Timestamp');
SELECT properties FROM get_entity('Employees', 'Marketing', '00001', 'No such name, 1, "Age"');
-- Everything: no projection, an empty one, or a star among the names.
SELECT projection, properties
FROM (VALUES (NULL), (''), (' '), ('*'), ('Age,*'), (',')) AS v (projection),
    LATERAL get_entity('Employees', 'Marketing', '00001', projection);
-- 255 names at most.
SELECT count(*) FROM get_entity('Employees', 'Marketing', '00001', (SELECT string_agg('P' || i, ',') FROM generate_series(1, 255) AS i));
SELECT count(*) FROM get_entity('Employees', 'Marketing', '00001', (SELECT string_agg('P' || i, ',') FROM generate_series(1, 256) AS i));
:state

-- Entities join with anything.
SELECT e.row_key, e.properties ->> 'LastName' AS last_name, wanted.note
FROM (VALUES ('Marketing', '00002', 'a'), ('Sales', '00010', 'b'), ('Sales', '00011', 'c')) AS wanted (partition_key, row_key, note)
LEFT JOIN LATERAL get_entity('Employees', wanted.partition_key, wanted.row_key) AS e ON true;
-- In the select list a function gives whole entities.
SELECT (get_entity('Employees', 'Sales', '00010')).row_key;

-- A statement sees what its snapshot sees, not its own writes; the next one sees them.
SELECT insert_entity('Employees', 'Sales', '00011', '{}') IS NOT NULL AS inserted,
    (SELECT count(*) FROM get_entity('Employees', 'Sales', '00011')) AS is_seen;
SELECT count(*) AS is_seen FROM get_entity('Employees', 'Sales', '00011');

-- No such table.
SELECT * FROM get_entity('Nobody', 'p', 'r');
:state
SELECT * FROM get_entities('Nobody', 'p', ARRAY['r']);
:state
SELECT * FROM get_entities('Nobody', 'p', ARRAY[]::text[]);
:state

SELECT delete_table('Employees');
