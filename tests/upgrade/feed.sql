-- What the feed of features.sql has when it was confirmed up to the position `confirmed`, and a server took over: what happens then.
SELECT count(*) FROM table_service.query_changes('orders');
SELECT 1 FROM table_service.insert_entity('Orders', 'q', 'new', '{"State": "sent"}');
SELECT kind, row_key, properties, "position"::pg_lsn > :'confirmed' AS is_later FROM table_service.query_changes('orders');
SELECT table_service.confirm_changes('orders', "position") FROM table_service.query_changes('orders');
SELECT count(*) FROM table_service.query_changes('orders');
