//! The versions of PostgreSQL with which this gateway works.

/// The first minor release of each major version of PostgreSQL that applies row-level security to cached plans when
/// roles change (CVE-2026-14666, and those before it: CVE-2025-8713, CVE-2024-10976, CVE-2023-2455). The guide also
/// names them. From PostgreSQL 19 on, every release does.
const SAFE: [(u32, u32); 4] = [(15, 19), (16, 15), (17, 11), (18, 6)];

/// Returns a warning about a server with this `server_version`, if it is outdated.
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
            "19rc1 (Debian 19~rc1-1)",
            "19.0",
            "20devel",
            "",
            "x.y",
        ] {
            assert_eq!(outdated(version), None, "{version}");
        }
    }
}
