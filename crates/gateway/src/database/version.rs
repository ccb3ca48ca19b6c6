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

/// The first minor release of each major version of PostgreSQL whose cached plans keep to row-level security when roles change
/// (CVE-2026-14666, and those before it: CVE-2025-8713, CVE-2024-10976, CVE-2023-2455). The guide names them too.
const SAFE: [(u32, u32); 4] = [(15, 19), (16, 15), (17, 11), (18, 6)];

/// What an operator should know about a server with this `server_version`, if anything.
pub fn outdated(server_version: &str) -> Option<String> {
    let number = server_version.split(' ').next()?;
    let (major, minor) = number.split_once('.')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let (_, safe) = SAFE.iter().find(|(known, _)| *known == major)?;
    (minor < *safe).then(|| {
        format!(
            "PostgreSQL {major}.{minor} has known faults in cached plans and row-level security (CVE-2026-14666 among them): \
             update it to {major}.{safe} or later"
        )
    })
}

/// Returns whether a version of the extension has the functions of 0.3: pages in chunks, and expiry.
pub fn has_functions_of_0_3(extension: &str) -> bool {
    let mut numbers = extension.split('.').map(|number| number.parse().unwrap_or(0u32));
    (numbers.next(), numbers.next()) >= (Some(0), Some(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_minor_releases_are_outdated() {
        for version in ["15.18 (Debian 15.18-0+deb12u1)", "16.14", "17.0", "18.5"] {
            let number = version.split(' ').next().unwrap();
            let problem = outdated(version).unwrap();
            assert!(problem.contains(&format!("PostgreSQL {number} ")), "{problem}");
        }
        for version in [
            "15.19",
            "15.20 (Debian 15.20-0+deb12u1)",
            "16.15",
            "17.11",
            "18.6",
            "18.10",
            "19.0",
            "19beta1",
            "20devel",
            "",
            "x.y",
        ] {
            assert_eq!(outdated(version), None, "{version}");
        }
    }

    #[test]
    fn pages_come_in_chunks_from_0_3_on() {
        for version in ["0.3.0", "0.10.0", GATEWAY] {
            assert!(has_functions_of_0_3(version), "{version}");
        }
        for version in ["0.1.0", "0.2.0", "0.2.11", ""] {
            assert!(!has_functions_of_0_3(version), "{version}");
        }
    }

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
