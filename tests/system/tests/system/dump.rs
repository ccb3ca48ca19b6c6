//! Dump and restore of a database with tables of the service.

use system_tests::{Database, Session};

/// A value of every type, at the edges.
const EVERY_TYPE: &str = r#"{
    "Bin@odata.type": "Edm.Binary", "Bin": "AAEC/w==", "NoBytes@odata.type": "Edm.Binary", "NoBytes": "",
    "Flag": true, "Unflag": false,
    "When@odata.type": "Edm.DateTime", "When": "2022-04-13T21:50:14.2477041Z",
    "First@odata.type": "Edm.DateTime", "First": "1601-01-01T00:00:00Z",
    "Last@odata.type": "Edm.DateTime", "Last": "9999-12-31T23:59:59.9999999Z",
    "Third": 0.1, "Whole": 3.0, "Minus": -0.0, "Tiny": 5e-324, "Huge": 1.7976931348623157e308,
    "NaN@odata.type": "Edm.Double", "NaN": "NaN", "Inf@odata.type": "Edm.Double", "Inf": "-Infinity",
    "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833",
    "Small": -2147483648, "Big@odata.type": "Edm.Int64", "Big": "-9223372036854775808",
    "Empty": "", "Text": "tab \t, \"quotes\", \\ and \\N; ä €, 𐐷, \u0001",
    "_größe": "a name beyond ASCII"
}"#;

/// Tables with everything that a dump could lose.
fn fill(session: &Session) {
    session.run(
        "SELECT table_service.create_table('MixedCase'); SELECT table_service.create_table('plain');
        SELECT table_service.create_table('Empty'); SELECT table_service.create_table('OldName');
        ALTER TABLE table_service_data.\"OldName\" RENAME TO \"Renamed\"",
    );
    for (partition_key, row_key) in [
        ("p", "r"),
        ("", ""),
        ("ä 'q' \"d\" %", "\u{1F600}\u{FFFD}"),
        ("a+b:c", "null"),
    ] {
        session.value::<String>(
            "SELECT table_service.insert_entity('mixedcase', $1, $2, $3::text::table_service.properties)",
            &[&partition_key, &row_key, &EVERY_TYPE],
        );
    }
    // Values that are stored compressed, and out of line.
    session.run(
        "SELECT table_service.insert_entity('plain', 'toast', n::text, jsonb_build_object(
            'Same', repeat('x', 30000),
            'Random', (SELECT string_agg(md5(n::text || i::text), '') FROM generate_series(1, 1000) AS i)))
        FROM generate_series(1, 20) AS n;
        SELECT table_service.insert_entity('renamed', 'p', 'r', '{}');
        -- Policies of a table that is renamed, and of one that is gone; properties of the service.
        SELECT table_service.set_access_policies('renamed', '[{\"Id\": \"readers\", \"Expiry\": \"2030-01-01\", \"Permission\": \"r\"}]');
        SELECT table_service.set_access_policies('mixedcase', '[{\"Id\": \"ä\"}]');
        SELECT table_service.create_table('Gone'); SELECT table_service.set_access_policies('Gone', '[{\"Id\": \"old\"}]');
        DROP TABLE table_service_data.\"Gone\";
        SELECT table_service.set_service_properties('{\"Cors\": [{\"AllowedOrigins\": [\"*\"], \"AllowedMethods\": [\"GET\"], \"MaxAgeInSeconds\": 5}]}');
        -- A Timestamp that only a restore may bring.
        INSERT INTO table_service_data.\"Renamed\" VALUES ('p', 'old', '1999-12-31 23:59:59.123456Z', '{\"A\": 1}');
        -- What users add to a table is dumped like that of any other.
        CREATE INDEX by_age ON table_service_data.plain (table_service.get_int32(properties, 'Age'));
        SELECT table_service.create_property_index('mixedcase', property) FROM unnest('{Small,Text,_größe}'::text[]) AS property;
        SELECT table_service.set_expiry('plain', 'Until', '30 days');
        INSERT INTO table_service_data.plain VALUES ('expired', 'r', '2020-01-01', '{}')",
    );
}

