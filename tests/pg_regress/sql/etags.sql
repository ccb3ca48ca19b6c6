-- ETags and if_match: conditional writes (optimistic concurrency).
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'there', '{}') AS etag \gset

-- What if_match can say, for an entity that is there and for one that is not. `same` is the right tag, `old` that of
-- another version, `other` well-formed but no tag of ours, and the last three are malformed. A missing entity is reported
-- before a wrong version. Every statement that succeeds here is rolled back, so that the tag stays right.
CREATE FUNCTION pg_temp.try_write(statement text, row_key text, if_match text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(statement, row_key, if_match);
    RAISE 'succeeds' USING ERRCODE = 'PT200';
EXCEPTION WHEN OTHERS THEN
    RETURN CASE SQLSTATE WHEN 'PT200' THEN 'succeeds' ELSE SQLSTATE || ' ' || split_part(SQLERRM, ':', 1) END;
END $$;
SELECT condition, row_key,
    pg_temp.try_write('SELECT replace_entity(''Employees'', ''p'', %L, ''{}'', %L)', row_key, if_match) AS replace,
    pg_temp.try_write('SELECT merge_entity(''Employees'', ''p'', %L, ''{}'', %L)', row_key, if_match) AS merge,
    pg_temp.try_write('SELECT delete_entity(''Employees'', ''p'', %L, %L)', row_key, if_match) AS delete
FROM (VALUES (1, '*', '*'), (2, 'same', :'etag'), (3, 'old', 'W/"datetime''2020-01-01T00%3A00%3A00Z''"'),
        (4, 'other', 'W/"wrong"'), (5, 'empty', ''), (6, 'no weak tag', '"abc"'), (7, 'no tag', 'abc')) AS c (n, condition, if_match),
    (VALUES ('there'), ('missing')) AS r (row_key)
ORDER BY n, row_key DESC;

-- A malformed tag is quoted in the message, and the hint shows a right one.
SELECT replace_entity('Employees', 'p', 'there', '{}', '"abc"');
:state
SELECT malformed, left(pg_temp.outcome(format('SELECT delete_entity(''Employees'', ''p'', ''there'', %L)', malformed)), 60)
FROM (VALUES ('W/'), ('W/"'), ('w/"x"'), ('W/x'), ('W/"a", W/"b"'), ('**'), ('W/""x"'), (E'*\n')) AS v (malformed);

-- Space around a tag does not count: it comes from headers.
SELECT delete_entity('Employees', 'p', 'missing', ' * ', if_exists => true),
    merge_entity('Employees', 'p', 'there', '{}', E'\t' || :'etag' || ' ') IS NOT NULL AS merged;

-- Tags are compared as they are spelled. Another spelling of the same time is another tag.
-- (An exact second, so that there are spellings to try. An INSERT may bring its Timestamp, within limits.)
INSERT INTO table_service_data."Employees" VALUES ('p', 'spelled', '2022-04-13 21:50:14.5+00', '{}');
SELECT etag(e) FROM get_entity('Employees', 'p', 'spelled') AS e;
SELECT if_match, pg_temp.try_write('SELECT merge_entity(''Employees'', ''p'', %L, ''{}'', %L)', 'spelled', if_match)
FROM (VALUES
    ('W/"datetime''2022-04-13T21%3A50%3A14.5Z''"'),
    ('W/"datetime''2022-04-13T21%3a50%3a14.5Z''"'),
    ('W/"datetime''2022-04-13T21:50:14.5Z''"'),
    ('W/"datetime''2022-04-13T21%3A50%3A14.50Z''"'),
    ('W/"datetime''2022-04-13T21%3A50%3A14.5000000Z''"'),
    ('W/"datetime''2022-04-13T21%3A50%3A14.5''"'),
    ('W/"datetime''2022-04-13T23%3A50%3A14.5+02%3A00''"'),
    ('W/"datetime''2022-04-13T21%3A50%3A14Z''"'),
    -- 100 ns away, which a timestamptz cannot tell.
    ('W/"datetime''2022-04-13T21%3A50%3A14.5000001Z''"'),
    ('W/"datetime''2022-04-13T21%3A50%3A14.4999999Z''"'),
    -- No Timestamp at all.
    ('W/"datetime''infinity''"'),
    ('W/"datetime''0000-00-00T00%3A00%3A00Z''"'),
    ('W/""'),
    ('W/"*"')) AS v (if_match);

-- ETags of points in time: the fraction without trailing zeros, or none.
SELECT etag(t) FROM (VALUES ('2022-04-13 21:50:14.247704+00'::timestamptz), ('2022-04-13 21:50:14.24+00'), ('2022-04-13 21:50:14+00'),
    ('0001-01-01 00:00:00+00'), ('9999-12-31 23:59:59.999999+00')) AS v (t);
SELECT pg_temp.outcome(format('SELECT etag(timestamptz %L)', t))
FROM (VALUES ('infinity'), ('-infinity'), ('0001-12-31 BC'), ('10000-01-01 00:00:00+00')) AS v (t);
-- Of an entity that has no Timestamp yet there is no ETag.
SELECT etag(entity_from_json('{"PartitionKey": "", "RowKey": ""}')) IS NULL AS has_none;

-- Timestamps of one entity rise strictly, however fast it is written, and so no ETag ever comes back.
DO $$
DECLARE
    before timestamptz;
    after timestamptz;
BEGIN
    SELECT "timestamp" INTO before FROM get_entity('Employees', 'p', 'there');
    FOR i IN 1..1000 LOOP
        PERFORM merge_entity('Employees', 'p', 'there', '{}', etag(before));
        SELECT "timestamp" INTO after FROM get_entity('Employees', 'p', 'there');
        ASSERT before < after;
        before := after;
    END LOOP;
END $$;
-- Also when the stored one is ahead of the clock: then by a microsecond.
INSERT INTO table_service_data."Employees" VALUES ('p', 'ahead', '2999-12-31 23:59:59.999999+00', '{}');
SELECT merge_entity('Employees', 'p', 'ahead', '{}', '*');
SELECT replace_entity('Employees', 'p', 'ahead', '{}', '*');
SELECT insert_or_merge_entity('Employees', 'p', 'ahead', '{}');
SELECT insert_or_replace_entity('Employees', 'p', 'ahead', '{}');

-- Two writers with the same ETag: one wins.
SELECT etag(e) AS etag FROM get_entity('Employees', 'p', 'there') AS e \gset
SELECT merge_entity('Employees', 'p', 'there', '{"Stock": 1}', :'etag') IS NOT NULL AS first_wins;
SELECT merge_entity('Employees', 'p', 'there', '{"Stock": 2}', :'etag');
:state
SELECT properties FROM get_entity('Employees', 'p', 'there');
-- What a program does then: read again and decide. The condition has a name, and is in a class that retry loops catch.
DO $$
DECLARE
    e entity;
BEGIN
    LOOP
        SELECT * INTO e FROM get_entity('Employees', 'p', 'there');
        BEGIN
            -- The first attempt comes too late.
            IF NOT e.properties ? 'Late' THEN
                PERFORM merge_entity('Employees', 'p', 'there', '{"Late": true}', '*');
            END IF;
            PERFORM merge_entity('Employees', 'p', 'there', jsonb_build_object('Stock', get_int32(e.properties, 'Stock') + 1), etag(e));
            EXIT;
        EXCEPTION WHEN transaction_rollback THEN
            RAISE NOTICE 'again after %: %', SQLSTATE, SQLERRM;
            PERFORM merge_entity('Employees', 'p', 'there', '{"Late": true}', '*');
        END;
    END LOOP;
END $$;
SELECT properties FROM get_entity('Employees', 'p', 'there');

SELECT delete_table('Employees');
