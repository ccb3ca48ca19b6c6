//! Standard output, for data.

use std::io::Stdout;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, major, minor};

use crate::failure::Failure;

/// Returns standard output.
///
/// # Errors
/// The program began without one, so data that goes there would be lost.
pub fn for_data() -> Result<Stdout, Failure> {
    if output_was_closed() {
        return Err(Failure::usage(
            "Standard output is closed, so what goes to --to - would be lost.",
        ));
    }
    Ok(std::io::stdout())
}

/// Returns whether the program began without a standard output. Rust then opens `/dev/null` for it, also for reading,
/// which `>/dev/null` does not.
fn output_was_closed() -> bool {
    let output = std::io::stdout();
    let is_null = fstat(&output).is_ok_and(|about| {
        FileType::from_raw_mode(about.st_mode) == FileType::CharacterDevice
            && (major(about.st_rdev), minor(about.st_rdev)) == (1, 3)
    });
    is_null && fcntl_getfl(&output).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}
