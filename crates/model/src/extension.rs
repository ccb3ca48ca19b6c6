//! The question that a program asks a database about the extension before it calls one of its functions. The gateway
//! and the copy program ask it over every new connection.
//!
//! The schema `table_service` may belong to the owner of the database, who can rename it and make another schema of
//! that name, with functions of their own. Those would run with the rights of the program's role.

/// The question. Its answer has no row in a database without the extension; else the two columns of an [`Extension`].
///
/// Only a superuser makes functions in C, and the owner of an extension cannot take functions of others out of it. So
/// if the extension's own schema has the name, and all its functions are in this schema or in `pg_catalog`, and of one
/// library, then a call with the exact types of one of them is a call of the extension, even if others have the name.
/// Only a function that begins with the same types, and has defaults for the rest, makes the call ambiguous. The
/// functions of event triggers are in another language, and no statement can call them.
pub const LOOK: &str = "\
    WITH member AS ( \
        SELECT p.oid, p.proname, p.pronargs, p.proargtypes::pg_catalog.oid[] AS types, p.pronamespace, p.probin, l.lanname \
        FROM pg_catalog.pg_extension AS e \
        JOIN pg_catalog.pg_depend AS d ON d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' \
            AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass \
            AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass \
        JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) d.objid \
        JOIN pg_catalog.pg_language AS l ON l.oid OPERATOR(pg_catalog.=) p.prolang \
        WHERE e.extname OPERATOR(pg_catalog.=) 'table_service' \
            AND p.prorettype OPERATOR(pg_catalog.<>) 'pg_catalog.event_trigger'::pg_catalog.regtype \
    ) \
    SELECT e.extversion, CASE \
        WHEN n.nspname OPERATOR(pg_catalog.<>) 'table_service' OR NOT EXISTS (SELECT FROM member) THEN 'schema table_service' \
        ELSE (SELECT 'function ' OPERATOR(pg_catalog.||) s.oid::pg_catalog.regprocedure::pg_catalog.text FROM ( \
            SELECT m.oid FROM member AS m WHERE m.lanname OPERATOR(pg_catalog.<>) 'c' \
                OR m.pronamespace OPERATOR(pg_catalog.<>) ALL (ARRAY[n.oid, 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid]) \
                OR m.probin OPERATOR(pg_catalog.<>) (SELECT pg_catalog.min(m.probin) FROM member AS m) \
            UNION ALL \
            SELECT p.oid FROM pg_catalog.pg_proc AS p JOIN member AS m ON p.proname OPERATOR(pg_catalog.=) m.proname \
                AND p.pronargs OPERATOR(pg_catalog.>) m.pronargs \
                AND p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults OPERATOR(pg_catalog.<=) m.pronargs \
                AND (p.proargtypes::pg_catalog.oid[])[0:m.pronargs OPERATOR(pg_catalog.-) 1] OPERATOR(pg_catalog.=) m.types[0:m.pronargs OPERATOR(pg_catalog.-) 1] \
            WHERE p.pronamespace OPERATOR(pg_catalog.=) n.oid AND p.oid OPERATOR(pg_catalog.<>) ALL (ARRAY(SELECT m.oid FROM member AS m)) \
            ) AS s ORDER BY 1 LIMIT 1) \
        END \
    FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace \
    WHERE e.extname OPERATOR(pg_catalog.=) 'table_service'";

/// The major version of the extension. Within it, the functions that programs call stay as they are, so that extension and programs can be
/// upgraded in any order. The first release has them all.
const MAJOR: &str = "0";

/// The extension of a database, as the row of [`LOOK`] shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub version: String,
    /// An object in the place of the extension, or beside it so that its calls are ambiguous.
    pub stranger: Option<String>,
}

impl Extension {
    /// Returns the version of the extension that [`LOOK`] has found, if `program` may call the functions of the schema.
    pub fn usable(found: Option<Extension>, program: &str) -> Result<String, String> {
        const LACKS: &str =
            "the database lacks the extension table_service: run CREATE EXTENSION table_service in it, as its owner";
        let Extension { version, stranger } = found.ok_or(LACKS)?;
        if let Some(stranger) = stranger {
            return Err(format!(
                "the {stranger} of the database is not of the extension table_service, and could run in the place of its functions: \
                 ask the owner of the database to drop or rename it"
            ));
        }
        if version.split('.').next() != Some(MAJOR) {
            return Err(format!(
                "the database has version {version} of the extension table_service, and {program} {} works with versions {MAJOR}.*: \
                 install the program of the extension's version",
                env!("CARGO_PKG_VERSION")
            ));
        }
        Ok(version)
    }
}

/// Returns whether a version of the extension has the functions of version 0.`minor`. With 0.3 came pages in chunks, expiry, change feeds
/// and work by filter, and with 0.4 the map of shards.
#[must_use]
pub fn has_functions_of(version: &str, minor: u32) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0u32));
    (numbers.next(), numbers.next()) >= (Some(0), Some(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: &str = env!("CARGO_PKG_VERSION");

    fn usable(version: &str, stranger: Option<&str>) -> Result<String, String> {
        let found = Extension {
            version: version.to_owned(),
            stranger: stranger.map(str::to_owned),
        };
        Extension::usable(Some(found), "table-service-gateway")
    }

    #[test]
    fn other_major_versions_are_refused() {
        for version in ["0.1.0", THIS, "0.99.1"] {
            assert_eq!(usable(version, None).as_deref(), Ok(version));
        }
        for version in ["1.0.0", "10.2.0", "00.1.0", ""] {
            let problem = usable(version, None).unwrap_err();
            assert!(
                problem.contains(&format!("version {version} ")) && problem.contains(THIS),
                "{problem}"
            );
        }
    }

    #[test]
    fn what_is_not_the_extension_is_refused() {
        let problem = usable(THIS, Some("schema table_service")).unwrap_err();
        assert!(
            problem.contains("the schema table_service of the database is not of"),
            "{problem}"
        );
        let nothing = Extension::usable(None, "table-service-copy").unwrap_err();
        assert!(nothing.contains("CREATE EXTENSION"), "{nothing}");
    }

    #[test]
    fn expiry_and_feeds_come_with_0_3() {
        for version in ["0.3.0", "0.10.0", THIS] {
            assert!(has_functions_of(version, 3), "{version}");
        }
        for version in ["0.1.0", "0.2.0", "0.2.11", ""] {
            assert!(!has_functions_of(version, 3), "{version}");
        }
    }
}
