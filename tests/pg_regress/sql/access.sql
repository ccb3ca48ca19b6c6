-- Stored access policies, service properties and signatures: set_access_policies, get_access_policies, set_service_properties,
-- get_service_properties, generate_sas.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SET timezone = 'UTC';
SELECT create_table('Employees');

-- A table begins without policies. They are set all at once, and come back in the service's form.
SELECT get_access_policies('Employees');
SELECT set_access_policies('employees', '[{"Id": "readers", "Start": "2026-01-02T03:04:05.1234567Z", "Expiry": "2027-01-01", "Permission": "dr"}, {"Id": "empty"}]');
SELECT get_access_policies('EMPLOYEES');
SELECT relation, policies FROM access_policies;
SELECT set_access_policies('Employees', '[{"Id": "writers", "Permission": "raud"}]');
SELECT get_access_policies('Employees');
SELECT set_access_policies('Employees', '[]');
SELECT get_access_policies('Employees');
SELECT count(*) FROM access_policies;

-- They are a part of the transaction.
BEGIN;
SELECT set_access_policies('Employees', '[{"Id": "gone"}]');
ROLLBACK;
SELECT get_access_policies('Employees');

-- At most five, with names of 1 to 64 characters, each once, and nothing that is no policy.
SELECT policies, pg_temp.outcome(format('SELECT set_access_policies(%L, %L)', 'Employees', policies))
FROM (VALUES ('[{"Id": "1"}, {"Id": "2"}, {"Id": "3"}, {"Id": "4"}, {"Id": "5"}]'), ('[{"Id": "1"}, {"Id": "2"}, {"Id": "3"}, {"Id": "4"}, {"Id": "5"}, {"Id": "6"}]'),
    ('[{"Id": "a"}, {"Id": "a"}]'), ('[{"Id": "a"}, {"Id": "A"}]'), ('[{"Id": ""}]'), ('[{"Id": "' || repeat('é', 65) || '"}]'), ('[{"id": "a"}]'), ('[{"Id": "a", "Expires": "2027-01-01"}]'),
    ('[{"Id": "a", "Permission": "rx"}]'), ('[{"Id": "a", "Start": "yesterday"}]'), ('[{"Id": "a", "Start": 1}]'), ('{"Id": "a"}'), ('null'), ('[')) AS v (policies);
SELECT get_access_policies('Employees');
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES ('set_access_policies(''Absent'', ''[]'')'), ('get_access_policies(''Absent'')'), ('set_access_policies(NULL, ''[]'')'), ('set_access_policies(''Employees'', NULL)'),
    ('get_access_policies(NULL)'), ('set_service_properties(NULL)')) AS v (call);

-- A table of the same name is another table: it inherits nothing, however the old one went.
SELECT set_access_policies('Employees', '[{"Id": "old"}]');
SELECT delete_table('Employees');
SELECT count(*) FROM access_policies;
SELECT create_table('Employees');
SELECT get_access_policies('Employees');
SELECT set_access_policies('Employees', '[{"Id": "old"}]');
DROP TABLE table_service_data."Employees";
SELECT count(*) AS dangling FROM access_policies;
SELECT create_table('Employees');
SELECT get_access_policies('Employees');
-- OIDs come round: so it is with a table that gets the OID of one that is gone.
INSERT INTO access_policies SELECT (c.oid::bigint + n)::oid, '[{"Id": "old"}]' FROM pg_class AS c, generate_series(1, 1000) AS n WHERE c.oid = 'table_service_data."Employees"'::regclass;
SELECT create_table('Other');
SELECT get_access_policies('Other');
SELECT delete_table('Other');
DELETE FROM access_policies;
-- Renamed it is the same table.
SELECT set_access_policies('Employees', '[{"Id": "kept"}]');
ALTER TABLE table_service_data."Employees" RENAME TO "Staff";
SELECT get_access_policies('Staff');
SELECT delete_table('Staff');

-- Service properties begin with everything switched off, and change member by member.
SELECT get_service_properties();
SELECT set_service_properties('{"Logging": {"Version": "1.0", "Read": true, "Write": false, "Delete": true, "RetentionPolicy": {"Enabled": true, "Days": 7}}}');
SELECT set_service_properties('{"Cors": [{"AllowedOrigins": ["http://a", "http://b"], "AllowedMethods": ["GET", "PUT"], "MaxAgeInSeconds": 500, "ExposedHeaders": ["x-ms-*"], "AllowedHeaders": ["*"]}],
    "HourMetrics": {"Version": "1.0", "Enabled": true, "IncludeAPIs": false}}');
