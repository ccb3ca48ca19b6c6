//! Lets the calls with which pgrx copies and raises errors go through `src/postgres/raised.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for function in ["CopyErrorData", "errfinish"] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={function}");
    }
}
