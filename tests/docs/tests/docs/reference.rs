//! Compares `docs/reference/` with the extension's catalog: every object is documented, no documented object is missing,
//! and every signature is PostgreSQL's.
//!
//! `tests/docs/src/reference.rs` says how the pages list objects. If a test prints a line as missing, add that line to the
//! reference, with a sentence that describes the object, and run `cargo xtask schema --accept`.

use std::collections::{BTreeMap, BTreeSet};

use docs_tests::Page;
use docs_tests::reference::{objects, pages};
use regex::Regex;
use system_tests::Database;
use table_service_model::{Code, error::Retry, limits};

/// Every object of the extension, one line each, and its description. Array types, the types of the rows of tables and views,
/// and operator families are left out: they belong to others.
const OBJECTS: &str = r#"
WITH members AS (
    SELECT classid, objid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service') AND deptype = 'e')
SELECT concat(CASE p.prokind WHEN 'p' THEN 'procedure ' END, CASE p.pronamespace WHEN 'pg_catalog'::regnamespace THEN 'pg_catalog.' END, p.proname, '(', pg_get_function_arguments(p.oid), ')', ' → ' || pg_get_function_result(p.oid)),
    obj_description(objid, 'pg_proc')
FROM members JOIN pg_proc AS p ON classid = 'pg_proc'::regclass AND objid = p.oid
UNION ALL
SELECT concat_ws(' ', 'type', t.typname, '(' || (
    SELECT string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = t.typrelid AND attnum > 0) || ')'),
    obj_description(objid, 'pg_type')
FROM members JOIN pg_type AS t ON classid = 'pg_type'::regclass AND objid = t.oid WHERE t.typcategory <> 'A'
    AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.typrelid AND c.relkind <> 'c')
UNION ALL
SELECT format('operator %s %s %s → %s', o.oprleft::regtype, o.oprname, o.oprright::regtype, o.oprresult::regtype), obj_description(objid, 'pg_operator')
FROM members JOIN pg_operator AS o ON classid = 'pg_operator'::regclass AND objid = o.oid
UNION ALL
SELECT format('cast %s → %s, %s', c.castsource::regtype, c.casttarget::regtype,
        CASE c.castcontext WHEN 'i' THEN 'implicit' WHEN 'a' THEN 'assignment' ELSE 'explicit' END),
    obj_description(objid, 'pg_cast')
FROM members JOIN pg_cast AS c ON classid = 'pg_cast'::regclass AND objid = c.oid
UNION ALL
SELECT format('operator class %s for %s', c.opcname, a.amname), obj_description(objid, 'pg_opclass')
FROM members JOIN pg_opclass AS c ON classid = 'pg_opclass'::regclass AND objid = c.oid JOIN pg_am AS a ON a.oid = c.opcmethod
UNION ALL
SELECT 'schema ' || n.nspname, obj_description(n.oid, 'pg_namespace')
FROM pg_namespace AS n WHERE n.nspname = 'table_service' OR n.oid IN (SELECT objid FROM members WHERE classid = 'pg_namespace'::regclass)
UNION ALL
SELECT format('setting %s %s', name, vartype) || concat(' = ' || boot_val, ' ' || unit, ', ' || min_val || ' to ' || max_val, ', ' || context), NULL
FROM pg_settings WHERE name LIKE 'table\_service.%'
UNION ALL
SELECT pg_describe_object(classid, objid, 0), obj_description(objid, classid::regclass::name) FROM members
WHERE classid <> ALL ('{pg_proc,pg_type,pg_operator,pg_cast,pg_opclass,pg_opfamily,pg_namespace}'::regclass[])
"#;

