-- Entities as JSON payloads: entity_to_json and entity_from_json.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

-- The employee of the service's guides, with one property of each type and a known Timestamp.
CREATE TEMPORARY TABLE employee AS
SELECT ROW('Marketing', '00001', '2026-01-31 12:00:00.25+00', '{"Name": "Don \"D\" Hall", "Age": 34, "Salary": 1.0, "Active": true,
    "Id@odata.type": "Edm.Int64", "Id": "123", "Since@odata.type": "Edm.DateTime", "Since": "2008-07-10T00:00:00.1234567Z",
    "Code@odata.type": "Edm.Guid", "Code": "A455C812-1F7A-4F5C-9C3B-0123456789AB", "Photo@odata.type": "Edm.Binary", "Photo": "AAEC/w==",
    "Rating@odata.type": "Edm.Double", "Rating": "NaN"}')::entity AS e;

-- minimal, the default: what is needed to read the payload back. odata.etag, the system properties, then the others in the
-- order of their names; an annotation stands immediately before its value.
SELECT entity_to_json(e) FROM employee;
-- full: the type of Timestamp too.
SELECT entity_to_json(e, 'full') FROM employee;
-- none: nothing but the values.
SELECT entity_to_json(e, metadata => 'none') FROM employee;
-- Other levels there are none.
SELECT pg_temp.outcome(format('SELECT entity_to_json(e, %L) FROM employee', level)) FROM (VALUES (''), ('Minimal'), ('all')) AS v (level);

-- A row of a table is an entity as well, and so is what any query makes.
SELECT create_table('Departments');
INSERT INTO table_service_data."Departments" VALUES ('Marketing', 'department', '2026-01-31 12:00:00+00', '{"EmployeeCount": 153}');
SELECT entity_to_json(d) FROM table_service_data."Departments" AS d;
SELECT entity_to_json(d) FROM get_entity('Departments', 'Marketing', 'department', 'Nothing') AS d;
SELECT delete_table('Departments');
-- What an entity lacks is null.
SELECT entity_to_json(ROW(NULL, '', NULL, '{"a": 1}')::entity), entity_to_json(ROW('p', 'r', 'infinity', NULL)::entity, 'full');
SELECT entity_to_json(NULL) IS NULL AS is_null;

-- entity_from_json reads a payload. Members may come in any order; odata.* is ignored; a Timestamp is kept.
SELECT * FROM entity_from_json('{"odata.metadata": "x", "odata.etag": "y", "b": 1, "RowKey": "r", "Timestamp@odata.type": "Edm.DateTime",
    "Timestamp": "2026-01-31T12:00:00.1234567Z", "PartitionKey@odata.type": "Edm.String", "PartitionKey": "p", "a": null}');
SELECT * FROM entity_from_json('{"PartitionKey": "", "RowKey": ""}');
-- What was written is read back, under the level full and minimal.
SELECT level, entity_from_json(entity_to_json(e, level)::text) = e AS is_equal FROM employee, (VALUES ('full'), ('minimal')) AS v (level);
-- Without annotations the properties that need them are Strings.
SELECT name, type FROM employee, each_property((entity_from_json(entity_to_json(e, 'none')::text)).properties);

-- Both keys are needed, once each, as strings with the characters that keys may have.
SELECT json, pg_temp.outcome(format('SELECT entity_from_json(%L)', json))
FROM (VALUES ('{"RowKey": "r"}'), ('{"PartitionKey": "p"}'), ('{"PartitionKey": null, "RowKey": "r"}'), ('{"PartitionKey": "p", "rowkey": "r"}'),
    ('{"PartitionKey": 1, "RowKey": "r"}'), ('{"PartitionKey": "p", "RowKey": true}'), ('{"PartitionKey": "p", "RowKey": {}}'),
    ('{"PartitionKey@odata.type": "Edm.Guid", "PartitionKey": "a455c812-1f7a-4f5c-9c3b-0123456789ab", "RowKey": "r"}'),
    ('{"PartitionKey": "p", "PartitionKey": "q", "RowKey": "r"}'), ('{"PartitionKey": "a/b", "RowKey": "r"}'), ('{"PartitionKey": "p", "RowKey": "a\tb"}')) AS v (json);
-- A Timestamp is a time, if it is there.
SELECT json, pg_temp.outcome(format('SELECT (entity_from_json(%L))."timestamp"', '{"PartitionKey": "p", "RowKey": "r", "Timestamp": ' || json || '}'))
FROM (VALUES ('null'), ('"2026-01-31T12:00:00Z"'), ('"yesterday"'), ('1'), ('"1600-01-01T00:00:00Z"')) AS v (json);
-- The rest is as for properties.
SELECT json, pg_temp.outcome(format('SELECT entity_from_json(%L)', json))
FROM (VALUES ('{'), ('[]'), ('{"PartitionKey": "p", "RowKey": "r", "a": [1]}'), ('{"PartitionKey": "p", "RowKey": "r", "a": 1, "a": 1}'),
    ('{"PartitionKey": "p", "RowKey": "r", "a b": 1}')) AS v (json);
