//! PostgreSQL's hash function.

unsafe extern "C-unwind" {
    fn hash_bytes(bytes: *const u8, length: i32) -> u32;
    fn hash_bytes_extended(bytes: *const u8, length: i32, seed: u64) -> u64;
}

/// Returns the hash of bytes. At most the first 2 GiB count.
pub fn hash(bytes: &[u8]) -> u32 {
    // SAFETY: the function reads `length` bytes, and the slice has as many.
    unsafe { hash_bytes(bytes.as_ptr(), length(bytes)) }
}

/// Returns the hash of bytes with a seed. At most the first 2 GiB count.
pub fn hash_with_seed(bytes: &[u8], seed: u64) -> u64 {
    // SAFETY: as above.
    unsafe { hash_bytes_extended(bytes.as_ptr(), length(bytes), seed) }
}

fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}
