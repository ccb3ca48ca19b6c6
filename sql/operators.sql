-- Operators on bags, their operator classes and casts. The functions are in src/api/bag/.

CREATE OPERATOR table_service.-> (
    FUNCTION = table_service.properties_get, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text);
CREATE OPERATOR table_service.->> (
    FUNCTION = table_service.properties_get_text, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text);
CREATE OPERATOR table_service.#> (
    FUNCTION = table_service.properties_get_path, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text[]);
CREATE OPERATOR table_service.#>> (
    FUNCTION = table_service.properties_get_path_text, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text[]);
CREATE OPERATOR table_service.? (
    FUNCTION = table_service.has_property, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text,
    RESTRICT = pg_catalog.matchingsel, JOIN = pg_catalog.matchingjoinsel);
CREATE OPERATOR table_service.?| (
    FUNCTION = table_service.has_any_property, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text[],
    RESTRICT = pg_catalog.matchingsel, JOIN = pg_catalog.matchingjoinsel);
CREATE OPERATOR table_service.?& (
    FUNCTION = table_service.has_all_properties, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text[],
    RESTRICT = pg_catalog.matchingsel, JOIN = pg_catalog.matchingjoinsel);
CREATE OPERATOR table_service.@> (
    FUNCTION = table_service.properties_contains,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.<@),
    RESTRICT = pg_catalog.matchingsel, JOIN = pg_catalog.matchingjoinsel);
CREATE OPERATOR table_service.<@ (
    FUNCTION = table_service.properties_contained,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.@>),
    RESTRICT = pg_catalog.matchingsel, JOIN = pg_catalog.matchingjoinsel);
CREATE OPERATOR table_service.|| (
    FUNCTION = table_service.merge_properties,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties);
CREATE OPERATOR table_service.- (
    FUNCTION = table_service.remove_property, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text);
CREATE OPERATOR table_service.- (
    FUNCTION = table_service.remove_properties, LEFTARG = table_service.properties, RIGHTARG = pg_catalog.text[]);

CREATE OPERATOR table_service.= (
    FUNCTION = table_service.properties_eq,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.=), NEGATOR = OPERATOR(table_service.<>),
    RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES, MERGES);
CREATE OPERATOR table_service.<> (
    FUNCTION = table_service.properties_ne,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.<>), NEGATOR = OPERATOR(table_service.=),
    RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel);
CREATE OPERATOR table_service.< (
    FUNCTION = table_service.properties_lt,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.>), NEGATOR = OPERATOR(table_service.>=),
    RESTRICT = pg_catalog.scalarltsel, JOIN = pg_catalog.scalarltjoinsel);
CREATE OPERATOR table_service.<= (
    FUNCTION = table_service.properties_le,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.>=), NEGATOR = OPERATOR(table_service.>),
    RESTRICT = pg_catalog.scalarlesel, JOIN = pg_catalog.scalarlejoinsel);
CREATE OPERATOR table_service.> (
    FUNCTION = table_service.properties_gt,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.<), NEGATOR = OPERATOR(table_service.<=),
    RESTRICT = pg_catalog.scalargtsel, JOIN = pg_catalog.scalargtjoinsel);
CREATE OPERATOR table_service.>= (
    FUNCTION = table_service.properties_ge,
    LEFTARG = table_service.properties, RIGHTARG = table_service.properties,
    COMMUTATOR = OPERATOR(table_service.<=), NEGATOR = OPERATOR(table_service.<),
    RESTRICT = pg_catalog.scalargesel, JOIN = pg_catalog.scalargejoinsel);

-- For DISTINCT, GROUP BY and ORDER BY. The order is total, but has no meaning.
CREATE OPERATOR CLASS table_service.properties_ops DEFAULT FOR TYPE table_service.properties USING btree AS
    OPERATOR 1 table_service.<,
    OPERATOR 2 table_service.<=,
    OPERATOR 3 table_service.=,
    OPERATOR 4 table_service.>=,
    OPERATOR 5 table_service.>,
    FUNCTION 1 table_service.properties_cmp(table_service.properties, table_service.properties);
CREATE OPERATOR CLASS table_service.properties_ops DEFAULT FOR TYPE table_service.properties USING hash AS
    OPERATOR 1 table_service.=,
    FUNCTION 1 table_service.properties_hash(table_service.properties),
    FUNCTION 2 table_service.properties_hash_extended(table_service.properties, pg_catalog.int8);

-- Implicit, so that insert_entity(…, jsonb_build_object(…)) and insert_entity(…, json_build_object(…)) work. Nothing else is
-- implicit: if bags became json or jsonb by themselves too, operators and functions for both would be ambiguous.
CREATE CAST (pg_catalog.json AS table_service.properties)
    WITH FUNCTION table_service.properties_from_json(pg_catalog.json) AS IMPLICIT;
CREATE CAST (table_service.properties AS pg_catalog.json)
    WITH FUNCTION table_service.properties_to_json(table_service.properties) AS ASSIGNMENT;
CREATE CAST (pg_catalog.jsonb AS table_service.properties)
    WITH FUNCTION table_service.properties_from_jsonb(pg_catalog.jsonb) AS IMPLICIT;
CREATE CAST (table_service.properties AS pg_catalog.jsonb)
    WITH FUNCTION table_service.properties_to_jsonb(table_service.properties);
CREATE CAST (table_service.properties AS pg_catalog.text)
    WITH FUNCTION table_service.properties_to_text(table_service.properties) AS ASSIGNMENT;
