//! Files as Storage Explorer and the emulator azurite write them.

use crate::program::{ends_with, file, quietly, succeeds, text};

/// Copies a file into JSON lines. Returns the messages of the program, and the lines of a table.
fn lines_of(name: &str, contents: &[u8], table: &str, more: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join(name);
    std::fs::write(&from, contents).unwrap();
    let to = directory.path().join("to");
    let said = succeeds(&quietly(
        text(&from),
        text(&to),
        &[&["--format", "jsonl"], more].concat(),
    ));
    let lines = std::fs::read_to_string(to.join(format!("{table}.jsonl"))).unwrap();
    (said, lines)
}

const TABBED: &str = "PartitionKey\tRowKey\tTimestamp\taggType\taggType@type\tnote\tnote@type\todata.etag\r\n\
    1979671\t1000\t2025-09-22T09:45:35.2743359Z\t2\tInt32\t\tString\tW/1\r\n\
    1979671\t11\t2025-09-22T09:45:35.2743359Z\t4\t\tACK\t\tW/2\r\n";

#[test]
fn types_in_the_first_row_tabs_and_utf_16() {
    let wide: Vec<u8> = TABBED.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [
        TABBED.as_bytes().to_vec(),
        [b"\xef\xbb\xbf", TABBED.as_bytes()].concat(),
        [b"\xff\xfe", &*wide].concat(),
    ] {
        let (said, lines) = lines_of("Aggregates.csv", &bytes, "Aggregates", &["--delimiter", "tab"]);
        assert_eq!(
            lines,
            "{\"PartitionKey\":\"1979671\",\"RowKey\":\"1000\",\"Timestamp\":\"2025-09-22T09:45:35.2743359Z\",\"aggType\":2,\"note\":\"\"}\n\
             {\"PartitionKey\":\"1979671\",\"RowKey\":\"11\",\"Timestamp\":\"2025-09-22T09:45:35.2743359Z\",\"aggType\":4,\"note\":\"ACK\"}\n"
        );
        assert_eq!(said.matches("the first row of data").count(), 1, "{said}");
    }
    let directory = tempfile::tempdir().unwrap();
    let tabbed = file(&directory, "Aggregates.csv", TABBED);
    let said = ends_with(1, &quietly(text(&tabbed), text(&directory.path().join("to")), &[]));
    assert!(said.contains("--delimiter"), "{said}");
}

#[test]
fn without_types_the_program_says_what_values_become() {
    let untyped = b"PartitionKey,RowKey,Age,Since,Zip\np,1,7,2020-01-01T00:00:00Z,01234\np,2,,,55555\n";
    let (said, lines) = lines_of("People.csv", untyped, "People", &["--verify"]);
    assert!(
        lines.starts_with("{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"Age\":\"7\",\"Since\":\"2020"),
        "{lines}"
    );
    assert_eq!(said.matches("values without a type are Strings").count(), 1, "{said}");
    let (said, lines) = lines_of("People.csv", untyped, "People", &["--infer-types"]);
    assert!(said.contains("Age is Edm.Int32, Since is Edm.DateTime."), "{said}");
    assert_eq!(
        lines.lines().nth(1),
        Some("{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"Zip\":\"55555\"}")
    );
    assert!(
        lines.contains("\"Age\":7") && lines.contains("\"Zip\":\"01234\""),
        "{lines}"
    );
    let said = ends_with(
        2,
        &quietly("-", "-", &["--table", "Orders", "--format", "csv", "--infer-types"]),
    );
    assert!(said.contains("--infer-types reads a file twice"), "{said}");
}

#[test]
fn a_delimiter_is_written_and_read() {
    let directory = tempfile::tempdir().unwrap();
    let json = "{\"PartitionKey\":\"p;\",\"RowKey\":\"r,\",\"A\":\";\"}\n";
    let begin = file(&directory, "Orders.jsonl", json);
    let csv = directory.path().join("Orders.csv");
    succeeds(&quietly(text(&begin), text(&csv), &["--delimiter", ";"]));
    assert_eq!(
        std::fs::read_to_string(&csv).unwrap(),
        "PartitionKey;RowKey;Timestamp;A;A@type\r\n\"p;\";r,;;\";\";Edm.String\r\n"
    );
    let (_, lines) = lines_of(
        "Orders.csv",
        &std::fs::read(&csv).unwrap(),
        "Orders",
        &["--delimiter", ";"],
    );
    assert_eq!(lines, json);
    ends_with(2, &quietly(text(&begin), text(&csv), &["--delimiter", "ab"]));
}

