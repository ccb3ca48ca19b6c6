-- to_properties: a row as a bag.
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
SET bytea_output = 'hex';

CREATE TYPE mood AS ENUM ('happy', 'sad');
CREATE DOMAIN age AS integer CHECK (value >= 0);
CREATE DOMAIN adult AS age CHECK (value >= 18);
CREATE DOMAIN price AS numeric(10, 2);
CREATE DOMAIN name AS text;
CREATE TYPE point_of_sale AS (city text, no integer);

-- Column types become Edm types.
SELECT p.* FROM (SELECT 1::int2 AS "Int2", 2::int4 AS "Int4", 3::int8 AS "Int8", 1.5::float4 AS "Float4", 0.1::float4 AS "Float4NotExact", 0.1::float8 AS "Float8",
        'NaN'::float8 AS "FloatNaN", '-Infinity'::float4 AS "FloatInf", 12.340::numeric AS "Numeric", 7::numeric AS "NumericWhole", 'NaN'::numeric AS "NumericNaN", true AS "Bool",
        timestamptz '2020-02-29 12:34:56.123456+02' AS "Timestamptz", uuid 'A455C812-1F7A-4F5C-9C3B-0123456789AB' AS "Uuid", '\x000102ff'::bytea AS "Bytea",
        'text'::text AS "Text", 'v'::varchar(5) AS "Varchar", 'c'::char(3) AS "Char", 'n'::pg_catalog.name AS "Name", date '2020-02-29' AS "Date",
        timestamp '2020-02-29 12:34:56' AS "Timestamp_", interval '1 day 02:00' AS "Interval", '{"a": 1}'::jsonb AS "Jsonb", '{1,2}'::int[] AS "Array",
        'sad'::mood AS "Enum", inet '10.0.0.1' AS "Inet", ROW('Seattle', 7)::point_of_sale AS "Composite", 4294967295::oid AS "Oid", '$1.50'::text AS "Money") AS r,
    each_property(to_properties(r)) AS p;
-- Domains are what they are made of.
SELECT p.* FROM (SELECT 34::age AS "Age", 34::adult AS "Adult", 9.99::price AS "Price", 'Don'::public.name AS "Name") AS r, each_property(to_properties(r)) AS p;
-- Ends of ranges.
SELECT p.* FROM (SELECT 9223372036854775807 AS "Int8", 1.7976931348623157e308::float8 AS "Float8", 3.4028235e38::float4 AS "Float4", 1e308::numeric AS "Numeric",
        timestamptz '1601-01-01 00:00:00Z' AS "First", timestamptz '9999-12-31 23:59:59.999999Z' AS "Last") AS r, each_property(to_properties(r)) AS p;

-- NULLs are left out, and so are columns with the names of system properties.
SELECT to_properties(r) FROM (SELECT NULL::integer AS "A", NULL::text AS "B", 1 AS "C", 'p' AS "PartitionKey", 'r' AS "RowKey", now() AS "Timestamp") AS r;
SELECT to_properties(ROW(1, 'x', NULL)), to_properties(NULL) IS NULL AS of_null;
-- A row of a table, without dropped columns.
CREATE TEMPORARY TABLE people (id integer, gone text, name text, tags text[]);
INSERT INTO people VALUES (1, 'x', 'Don', '{a,b}'), (2, 'y', NULL, NULL);
ALTER TABLE people DROP COLUMN gone;
ALTER TABLE people ADD COLUMN added integer DEFAULT 5;
SELECT to_properties(p) FROM people AS p;

-- What has no place in a bag is an error, which names the column.
SELECT pg_temp.outcome('SELECT to_properties(r) FROM (SELECT ' || expression || ') AS r')
FROM (VALUES ('1 AS "a b"'), ('1 AS "1a"'), ('1 AS "?column?"'), ('1 AS a, 2 AS a'), ('1e400::numeric AS "Huge"'), ('timestamptz ''1600-12-31'' AS "Early"'), ('timestamptz ''infinity'' AS "Never"'),
    ('timestamptz ''-infinity'' AS "Never"'), ('timestamptz ''10000-01-01'' AS "Late"'), ('timestamptz ''0044-03-15 BC'' AS "Ides"'), ('repeat(''x'', 32769) AS "Long"')) AS v (expression);
SELECT pg_temp.outcome('SELECT to_properties(r) FROM (SELECT ' || string_agg(i || ' AS c' || i, ', ') || ') AS r') LIKE '{%' AS fits FROM generate_series(1, 252) AS i;
SELECT pg_temp.outcome('SELECT to_properties(r) FROM (SELECT ' || string_agg(i || ' AS c' || i, ', ') || ') AS r') FROM generate_series(1, 253) AS i;

-- Values that have a type of their own do not depend on settings.
CREATE TEMPORARY TABLE settings AS SELECT to_properties(r) AS bag FROM (SELECT 0.1::float4 AS f4, 0.1::float8 AS f8, 1.10::numeric AS n, timestamptz '2020-01-01' AS t, '\x01'::bytea AS b) AS r;
SET extra_float_digits = -15; SET bytea_output = 'escape'; SET datestyle = 'German'; SET timezone = 'Asia/Tokyo';
SELECT bag = (SELECT to_properties(r) FROM (SELECT 0.1::float4 AS f4, 0.1::float8 AS f8, 1.10::numeric AS n, timestamptz '2020-01-01 00:00:00Z' AS t, '\x01'::bytea AS b) AS r) AS is_equal FROM settings;
RESET extra_float_digits; RESET bytea_output; RESET datestyle; RESET timezone;

DROP TYPE mood, point_of_sale;
DROP DOMAIN adult, age, price, public.name;
