//! What the gateway's role needs, and is not given by its own tables.

use table_service_model::Error;

use crate::postgres::spi::{connect, grant};
use crate::postgres::types::TextArg;
use crate::postgres::types::value::Value;

const PRIVILEGES: [&str; 3] = [
    "USAGE ON SCHEMA table_service",
    // The gateway creates tables.
    "USAGE, CREATE ON SCHEMA table_service_data",
    // It reads and sets the properties of the service.
    "SELECT, INSERT, UPDATE ON TABLE table_service.service_properties",
];

/// Whether the role has all of them.
const HAS_ALL: &str = "SELECT true WHERE pg_catalog.has_schema_privilege($1::pg_catalog.name, 'table_service', 'USAGE') \
    AND pg_catalog.has_schema_privilege($1::pg_catalog.name, 'table_service_data', 'USAGE') \
    AND pg_catalog.has_schema_privilege($1::pg_catalog.name, 'table_service_data', 'CREATE') \
    AND pg_catalog.has_table_privilege($1::pg_catalog.name, 'table_service.service_properties', 'SELECT') \
    AND pg_catalog.has_table_privilege($1::pg_catalog.name, 'table_service.service_properties', 'INSERT') \
    AND pg_catalog.has_table_privilege($1::pg_catalog.name, 'table_service.service_properties', 'UPDATE')";

/// Grants a role what the gateway needs.
///
/// # Errors
/// `AuthorizationFailure` if the caller may not grant all of it.
pub fn grant_to(role: TextArg<'_>) -> Result<(), Error> {
    // PostgreSQL says that there is no such role, PUBLIC for example.
    const FIND: &str = "SELECT pg_catalog.quote_ident(r.rolname) FROM pg_catalog.pg_roles AS r WHERE r.oid OPERATOR(pg_catalog.=) pg_catalog.quote_ident($1)::pg_catalog.regrole";
    let found = connect(|spi| Some(spi.read(FIND, &[Value::text(role)]).first()?.text(1)?.get().to_owned()));
    // Another session has just dropped it.
    let Some(name) = found else {
        return Err(Error::ArgumentInvalid {
            reason: "the role does not exist".to_owned(),
        });
    };
    for privileges in PRIVILEGES {
        grant(&format!("GRANT {privileges} TO {name}")).unwrap_or_else(|error| error.rethrow());
    }
    // For what the caller may not grant, PostgreSQL gives only a warning.
    if connect(|spi| spi.read(HAS_ALL, &[Value::text(role)]).first().is_some()) {
        Ok(())
    } else {
        Err(Error::NotAuthorized {
            reason: "The database's owner grants what the gateway needs".to_owned(),
        })
    }
}