/// All entities with their ETags, and everything that belongs to the tables.
fn everything(session: &Session) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut add = |sql: &str| {
        for row in session.run(sql) {
            all.push(
                row.into_iter()
                    .map(|value| value.unwrap_or("NULL".to_owned()))
                    .collect(),
            );
        }
    };
    for table in ["MixedCase", "plain", "Empty", "Renamed"] {
        add(&format!(
            "SELECT '{table}', e.partition_key, e.row_key, e.properties, table_service.etag(e),
                pg_catalog.encode(table_service.properties_send(e.properties), 'hex')
            FROM table_service_data.\"{table}\" AS e ORDER BY e.partition_key, e.row_key"
        ));
    }
    add("SELECT table_name, table_service.get_access_policies(table_name) FROM table_service.query_tables()");
    add("SELECT relation, policies FROM table_service.access_policies
        WHERE relation IN (SELECT oid FROM pg_class) ORDER BY relation::text COLLATE \"C\"");
    add("SELECT table_service.get_service_properties()");
    add("SELECT table_name, property, index, is_valid FROM table_service.query_property_indexes()");
    add("SELECT table_name, property, time_to_live, index, is_valid FROM table_service.query_expiry()");
    add("SELECT partition_key, row_key FROM table_service.query_entities('plain')");
    for filter in ["Small lt 0", "Text ge 'tab'", "_größe eq 'a name beyond ASCII'"] {
        add(&format!(
            "SELECT x.access, e.partition_key, e.row_key FROM table_service.explain_query('MixedCase', $${filter}$$) AS x,
                table_service.query_entities('MixedCase', $${filter}$$) AS e"
        ));
    }
    add("SELECT relname, reloftype::regtype, reloptions FROM pg_class
        WHERE relnamespace = 'table_service_data'::regnamespace AND relkind = 'r' ORDER BY relname COLLATE \"C\"");
    add(
        "SELECT i.indexrelid::regclass, i.indrelid::regclass, indisprimary, indisclustered FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indrelid
        WHERE c.relnamespace = 'table_service_data'::regnamespace ORDER BY i.indexrelid::regclass::text COLLATE \"C\"",
    );
    add(
        "SELECT conrelid::regclass, contype, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'table_service_data'::regnamespace AND contype <> 'n'
        ORDER BY conrelid::regclass::text COLLATE \"C\", contype, conname",
    );
    add(
        "SELECT tgrelid::regclass, tgname, pg_get_triggerdef(oid) FROM pg_trigger
        WHERE NOT tgisinternal ORDER BY tgrelid::regclass::text COLLATE \"C\"",
    );
    add(
        "SELECT attrelid::regclass, attname, attnotnull, pg_get_expr(adbin, adrelid) FROM pg_attribute
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attnum > 0 AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r'
            AND relnamespace = 'table_service_data'::regnamespace)
        ORDER BY attrelid::regclass::text COLLATE \"C\", attnum",
    );
    all
}

/// The restored tables are tables of the service, with the CHECK and the trigger of the original ones.
fn still_works(session: &Session) {
    // Those of a table that is gone were not dumped.
    assert_eq!(session.text("SELECT count(*) FROM table_service.access_policies"), "2");
    let tag = "SELECT table_service.etag(e) FROM table_service.get_entity('MIXEDCASE', 'p', 'r') AS e";
    let before = session.text(tag);
    session.run("UPDATE table_service_data.\"MixedCase\" SET \"timestamp\" = '2000-01-01' WHERE partition_key = 'p'");
    let after = session.text(tag);
    assert_ne!(before, after);
    let stale: Result<_, _> = session.query(
        "SELECT table_service.merge_entity('mixedcase', 'p', 'r', '{}', $1)",
        &[&before],
    );
    assert_eq!(stale.unwrap_err().sqlstate, "40002");
    session.value::<String>(
        "SELECT table_service.merge_entity('mixedcase', 'p', 'r', '{}', $1)",
        &[&after],
    );
    assert_eq!(
        session
            .sql("INSERT INTO table_service_data.plain VALUES ('p', 'a/b', now(), '{}')")
            .unwrap_err()
            .sqlstate,
        "22003"
    );
    assert_eq!(
        session
            .sql("SELECT table_service.create_table('mixedCASE')")
            .unwrap_err()
            .sqlstate,
        "42P07"
    );
    // A table that was renamed before the dump has its new name, and the old name is free.
    session.run("SELECT table_service.create_table('OldName')");
    for table in ["oldname", "renamed", "MIXEDCASE", "plain", "empty"] {
        assert_eq!(
            session.text(&format!("SELECT table_service.delete_table('{table}')")),
            "t"
        );
    }
    session.run("DROP EXTENSION table_service");
}