SELECT get_service_properties();
SELECT set_service_properties('{"Cors": []}');
SELECT get_service_properties() -> 'Cors' AS cors, get_service_properties() -> 'Logging' ->> 'Read' AS reads_are_logged;
SELECT properties, pg_temp.outcome(format('SELECT set_service_properties(%L)', properties))
FROM (VALUES ('{}'), ('[]'), ('{"Logging": []}'), ('{"' || repeat('x', 1000) || '": {}}'), ('{"Log": {}}'), ('{"Logging": {"Version": "1.0"}}'), ('{"HourMetrics": {"Version": "1.0", "Enabled": true}}'),
    ('{"HourMetrics": {"Version": "1.0", "Enabled": false, "RetentionPolicy": {"Enabled": true, "Days": 366}}}'),
    ('{"Cors": [{"AllowedOrigins": ["*"], "AllowedMethods": ["FETCH"], "MaxAgeInSeconds": 1}]}'), ('{"Cors": [{"AllowedOrigins": ["*"]}]}')) AS v (properties);
SELECT count(*) FROM service_properties;
DELETE FROM service_properties;

-- One call grants a role all that the gateway needs, and may be repeated. The role's name is taken as it is.
CREATE ROLE "golden Gateway" LOGIN;
CREATE ROLE golden_other;
SELECT grant_gateway_access('golden Gateway');
SELECT grant_gateway_access('golden Gateway');
SELECT has_schema_privilege('golden Gateway', 'table_service_data', 'CREATE') AS creates, has_table_privilege('golden Gateway', 'service_properties', 'INSERT, UPDATE') AS sets,
    has_table_privilege('golden Gateway', 'service_properties', 'DELETE, TRUNCATE') AS more, has_schema_privilege('golden_other', 'table_service_data', 'CREATE') AS others;
SET ROLE "golden Gateway";
SELECT create_table('GatewayTable');
SELECT delete_table('GatewayTable');
SELECT set_service_properties('{"Cors": []}');
-- It may not hand that on.
SET client_min_messages = error;
SELECT grant_gateway_access('golden_other');
:state
RESET client_min_messages;
RESET ROLE;
SELECT has_schema_privilege('golden_other', 'table_service_data', 'CREATE') AS others;
-- Everybody is no role, and neither is nobody.
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES ('grant_gateway_access(NULL)'), ('grant_gateway_access(''golden_absent'')'), ('grant_gateway_access(''GOLDEN_OTHER'')'), ('grant_gateway_access(''public'')'),
    ('grant_gateway_access(''none'')'), ('grant_gateway_access(''current_user'')'), ('grant_gateway_access('''')'), ('grant_gateway_access(''golden_other, golden_other'')'),
    ('grant_gateway_access(''golden_other" WITH GRANT OPTION --'')')) AS v (call);
BEGIN READ ONLY;
SELECT grant_gateway_access('golden_other');
:state
ROLLBACK;
DELETE FROM service_properties;
DROP OWNED BY "golden Gateway", golden_other;
DROP ROLE "golden Gateway", golden_other;

-- Signatures, as the SDKs make them. The key is that of the emulator.
\set key '''Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='''
SELECT generate_sas('devstoreaccount1', :key, 'MyTable', 'raud', '2030-01-02 03:04:05.678Z');
SELECT generate_sas('devstoreaccount1', :key, 'MyTable', policy_id => 'pol');
SELECT generate_sas('devstoreaccount1', :key, 'MyTable', permissions => 'r', expiry => '2030-01-02 03:04:05Z', start_time => '2020-01-02 03:04:05Z', ip_range => '168.1.5.60-168.1.5.70',
    protocol => 'https', start_partition_key => 'a b', start_row_key => 'O''B', end_partition_key => 'é', end_row_key => '+%');
-- What cannot be signed.
SELECT arguments, pg_temp.outcome(format('SELECT generate_sas(%s)', replace(arguments, 'KEY', '''a2V5''')))
FROM (VALUES ('NULL, KEY, ''abc'', ''r'', now()'), ('''acc'', NULL, ''abc'', ''r'', now()'), ('''acc'', KEY, NULL, ''r'', now()'), ('''Acc'', KEY, ''abc'', ''r'', now()'),
    ('''acc'', ''?'', ''abc'', ''r'', now()'), ('''acc'', KEY, ''a_c'', ''r'', now()'), ('''acc'', KEY, ''ab'', ''r'', now()'), ('''acc'', KEY, ''abc'', ''x'', now()'),
    ('''acc'', KEY, ''abc'', '''', now()'), ('''acc'', KEY, ''abc'', ''r'''), ('''acc'', KEY, ''abc'', expiry => now()'), ('''acc'', KEY, ''abc'', ''r'', ''infinity'''),
    ('''acc'', KEY, ''abc'', ''r'', now(), ''-infinity'''), ('''acc'', KEY, ''abc'', ''r'', now(), ip_range => ''localhost'''), ('''acc'', KEY, ''abc'', ''r'', now(), protocol => ''http'''),
    ('''acc'', KEY, ''abc'', ''r'', now(), start_row_key => ''a'''), ('''acc'', KEY, ''abc'', ''r'', now(), end_row_key => ''a'''), ('''acc'', KEY, ''abc'', ''r'', now(), end_partition_key => '''''),
    ('''acc'', KEY, ''abc'', ''r'', now(), end_partition_key => ''a'', end_row_key => '''''), ('''acc'', KEY, ''abc'', ''r'', now(), start_partition_key => E''a\n\nz''')) AS v (arguments);
