-- What a database may hold that only this version knows, beside data.sql: a property index, an expiry and a change feed.
CREATE EXTENSION amcheck SCHEMA public;
SELECT table_service.create_table('Orders');
SELECT table_service.create_property_index('Orders', 'State');
SELECT table_service.set_expiry('Orders', 'Until', '30 days');
SELECT count(table_service.insert_entity('Orders', 'p', lpad(n::text, 4, '0'), json_build_object('State', 'state' || n))) FROM generate_series(1, 2000) AS n;
SELECT 1 FROM table_service.insert_entity('Orders', 'p', 'gone', '{"State": "state1", "Until@odata.type": "Edm.DateTime", "Until": "2024-01-01T00:00:00Z"}');
ANALYZE table_service_data."Orders";
SELECT table_service.create_change_feed('orders', '{Orders}') IS NOT NULL;
SELECT 1 FROM table_service.insert_entity('Orders', 'q', 'read', '{}');