#[test]
fn a_plain_dump_restores_with_equal_etags() {
    let source = Database::new();
    fill(&source.session("source"));
    let expected = everything(&source.session("source"));
    let dump = source.program("pg_dump", &[], &[]).unwrap();
    let target = Database::empty();
    target
        .program("psql", &["-Xqb", "-v", "ON_ERROR_STOP=1"], &dump)
        .unwrap();
    let session = target.session("target");
    assert_eq!(everything(&session), expected);
    still_works(&session);
}

#[test]
fn a_custom_dump_restores_in_parallel_with_equal_etags() {
    let source = Database::new();
    fill(&source.session("source"));
    let expected = everything(&source.session("source"));
    let directory = system_tests::free_directory();
    let path = directory.to_str().unwrap();
    source.program("pg_dump", &["-Fd", "-j2", "-f", path], &[]).unwrap();
    let target = Database::empty();
    let restored = target.program("pg_restore", &["-e", "-j2", "-d", target.name(), path], &[]);
    std::fs::remove_dir_all(&directory).unwrap();
    restored.unwrap();
    let session = target.session("target");
    assert_eq!(everything(&session), expected);
    still_works(&session);
}

#[test]
fn a_database_owner_who_is_no_superuser_dumps_and_restores() {
    for options in [&["-Fc"][..], &["-Fc", "--inserts"]] {
        // The owner also makes the dump: it holds only data that its role may read.
        let source = Database::empty();
        let owner = source.role("owner");
        let superuser = source.session("superuser");
        superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", source.name()));
        let session = source.session_as(&owner, "source");
        session.run("CREATE EXTENSION table_service");
        fill(&session);
        let expected = everything(&session);
        let as_owner = ["-U", &owner];
        let dump = source
            .program("pg_dump", &[&as_owner[..], options].concat(), &[])
            .unwrap();

        let target = Database::empty();
        superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", target.name()));
        target
            .program("pg_restore", &["-e", "-U", &owner, "-d", target.name()], &dump)
            .unwrap();
        let session = target.session_as(&owner, "target");
        assert_eq!(everything(&session), expected);
        still_works(&session);
    }
}

#[test]
fn a_superusers_dump_restores_as_another_owner() {
    let source = Database::new();
    fill(&source.session("source"));
    let expected = everything(&source.session("source"));
    let dump = source.program("pg_dump", &["-Fc"], &[]).unwrap();
    let target = Database::empty();
    let owner = target.role("owner");
    target
        .session("superuser")
        .run(&format!("ALTER DATABASE {} OWNER TO {owner}", target.name()));
    target
        .program(
            "pg_restore",
            &["-e", "--no-owner", "-U", &owner, "-d", target.name()],
            &dump,
        )
        .unwrap();
    let session = target.session_as(&owner, "target");
    assert_eq!(everything(&session), expected);
    still_works(&session);
}

