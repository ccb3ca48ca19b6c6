-- Everything that PostgreSQL knows about the extension: one row (object, property, value) for each property of each object. No
-- value depends on OIDs, so two databases can be compared.
WITH extension AS (
    SELECT e.* FROM pg_extension AS e WHERE e.extname = 'table_service'
), member AS (
    SELECT d.classid, d.objid FROM pg_depend AS d, extension AS e
    WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
), part AS ( -- What belongs to members: columns, constraints, indexes, policies, row types, operators of classes.
    SELECT classid, objid FROM member
    UNION
    SELECT d.classid, d.objid FROM pg_depend AS d JOIN member AS m ON d.refclassid = m.classid AND d.refobjid = m.objid
    WHERE d.deptype IN ('a', 'i') AND d.classid <> 'pg_attrdef'::regclass
        -- TOAST tables have names with OIDs.
        AND NOT EXISTS (SELECT 1 FROM pg_class AS c WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid
            AND (c.relkind = 't' OR c.relnamespace = to_regnamespace('table_service_data')))
), object AS (
    SELECT p.classid, p.objid, i.type || ' ' || i.identity AS name
    FROM part AS p, pg_identify_object(p.classid, p.objid, 0) AS i
), property AS (
    -- What any object can have
    SELECT o.name, 'member of the extension' AS property, (EXISTS (SELECT FROM member AS m WHERE (m.classid, m.objid) = (o.classid, o.objid)))::text AS value
    FROM object AS o
    UNION ALL
    SELECT o.name, 'comment' || CASE WHEN d.objsubid > 0 THEN ' of column ' || d.objsubid ELSE '' END, d.description
    FROM object AS o JOIN pg_description AS d ON (d.classoid, d.objoid) = (o.classid, o.objid)
    UNION ALL
    SELECT o.name, 'privileges as installed' || CASE WHEN i.objsubid > 0 THEN ' of column ' || i.objsubid ELSE '' END,
        (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(i.initprivs) AS a)
    FROM object AS o JOIN pg_init_privs AS i ON (i.classoid, i.objoid) = (o.classid, o.objid)
    UNION ALL
    SELECT o.name, 'depends on', string_agg(DISTINCT d.deptype::text || ' ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), ', ')
    FROM object AS o JOIN pg_depend AS d ON (d.classid, d.objid) = (o.classid, o.objid) GROUP BY o.classid, o.objid, o.name
    -- The extension
    UNION ALL
    SELECT 'extension table_service', v.property, v.value
    FROM extension AS e, LATERAL (VALUES
        ('version', e.extversion), ('schema', e.extnamespace::regnamespace::text), ('relocatable', e.extrelocatable::text),
        ('tables that a dump has', (SELECT string_agg(c.oid::regclass || ' ' || c.condition, ', ' ORDER BY c.oid::regclass::text COLLATE "C")
            FROM unnest(e.extconfig, e.extcondition) AS c (oid, condition)))) AS v (property, value)
    -- Functions
    UNION ALL
    SELECT o.name, v.property, v.value
    FROM object AS o JOIN pg_proc AS f ON o.classid = 'pg_proc'::regclass AND f.oid = o.objid, LATERAL (VALUES
        ('definition', CASE WHEN f.prokind <> 'a' THEN pg_get_functiondef(f.oid) END), ('owner', f.proowner::regrole::text), ('kind', f.prokind::text),
        ('privileges', (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(f.proacl) AS a))) AS v (property, value)
    -- Types
    UNION ALL
    SELECT o.name, v.key, v.value
    FROM object AS o JOIN pg_type AS t ON o.classid = 'pg_type'::regclass AND t.oid = o.objid,
        LATERAL jsonb_each_text(to_jsonb(t) - '{oid,typnamespace,typowner,typrelid,typelem,typarray,typcollation,typbasetype,typacl}'::text[]
            || jsonb_build_object('owner', t.typowner::regrole, 'typelem', format_type(t.typelem, -1), 'typarray', format_type(t.typarray, -1),
                'privileges', t.typacl::text)) AS v
    -- Relations: tables, indexes, composite types
    UNION ALL
    SELECT o.name, v.property, v.value
    FROM object AS o JOIN pg_class AS c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid, LATERAL (VALUES
        ('owner', c.relowner::regrole::text), ('kind', c.relkind::text), ('persistence', c.relpersistence::text), ('options', c.reloptions::text),
        ('row-level security', c.relrowsecurity || ' ' || c.relforcerowsecurity), ('replica identity', c.relreplident::text),
        ('privileges', (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(c.relacl) AS a)),
        ('index', CASE WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END)) AS v (property, value)
    UNION ALL
    SELECT o.name, 'column ' || a.attnum, concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), 'COLLATE ' || nullif(a.attcollation, 0)::regcollation,
        CASE WHEN a.attnotnull THEN 'NOT NULL' END, pg_get_expr(d.adbin, d.adrelid), a.attstorage, nullif(a.attcompression, ''), a.attidentity, a.attgenerated, a.attacl,
        -- Minor releases of PostgreSQL from 2026 on store the column's own version there.
        (SELECT string_agg(o, ' ' ORDER BY o) FROM unnest(a.attoptions) AS o WHERE o NOT LIKE 'pg\_attver=%'))
    FROM object AS o JOIN pg_attribute AS a ON o.classid = 'pg_class'::regclass AND a.attrelid = o.objid AND a.attnum > 0
        LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
    UNION ALL
    SELECT o.name, 'definition', pg_get_constraintdef(o.objid) FROM object AS o WHERE o.classid = 'pg_constraint'::regclass
    UNION ALL
    SELECT o.name, 'definition', pg_get_triggerdef(o.objid) FROM object AS o WHERE o.classid = 'pg_trigger'::regclass
    UNION ALL
    SELECT o.name, 'definition', pg_get_ruledef(o.objid) FROM object AS o WHERE o.classid = 'pg_rewrite'::regclass
    UNION ALL
    SELECT o.name, 'definition', concat_ws(' | ', p.polcmd, p.polpermissive, (SELECT string_agg(r::regrole::text, ',') FROM unnest(p.polroles) AS r),
        pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
    FROM object AS o JOIN pg_policy AS p ON o.classid = 'pg_policy'::regclass AND p.oid = o.objid
    -- Schemas
    UNION ALL
    SELECT o.name, v.property, v.value
    FROM object AS o JOIN pg_namespace AS n ON o.classid = 'pg_namespace'::regclass AND n.oid = o.objid, LATERAL (VALUES
        ('owner', n.nspowner::regrole::text), ('privileges', (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(n.nspacl) AS a))) AS v (property, value)
    -- Operators, their classes and families, casts
    UNION ALL
    SELECT o.name, 'definition', concat_ws(' | ', p.oprcode, p.oprresult::regtype, p.oprcom::regoperator, p.oprnegate::regoperator, p.oprrest, p.oprjoin,
        p.oprcanmerge, p.oprcanhash, p.oprowner::regrole)
    FROM object AS o JOIN pg_operator AS p ON o.classid = 'pg_operator'::regclass AND p.oid = o.objid
    UNION ALL
    SELECT o.name, 'definition', concat_ws(' | ', c.opcdefault, c.opcintype::regtype, nullif(c.opckeytype, 0)::regtype, c.opcowner::regrole)
    FROM object AS o JOIN pg_opclass AS c ON o.classid = 'pg_opclass'::regclass AND c.oid = o.objid
    UNION ALL
    SELECT o.name, 'owner', f.opfowner::regrole::text FROM object AS o JOIN pg_opfamily AS f ON o.classid = 'pg_opfamily'::regclass AND f.oid = o.objid
    UNION ALL
    SELECT o.name, 'operator ' || a.amopstrategy, concat_ws(' | ', a.amopopr::regoperator, a.amoppurpose)
    FROM object AS o JOIN pg_amop AS a ON o.classid = 'pg_opfamily'::regclass AND a.amopfamily = o.objid
    UNION ALL
    SELECT o.name, 'function ' || a.amprocnum, a.amproc::regprocedure::text
    FROM object AS o JOIN pg_amproc AS a ON o.classid = 'pg_opfamily'::regclass AND a.amprocfamily = o.objid
    UNION ALL
    SELECT o.name, 'definition', concat_ws(' | ', nullif(c.castfunc, 0)::regprocedure, c.castcontext, c.castmethod)
    FROM object AS o JOIN pg_cast AS c ON o.classid = 'pg_cast'::regclass AND c.oid = o.objid
)
SELECT name, property, value FROM property WHERE value IS NOT NULL ORDER BY name COLLATE "C", property COLLATE "C", value COLLATE "C"
