-- The tour, first part: the sample of departments and employees from the Table service's guides.
\pset null '∅'
\pset format wrapped
\pset columns 110
\set ECHO queries

\echo
\echo '-- 1. A table holds entities of any shape. Two keys name an entity; the rest is its properties.'
\echo
SELECT create_table('Employees');

SELECT insert_entity('Employees', 'Marketing', '00001',
  '{"FirstName": "Don", "LastName": "Hall", "Age": 34, "Email": "donh@contoso.com"}') AS etag;

\set ECHO none
\o /dev/null
SELECT insert_entity('Employees', 'Marketing', '00002',
  '{"FirstName": "Jun", "LastName": "Cao", "Age": 47, "Email": "junc@contoso.com"}');
SELECT insert_entity('Employees', 'Marketing', 'Department',
  '{"DepartmentName": "Marketing", "EmployeeCount": 153}');
SELECT insert_entity('Employees', 'Sales', '00010',
  '{"FirstName": "Ken", "LastName": "Kwok", "Age": 23, "Email": "kenk@contoso.com"}');
\o
\set ECHO queries
\echo '-- Three more went in unseen. The table is an ordinary one, so plain SQL reads it:'
\echo
SELECT partition_key, row_key, properties FROM table_service_data."Employees" ORDER BY partition_key, row_key;

\echo '-- A key is taken once.'
\echo
\set ON_ERROR_STOP off
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Dan"}');
\set expected 23505
\ir expect_error.sql

\echo
\echo '-- 2. Every write gives the entity a new ETag. Two people read Don, and so hold the same one ...'
\echo
SELECT etag(e) FROM get_entity('Employees', 'Marketing', '00001') AS e \gset
\echo
\echo :etag
\echo
\echo '-- ... the first one writes on condition that nobody has written since, and nobody has:'
\echo
SELECT replace_entity('Employees', 'Marketing', '00001',
  '{"FirstName": "Don", "LastName": "Hall", "Age": 35, "Email": "donh@contoso.com"}',
  if_match => :'etag') AS etag;

\echo '-- The second one, with the same ETag, comes too late and loses nobody\'s work:'
\echo
\set ON_ERROR_STOP off
SELECT replace_entity('Employees', 'Marketing', '00001',
  '{"FirstName": "Don", "LastName": "Hall", "Age": 34, "Email": "don.hall@contoso.com"}',
  if_match => :'etag') AS etag;
\set expected 40002
\ir expect_error.sql

\echo
\echo '-- 3. A merge changes the properties it names and keeps the others. (\'*\' matches any version.)'
\echo
SELECT merge_entity('Employees', 'Marketing', '00001',
  '{"Email": "don.hall@contoso.com", "Manager": true}', if_match => '*') AS etag;

\echo '-- A read by both keys; the same as the JSON of the Table service.'
\echo
\x on
SELECT * FROM get_entity('Employees', 'Marketing', '00001');
\x off
SELECT entity_to_json(e) FROM get_entity('Employees', 'Marketing', '00001') AS e;

\echo '-- 4. Properties have types: read them with ->> as text, or typed. What an entity lacks is NULL.'
\echo
SELECT row_key, properties ->> 'FirstName' AS first_name, get_int32(properties, 'Age') + 1 AS next_birthday,
       get_boolean(properties, 'Manager') AS manager, get_int32(properties, 'EmployeeCount') AS employees
FROM table_service_data."Employees"
ORDER BY partition_key, row_key;

\echo '-- 5. Entities join with ordinary tables, and commit or roll back together with them.'
\echo
CREATE TABLE offices (department text PRIMARY KEY, city text, seats integer);
INSERT INTO offices VALUES ('Marketing', 'Seattle', 160), ('Sales', 'Redmond', 40);

SELECT o.city, e.properties ->> 'FirstName' AS name, e.properties ->> 'Email' AS email,
       o.seats - get_int32(d.properties, 'EmployeeCount') AS free_seats
FROM table_service_data."Employees" AS e
  JOIN offices AS o ON o.department = e.partition_key
  LEFT JOIN table_service_data."Employees" AS d ON (d.partition_key, d.row_key) = (e.partition_key, 'Department')
WHERE has_property(e.properties, 'FirstName')
ORDER BY city, name;

BEGIN;
INSERT INTO offices VALUES ('Research', 'Cambridge', 25);
SELECT insert_entity('Employees', 'Research', '00020', '{"FirstName": "Kim", "Age": 29}') AS etag;
ROLLBACK;
SELECT count(*) AS left_behind FROM get_entity('Employees', 'Research', '00020');
