//! Looks up the OIDs of the extension's own objects. They are kept until PostgreSQL's invalidation messages say that they have changed.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use pgrx::pg_sys::{TEXTOID, TIMESTAMPTZOID};
use pgrx::prelude::*;

/// The schema of the extension.
pub const SCHEMA: &CStr = c"table_service";
/// The schema of the tables of the service.
pub const DATA_SCHEMA: &str = "table_service_data";
/// The same as a C string.
pub const DATA_SCHEMA_NAME: &CStr = c"table_service_data";

/// The OIDs of the extension's own objects.
#[derive(Clone, Copy)]
pub struct OwnObjects {
    /// The schema of the tables of the service.
    pub data_schema: pg_sys::Oid,
    entity_type: pg_sys::Oid,
    properties_type: pg_sys::Oid,
    batch_operation_type: pg_sys::Oid,
    /// The function in every table's CHECK constraint.
    pub check_function: pg_sys::Oid,
    /// The function of every table's trigger.
    pub trigger_function: pg_sys::Oid,
    /// The function in the expression of every property index. A database with an older version of the extension lacks
    /// it.
    pub index_function: pg_sys::Oid,
    /// The function in the expression of every expiry index. The same holds for it.
    pub expiry_function: pg_sys::Oid,
    /// The function that tests a filter on the columns of an entity.
    pub filter_function: pg_sys::Oid,
}

thread_local! {
    static OWN_OBJECTS: Cell<Option<OwnObjects>> = const { Cell::new(None) };
    /// Counts the invalidation messages.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// The functions of [`watch`].
static FORGET: OnceLock<fn(pg_sys::Oid)> = OnceLock::new();
static FORGET_NAMES: OnceLock<fn()> = OnceLock::new();

/// Registers callbacks for the invalidation messages of types, schemas, functions and tables. From now on PostgreSQL calls `of_tables` for each
/// relation that has changed, or with `InvalidOid` if any may have, and `of_names` when a relation may have got or lost a name.
pub fn watch(of_tables: fn(pg_sys::Oid), of_names: fn()) {
    let _ = (FORGET.set(of_tables), FORGET_NAMES.set(of_names));
    let caches = [
        pg_sys::SysCacheIdentifier::TYPEOID,
        pg_sys::SysCacheIdentifier::NAMESPACEOID,
        pg_sys::SysCacheIdentifier::PROCOID,
        pg_sys::SysCacheIdentifier::RELNAMENSP,
    ];
    for cache in caches {
        let callback = match cache {
            pg_sys::SysCacheIdentifier::RELNAMENSP => name_changed,
            _ => changed,
        };
        // SAFETY: the callback exists as long as the process, because PostgreSQL unloads no library.
        unsafe { pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(callback), pg_sys::Datum::null()) };
    }
    // SAFETY: as above.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(table_changed), pg_sys::Datum::null()) };
}

#[pg_guard]
unsafe extern "C-unwind" fn changed(_argument: pg_sys::Datum, _cache: c_int, _hash: pg_sys::uint32) {
    OWN_OBJECTS.set(None);
    forget(pg_sys::InvalidOid);
}

/// The message has a hash of the name alone, which says nothing of the other spellings.
#[pg_guard]
unsafe extern "C-unwind" fn name_changed(_argument: pg_sys::Datum, _cache: c_int, _hash: pg_sys::uint32) {
    if let Some(forget) = FORGET_NAMES.get() {
        forget();
    }
    CHANGES.set(CHANGES.get().wrapping_add(1));
}

#[pg_guard]
unsafe extern "C-unwind" fn table_changed(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    forget(relation);
}

/// Discards the knowledge about a relation, or about all for `InvalidOid`.
fn forget(relation: pg_sys::Oid) {
    if let Some(forget) = FORGET.get() {
        forget(relation);
    }
    CHANGES.set(CHANGES.get().wrapping_add(1));
}

/// Returns a number that changes with each invalidation message.
pub fn changes() -> u64 {
    CHANGES.get()
}

/// Returns the OIDs of the extension's own objects.
pub fn own_objects() -> OwnObjects {
    if let Some(own) = OWN_OBJECTS.get() {
        return own;
    }
    let before = CHANGES.get();
    let own = look_up();
    // The OIDs are kept only if nothing changed during the look-up, and if all objects exist. CREATE EXTENSION calls
    // this before all of them do.
    let complete = [
        own.data_schema,
        own.entity_type,
        own.batch_operation_type,
        own.check_function,
        own.trigger_function,
    ]
    .iter()
    .all(|&oid| oid != pg_sys::InvalidOid);
    if complete && before == CHANGES.get() {
        OWN_OBJECTS.set(Some(own));
    }
    own
}

