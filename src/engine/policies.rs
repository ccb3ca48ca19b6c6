//! Stored access policies, as far as tables come and go with them.

use pgrx::prelude::*;

use crate::postgres::spi::Connection;
use crate::postgres::value::Value;

/// Removes the policies of a table that is to be dropped, or whose OID a table had that is gone.
pub fn forget_policies(spi: &Connection, table: pg_sys::Oid) {
    const FORGET: &str = "DELETE FROM table_service.access_policies AS p WHERE p.relation OPERATOR(pg_catalog.=) $1";
    spi.write(FORGET, &[Value::oid(table)]);
}
