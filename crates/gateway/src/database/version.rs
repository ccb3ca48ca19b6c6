//! Which versions of the extension this gateway works with.

/// The version of this gateway.
const GATEWAY: &str = env!("CARGO_PKG_VERSION");
/// The major version of the extension. Within it, the functions that the gateway calls stay as they are, so that either of the
/// two can be upgraded first. The first release has them all.
const MAJOR: &str = "0";

/// The version of the extension, if this gateway works with it.
///
/// # Errors
/// Why the database cannot be used.
pub fn usable(version: Option<String>) -> Result<String, String> {
    let lacks =
        "the database lacks the extension table_service: run CREATE EXTENSION table_service in it, as its owner";
    let version = version.ok_or(lacks)?;
    match mismatch(&version) {
        Some(problem) => Err(problem),
        None => Ok(version),
    }
}

/// Why this gateway does not work with that version of the extension, if so.
pub fn mismatch(extension: &str) -> Option<String> {
    (extension.split('.').next() != Some(MAJOR)).then(|| {
        format!(
            "the database has version {extension} of the extension table_service, and table-service-gateway {GATEWAY} works with \
             versions {MAJOR}.*: install the gateway of the extension's version"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_major_versions_are_refused() {
        for version in ["0.1.0", GATEWAY, "0.99.1"] {
            assert_eq!(mismatch(version), None);
        }
        for version in ["1.0.0", "10.2.0", "00.1.0", ""] {
            let problem = mismatch(version).unwrap();
            assert!(
                problem.contains(&format!("version {version} ")) && problem.contains(GATEWAY),
                "{problem}"
            );
        }
    }
}
