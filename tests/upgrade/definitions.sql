-- Tables that are made and dropped. A session that has the library of a version before 0.5.0 cannot do so after ALTER EXTENSION: the event
-- triggers call functions that this library does not have.
BEGIN;
SELECT table_service.create_table('Another'), table_service.delete_table('Renamed');
SELECT table_service.set_access_policies('Another', '[{"Id": "one", "Permission": "raud"}]');
SELECT table_name, table_service.get_access_policies(table_name) FROM table_service.query_tables();
ROLLBACK;
