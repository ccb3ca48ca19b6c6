//! Which owners are trusted: the code that belongs to them may run with this program's rights.

use table_service_model::code_of_tables;

use crate::printable;

/// The owners of the database, of the schemas and of the extension. The owner of a schema can put another one in its place.
pub const SCHEMAS: &str = "\
    found (owner, thing, rank) AS ( \
        SELECT d.datdba, 'database ' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(d.datname), 1 FROM here AS d \
        UNION ALL \
        SELECT n.nspowner, 'schema ' OPERATOR(pg_catalog.||) n.nspname::pg_catalog.text, 2 FROM pg_catalog.pg_namespace AS n \
            WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{table_service,table_service_data}'::pg_catalog.name[]) \
        UNION ALL \
        SELECT e.extowner, 'extension ' OPERATOR(pg_catalog.||) e.extname::pg_catalog.text, 3 FROM pg_catalog.pg_extension AS e \
            WHERE e.extname OPERATOR(pg_catalog.=) 'table_service' \
    )";

/// Returns the owners of a table and of everything that may run when it is read or written. An object without a known owner counts as untrusted.
#[must_use]
pub fn of_table() -> String {
    const TABLE: &str = "$2::pg_catalog.text::pg_catalog.regclass::pg_catalog.oid";
    format!(
        "{}, found (owner, thing, rank) AS ( \
            SELECT COALESCE(o.owner, 0::pg_catalog.oid), COALESCE(pg_catalog.pg_describe_object(o.class, o.oid, 0), 'what is gone'), \
                CASE WHEN o.oid OPERATOR(pg_catalog.=) {TABLE} THEN 1 ELSE 2 END \
            FROM owned AS o \
        )",
        code_of_tables::expressions(TABLE)
    )
}

/// The first of some objects with an owner that is not trusted. Trusted is the role that has logged in, because it runs
/// its own code; a role that can become it, for example a superuser; and the database's owner, unless a superuser has
/// logged in: the functions of the extension run with the rights of the role that calls them.
pub fn untrusted(objects: &str) -> String {
    format!(
        "WITH RECURSIVE here AS (SELECT d.datname, d.datdba, r.oid AS role, r.rolname, r.rolsuper \
            FROM pg_catalog.pg_database AS d, pg_catalog.pg_roles AS r \
            WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND r.rolname OPERATOR(pg_catalog.=) SESSION_USER), \
        {objects} \
        SELECT real.rolname::pg_catalog.text, o.thing FROM found AS o CROSS JOIN here AS h \
        LEFT JOIN pg_catalog.pg_roles AS real ON real.oid OPERATOR(pg_catalog.=) \
            CASE WHEN o.owner OPERATOR(pg_catalog.=) 'pg_database_owner'::pg_catalog.regrole::pg_catalog.oid THEN h.datdba ELSE o.owner END \
        WHERE (real.oid IS NULL OR NOT (pg_catalog.pg_has_role(real.oid, h.role, CASE \
                    WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.<) 160000 THEN 'MEMBER' ELSE 'SET' END) \
                OR real.oid OPERATOR(pg_catalog.=) h.datdba AND NOT h.rolsuper)) \
        AND (real.rolname::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])) IS NOT TRUE \
        ORDER BY o.rank, o.thing LIMIT 1"
    )
}

/// The reason in a row of [`untrusted`], as the rest of a sentence.
pub fn reason(owner: Option<&str>, thing: &str) -> String {
    let thing = printable::said(thing);
    match owner {
        Some(owner) => {
            let owner = printable::said(owner);
            format!(
                "the {thing} belongs to {owner}, whose code would run with the rights of this role. Connect as {owner}, or trust it: \
                 --trust-owners {owner}"
            )
        }
        None => format!("the {thing} is of a kind that this program does not know. --trust-owners all does not look"),
    }
}
