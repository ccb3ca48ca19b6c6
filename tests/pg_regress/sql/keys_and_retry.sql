-- Keys made of time, and the pause before a retry.
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
SET intervalstyle = 'postgres';

-- ticks: .NET's DateTime.Ticks, units of 100 ns since 0001-01-01.
SELECT t, ticks(t), from_ticks(ticks(t)) = t AS returns
FROM (VALUES ('0001-01-01 00:00:00+00'::timestamptz), ('1601-01-01 00:00:00+00'), ('1970-01-01 00:00:00+00'), ('1999-12-31 23:59:59.999999+00'), ('2000-01-01 00:00:00+00'),
    ('2026-01-31 12:34:56.789012+00'), ('9999-12-31 23:59:59.999999+00')) AS v (t);
-- from_ticks cuts off to microseconds.
SELECT from_ticks(0), from_ticks(637134336000000009), from_ticks(3155378975999999999);
SELECT pg_temp.outcome('SELECT ' || call)
FROM (VALUES ('ticks(''infinity'')'), ('ticks(''-infinity'')'), ('ticks(''0001-12-31 BC'')'), ('ticks(''10000-01-01'')'), ('from_ticks(-1)'), ('from_ticks(3155378976000000000)'),
    ('from_ticks(9223372036854775807)'), ('from_ticks(-9223372036854775808)')) AS v (call);

-- inverted_ticks: keys of 19 digits that sort newest first.
SELECT inverted_ticks('2026-01-31 12:34:56.789012+00'), inverted_ticks('0001-01-01 00:00:00+00'), inverted_ticks('9999-12-31 23:59:59.999999+00');
SELECT bool_and(length(inverted_ticks(t)) = 19 AND from_inverted_ticks(inverted_ticks(t)) = t), bool_and(inverted_ticks(t) COLLATE "C" < before)
FROM (SELECT t, lag(inverted_ticks(t)) OVER (ORDER BY t) AS before FROM generate_series('0001-01-01 00:00:00+00'::timestamptz, '9999-12-31', '7 months 1.000001 s') AS t) AS s;
-- By default of the clock, which goes on within a statement and a transaction.
BEGIN;
SELECT from_inverted_ticks(inverted_ticks()) BETWEEN now() AND clock_timestamp() AS is_now;
SELECT from_inverted_ticks(key) > now() AS is_later FROM (SELECT pg_sleep(0.001), inverted_ticks() AS key) AS k;
COMMIT;
SELECT pg_temp.outcome(format('SELECT from_inverted_ticks(%L)', key))
FROM (VALUES ('3155378975999999999'), ('0000000000000000000'), ('3155378976000000000'), ('9999999999999999999'), ('315537897599999999'), ('03155378975999999999'), (''), ('315537897599999999x'),
    ('-155378975999999999'), ('+155378975999999999'), (' 15537897599999999 '), ('１２３４５６７８９０１２３４５６７８９')) AS v (key);
SELECT pg_temp.outcome('SELECT inverted_ticks(''infinity'')');
-- The log tail pattern: the newest entries come first.
SELECT create_table('Log');
SELECT count(insert_entity('Log', 'app', inverted_ticks(t), jsonb_build_object('Day', extract(day FROM t)::int))) FROM generate_series('2026-01-01'::timestamptz, '2026-01-31', '1 day') AS t;
SELECT from_inverted_ticks(row_key), properties FROM table_service_data."Log" WHERE partition_key = 'app' ORDER BY partition_key, row_key LIMIT 3;
SELECT delete_table('Log');

-- retry_delay: the pause before retry number z is min(minimum + random(0.8 .. 1.2) * default_backoff * (2^z - 1), maximum),
-- as the service's clients do it. Before the first retry the minimum, later the maximum; in between within 20 per cent.
SELECT retry_delay(0), retry_delay(0, minimum => '1 s'), retry_delay(50), retry_delay(2147483647), retry_delay(50, maximum => '10 min'), retry_delay(3, '0 s');
SELECT z, bool_and(d BETWEEN interval '3 s' + interval '1 s' * 0.8 * (2 ^ z - 1) AND interval '3 s' + interval '1 s' * 1.2 * (2 ^ z - 1)) AS is_within, count(DISTINCT d) > 90 AS varies
FROM (SELECT z, retry_delay(z, default_backoff => '1 s') AS d FROM generate_series(1, 6) AS z, generate_series(1, 100)) AS r GROUP BY z ORDER BY z;
-- The maximum wins over everything.
SELECT retry_delay(0, minimum => '10 s', maximum => '5 s'), retry_delay(5, maximum => '0 s');
SELECT retry_delay(40, '100 years', '100 years', '178000000 years') > interval '100 years' AS is_very_long;
SELECT pg_temp.outcome('SELECT retry_delay(' || arguments || ')')
FROM (VALUES ('-1'), ('1, ''-1 s'''), ('1, minimum => ''-1 us'''), ('1, maximum => ''-1 day''')) AS v (arguments);
