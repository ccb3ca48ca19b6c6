//! Stored access policies and the properties of the service: the privileges that they need, and how they are stored.

use std::ffi::CStr;

use pgrx::pg_sys;
use table_service_model::Error;
use table_service_model::access::{AccessPolicies, ServiceProperties, ServicePropertiesChange};

use crate::storage::table::Table;

use crate::postgres::visit::visit_own;
use crate::postgres::{Text, Use, Value, privileges};

const ACCESS_POLICIES: &CStr = c"access_policies";
const SERVICE_PROPERTIES: &CStr = c"service_properties";

/// No privilege on the table of policies is asked for: those on the table of entities were checked.
const CHECKED: u32 = 0;

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
    visit_own(ACCESS_POLICIES, Use::Read, CHECKED, |spi| {
        let json = spi.read(GET, &[relation]).first().and_then(|row| row.text(1));
        json.map_or_else(
            || Ok(AccessPolicies::default()),
            |json| AccessPolicies::from_json(json.get()),
        )
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
    if !privileges::owns(table.oid()) {
        return Err(Error::NotAuthorized {
            reason: "Only the table's owner sets its access policies".to_owned(),
        });
    }
    if policies.iter().len() == 0 {
        forget(table);
    } else {
        let json = Text::new(&policies.to_json());
        write(SET, &[relation, json.value()]);
    }
    Ok(())
}

/// Removes the policies of a table that the caller has just dropped or created. A new table can get the OID of one that
/// a plain DROP TABLE dropped, and DROP TABLE does not remove the policies.
pub fn forget(table: &Table) {
    const FORGET: &str = "DELETE FROM table_service.access_policies AS p WHERE p.relation OPERATOR(pg_catalog.=) $1";
    write(FORGET, &[Value::oid(table.oid())]);
}

/// Gives the policies of a table to the table that has replaced it.
pub fn carry_over(from: pg_sys::Oid, to: pg_sys::Oid) {
    const CARRY_OVER: &str =
        "UPDATE table_service.access_policies AS p SET relation = $2 WHERE p.relation OPERATOR(pg_catalog.=) $1";
    write(CARRY_OVER, &[Value::oid(from), Value::regclass(to)]);
}

/// Runs a statement that writes policies.
fn write(statement: &str, parameters: &[Value<'_>]) {
    visit_own(ACCESS_POLICIES, Use::Write, CHECKED, |spi| {
        spi.write(statement, parameters)
    });
}

/// Returns the properties of the service.
///
/// # Errors
/// Those of the model for stored properties. Raises PostgreSQL's own error (42501) if the caller may not read them.
pub fn service_properties() -> Result<ServiceProperties, Error> {
    const GET: &str = "SELECT s.properties::pg_catalog.text FROM table_service.service_properties AS s";
    visit_own(SERVICE_PROPERTIES, Use::Read, pg_sys::ACL_SELECT, |spi| {
        let json = spi.read(GET, &[]).first().and_then(|row| row.text(1));
        json.map_or_else(
            || Ok(ServiceProperties::default()),
            |json| ServiceProperties::from_json(json.get()),
        )
    })
}

/// Changes properties of the service. Raises PostgreSQL's own error (42501) if the caller may not write them.
pub fn change_service_properties(change: &ServicePropertiesChange) {
    // One statement, so that no concurrent change of another property is lost.
    const SET: &str = "\
        INSERT INTO table_service.service_properties AS s (properties) \
        VALUES ($1::pg_catalog.jsonb) \
        ON CONFLICT (is_only) DO UPDATE SET properties = s.properties OPERATOR(pg_catalog.||) excluded.properties";
    let json = Text::new(&change.to_json());
    visit_own(
        SERVICE_PROPERTIES,
        Use::Write,
        pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE,
        |spi| spi.write(SET, &[json.value()]),
    );
}
