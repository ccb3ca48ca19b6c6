//! The owners of the code that a statement on a table can run, as SQL over PostgreSQL's catalogs. The extension looks them up before it
//! visits a table that its caller has not named, and the copy program before it reads or writes one.

/// The catalogs of objects that have an owner, with the column that names it.
const OWNED: [(&str, &str); 9] = [
    ("pg_class", "relowner"),
    ("pg_collation", "collowner"),
    ("pg_foreign_server", "srvowner"),
    ("pg_opclass", "opcowner"),
    ("pg_operator", "oprowner"),
    ("pg_opfamily", "opfowner"),
    ("pg_proc", "proowner"),
    ("pg_statistic_ext", "stxowner"),
    ("pg_type", "typowner"),
];

/// The catalogs of objects that are parts of others, or that only superusers make.
const PARTS: [&str; 9] = [
    "pg_am",
    "pg_attrdef",
    "pg_cast",
    "pg_constraint",
    "pg_foreign_data_wrapper",
    "pg_policy",
    "pg_rewrite",
    "pg_transform",
    "pg_trigger",
];

/// The catalogs of objects that run nothing when a statement reads or writes a table.
const IDLE: [&str; 4] = ["pg_extension", "pg_language", "pg_namespace", "pg_publication_rel"];

/// Returns two common table expressions for a WITH RECURSIVE: `run (class, oid)` has the table and all objects that a
/// statement on it can run, `owned (class, oid, owner)` those with an owner. `table` is the table's OID in SQL.
///
/// A statement runs objects that depend on the table as parts of it (a trigger, an index, a policy, a foreign key on
/// either side, a partition), the objects on which these depend, and so on. PostgreSQL notes these dependencies for
/// each stored expression. So objects of unknown kinds are found. Their owner is NULL, which must count as foreign.
#[must_use]
pub fn expressions(table: &str) -> String {
    let list = |catalogs: &[&str]| {
        let oids: Vec<String> = catalogs.iter().map(|catalog| class(catalog)).collect();
        format!("(ARRAY[{}])", oids.join(", "))
    };
    let owners: Vec<String> = OWNED
        .iter()
        .map(|(catalog, owner)| {
            format!(
                "SELECT o.{owner} FROM pg_catalog.{catalog} AS o WHERE o.oid OPERATOR(pg_catalog.=) r.oid AND r.class OPERATOR(pg_catalog.=) {}",
                class(catalog)
            )
        })
        .collect();
    format!(
        "run (class, oid) AS (
            SELECT {of_tables}, {table}
            UNION
            SELECT next.class, next.oid FROM run AS r CROSS JOIN LATERAL (
                SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend AS d
                WHERE d.classid OPERATOR(pg_catalog.=) r.class AND d.objid OPERATOR(pg_catalog.=) r.oid
                UNION ALL
                -- Parts are dropped with the whole. What else refers to the table, such as a view, is not run. So anybody may make such a thing.
                SELECT d.classid, d.objid FROM pg_catalog.pg_depend AS d
                WHERE d.refclassid OPERATOR(pg_catalog.=) r.class AND d.refobjid OPERATOR(pg_catalog.=) r.oid
                AND r.class OPERATOR(pg_catalog.=) ANY (ARRAY[{of_tables}, {of_types}])
                AND d.deptype OPERATOR(pg_catalog.=) ANY ('{{a,i,P,S}}'::pg_catalog.\"char\"[])
                UNION ALL
                -- A foreign key that refers to the table, and a child that inherits from it.
                SELECT {of_constraints}, c.oid FROM pg_catalog.pg_constraint AS c
                WHERE r.class OPERATOR(pg_catalog.=) {of_tables} AND c.confrelid OPERATOR(pg_catalog.=) r.oid AND c.contype OPERATOR(pg_catalog.=) 'f'
                UNION ALL
                SELECT {of_tables}, i.inhrelid FROM pg_catalog.pg_inherits AS i
                WHERE r.class OPERATOR(pg_catalog.=) {of_tables} AND i.inhparent OPERATOR(pg_catalog.=) r.oid
                UNION ALL
                -- A foreign key between columns of different types compares them by a cast, of which it does not say that it depends on it.
                SELECT {of_casts}, c.oid FROM pg_catalog.pg_cast AS c
                WHERE r.class OPERATOR(pg_catalog.=) {of_types} AND c.castsource OPERATOR(pg_catalog.=) r.oid
                AND c.castfunc OPERATOR(pg_catalog.<>) 0 AND c.casttarget OPERATOR(pg_catalog.<) 16384
                UNION ALL
                -- The planner puts an operator's negator or commutator in its place, and PostgreSQL notes no dependency.
                SELECT {of_operators}, other.oid FROM pg_catalog.pg_operator AS o CROSS JOIN LATERAL (VALUES (o.oprnegate), (o.oprcom)) AS other (oid)
                WHERE r.class OPERATOR(pg_catalog.=) {of_operators} AND o.oid OPERATOR(pg_catalog.=) r.oid AND other.oid OPERATOR(pg_catalog.<>) 0
            ) AS next (class, oid)
            WHERE next.class OPERATOR(pg_catalog.<>) ALL {idle}
        ), owned (class, oid, owner) AS (
            SELECT r.class, r.oid, o.owner FROM run AS r LEFT JOIN LATERAL ({owners}) AS o (owner) ON true
            WHERE r.class OPERATOR(pg_catalog.<>) ALL {parts}
        )",
        of_tables = class("pg_class"),
        of_types = class("pg_type"),
        of_constraints = class("pg_constraint"),
        of_operators = class("pg_operator"),
        of_casts = class("pg_cast"),
        idle = list(&IDLE),
        parts = list(&PARTS),
        owners = owners.join(" UNION ALL "),
    )
}

/// Returns the OID of a catalog in SQL.
fn class(catalog: &str) -> String {
    format!("'pg_catalog.{catalog}'::pg_catalog.regclass::pg_catalog.oid")
}
