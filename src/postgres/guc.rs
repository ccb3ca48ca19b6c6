//! PostgreSQL's own settings, changed for a while.

use std::ffi::CStr;

use pgrx::prelude::*;

/// Runs `f` with other values of settings that any user may set.
fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    // SAFETY: the settings are undone at the end of the nesting level, and by PostgreSQL when an error passes through.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = f();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Runs `f`, which plans a statement, without the plans that suit the table as it is now but not what it may grow to before
/// anybody plans again. All our statements name their keys, and the primary key is never much worse.
pub fn planning_for_keys<R>(f: impl FnOnce() -> R) -> R {
    with_settings(
        &[
            (c"enable_indexscan", c"on"),
            (c"enable_seqscan", c"off"),
            (c"enable_bitmapscan", c"off"),
            (c"enable_sort", c"off"),
            (c"enable_hashjoin", c"off"),
            (c"enable_mergejoin", c"off"),
            (c"max_parallel_workers_per_gather", c"0"),
        ],
        f,
    )
}

/// Runs `f`, which executes a kept statement, so that it uses the plan that is kept, whatever the session prefers.
pub fn with_kept_plans<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a setting of PostgreSQL, which only this thread changes.
    let mode = unsafe { pg_sys::plan_cache_mode };
    if mode == pg_sys::PlanCacheMode::PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN as i32 {
        with_settings(&[(c"plan_cache_mode", c"auto")], f)
    } else {
        f()
    }
}
