//! Subtransactions.

use std::ffi::c_char;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::raised::caught;

/// The number of subtransactions in a transaction at which no more are begun only to be faster. Each backend has 64 places for
/// them in shared memory; beyond that, other sessions must look them up in `pg_subtrans`.
const SUBTRANSACTIONS: u8 = 48;

/// Returns whether the transaction may have another subtransaction without making other sessions slower.
pub fn has_room() -> bool {
    // SAFETY: `MyProc` points to the entry of this process in shared memory. Only this process writes its
    // `subxidStatus`.
    let subtransactions = unsafe { (*pg_sys::MyProc).subxidStatus };
    !subtransactions.overflowed && subtransactions.count < SUBTRANSACTIONS
}

/// Runs `f` in a subtransaction.
///
/// If `f` fails or raises, the subtransaction is rolled back: its changes are undone and its locks are released. The
/// inner result is that of `f`. The outer error is one that was raised.
pub fn in_subtransaction<R, E>(f: impl FnOnce() -> Result<R, E>) -> Result<Result<R, E>, Box<CaughtError>> {
    // SAFETY: this is the frame of an internal subtransaction, as in PL/pgSQL's exception blocks. It is released or
    // rolled back exactly once, and then the memory context and the resource owner are restored.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null::<c_char>());
        pg_sys::MemoryContextSwitchTo(context);
        let result = caught(f);
        match &result {
            Ok(Ok(_)) => pg_sys::ReleaseCurrentSubTransaction(),
            Ok(Err(_)) | Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}
