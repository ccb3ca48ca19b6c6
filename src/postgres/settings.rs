//! The extension's settings, `table_service.*`.

use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::time::Duration;

use pgrx::guc::GucEnum;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum, pg_guard, pg_sys};
use table_service_model::Dialect;

static DIRECT_ACCESS: GucSetting<bool> = GucSetting::<bool>::new(true);
static SINGLE_CALL_TRANSACTIONS: GucSetting<bool> = GucSetting::<bool>::new(false);
static FILTER_DIALECT: GucSetting<FilterDialect> = GucSetting::<FilterDialect>::new(FilterDialect::Service);
/// The newest major version of Citus with which the tests of `cargo xtask citus` pass.
const TESTED_MAJOR: i32 = 14;

static PAGE_TIME_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(5000);
static DIRECT_ACCESS_CITUS_MAJOR: GucSetting<i32> = GucSetting::<i32>::new(TESTED_MAJOR);

#[derive(Clone, Copy, PostgresGucEnum)]
enum FilterDialect {
    #[name = c"service"]
    Service,
    #[name = c"extended"]
    Extended,
}

/// Defines the settings. If a step fails, the next call goes on with it: PostgreSQL refuses to define a setting twice.
pub fn define() {
    static PAGE_TIME_LIMIT_DEFINED: Once = Once::new();
    PAGE_TIME_LIMIT_DEFINED.call_once_force(|_| {
        GucRegistry::define_int_guc(
            c"table_service.page_time_limit",
            c"How long query_page may take before it ends the page with a continuation token.",
            c"A page always examines at least one entity beyond its start.",
            &PAGE_TIME_LIMIT,
            0,
            60_000,
            GucContext::Userset,
            GucFlags::UNIT_MS,
        )
    });
    static DIRECT_ACCESS_DEFINED: Once = Once::new();
    DIRECT_ACCESS_DEFINED.call_once_force(|_| GucRegistry::define_bool_guc(
        c"table_service.enable_direct_access",
        c"Lets single entities be read and written without a statement where that makes no other difference than speed.",
        c"",
        &DIRECT_ACCESS,
        GucContext::Userset,
        GucFlags::empty(),
    ));
    static SINGLE_CALL_TRANSACTIONS_DEFINED: Once = Once::new();
    SINGLE_CALL_TRANSACTIONS_DEFINED.call_once_force(|_| GucRegistry::define_bool_guc(
        c"table_service.single_call_transactions",
        c"Says that no transaction of this session does more than one call, so that the call may write a local shard without Citus.",
        c"",
        &SINGLE_CALL_TRANSACTIONS,
        GucContext::Userset,
        GucFlags::empty(),
    ));
    static FILTER_DIALECT_DEFINED: Once = Once::new();
    // SAFETY: the hook is guarded.
    FILTER_DIALECT_DEFINED.call_once_force(|_| unsafe {
        GucRegistry::define_enum_guc_with_hooks(
            c"table_service.filter_dialect",
            c"Whether filters say what the service's can, or also startswith, endswith, contains, in, and eq null.",
            c"",
            &FILTER_DIALECT,
            GucContext::Userset,
            GucFlags::empty(),
            None,
            Some(discard_plans),
            None,
        )
    });
    define_direct_access_citus_major();
    // SAFETY: the prefix is a C string. It reserves the prefix: PostgreSQL rejects other settings that begin with it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"table_service".as_ptr()) };
}

fn define_direct_access_citus_major() {
    static DIRECT_ACCESS_CITUS_MAJOR_DEFINED: Once = Once::new();
    DIRECT_ACCESS_CITUS_MAJOR_DEFINED.call_once_force(|_| {
        GucRegistry::define_int_guc(
            c"table_service.direct_access_citus_major",
            c"The newest major version of Citus on which shards are read and written without a statement.",
            c"",
            &DIRECT_ACCESS_CITUS_MAJOR,
            0,
            1000,
            // A wrong value can harm the entities of others.
            GucContext::Suset,
            GucFlags::empty(),
        )
    });
}

/// Discards the plans that the session keeps when filters get another dialect: they may depend on the meaning of a
/// filter in the earlier dialect.
#[pg_guard]
unsafe extern "C-unwind" fn discard_plans(new: c_int, _extra: *mut c_void) {
    if new != FILTER_DIALECT.get().to_ordinal() {
        // SAFETY: it only marks the session's plans, which it may do at any time.
        unsafe { pg_sys::ResetPlanCache() };
    }
}

/// Returns the dialect of the session's filters.
pub fn filter_dialect() -> Dialect {
    match FILTER_DIALECT.get() {
        FilterDialect::Service => Dialect::Service,
        FilterDialect::Extended => Dialect::Extended,
    }
}

/// Returns how long a page may take.
pub fn page_time_limit() -> Duration {
    Duration::from_millis(u64::try_from(PAGE_TIME_LIMIT.get()).unwrap_or_default())
}

/// Returns whether single entities may be read and written without a statement.
pub fn direct_access() -> bool {
    DIRECT_ACCESS.get()
}

/// Returns the newest major version of Citus with direct access to shards.
pub fn direct_access_citus_major() -> u32 {
    u32::try_from(DIRECT_ACCESS_CITUS_MAJOR.get()).unwrap_or_default()
}

/// Returns whether the session says that none of its transactions does more than one call.
pub fn single_call_transactions() -> bool {
    SINGLE_CALL_TRANSACTIONS.get()
}
