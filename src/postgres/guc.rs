//! Changes PostgreSQL's settings for the duration of a call.

use std::ffi::CStr;

use pgrx::prelude::*;

/// Runs `f` with other values of settings that any user may set. Settings that `f` makes for the session stay.
fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    at_a_level(settings, true, f)
}

/// Runs `f`, which runs code of somebody else, with a `search_path` in which nobody can put anything, as PostgreSQL's commands of
/// maintenance do. Nothing that it sets stays. The planner of a read evaluates no CHECK constraints.
pub fn with_settings_of_maintenance<R>(f: impl FnOnce() -> R) -> R {
    let settings = [
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"constraint_exclusion", c"off"),
    ];
    at_a_level(&settings, false, f)
}

fn at_a_level<R>(settings: &[(&CStr, &CStr)], keep_others: bool, f: impl FnOnce() -> R) -> R {
    // SAFETY: the names and values are C strings. `AtEOXact_GUC` resets the settings at the end of the nesting level.
    // After an error PostgreSQL does so when it aborts the (sub)transaction.
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
        pg_sys::AtEOXact_GUC(keep_others, level);
        result
    }
}

/// Leaves the planner only the primary key's index.
const BY_KEY: [(&CStr, &CStr); 6] = [
    (c"enable_indexscan", c"on"),
    (c"enable_seqscan", c"off"),
    (c"enable_bitmapscan", c"off"),
    (c"enable_hashjoin", c"off"),
    (c"enable_mergejoin", c"off"),
    (c"max_parallel_workers_per_gather", c"0"),
];

/// Runs `f`, which plans a statement, so that the plan reads the primary key's index.
///
/// The plan is kept while the table grows, so it must not be one that suits only the table as it is now. All these
/// statements select by key, so the primary key's index is never much worse.
pub fn planning_for_keys<R>(f: impl FnOnce() -> R) -> R {
    with_settings(&BY_KEY, || with_settings(&[(c"enable_sort", c"off")], f))
}

/// Runs `f`, which plans a statement that selects by an array of keys, so that the plan reads these keys alone.
///
/// Before version 17 PostgreSQL takes rows out of the index in its order only if it reads the whole partition for it. So the
/// rows are sorted, and each row that is read counts so much that no plan which reads more of them is cheaper.
pub fn planning_for_many_keys<R>(f: impl FnOnce() -> R) -> R {
    let settings = [
        (c"enable_sort", c"on"),
        (c"cpu_tuple_cost", c"1000000"),
        // It would take these costs for those of a long statement.
        (c"jit", c"off"),
    ];
    with_settings(&BY_KEY, || with_settings(&settings, f))
}

/// Runs `f`, which plans a statement, so that the plan reads bitmaps of indexes and sorts the rows. For statements that
/// are known to find few rows.
pub fn planning_for_few_rows<R>(f: impl FnOnce() -> R) -> R {
    with_settings(
        &[
            (c"enable_bitmapscan", c"on"),
            (c"enable_sort", c"on"),
            (c"enable_seqscan", c"off"),
            (c"enable_indexscan", c"off"),
            (c"enable_indexonlyscan", c"off"),
            (c"max_parallel_workers_per_gather", c"0"),
            // The planner may expect many rows, for which PostgreSQL would compile the expressions.
            (c"jit", c"off"),
        ],
        f,
    )
}

/// Runs `f`, which executes a kept statement, so that it uses the kept plan, under any settings of the session.
pub fn with_kept_plans<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the setting is a global of this process, which has one thread.
    let mode = unsafe { pg_sys::plan_cache_mode };
    if mode == pg_sys::PlanCacheMode::PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN as i32 {
        with_settings(&[(c"plan_cache_mode", c"auto")], f)
    } else {
        f()
    }
}

/// Runs `f`, which executes a kept statement, so that it is planned with its values, under any settings of the session.
pub fn with_plans_for_values<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the setting is a global of this process, which has one thread.
    let mode = unsafe { pg_sys::plan_cache_mode };
    if mode == pg_sys::PlanCacheMode::PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN as i32 {
        f()
    } else {
        with_settings(&[(c"plan_cache_mode", c"force_custom_plan")], f)
    }
}

/// Runs `f`, which executes a statement that may be sent to other servers with its values. Citus writes them in the form of
/// this session's settings, and the other servers read them with their own.
pub fn with_sendable_values<R>(f: impl FnOnce() -> R) -> R {
    // PostgreSQL 19 has no other strings.
    #[cfg(since_pg19)]
    let has_standard_strings = true;
    // SAFETY: the setting is a global of this process, which has one thread.
    #[cfg(not(since_pg19))]
    let has_standard_strings = unsafe { pg_sys::standard_conforming_strings };
    // SAFETY: as above, and so is the hook.
    let is_sendable = unsafe {
        { pg_sys::planner_hook }.is_none()
            || (has_standard_strings && pg_sys::DateStyle == pg_sys::USE_ISO_DATES as i32)
    };
    if is_sendable {
        return f();
    }
    with_settings(&[(c"standard_conforming_strings", c"on"), (c"datestyle", c"ISO")], f)
}

/// Runs `f`, in which functions make messages for clients. Their texts are in the client's encoding, but are read here
/// in the database's encoding, UTF8.
pub fn with_utf8_client<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the function reads a global of this process.
    if unsafe { pg_sys::pg_get_client_encoding() } == pg_sys::pg_enc::PG_UTF8 as i32 {
        return f();
    }
    with_settings(&[(c"client_encoding", c"UTF8")], f)
}

/// Runs `f`, in which Citus distributes tables of the service. Citus refuses triggers on its tables unless told
/// otherwise: ours only sets a column of its own row. `in_sequence` asks for one connection to each server.
pub fn distributing<R>(in_sequence: bool, f: impl FnOnce() -> R) -> R {
    let mode = if in_sequence { c"sequential" } else { c"parallel" };
    with_settings(
        &[
            (c"citus.enable_unsafe_triggers", c"on"),
            (c"citus.multi_shard_modify_mode", mode),
        ],
        f,
    )
}

/// Runs `f`, in which each wait for a lock ends after this many milliseconds, with 55P03.
pub fn with_lock_timeout<R>(milliseconds: &CStr, f: impl FnOnce() -> R) -> R {
    with_settings(&[(c"lock_timeout", milliseconds)], f)
}
