//! Functions of a hostile owner of a database, beside those of the extension.

use crate::Session;

/// Each function of the extension gets others of its name, which a call could also mean: with fewer arguments, with
/// others that have defaults, with a variable number of them, and with types that the arguments can be converted to.
const PLANT: &str = "
CREATE SEQUENCE table_service.ran;
GRANT USAGE ON SEQUENCE table_service.ran TO PUBLIC;
DO $do$
DECLARE
    f record;
    others text[];
    other text;
BEGIN
    FOR f IN SELECT p.proname, COALESCE(a.types, '{}') AS types, COALESCE(pg_catalog.array_length(a.types, 1), 0) AS count
        FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass,
        LATERAL (SELECT pg_catalog.array_agg(pg_catalog.format_type(t.type, NULL) ORDER BY t.n) AS types
            FROM pg_catalog.unnest(p.proargtypes::oid[]) WITH ORDINALITY AS t (type, n)) AS a
        WHERE d.deptype = 'e' AND p.pronamespace = 'table_service'::regnamespace AND p.prokind = 'f'
    LOOP
        others := '{}';
        FOR n IN 0..f.count LOOP
            others := others || ARRAY[pg_catalog.array_to_string(f.types[:n], ', ')];
            FOREACH other IN ARRAY ARRAY['integer DEFAULT 0', 'text DEFAULT NULL', 'VARIADIC text[]', 'VARIADIC integer[]', 'VARIADIC anyarray']
            LOOP
                -- Behind all arguments they make calls ambiguous.
                CONTINUE WHEN n = f.count AND other LIKE '%DEFAULT%';
                others := others || ARRAY[pg_catalog.array_to_string(f.types[:n] || other, ', ')];
            END LOOP;
        END LOOP;
        FOR n IN 1..f.count LOOP
            FOREACH other IN ARRAY ARRAY['varchar', 'name', 'integer', 'numeric', 'jsonb', 'json', 'anyelement', 'anynonarray', 'timestamp', 'text']
            LOOP
                others := others || ARRAY[pg_catalog.array_to_string(f.types[:n - 1] || other || f.types[n + 1:], ', ')];
            END LOOP;
        END LOOP;
        others := others || ARRAY[pg_catalog.array_to_string(pg_catalog.array_fill('anyelement'::text, ARRAY[f.count]), ', ')];
        FOREACH other IN ARRAY others LOOP
            BEGIN
                EXECUTE pg_catalog.format('CREATE FUNCTION table_service.%I(%s) RETURNS text LANGUAGE plpgsql AS $f$
                    BEGIN PERFORM pg_catalog.nextval(''table_service.ran''); RAISE EXCEPTION ''planted''; END $f$', f.proname, other);
            EXCEPTION WHEN duplicate_function OR feature_not_supported OR undefined_object OR syntax_error OR invalid_function_definition THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
END
$do$";

/// Plants them, as the owner of the schema.
pub fn plant(owner: &Session) {
    owner.run(PLANT);
    let count: i64 = owner.value(
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'table_service'::regnamespace AND prolang <> 13",
        &[],
    );
    assert!(count > 500, "{count}");
}

/// Whether one of them has run.
pub fn has_run(session: &Session) -> bool {
    session.text("SELECT is_called FROM table_service.ran") == "t"
}

/// Puts the extension's schema aside and another one in its place, with a function of each name and signature.
pub fn exchange_schema(owner: &Session) {
    owner.run(
        "ALTER SCHEMA table_service RENAME TO aside; CREATE SCHEMA table_service; GRANT USAGE ON SCHEMA table_service TO PUBLIC;
        CREATE SEQUENCE table_service.ran; GRANT USAGE ON SEQUENCE table_service.ran TO PUBLIC;
        DO $do$
        DECLARE
            f record;
        BEGIN
            FOR f IN SELECT p.proname, (SELECT pg_catalog.string_agg(pg_catalog.format_type(t.type, NULL), ', ' ORDER BY t.n)
                    FROM pg_catalog.unnest(p.proargtypes::oid[]) WITH ORDINALITY AS t (type, n)) AS types FROM pg_proc AS p
                WHERE p.pronamespace = 'aside'::regnamespace AND p.prokind = 'f' AND '{internal,cstring}'::regtype[]::oid[] && p.proargtypes::oid[] IS FALSE
            LOOP
                EXECUTE pg_catalog.format('CREATE FUNCTION table_service.%I(%s) RETURNS text LANGUAGE plpgsql AS $f$
                    BEGIN PERFORM pg_catalog.nextval(''table_service.ran''); RAISE EXCEPTION ''planted''; END $f$',
                    f.proname, COALESCE(f.types, ''));
            END LOOP;
        END
        $do$",
    );
}
