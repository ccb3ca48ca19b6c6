-- The filters that the Table service's design guides print, with the guides' own slips as what they are.
\set SHOW_CONTEXT never
\pset format unaligned
\pset fieldsep ' | '
\pset footer off
SELECT create_table('Employees');
INSERT INTO table_service_data."Employees" SELECT p, r, '2022-04-13T21:50:14Z', bag::properties
FROM (VALUES ('Sales', '2', '{"LastName": "Smith", "Age": 34}'), ('Sales', 'S', '{}'), ('Sales', 'Sz', '{}'), ('Sales', 'T', '{}'),
    ('Sales', 'empid_000100', '{"LastName": "Adams"}'), ('Sales', 'empid_000199', '{"LastName": "Brown"}'), ('Sales', 'empid_000200', '{"LastName": "Czerny"}'),
    ('Sales', 'empid_000223', '{"LastName": "Jones", "Email": "jonesj@contoso.com"}'), ('Sales', 'email_a', '{}'), ('Sales', 'email_adam@contoso.com', '{"LastName": "Adams"}'),
    ('Sales', 'email_bob@contoso.com', '{"LastName": "B"}'), ('Sales', 'email_jonesj@contoso.com', '{"LastName": "Jones", "EmployeeId": "000223"}'), ('Sales', 'd', '{"LastName": "D"}'),
    ('Sales', '000123', '{}'), ('Sales', '000123_2011', '{"ManagerRating": 3, "PeerRating": 4, "Comments": "fair"}'), ('Sales', '000123_2012', '{"ManagerRating": 4, "PeerRating": 5, "Comments": "good"}'),
    ('Sales', '000124_2012', '{"Comments": "other"}'), ('Marketing', 'empid_000500', '{"LastName": "Jones", "Age": 50}')) AS v (p, r, bag);
-- What a filter finds, and how.
CREATE FUNCTION pg_temp.found(filter text, OUT entities text, OUT access text, OUT key_ranges text, OUT residual text) LANGUAGE sql AS $$
    SELECT (SELECT string_agg(partition_key || '/' || row_key, ' ') FROM query_entities('Employees', filter)), access, key_ranges::text, residual FROM explain_query('Employees', filter)
$$;

-- Point query, range query, partition scan, table scan.
SELECT * FROM pg_temp.found('PartitionKey eq ''Sales'' and RowKey eq ''2''');
SELECT * FROM pg_temp.found('PartitionKey eq ''Sales'' and RowKey ge ''S'' and RowKey lt ''T''');
SELECT * FROM pg_temp.found('PartitionKey eq ''Sales'' and LastName eq ''Smith''');
SELECT * FROM pg_temp.found('LastName eq ''Jones''');

-- The intra-partition secondary index: one employee under two row keys, and ranges of either.
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey eq ''empid_000223'')');
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey eq ''email_jonesj@contoso.com'')');
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey ge ''empid_000100'') and (RowKey lt ''empid_000200'')');
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey ge ''email_a'') and (RowKey lt ''email_b'')');

-- Last names from B to C.
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (LastName ge ''B'') and (LastName lt ''D'')');

-- The reviews of an employee, whose row keys are 000123_2011 and so on. The guide's filter mixes two forms of the key,
-- and in byte order e comes after 0: the range is empty.
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey ge ''empid_000123'') and (RowKey lt ''000123_2012'')');
-- This one works: ` comes next after _.
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'') and (RowKey ge ''000123_'') and (RowKey lt ''000123`'')');
-- And its projection names Manager Rating and Peer Rating, which no property can be called.
SELECT row_key, properties FROM query_entities('Employees', '(PartitionKey eq ''Sales'') and (RowKey ge ''000123_'') and (RowKey lt ''000123`'')', 'RowKey,Manager Rating,Peer Rating,Comments');
SELECT row_key, properties FROM query_entities('Employees', '(PartitionKey eq ''Sales'') and (RowKey ge ''000123_'') and (RowKey lt ''000123`'')', 'RowKey,ManagerRating,PeerRating,Comments');

-- The log tail: with inverted ticks as row keys the newest come first, and $top=10 is the last ten.
SELECT create_table('EmployeeExpense');
INSERT INTO table_service_data."EmployeeExpense" SELECT 'empid', inverted_ticks('2026-01-01T00:00:00Z'::timestamptz + i * interval '1 day'), '2026-01-01T00:00:00Z', format('{"Day": %s}', i)::properties
FROM generate_series(1, 30) AS i;
SELECT row_key, from_inverted_ticks(row_key) AT TIME ZONE 'UTC' AS at, properties FROM query_page('EmployeeExpense', 'PartitionKey eq ''empid''', top => 10);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('EmployeeExpense', 'PartitionKey eq ''empid''', top => 10);
-- Since a point in time, and up to one.
SELECT count(*), min(properties ->> 'Day'), max(properties ->> 'Day')
FROM query_entities('EmployeeExpense', 'PartitionKey eq ''empid'' and RowKey le @since', parameters => jsonb_build_object('since', inverted_ticks('2026-01-22T00:00:00Z')));
SELECT count(*) FROM query_entities('EmployeeExpense', 'PartitionKey eq ''empid'' and RowKey gt @until', parameters => jsonb_build_object('until', inverted_ticks('2026-01-22T00:00:00Z')));

-- Entities of several kinds in one partition, and several partitions at once, which the service scans the table for.
SELECT * FROM pg_temp.found('(PartitionKey eq ''Sales'' or PartitionKey eq ''Marketing'') and RowKey ge ''empid_'' and RowKey lt ''empid`''');

SELECT delete_table('Employees'), delete_table('EmployeeExpense');
