//! PostgreSQL with the semantics of the Azure Table service.
//!
//! This crate is the only one that knows PostgreSQL; what entities, ETags and limits are is in `table_service_model`.
//! `ARCHITECTURE.md` has the map.

use pgrx::prelude::*;

mod access;
mod arguments;
mod bag;
mod batch;
mod catalog;
mod clock;
mod deadline;
mod direct;
mod entities;
mod error;
mod guard;
mod keys;
mod queries;
mod reads;
mod residual;
mod result_set;
mod scan;
mod settings;
mod spi;
mod tables;
mod types;
mod unguarded;
mod writes;

#[cfg(any(test, feature = "pg_test"))]
mod tests;

#[cfg(not(panic = "unwind"))]
compile_error!("errors are raised by unwinding: build with panic = \"unwind\"");

pg_module_magic!(name, version);

extension_sql_file!("../sql/schemas.sql", name = "schemas", bootstrap);
extension_sql_file!(
    "../sql/types.sql",
    name = "types",
    requires = [
        bag::io::properties_in,
        bag::io::properties_out,
        bag::io::properties_recv,
        bag::io::properties_send
    ],
    creates = [
        Type(types::PropertiesArg),
        Type(types::PropertiesOut),
        Type(types::EntityArg),
        Type(types::EntityOut),
        Type(types::BatchOperationsArg),
        Type(types::BatchOperationOut),
        Type(result_set::Entities)
    ]
);
extension_sql_file!("../sql/access.sql", name = "access", requires = ["schemas"]);
extension_sql_file!("../sql/operators.sql", name = "operators", finalize);

/// Called by PostgreSQL when it loads the library into a session.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    // SAFETY: both are set before a library can be loaded into a session.
    let (in_database, encoding) = unsafe {
        (
            pg_sys::MyDatabaseId != pg_sys::InvalidOid,
            pg_sys::GetDatabaseEncoding(),
        )
    };
    if in_database && encoding != pg_sys::pg_enc::PG_UTF8 as i32 {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "table_service needs a database with encoding UTF8"
        );
    }
    settings::define();
    catalog::watch();
}

/// What `cargo pgrx test` needs to set up its server.
#[cfg(test)]
pub mod pg_test {
    pub fn setup(_options: Vec<&str>) {}

    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec![]
    }
}
