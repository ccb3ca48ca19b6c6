//! The extension's settings, `table_service.*`.

use std::sync::Once;
use std::time::Duration;

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_sys};

static DIRECT_ACCESS: GucSetting<bool> = GucSetting::<bool>::new(true);
static PAGE_TIME_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(5000);

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
    // SAFETY: the prefix is a C string. It reserves the prefix: PostgreSQL rejects other settings that begin with it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"table_service".as_ptr()) };
}

/// Returns how long a page may take.
pub fn page_time_limit() -> Duration {
    Duration::from_millis(u64::try_from(PAGE_TIME_LIMIT.get()).unwrap_or_default())
}

/// Returns whether single entities may be read and written without a statement.
pub fn direct_access() -> bool {
    DIRECT_ACCESS.get()
}