/// Columns without a description, and operator families.
const UNDESCRIBED: &str = r"
WITH members AS (
    SELECT classid, objid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service') AND deptype = 'e')
SELECT format('column %s.%s', attrelid::regclass, attname) FROM pg_attribute
WHERE attnum > 0 AND NOT attisdropped AND col_description(attrelid, attnum) IS NULL
    AND attrelid IN (SELECT objid FROM members WHERE classid = 'pg_class'::regclass
        UNION SELECT t.typrelid FROM members JOIN pg_type AS t ON classid = 'pg_type'::regclass AND t.oid = objid)
UNION ALL
SELECT pg_describe_object(classid, objid, 0) FROM members
WHERE classid = 'pg_opfamily'::regclass AND obj_description(objid, 'pg_opfamily') IS NULL
";

/// Removes the parts of PostgreSQL's signatures that readers do not need: casts of defaults, long names of types.
fn short(line: &str) -> String {
    let casts = Regex::new(r"(DEFAULT (?:'[^']*'|\w+(?:\(\))?))::[a-z ]+(?:\[\])?").unwrap();
    casts
        .replace_all(line, "$1")
        .replace("timestamp with time zone", "timestamptz")
}

fn page(name: &str) -> Page {
    pages().into_iter().find(|page| page.name == name).unwrap()
}

fn signatures(page: &Page) -> Vec<String> {
    objects(page).into_iter().map(|object| object.signature).collect()
}

/// The objects that only the extension has, and those that only the reference has.
fn differences(database: &Database) -> (Vec<String>, Vec<String>) {
    let session = database.session("catalog");
    session.run("LOAD '$libdir/table_service'; SET search_path = table_service; SET intervalstyle = 'postgres'");
    let objects = session.run(OBJECTS);
    let there: BTreeSet<String> = objects.iter().map(|row| short(row[0].as_deref().unwrap())).collect();
    let listed: Vec<String> = pages().iter().flat_map(signatures).collect();
    let documented: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(
        listed.len(),
        documented.len(),
        "something is documented twice: {listed:#?}"
    );
    (
        there.difference(&documented).cloned().collect(),
        documented.difference(&there).cloned().collect(),
    )
}

#[test]
fn the_reference_has_every_object_as_it_is() {
    let (missing, stale) = differences(&Database::new());
    assert!(
        missing.is_empty() && stale.is_empty(),
        "\nnot in docs/reference:\n{}\n\nin docs/reference, but not in the extension:\n{}\n",
        missing.join("\n"),
        stale.join("\n")
    );
}

/// psql says the same of each object as the reference, and also of each column of a type, a table or a view.
#[test]
fn psql_describes_every_object_and_column() {
    let database = Database::new();
    let session = database.session("catalog");
    session.run("SET search_path = table_service; SET intervalstyle = 'postgres'");
    let described: BTreeMap<String, String> = pages()
        .iter()
        .flat_map(objects)
        .map(|object| (object.signature, object.description))
        .collect();
    let mut findings = Vec::new();
    for row in session.run(OBJECTS) {
        let object = short(row[0].as_deref().unwrap());
        if row[1].as_ref() != described.get(&object) && !object.starts_with("setting ") {
            findings.push(format!("{object}: {:?}", row[1]));
        }
    }
    for row in session.run(UNDESCRIBED) {
        findings.push(format!("{}: None", row[0].as_deref().unwrap()));
    }
    assert!(
        findings.is_empty(),
        "\npsql shows another description than docs/reference, or none. Write it there (tests/docs/src/reference.rs says where), then run: \
         cargo xtask schema --accept\n{}\n",
        findings.join("\n")
    );
}

#[test]
fn an_undocumented_object_and_a_stale_signature_are_noticed() {
    let database = Database::new();
    database.session("mischief").run(
        "CREATE FUNCTION table_service.get_entity_count(table_name text, exact boolean DEFAULT true) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
        ALTER EXTENSION table_service ADD FUNCTION table_service.get_entity_count;
        CREATE TYPE table_service.mood AS ENUM ('good');
        ALTER EXTENSION table_service ADD TYPE table_service.mood;
        ALTER EXTENSION table_service DROP FUNCTION table_service.from_ticks;
        ALTER EXTENSION table_service DROP CAST (table_service.properties AS jsonb)",
    );
    let (missing, stale) = differences(&database);
    for line in [
        "get_entity_count(table_name text, exact boolean DEFAULT true) → bigint",
        "type mood",
    ] {
        assert!(missing.contains(&line.to_owned()), "{missing:#?}");
    }
    for line in [
        "cast properties → jsonb, explicit",
        "from_ticks(ticks bigint) → timestamptz",
    ] {
        assert!(stale.contains(&line.to_owned()), "{stale:#?}");
    }
}

#[test]
fn every_function_has_an_example_on_its_page() {
    for page in pages() {
        if page.name == "internals.md" {
            continue;
        }
        let examples: String = page.blocks.iter().map(|block| block.sql.as_str()).collect();
        for signature in signatures(&page) {
            let (name, _) = signature.split_once('(').unwrap_or((&signature, ""));
            if !name.contains(' ') {
                assert!(
                    examples.contains(&format!("{name}(")),
                    "{}: {name} has no example",
                    page.name
                );
            }
        }
    }
}

#[test]
fn the_table_of_errors_is_the_catalogs() {
    let page = &page("errors.md").text;
    let documented: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        // The names of PL/pgSQL's conditions are in lower case.
        .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect();
    for code in Code::ALL {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{code}` | {} | ", code.http_status())));
        let Some(row) = row else {
            panic!("errors.md has no row `| `{code}` | {} | …`", code.http_status());
        };
        let retry = match code.retry() {
            Retry::No => "| no |",
            Retry::AfterReading => "| read again, then decide |",
            Retry::WithBackOff => "| yes, after a pause |",
        };
        assert!(row.contains(retry), "{code}: {retry} is not in {row}");
    }
    let known: BTreeSet<&str> = Code::ALL.iter().copied().map(Code::as_str).collect();
    assert!(
        documented.is_subset(&known),
        "not in the catalog: {:?}",
        documented.difference(&known)
    );
}

#[test]
fn the_limits_are_the_models() {
    let page = &page("limits.md").text;
    for (what, limit) in [
        ("units of a PartitionKey, and of a RowKey", limits::KEY_UTF16_UNITS),
        ("bytes of both keys together", limits::KEYS_BYTES),
        ("properties of an entity", limits::PROPERTIES),
        ("units of a property's name", limits::PROPERTY_NAME_UTF16_UNITS),
        ("units of a String", limits::STRING_UTF16_UNITS),
        ("bytes of a Binary", limits::BINARY_BYTES),
        ("bytes of an entity", limits::ENTITY_BYTES),
        ("bytes of a filter", limits::FILTER_BYTES),
        ("parentheses of a filter open at once", limits::FILTER_PARENTHESES),
        ("levels of `and`, `or`, `not` in each other", limits::FILTER_DEPTH),
        ("key ranges of a filter", limits::FILTER_RANGES),
        ("bytes of all keys of these ranges", limits::RANGE_BYTES),
        (
            "bytes of a filter's `@name` values, counted wherever they occur, and of the operand before `in`, for each member of its list",
            limits::FILTER_COPIED_BYTES,
        ),
        ("names in a projection", limits::PROJECTION_NAMES),
        ("bytes of a projection", limits::PROJECTION_BYTES),
        (
            "bytes of the JSON of access policies or service properties",
            limits::DOCUMENT_BYTES,
        ),
        (
            "bytes of any other argument: a text, an array, JSON",
            limits::ARGUMENT_BYTES,
        ),
        ("operations of a batch", limits::BATCH_OPERATIONS),
        ("bytes of a batch", limits::BATCH_BYTES),
        ("members of one JSON object", limits::JSON_MEMBERS),
    ] {
        let row = format!("| {what} | {limit} |");
        assert!(page.contains(&row), "limits.md has no row {row}");
    }
    let (mebibytes, (least, most)) = (
        limits::PAGE_BYTES >> 20,
        (limits::TABLE_NAME_MIN_CHARACTERS, limits::TABLE_NAME_MAX_CHARACTERS),
    );
    for sentence in [
        format!(
            "A page has at most {} entities and {mebibytes} MiB",
            limits::PAGE_ENTITIES
        ),
        format!("A table's name has {least} to {most} characters."),
    ] {
        assert!(page.contains(&sentence), "limits.md does not say: {sentence}");
    }
}

#[test]
fn signatures_are_compared_without_what_readers_do_not_need() {
    assert_eq!(
        short(
            "f(a text DEFAULT NULL::text, b bigint DEFAULT '0 s'::interval, c timestamp with time zone DEFAULT clock_timestamp()) → text"
        ),
        "f(a text DEFAULT NULL, b bigint DEFAULT '0 s', c timestamptz DEFAULT clock_timestamp()) → text"
    );
    let page = Page::parse("p.md", "```signature\nf(a text,\n  b text) → text\ng() → text\n```\n").unwrap();
    assert_eq!(signatures(&page), ["f(a text, b text) → text", "g() → text"]);
}