/// Looks up the extension's own objects as they are now.
///
/// Raises 55000 if others have replaced them, and PostgreSQL's own errors if they have been dropped.
pub fn look_again() {
    look_up();
}

fn look_up() -> OwnObjects {
    // SAFETY: a transaction is running, and the names are C strings. The first function raises PostgreSQL's own error if the extension has been
    // dropped while a call was on its way.
    let (schema, data_schema) = unsafe {
        pg_sys::get_extension_oid(c"table_service".as_ptr(), false);
        (
            pg_sys::get_namespace_oid(SCHEMA.as_ptr(), false),
            pg_sys::get_namespace_oid(DATA_SCHEMA_NAME.as_ptr(), true),
        )
    };
    let properties_type = type_oid(schema, c"properties");
    // Only the extension's own schema can have this base type. If it is missing, nothing else is accepted. CREATE
    // EXTENSION makes the schema first.
    // SAFETY: it is a global of this process.
    let is_to_come = properties_type == pg_sys::InvalidOid && unsafe { pg_sys::creating_extension };
    if !is_to_come && !is_base_type(properties_type) {
        refuse_name(SCHEMA, c"properties");
    }
    let columns = columns(properties_type);
    let index_arguments = [TEXTOID, TEXTOID, properties_type, TEXTOID];
    let expiry_arguments = [TIMESTAMPTZOID, properties_type, TEXTOID, pg_sys::INT8OID];
    OwnObjects {
        data_schema,
        entity_type: type_oid(schema, c"entity"),
        properties_type,
        batch_operation_type: type_oid(schema, c"batch_operation"),
        check_function: function_oid(schema, c"entity_is_valid", &columns),
        trigger_function: function_oid(schema, c"rising_timestamp", &[]),
        index_function: function_oid(schema, c"property_index_key", &index_arguments),
        expiry_function: function_oid(schema, c"expires_at", &expiry_arguments),
        filter_function: function_oid(schema, c"entity_passes", &[&columns[..], &[TEXTOID]].concat()),
    }
}

fn columns(properties_type: pg_sys::Oid) -> [pg_sys::Oid; 4] {
    [TEXTOID, TEXTOID, TIMESTAMPTZOID, properties_type]
}

/// Returns the types of the columns of an entity.
pub fn types_of_entity() -> [pg_sys::Oid; 4] {
    columns(properties_type())
}

