//! PostgreSQL's generator of random numbers.

use pgrx::pg_sys;

/// Returns a random number, evenly distributed in 0..1.
pub fn random() -> f64 {
    // SAFETY: `pg_global_prng_state` is the generator of this process alone. PostgreSQL seeds it when a session starts.
    unsafe { pg_sys::pg_prng_double(&raw mut pg_sys::pg_global_prng_state) }
}