#[test]
fn schema_and_data_restore_one_after_the_other() {
    let source = Database::new();
    fill(&source.session("source"));
    let expected = everything(&source.session("source"));
    let schema = source.program("pg_dump", &["--schema-only"], &[]).unwrap();
    let data = source.program("pg_dump", &["--data-only"], &[]).unwrap();
    let target = Database::empty();
    let session = target.session("target");
    for dump in [schema, data] {
        target
            .program("psql", &["-Xqb", "-v", "ON_ERROR_STOP=1"], &dump)
            .unwrap();
    }
    assert_eq!(everything(&session), expected);
    still_works(&session);
}

#[test]
fn one_table_restores_into_a_database_with_others() {
    let source = Database::new();
    fill(&source.session("source"));
    let dump = source
        .program("pg_dump", &["-t", "table_service_data.\"MixedCase\""], &[])
        .unwrap();
    let target = Database::new();
    let session = target.session("target");
    session
        .run("SELECT table_service.create_table('Other'); SELECT table_service.insert_entity('Other', 'p', 'r', '{}')");
    target
        .program("psql", &["-Xqb", "-v", "ON_ERROR_STOP=1"], &dump)
        .unwrap();
    let entities = "SELECT e, table_service.etag(e) FROM table_service_data.\"MixedCase\" AS e
        ORDER BY e.partition_key, e.row_key";
    assert_eq!(session.run(entities), source.session("source").run(entities));
    session.run("SELECT table_service.merge_entity('mixedcase', 'p', 'r', '{\"New\": 1}', '*')");
}

/// A restore finds operators only by their full names, and `IS DISTINCT FROM` has none.
#[test]
fn a_trigger_with_the_condition_of_the_guide_is_restored() {
    let source = Database::new();
    let session = source.session("source");
    session.run(
        "SET search_path = public, table_service;
        SELECT create_table('Watched'); SELECT insert_entity('Watched', 'p', 'r', '{\"A\": 1}');
        CREATE TABLE changes (row_key text);
        CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO public.changes VALUES (NEW.row_key); RETURN NULL; END';
        CREATE TRIGGER restored AFTER UPDATE ON table_service_data.\"Watched\" FOR EACH ROW
            WHEN (OLD.properties <> NEW.properties) EXECUTE FUNCTION note_change();
        CREATE TRIGGER lost AFTER UPDATE ON table_service_data.\"Watched\" FOR EACH ROW
            WHEN (OLD.properties IS DISTINCT FROM NEW.properties) EXECUTE FUNCTION note_change()",
    );
    let dump = source.program("pg_dump", &[], &[]).unwrap();
    let target = Database::empty();
    target.program("psql", &["-Xqb"], &dump).unwrap();
    let session = target.session("target");
    assert_eq!(
        session.text(
            "SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger
            WHERE tgrelid = 'table_service_data.\"Watched\"'::regclass AND tgfoid = 'public.note_change'::regproc"
        ),
        "restored"
    );
    for (properties, changes) in [("{}", "0"), ("{\"A\": 1}", "0"), ("{\"A\": 2}", "1")] {
        session.run(&format!(
            "SELECT table_service.merge_entity('Watched', 'p', 'r', '{properties}', '*')"
        ));
        assert_eq!(session.text("SELECT count(*) FROM public.changes"), changes);
    }
}

/// Policies are rows of a table of the extension, so a dump of another table has none.
#[test]
fn access_policies_of_one_table_are_carried_over_as_json() {
    let source = Database::new();
    fill(&source.session("source"));
    let session = source.session("source");
    let policies = session.text("SELECT table_service.get_access_policies('mixedcase')");
    assert_ne!(policies, "[]");
    let dump = source
        .program("pg_dump", &["-t", "table_service_data.\"MixedCase\""], &[])
        .unwrap();
    let target = Database::new();
    target
        .program("psql", &["-Xqb", "-v", "ON_ERROR_STOP=1"], &dump)
        .unwrap();
    let session = target.session("target");
    let get = "SELECT table_service.get_access_policies('mixedcase')";
    assert_eq!(session.text(get), "[]");
    session.run(&format!(
        "SELECT table_service.set_access_policies('mixedcase', $json${policies}$json$)"
    ));
    assert_eq!(session.text(get), policies);
}
