//! Stored access policies, service properties and shared access signatures.
//!
//! The functions for policies and properties first check the caller's privileges. Then they read and write as the owner
//! of the database: that role owns the tables of the extension and may have put code there.

use pgrx::prelude::*;
use table_service_model::access::{
    AccessPolicies, Account, AccountKey, AddressRange, GrantedRange, Permissions, ServicePropertiesChange, TableSas,
};
use table_service_model::{Error, Ticks, table_name};

use crate::engine::{distribution, gateway_access, policies};
use crate::postgres::{JsonArg, JsonOut, OrRaise, TextArg, raising, ticks_of};
use crate::storage::arguments::{prevent_if_read_only, required};
use crate::storage::table::{Table, TableLock};

/// The work of the coordinator alone: policies belong to the table's OID, which differs from server to server.
const POLICIES: &str = "Access policies are read and set";

/// The version of the signatures. The current SDKs use the same one.
const SAS_VERSION: &str = "2019-02-02";

/// Replaces all stored access policies of a table. The argument is a list of at most five, such as
/// `[{"Id": "readers", "Start": "2026-01-01", "Expiry": "2027-01-01", "Permission": "r"}]`. An empty list removes them.
///
/// Raises `TableNotFound`; `InvalidInput` or `InvalidXmlDocument` if the argument is not such a list;
/// `AuthorizationFailure` if the caller does not have the rights of the table's owner.
#[pg_extern]
fn set_access_policies(table_name: Option<TextArg<'_>>, policies: Option<JsonArg<'_>>) {
    prevent_if_read_only(c"set_access_policies()");
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let policies = AccessPolicies::from_json(required("policies", policies)?.0)?;
        distribution::require_coordinator(POLICIES)?;
        policies::set(&Table::open(name, TableLock::Write)?, &policies)
    });
}

/// Returns the stored access policies of a table, in the form that `set_access_policies` takes.
///
/// Raises `TableNotFound`, and `AuthorizationFailure` if the caller has no privilege on the table's entities.
#[pg_extern(stable, parallel_restricted)]
fn get_access_policies(table_name: Option<TextArg<'_>>) -> JsonOut {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        distribution::require_coordinator(POLICIES)?;
        let policies = policies::get(&Table::open(name, TableLock::Read)?)?;
        Ok(JsonOut(policies.to_json().into_bytes()))
    })
}

/// Changes those properties of the service that the argument contains: Logging, HourMetrics, MinuteMetrics and Cors.
/// The others stay as they are. An empty Cors list removes all rules.
///
/// Raises `InvalidInput` or `InvalidXmlDocument` if the argument is not such an object. The caller needs INSERT and
/// UPDATE on `table_service.service_properties`. The owner of the database has both and may grant them.
#[pg_extern]
fn set_service_properties(service_properties: Option<JsonArg<'_>>) {
    prevent_if_read_only(c"set_service_properties()");
    raising(|| {
        let change = ServicePropertiesChange::from_json(required("service_properties", service_properties)?.0)?;
        policies::change_service_properties(&change);
        Ok(())
    });
}

/// Returns the properties of the service. A property that was never set is switched off.
#[pg_extern(stable, parallel_restricted)]
fn get_service_properties() -> JsonOut {
    JsonOut(policies::service_properties().or_raise().to_json().into_bytes())
}

/// Grants a role what the gateway needs besides its own tables: to create tables, and to set the properties of the
/// service. It may be called again.
///
/// Raises PostgreSQL's error 42704 if there is no such role, and `AuthorizationFailure` or PostgreSQL's error 42501 if
/// the caller may not grant that. The owner of the database may.
#[pg_extern]
fn grant_gateway_access(role_name: Option<TextArg<'_>>) {
    prevent_if_read_only(c"grant_gateway_access()");
    required("role_name", role_name)
        .and_then(gateway_access::grant_to)
        .or_raise();
}

/// Returns a shared access signature for a table: the parameters that a client appends to a URL after `?`.
///
/// `permissions` consists of the letters `raud`: read, add, update, delete. Omit what the stored access policy
/// `policy_id` specifies. `ip_range` is one address, or two with `-` between them. `protocol` is `https` or
/// `https,http`. The keys limit the signature to the entities from (`start_partition_key`, `start_row_key`) to
/// (`end_partition_key`, `end_row_key`), both included. Times are truncated to seconds. The table need not exist, and
/// nothing is stored. Pass the account key as a parameter: a literal may be written to the server's log.
///
/// Raises `InvalidInput` for arguments that cannot be signed, and `InvalidResourceName` or `OutOfRangeInput` for an
/// invalid table name.
#[pg_extern(immutable, parallel_safe)]
#[allow(clippy::too_many_arguments)]
fn generate_sas(
    account_name: Option<TextArg<'_>>,
    account_key: Option<TextArg<'_>>,
    table_name: Option<TextArg<'_>>,
    permissions: default!(Option<TextArg<'_>>, "NULL"),
    expiry: default!(Option<TimestampWithTimeZone>, "NULL"),
    start_time: default!(Option<TimestampWithTimeZone>, "NULL"),
    policy_id: default!(Option<TextArg<'_>>, "NULL"),
    ip_range: default!(Option<TextArg<'_>>, "NULL"),
    protocol: default!(Option<TextArg<'_>>, "NULL"),
    start_partition_key: default!(Option<TextArg<'_>>, "NULL"),
    start_row_key: default!(Option<TextArg<'_>>, "NULL"),
    end_partition_key: default!(Option<TextArg<'_>>, "NULL"),
    end_row_key: default!(Option<TextArg<'_>>, "NULL"),
) -> String {
    let key = |key: Option<TextArg<'_>>| key.map(|key| key.get().to_owned());
    let range = GrantedRange {
        start_partition: key(start_partition_key),
        start_row: key(start_row_key),
        end_partition: key(end_partition_key),
        end_row: key(end_row_key),
    };
    raising(|| {
        let key = AccountKey::parse(required("account_key", account_key)?.get())?;
        let account = Account::new(required("account_name", account_name)?.get(), vec![key])?;
        let table = required("table_name", table_name)?.get();
        table_name::check(table)?;
        let mut sas = TableSas::new(SAS_VERSION, table).range(range)?;
        if let Some(letters) = permissions.map(TextArg::get) {
            let permissions = Permissions::parse(letters).filter(|permissions| !permissions.is_empty());
            sas = sas.permissions(permissions.ok_or_else(|| Error::argument("permissions are letters of raud"))?);
        }
        if let Some(expiry) = time("expiry", expiry)? {
            sas = sas.expiry(expiry);
        }
        if let Some(start) = time("start_time", start_time)? {
            sas = sas.start(start);
        }
        if let Some(id) = policy_id.map(TextArg::get) {
            sas = sas.policy(id);
        }
        if let Some(text) = ip_range.map(TextArg::get) {
            let range = AddressRange::parse(text);
            sas = sas.addresses(range.ok_or_else(|| Error::argument("ip_range is 10.0.0.1 or 10.0.0.1-10.0.0.9"))?);
        }
        match protocol.map(TextArg::get) {
            None | Some("https,http") => {}
            Some("https") => sas = sas.https_only(),
            Some(_) => return Err(Error::argument("protocol is https or https,http")),
        }
        Ok(sas.sign(&account)?.to_query())
    })
}

fn time(name: &str, timestamp: Option<TimestampWithTimeZone>) -> Result<Option<Ticks>, Error> {
    timestamp
        .map(|timestamp| ticks_of(name, timestamp.into_inner()))
        .transpose()
}
