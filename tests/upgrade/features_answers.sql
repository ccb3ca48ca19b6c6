-- Answers of a database with features.sql. They are the same on every major of PostgreSQL. Nothing is changed.
SELECT count(*), md5(string_agg(e::text, ' ' ORDER BY e.row_key)) FROM table_service.query_entities('Orders') AS e;
SELECT row_key FROM table_service.query_entities('Orders', 'State eq ''state1''');
SELECT access FROM table_service.explain_query('Orders', 'State eq ''state1''');
SELECT table_name, property, index, is_valid FROM table_service.query_property_indexes();
SELECT * FROM table_service.query_expiry();
SELECT public.bt_index_check(indexrelid, true) FROM pg_catalog.pg_index WHERE indrelid = 'table_service_data."Orders"'::regclass;
SELECT feed_name, table_names, wal_status FROM table_service.query_change_feeds();