#[test]
fn json_with_types_beside_its_values() {
    let exported = br#"[{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","A":"5","A@type":"Int32","B":"9","B@type":"Edm.Int64"}]"#;
    let (_, lines) = lines_of("Orders.json", exported, "Orders", &[]);
    assert_eq!(
        lines,
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":\"2020-01-01T00:00:00Z\",\"A\":5,\"B@odata.type\":\"Edm.Int64\",\"B\":\"9\"}\n"
    );
}

/// A database file as azurite 3.36 writes it.
fn database(accounts: &[&str]) -> String {
    let tables: Vec<String> = accounts
        .iter()
        .flat_map(|account| {
            ["Orders", "Empty"].map(|table| {
                format!(r#"{{"account":"{account}","table":"{table}","meta":{{"revision":0}},"$loki":1}}"#)
            })
        })
        .collect();
    let mut collections = vec![format!(
        r#"{{"name":"$TABLES_COLLECTION$","data":[{}],"idIndex":null,"binaryIndices":{{}}}}"#,
        tables.join(",")
    )];
    for account in accounts {
        collections.push(format!(
            r#"{{"name":"{account}$Orders","data":[{{"PartitionKey":"{account}","RowKey":"r","properties":{{"PartitionKey":"{account}","RowKey":"r","A":1,"A@odata.type":"Edm.Double","L":"9","L@odata.type":"Edm.Int64","Timestamp":"2026-01-02T03:04:05.1234567Z","Timestamp@odata.type":"Edm.DateTime"}},"lastModifiedTime":"2026-01-02T03:04:05.1234567Z","eTag":"W/\"x\"","meta":{{"revision":0}},"$loki":1}}],"idIndex":null}}"#
        ));
        collections.push(format!(r#"{{"name":"{account}$Empty","data":[]}}"#));
    }
    format!(
        r#"{{"filename":"__azurite_db_table__.json","collections":[{}],"databaseVersion":1.5}}"#,
        collections.join(",")
    )
}

#[test]
fn the_database_file_of_an_emulator_is_a_source() {
    let name = "__azurite_db_table__.json";
    let (_, lines) = lines_of(name, database(&["devstoreaccount1"]).as_bytes(), "Orders", &[]);
    let entity = |account: &str| {
        format!(
            "{{\"PartitionKey\":\"{account}\",\"RowKey\":\"r\",\"Timestamp\":\"2026-01-02T03:04:05.1234567Z\",\"A\":1.0,\"L@odata.type\":\"Edm.Int64\",\"L\":\"9\"}}\n"
        )
    };
    assert_eq!(lines, entity("devstoreaccount1"));
    let (_, lines) = lines_of(
        name,
        database(&["one", "two"]).as_bytes(),
        "Orders",
        &["--account", "two"],
    );
    assert_eq!(lines, entity("two"));

    // Also by its directory, or under another name.
    let directory = tempfile::tempdir().unwrap();
    let here = file(&directory, name, &database(&["one", "two"]));
    let to = directory.path().join("to");
    let said = ends_with(2, &quietly(text(directory.path()), text(&to), &[]));
    assert!(said.contains("several accounts (one, two)"), "{said}");
    succeeds(&quietly(text(directory.path()), text(&to), &["--account", "one"]));
    assert_eq!(std::fs::read_to_string(to.join("Orders.jsonl")).unwrap(), entity("one"));
    assert_eq!(std::fs::read_to_string(to.join("Empty.jsonl")).unwrap(), "\n");
    let said = ends_with(
        2,
        &quietly(text(&here), text(&to), &["--format", "azurite", "--account", "one"]),
    );
    assert!(said.contains("a format to read"), "{said}");
}
