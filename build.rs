//! Has the linker replace functions that the library calls by those of `src/postgres/raised.rs` and
//! `src/postgres/out_of_memory.rs`, in the library alone: PostgreSQL's own calls stay as they are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
