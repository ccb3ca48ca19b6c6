-- Everything that belongs to the extension. What is listed here is the contract: something new is a line more, and a line that
-- changes or goes breaks somebody's program.

SET intervalstyle = 'postgres';
\pset format unaligned
\pset fieldsep ' | '
\pset footer off

-- Functions: arguments, result, volatility, strictness, parallel safety, whose rights.
SELECT p.oid::regprocedure::text AS function, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
    CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility, CASE WHEN p.proisstrict THEN 'strict' ELSE '' END AS strict,
    CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel, CASE WHEN p.prosecdef THEN 'definer' ELSE 'invoker' END AS rights
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service') AND d.deptype = 'e'
ORDER BY p.oid::regprocedure::text COLLATE "C";

-- Everything else, without the types of arrays and of rows of tables, which PostgreSQL lists from version 17 on.
SELECT pg_describe_object(classid, objid, objsubid) AS object
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service') AND deptype = 'e' AND classid <> 'pg_proc'::regclass
    AND NOT (classid = 'pg_type'::regclass AND objid IN (SELECT t.oid FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid WHERE typcategory = 'A' OR relkind = 'r'))
ORDER BY pg_describe_object(classid, objid, objsubid) COLLATE "C";

-- Who may do what: EXECUTE and USAGE for everybody, nothing beyond.
SELECT count(*) FILTER (WHERE NOT has_function_privilege('public', p.oid, 'EXECUTE')) AS functions_not_for_all, count(*) FILTER (WHERE p.proconfig IS NOT NULL) AS functions_with_settings,
    count(*) FILTER (WHERE p.prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')) AS functions_not_in_c
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service') AND d.deptype = 'e';

-- The catalog's own checks of operator classes, types and operators.
SELECT opcname, amname, amvalidate(c.oid) AS valid FROM pg_opclass AS c JOIN pg_am AS a ON a.oid = c.opcmethod WHERE opcname = 'properties_ops' ORDER BY amname;
SELECT typname, typlen, typalign, typstorage, typcategory, typisdefined FROM pg_type WHERE oid = 'properties'::regtype;
SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'entity'::regclass AND attnum > 0 ORDER BY attnum;
SELECT oprname, oprleft::regtype, oprright::regtype, oprresult::regtype, oprcanmerge, oprcanhash, oprcom::regoperator, oprnegate::regoperator, oprrest, oprjoin
FROM pg_operator WHERE oprnamespace = 'table_service'::regnamespace ORDER BY oprname COLLATE "C", oprright::regtype::text;
SELECT castsource::regtype, casttarget::regtype, castcontext, castmethod FROM pg_cast WHERE 'properties'::regtype IN (castsource, casttarget) ORDER BY 1, 2;
