//! Has the linker replace functions that the library calls by those of `src/postgres/raised.rs` and
//! `src/postgres/out_of_memory.rs`, in the library alone: PostgreSQL's own calls stay as they are. And makes conditions of the major
//! versions of PostgreSQL: with the feature `pg18` they are `since_pg16`, `since_pg17` and `since_pg18`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/postgres/thread_local.c");
    cc::Build::new()
        .file("src/postgres/thread_local.c")
        .compile("table_service_thread_local");
    let majors = std::env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_PG")?.parse::<u32>().ok());
    for major in 16..=majors.max().unwrap_or_default() {
        println!("cargo::rustc-cfg=since_pg{major}");
    }
    for function in [
        "CopyErrorData",
        "FreeErrorData",
        "errstart",
        "errfinish",
        "pg_re_throw",
        "_Unwind_RaiseException",
        "__cxa_thread_atexit_impl",
    ] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={function}");
    }
}
