//! The extension `table_service`: PostgreSQL with the semantics of the Azure Table service.
//!
//! This crate is the only one that knows PostgreSQL. The crate `table_service_model` defines entities, ETags and
//! limits.
//! `ARCHITECTURE.md` has the map.

use pgrx::pg_sys::elog::PgLogLevel;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

mod api;
mod engine;
mod postgres;
mod storage;

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
        api::bag::io::properties_in,
        api::bag::io::properties_out,
        api::bag::io::properties_recv,
        api::bag::io::properties_send,
        api::bag::subscript::properties_subscript
    ],
    creates = [
        Type(postgres::types::PropertiesArg),
        Type(postgres::types::PropertiesOut),
        Type(storage::entity::EntityArg),
        Type(storage::entity::EntityOut),
        Type(storage::batch_operation::BatchOperationsArg),
        Type(storage::batch_operation::BatchOperationOut),
        Type(api::results::Entities)
    ]
);
extension_sql_file!("../sql/access.sql", name = "access", requires = ["schemas"]);
extension_sql_file!(
    "../sql/operators.sql",
    name = "operators",
    requires = [
        api::bag::operators::properties_get,
        api::bag::operators::properties_get_text,
        api::bag::operators::properties_get_path,
        api::bag::operators::properties_get_path_text,
        api::bag::operators::has_property,
        api::bag::operators::has_any_property,
        api::bag::operators::has_all_properties,
        api::bag::operators::properties_contains,
        api::bag::operators::properties_contained,
        api::bag::operators::merge_properties,
        api::bag::operators::remove_property,
        api::bag::operators::remove_properties,
        api::bag::operators::properties_eq,
        api::bag::operators::properties_ne,
        api::bag::operators::properties_lt,
        api::bag::operators::properties_le,
        api::bag::operators::properties_gt,
        api::bag::operators::properties_ge,
        api::bag::operators::properties_cmp,
        api::bag::operators::properties_hash,
        api::bag::operators::properties_hash_extended,
        api::bag::casts::properties_from_json,
        api::bag::casts::properties_to_json,
        api::bag::casts::properties_from_jsonb,
        api::bag::casts::properties_to_jsonb,
        api::bag::casts::properties_to_text
    ]
);
extension_sql_file!(
    "../sql/planner.sql",
    name = "planner",
    requires = [api::queries::query_entities, api::queries::query_entities_support]
);
extension_sql_file!(
    "../sql/definitions.sql",
    name = "definitions",
    requires = [
        api::event_triggers::note_definition,
        api::event_triggers::refuse_taken_names
    ]
);
extension_sql_file!("../sql/comments.sql", name = "comments", finalize);

/// Initialises the library. PostgreSQL calls this when it loads the library into a session.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    postgres::raised::note_panics();
    postgres::out_of_memory::prepare();
    // SAFETY: both calls only read globals of this process. PostgreSQL sets them before it can load a library into a
    // session. The postmaster, which loads `shared_preload_libraries`, has no database.
    let (in_database, encoding) = unsafe {
        (
            pg_sys::MyDatabaseId != pg_sys::InvalidOid,
            pg_sys::GetDatabaseEncoding(),
        )
    };
    if in_database && encoding != pg_sys::pg_enc::PG_UTF8 as i32 {
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "table_service needs a database with encoding UTF8",
            "table_service",
        )
        .set_hint("The encoding is chosen when the database is created: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0.")
        .report(PgLogLevel::ERROR);
    }
    postgres::settings::define();
    postgres::catalog::watch(storage::known::forget, storage::known::forget_names);
    postgres::analysis::watch();
    postgres::out_of_memory::prepared();
}

/// The hooks that `cargo pgrx test` calls to set up its server.
#[cfg(test)]
pub mod pg_test {
    pub fn setup(_options: Vec<&str>) {}

    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        // Change feeds need the first. With the second, tests look like the statements of users.
        vec![
            "wal_level = logical",
            "search_path = '\"$user\", public, table_service'",
        ]
    }
}
