//! Long computations on threads that serve everybody.

/// From this many bytes on, reading or writing a payload may take a millisecond.
const LONG: usize = 64 * 1024;

/// Does work on a payload of this many bytes. If it is long, the other requests of this thread go on elsewhere.
pub fn on_payload<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LONG {
        work()
    } else {
        tokio::task::block_in_place(work)
    }
}