/// Returns the database of the session.
pub fn database() -> pg_sys::Oid {
    // SAFETY: it is a global of this process.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns the owner of the database of the session.
pub fn database_owner() -> pg_sys::Oid {
    row_of(database(), |row: &pg_sys::FormData_pg_database| row.datdba).unwrap_or(pg_sys::InvalidOid)
}

/// A row of a catalog that is found by the OID of its object.
///
/// # Safety
/// The cache must have such rows, by their OIDs.
pub unsafe trait CatalogRow {
    const CACHE: c_int;
}

macro_rules! catalog_rows {
    ($($row:ident: $cache:ident),*) => {$(
        // SAFETY: PostgreSQL's cache of this name has such rows.
        unsafe impl CatalogRow for pg_sys::$row {
            const CACHE: c_int = pg_sys::SysCacheIdentifier::$cache as c_int;
        }
    )*};
}
catalog_rows!(
    FormData_pg_class: RELOID,
    FormData_pg_database: DATABASEOID,
    FormData_pg_proc: PROCOID,
    FormData_pg_type: TYPEOID
);

/// Applies `take` to the row of an object. Returns `None` if there is no such object.
pub fn row_of<T: CatalogRow, R>(oid: pg_sys::Oid, take: impl FnOnce(&T) -> R) -> Option<R> {
    // SAFETY: a transaction is running. The row is of this type, and it is released after its last use.
    unsafe {
        let row = pg_sys::SearchSysCache1(T::CACHE, pg_sys::Datum::from(oid));
        if row.is_null() {
            return None;
        }
        let taken = take(&*pg_sys::GETSTRUCT(row).cast::<T>());
        pg_sys::ReleaseSysCache(row);
        Some(taken)
    }
}

/// Accepts the messages of other sessions about their committed changes.
pub fn accept_changes() {
    // SAFETY: they may be accepted at any time in a transaction.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// Returns the schema of the tables of the service.
pub fn data_schema() -> pg_sys::Oid {
    own_objects().data_schema
}

/// Returns the composite type `table_service.entity`.
pub fn entity_type() -> pg_sys::Oid {
    own_objects().entity_type
}

/// Returns the base type `table_service.properties`.
pub fn properties_type() -> pg_sys::Oid {
    own_objects().properties_type
}

/// Returns the composite type `table_service.batch_operation`.
pub fn batch_operation_type() -> pg_sys::Oid {
    own_objects().batch_operation_type
}

/// Returns the relation in the extension's schema with this name.
pub fn own_relation(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a transaction is running, and the names are C strings.
    let oid = unsafe {
        let schema = pg_sys::get_namespace_oid(SCHEMA.as_ptr(), false);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Returns a table of the extension.
pub fn own_table(relation: &CStr) -> pg_sys::Oid {
    match own_relation(relation) {
        Some(oid) => of_extension(pg_sys::RelationRelationId, oid, relation),
        None => {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
                format!(
                    "a table of the extension table_service is missing: {}",
                    relation.to_string_lossy()
                )
            );
        }
    }
}

fn type_oid(schema: pg_sys::Oid, name: &CStr) -> pg_sys::Oid {
    // SAFETY: a transaction is running. TYPENAMENSP takes a name and a namespace; the other keys are not used.
    let oid = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as c_int,
            pg_sys::Anum_pg_type_oid as pg_sys::AttrNumber,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(schema),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    };
    of_extension(pg_sys::TypeRelationId, oid, name)
}

/// Returns an object that was found by its name, if the extension has it.
///
/// The owner of a schema can rename it and create another one with its name, so a name alone proves nothing. That role
/// can also own the extension and add objects to it, but only superusers create base types and functions in C.
///
/// Raises 55000 for an object of somebody else.
fn of_extension(class: pg_sys::Oid, oid: pg_sys::Oid, name: &CStr) -> pg_sys::Oid {
    if oid == pg_sys::InvalidOid {
        return oid;
    }
    if !is_member(class, oid) {
        refuse_name(SCHEMA, name);
    }
    oid
}

/// Returns whether the extension has an object.
fn is_member(class: pg_sys::Oid, oid: pg_sys::Oid) -> bool {
    // SAFETY: a transaction is running, and the functions take any OID. The name is a C string.
    unsafe {
        let extension = pg_sys::get_extension_oid(c"table_service".as_ptr(), true);
        extension != pg_sys::InvalidOid && pg_sys::getExtensionOfObject(class, oid) == extension
    }
}

/// Returns whether a function is one of the extension's: a member in C. The owner of the extension can add functions to it, but only
/// superusers create functions in C.
pub fn is_own_function(oid: pg_sys::Oid) -> bool {
    let is_in_c = |row: &pg_sys::FormData_pg_proc| row.prolang.to_u32() == pg_sys::ClanguageId;
    row_of(oid, is_in_c) == Some(true) && is_member(pg_sys::ProcedureRelationId, oid)
}

/// Returns whether a relation is one of the extension's.
pub fn is_own_relation(oid: pg_sys::Oid) -> bool {
    is_member(pg_sys::RelationRelationId, oid)
}

/// Raises 55000 for an object of somebody else, to which a name in one of the extension's schemas leads.
pub fn refuse_name(schema: &CStr, name: &CStr) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "{}.{} does not belong to the extension table_service",
            schema.to_string_lossy(),
            name.to_string_lossy()
        ),
        "Another schema stands in the place of the extension's schema. Rename both back."
    );
}

/// Returns whether a type is a base type of any length, as the values of `properties` are. A shell type is not one.
fn is_base_type(oid: pg_sys::Oid) -> bool {
    row_of(oid, |row: &pg_sys::FormData_pg_type| {
        row.typtype as u8 == pg_sys::TYPTYPE_BASE && row.typlen == -1 && row.typelem == pg_sys::InvalidOid
    }) == Some(true)
}

/// Returns the OID of a function by its schema, its name and the types of its arguments; `InvalidOid` if there is none.
pub(super) fn procedure(schema: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> pg_sys::Oid {
    // SAFETY: a transaction is running. PROCNAMEARGSNSP takes a name, an oidvector of the argument types and a
    // namespace.
    unsafe {
        let arguments = pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as c_int);
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as c_int,
            pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(arguments),
            pg_sys::Datum::from(schema),
            pg_sys::Datum::null(),
        )
    }
}

fn function_oid(schema: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> pg_sys::Oid {
    let oid = procedure(schema, name, arguments);
    if oid != pg_sys::InvalidOid && !is_own_function(oid) {
        refuse_name(SCHEMA, name);
    }
    oid
}
