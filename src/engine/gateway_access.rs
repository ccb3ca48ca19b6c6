//! The privileges that the gateway's role needs on objects other than its own tables.

use std::slice::from_ref;

use pgrx::spi::quote_literal;
use table_service_model::Error;

use crate::postgres::{TextArg, Value, citus, connect, rethrow, run_on_new_rows};

/// An object, and the privileges of the gateway's role on it.
struct Object {
    /// `SCHEMA` or `TABLE`.
    kind: &'static str,
    /// As in SQL.
    name: &'static str,
    privileges: &'static [&'static str],
}

/// The schemas, tables and sequences of the extension: every one, so that none is forgotten. The GRANT statements and
/// the check of their effect are made from this.
const OBJECTS: [Object; 4] = [
    Object {
        kind: "SCHEMA",
        name: "table_service",
        privileges: &["USAGE"],
    },
    // The gateway creates tables.
    Object {
        kind: "SCHEMA",
        name: "table_service_data",
        privileges: &["USAGE", "CREATE"],
    },
    // It reads and sets the properties of the service.
    Object {
        kind: "TABLE",
        name: "table_service.service_properties",
        privileges: &["SELECT", "INSERT", "UPDATE"],
    },
    // Everybody may read it, and only functions write it, with its owner's privileges.
    Object {
        kind: "TABLE",
        name: "table_service.access_policies",
        privileges: &[],
    },
];

/// GRANT, without the role.
fn grants(objects: &[Object]) -> impl Iterator<Item = String> {
    objects
        .iter()
        .filter(|object| !object.privileges.is_empty())
        .map(|object| {
            format!(
                "GRANT {} ON {} {}",
                object.privileges.join(", "),
                object.kind,
                object.name
            )
        })
}

/// Returns the condition that a role has all these privileges. `role` is its name as an SQL expression.
fn has_all(objects: &[Object], role: &str) -> String {
    let tests: Vec<String> = objects
        .iter()
        .flat_map(|object| object.privileges.iter().map(move |privilege| (object, privilege)))
        .map(|(object, privilege)| {
            let kind = object.kind.to_ascii_lowercase();
            format!(
                "pg_catalog.has_{kind}_privilege({role}::pg_catalog.name, '{}', '{privilege}')",
                object.name
            )
        })
        .collect();
    tests.join(" AND ")
}

/// Grants a role the privileges that the gateway needs.
///
/// # Errors
/// `AuthorizationFailure` if the caller may not grant all of it.
pub fn grant_to(role: TextArg<'_>) -> Result<(), Error> {
    // PostgreSQL says that there is no such role, PUBLIC for example.
    const FIND: &str = "SELECT pg_catalog.quote_ident(r.rolname) FROM pg_catalog.pg_roles AS r WHERE r.oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident($1)::pg_catalog.regrole";
    let found = connect(|spi| Some(spi.read(FIND, &[Value::text(role)]).first()?.text(1)?.get().to_owned()));
    // Another session has just dropped it.
    let Some(name) = found else {
        return Err(Error::argument("the role does not exist"));
    };
    for privileges in grants(&OBJECTS) {
        run_on_new_rows(&format!("{privileges} TO {name}")).unwrap_or_else(|error| rethrow(error));
    }
    // If the caller may not grant a privilege, PostgreSQL only warns.
    let check = format!("SELECT true WHERE {}", has_all(&OBJECTS, "$1"));
    if connect(|spi| spi.read(&check, &[Value::text(role)]).first().is_none()) {
        return Err(Error::NotAuthorized {
            reason: "The database's owner grants what the gateway needs".to_owned(),
        });
    }
    if citus::is_enabled() && !citus::is_worker() {
        grant_on_workers(role, &name)?;
    }
    Ok(())
}

/// Grants on the workers the privileges that Citus does not grant.
fn grant_on_workers(role: TextArg<'_>, name: &str) -> Result<(), Error> {
    let is_left = |object: &&Object| object.kind == "SCHEMA" && !citus::is_known_to_workers(object.name);
    let run = |command: &str, result| citus::run_by("run_command_on_workers", command, result);
    let grant_there = |object| {
        for privileges in grants(from_ref(object)) {
            run(&format!("{privileges} TO {name}"), "GRANT")?;
        }
        let check = has_all(from_ref(object), &quote_literal(role.get()));
        run(&format!("SELECT {check}"), "t")
    };
    OBJECTS
        .iter()
        .filter(is_left)
        .try_for_each(grant_there)
        .map_err(|answer| Error::NotAuthorized {
            reason: format!("The role needs its rights on every server of the Citus cluster. A worker says: {answer}"),
        })
}

#[cfg(any(test, feature = "pg_test"))]
// In a helper of tests, as in tests, a failure may panic.
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use super::*;

    #[pg_test]
    fn every_table_and_sequence_of_the_extension_is_considered() {
        const OF_EXTENSION: &str = "SELECT pg_catalog.format('%s %s.%s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, n.nspname, c.relname)
            FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS e ON d.refobjid = e.oid AND e.extname = 'table_service' AND d.deptype = 'e'
            JOIN pg_catalog.pg_class AS c ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND c.relkind <> 'c'
            JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace";
        let mut found: Vec<String> = connect(|spi| {
            spi.read(OF_EXTENSION, &[])
                .iter()
                .map(|row| row.text(1).unwrap().get().to_owned())
                .collect()
        });
        let mut listed: Vec<String> = OBJECTS
            .iter()
            .filter(|object| object.kind != "SCHEMA")
            .map(|object| format!("{} {}", object.kind, object.name))
            .collect();
        found.sort();
        listed.sort();
        assert_eq!(
            found, listed,
            "OBJECTS has each, and what the gateway's role does with it"
        );
    }
}
