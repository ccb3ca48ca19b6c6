//! Stored access policies: the privileges that they need, and how they are stored.

use pgrx::pg_sys;
use table_service_model::Error;
use table_service_model::access::AccessPolicies;

use super::table::Table;
use crate::postgres::spi::with_owners_rights;
use crate::postgres::types::TextArg;
use crate::postgres::types::value::{Text, Value};

/// Returns the policies of a table.
///
/// # Errors
/// `AuthorizationFailure` if the caller has no privilege on the table's entities.
pub fn get(table: &Table) -> Result<AccessPolicies, Error> {
    const GET: &str = "\
        SELECT p.policies::pg_catalog.text \
        FROM table_service.access_policies AS p \
        WHERE p.relation OPERATOR(pg_catalog.=) $1";
    let relation = Value::oid(table.oid());
    if !table.has_any_right_to_entities() {
        return Err(Error::NotAuthorized {
            reason: "Reading a table's access policies needs a right to its entities".to_owned(),
        });
    }
    with_owners_rights(c"access_policies", |spi| {
        let rows = spi.read(GET, &[relation]);
        match rows.first().and_then(|row| row.text(1)).map(TextArg::get) {
            Some(json) => AccessPolicies::from_json(json),
            None => Ok(AccessPolicies::default()),
        }
    })
}

/// Replaces all policies of a table.
///
/// # Errors
/// `AuthorizationFailure` if the caller does not have the rights of the table's owner.
pub fn set(table: &Table, policies: &AccessPolicies) -> Result<(), Error> {
    const SET: &str = "\
        INSERT INTO table_service.access_policies AS p (relation, policies) \
        VALUES ($1, $2::pg_catalog.jsonb) \
        ON CONFLICT (relation) DO UPDATE SET policies = excluded.policies";
    let relation = Value::oid(table.oid());
    if !table.is_owned_by_caller() {
        return Err(Error::NotAuthorized {
            reason: "Only the table's owner sets its access policies".to_owned(),
        });
    }
    if policies.iter().len() == 0 {
        forget(table);
    } else {
        let json = Text::new(&policies.to_json());
        with_owners_rights(c"access_policies", |spi| spi.write(SET, &[relation, json.value()]));
    }
    Ok(())
}

/// Removes the policies of a table that the caller has just dropped or created. A new table can get the OID of one that
/// a plain DROP TABLE dropped, and DROP TABLE does not remove the policies.
pub fn forget(table: &Table) {
    const FORGET: &str = "DELETE FROM table_service.access_policies AS p WHERE p.relation OPERATOR(pg_catalog.=) $1";
    with_owners_rights(c"access_policies", |spi| spi.write(FORGET, &[Value::oid(table.oid())]));
}

/// Gives the policies of a table to the one that has replaced it.
pub fn carry_over(from: pg_sys::Oid, to: pg_sys::Oid) {
    const CARRY_OVER: &str =
        "UPDATE table_service.access_policies AS p SET relation = $2 WHERE p.relation OPERATOR(pg_catalog.=) $1";
    let relations = [Value::oid(from), Value::regclass(to)];
    with_owners_rights(c"access_policies", |spi| spi.write(CARRY_OVER, &relations));
}
