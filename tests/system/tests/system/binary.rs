//! Bags and entities in the binary protocol.

use system_tests::{Database, Expect, Raw, Session};

use system_tests::random::Random;

/// Bags of every shape: none, one and many properties, every type, short and long offsets.
const BAGS: [&str; 7] = [
    "{}",
    r#"{"A": 1}"#,
    r#"{"A": "ä €, 𐐷", "B": "", "C@odata.type": "Edm.Binary", "C": ""}"#,
    r#"{"Bin@odata.type": "Edm.Binary", "Bin": "AAEC/w==", "Flag": true, "Unflag": false,
        "When@odata.type": "Edm.DateTime", "When": "2022-04-13T21:50:14.2477041Z",
        "Third": 0.1, "Minus": -0.0, "NaN@odata.type": "Edm.Double", "NaN": "NaN",
        "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833",
        "Small": -2147483648, "Big@odata.type": "Edm.Int64", "Big": "9223372036854775807", "Text": "x"}"#,
    "(SELECT jsonb_object_agg('P' || n, n) FROM generate_series(1, 252) AS n)::text",
    "(SELECT jsonb_object_agg('Long' || n, repeat('x', 20000)) FROM generate_series(1, 20) AS n)::text",
    "jsonb_build_object(repeat('N', 255), repeat('€', 32768))::text",
];

/// The bytes of a bag, and its text form.
fn bag(session: &Session, json: &str) -> (Vec<u8>, String) {
    let json = if json.starts_with('{') {
        json.to_owned()
    } else {
        session.text(&format!("SELECT {json}"))
    };
    let row = session.query(
        "SELECT b, b::text FROM (SELECT $1::text::table_service.properties AS b) AS b",
        &[&json],
    );
    let row = &row.unwrap()[0];
    (row.get::<_, Raw>(0).bytes().to_vec(), row.get(1))
}

/// Sends bytes as a bag, and returns the bag that comes back, in its own bytes.
fn send(session: &Session, bytes: &[u8]) -> Result<Vec<u8>, system_tests::Failure> {
    let rows = session.query("SELECT $1::table_service.properties", &[&Raw::Binary(bytes.to_vec())])?;
    Ok(rows[0].get::<_, Raw>(0).bytes().to_vec())
}

#[test]
fn a_bag_round_trips_as_a_parameter() {
    let db = Database::new();
    let session = db.session("s");
    for json in BAGS {
        let (bytes, text) = bag(&session, json);
        assert!(send(&session, &bytes).unwrap() == bytes, "{json}");
        assert_eq!(bytes[0] & 0x7F, 1, "the first byte is the version");
        let same: bool = session.value(
            "SELECT $1::table_service.properties OPERATOR(table_service.=) $2::text::table_service.properties",
            &[&Raw::Binary(bytes), &text],
        );
        assert!(same, "{json}");
    }
}

#[test]
fn entities_are_written_and_read_in_binary() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Binary')");
    for (n, json) in BAGS.iter().enumerate() {
        let (bytes, _) = bag(&session, json);
        let row_key = n.to_string();
        let tag: String = session.value(
            "SELECT table_service.insert_entity('Binary', 'p', $1, $2)",
            &[&row_key, &Raw::Binary(bytes.clone())],
        );
        let rows = session.query(
            "SELECT e.properties, table_service.etag(e), e FROM table_service.get_entity('Binary', 'p', $1) AS e",
            &[&row_key],
        );
        let row = &rows.unwrap()[0];
        assert!(row.get::<_, Raw>(0).bytes() == bytes, "{json}");
        assert_eq!(row.get::<_, String>(1), tag);
        // The whole entity, as the protocol carries a composite, is a parameter like any other.
        let entity = row.get::<_, Raw>(2);
        assert_eq!(
            session.value::<String>("SELECT table_service.etag($1::table_service.entity)", &[&entity]),
            tag
        );
        assert_eq!(
            session
                .value::<Raw>("SELECT ($1::table_service.entity).properties", &[&entity])
                .bytes(),
            bytes
        );
        // A conditional write takes the tag.
        let next: String = session.value(
            "SELECT table_service.replace_entity('Binary', 'p', $1, $2, $3)",
            &[&row_key, &Raw::Binary(bytes), &tag],
        );
        assert_ne!(next, tag);
    }
}

#[test]
fn copy_binary_keeps_everything() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Source'); SELECT table_service.create_table('Target')");
    for (n, json) in BAGS.iter().enumerate() {
        let (bytes, _) = bag(&session, json);
        session.value::<String>(
            "SELECT table_service.insert_entity('Source', 'p', $1, $2)",
            &[&n.to_string(), &Raw::Binary(bytes)],
        );
    }
    for format in ["binary", "text", "csv"] {
        let data = session
            .copy_out(&format!(
                "COPY table_service_data.\"Source\" TO STDOUT (FORMAT {format})"
            ))
            .unwrap();
        let copied = session.copy_in(
            &format!("COPY table_service_data.\"Target\" FROM STDIN (FORMAT {format})"),
            data,
        );
        assert_eq!(copied.unwrap(), u64::try_from(BAGS.len()).unwrap());
        let entities = |table| {
            session.run(&format!(
                "SELECT partition_key, row_key, \"timestamp\", properties, table_service.properties_send(properties),
                    table_service.etag(e)
                FROM table_service_data.\"{table}\" AS e ORDER BY partition_key, row_key"
            ))
        };
        assert_eq!(entities("Source"), entities("Target"), "{format}");
        session.run("TRUNCATE table_service_data.\"Target\"");
    }
}

/// Every error that bytes may end in: they are no bag, or a bag beyond a limit.
fn is_refusal(failure: &system_tests::Failure) -> bool {
    let documented = [
        ("22P03", "InvalidInput: "),
        ("22023", "PropertyNameInvalid: "),
        // U+0000 in a String.
        ("22023", "InvalidInput: "),
        ("54000", "PropertyNameTooLong: "),
        ("54000", "PropertyValueTooLarge: "),
        ("54000", "TooManyProperties: "),
        ("54000", "EntityTooLarge: "),
    ];
    documented
        .iter()
        .any(|(sqlstate, code)| failure.sqlstate == *sqlstate && failure.message.starts_with(code))
}

#[test]
fn every_truncation_is_refused() {
    let db = Database::new();
    let session = db.session("s");
    for json in &BAGS[..4] {
        let (bytes, _) = bag(&session, json);
        for length in 0..bytes.len() {
            send(&session, &bytes[..length]).fails_with("22P03", "InvalidInput");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        send(&session, &longer).fails_with("22P03", "InvalidInput");
        assert_eq!(send(&session, &bytes).unwrap(), bytes);
    }
}

#[test]
fn other_versions_are_refused() {
    let db = Database::new();
    let session = db.session("s");
    let (bytes, _) = bag(&session, BAGS[3]);
    for version in 0..=u8::MAX {
        let mut other = bytes.clone();
        other[0] = version;
        match send(&session, &other) {
            Ok(_) => assert_eq!(version, bytes[0]),
            result => {
                let failure = result.fails_with("22P03", "InvalidInput");
                assert!(
                    failure.hint.contains("bag"),
                    "the hint says what is wrong: {}",
                    failure.hint
                );
            }
        }
    }
}

/// Enough of a bag to find its fault.
fn start(bytes: &[u8]) -> String {
    format!("{:02x?}", &bytes[..bytes.len().min(200)])
}

#[test]
fn mutated_bytes_are_refused_or_are_another_bag() {
    let db = Database::new();
    let session = db.session("s");
    let mut random = Random::new(1);
    let bags: Vec<_> = BAGS.iter().map(|json| bag(&session, json).0).collect();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut bytes = bags[random.below(bags.len())].clone();
        for _ in 0..=random.below(3) {
            // Most faults can be at the beginning: header, types, directory.
            let end = if random.below(2) == 0 {
                bytes.len()
            } else {
                bytes.len().min(40)
            };
            let at = random.below(end);
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                2 => bytes.insert(at, 0),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                break;
            }
        }
        match send(&session, &bytes) {
            // A bag has one representation: an accepted bag comes back as it is, also through its text.
            Ok(back) => {
                assert!(back == bytes, "{}", start(&bytes));
                let text: String = session.value(
                    "SELECT $1::table_service.properties::text",
                    &[&Raw::Binary(bytes.clone())],
                );
                assert!(bag(&session, &text).0 == bytes, "{}", start(&bytes));
                accepted += 1;
            }
            Err(failure) => {
                assert!(is_refusal(&failure), "{failure:?}: {}", start(&bytes));
                refused += 1;
            }
        }
    }
    assert!(
        accepted > 100 && refused > 1000,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn random_bytes_are_refused() {
    let db = Database::new();
    let session = db.session("s");
    let mut random = Random::new(2);
    for _ in 0..500 {
        let length = random.below(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        if let Some(version) = bytes.first_mut() {
            *version = [1, 0x81][random.below(2)];
        }
        let failure = send(&session, &bytes).unwrap_err();
        assert!(is_refusal(&failure), "{failure:?}: {}", start(&bytes));
    }
    // So are many bytes with a header that announces few.
    let mut bytes = vec![0xFF; 50_000_000];
    bytes[..6].copy_from_slice(&[1, 1, 0, 0, 0, 0]);
    send(&session, &bytes).fails_with("22P03", "InvalidInput");
}

#[test]
fn bytes_beyond_a_limit_name_it() {
    let db = Database::new();
    let session = db.session("s");
    /// A bag of `names`, each with a String of `length` bytes, and the size that its header must give.
    fn strings(names: &[String], value: &str) -> Vec<u8> {
        let size: usize = names
            .iter()
            .map(|name| 8 + 2 * name.encode_utf16().count() + 4 + 2 * value.encode_utf16().count())
            .sum();
        let mut bytes = vec![0x81, u8::try_from(names.len()).unwrap()];
        bytes.extend(u32::try_from(size).unwrap().to_le_bytes());
        bytes.extend(names.iter().map(|_| 0));
        let (mut name_end, mut value_end) = (0u32, 0u32);
        for name in names {
            name_end += u32::try_from(name.len()).unwrap();
            value_end += u32::try_from(value.len()).unwrap();
            bytes.extend(name_end.to_le_bytes());
            bytes.extend(value_end.to_le_bytes());
        }
        for name in names {
            bytes.extend(name.as_bytes());
        }
        for _ in names {
            bytes.extend(value.as_bytes());
        }
        bytes
    }
    let names = |count: usize| (0..count).map(|n| format!("N{n:03}")).collect::<Vec<_>>();
    // The tag of Edm.String is in a bag that has one.
    let (model, _) = bag(&session, r#"{"A": "x"}"#);
    let tagged = |mut bytes: Vec<u8>| {
        let count = usize::from(bytes[1]);
        bytes[6..6 + count].fill(model[6]);
        bytes
    };
    let largest = "x".repeat(32768);
    let bytes = tagged(strings(&names(3), &largest));
    assert!(send(&session, &bytes).unwrap() == bytes);
    for (bytes, sqlstate, code) in [
        (strings(&names(3), &"x".repeat(32769)), "54000", "PropertyValueTooLarge"),
        (strings(&names(253), ""), "54000", "TooManyProperties"),
        (strings(&names(17), &largest), "54000", "EntityTooLarge"),
        (strings(&["N".repeat(256)], &largest), "54000", "PropertyNameTooLong"),
        (strings(&["1a".to_owned()], &largest), "22023", "PropertyNameInvalid"),
        (strings(&["RowKey".to_owned()], &largest), "22P03", "InvalidInput"),
        (
            strings(&["A".to_owned(), "A".to_owned()], &largest),
            "22P03",
            "InvalidInput",
        ),
        (
            strings(&["B".to_owned(), "A".to_owned()], &largest),
            "22P03",
            "InvalidInput",
        ),
        (strings(&names(3), "x"), "22P03", "InvalidInput"),
    ] {
        send(&session, &tagged(bytes)).fails_with(sqlstate, code);
    }
}

#[test]
fn copy_binary_of_broken_bytes_is_refused_as_a_whole() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Broken')");
    session.run("SELECT table_service.insert_entity('Broken', 'p', 'r', '{\"A\": \"text\"}')");
    let good = session
        .copy_out("COPY table_service_data.\"Broken\" TO STDOUT (FORMAT binary)")
        .unwrap();
    session.run("TRUNCATE table_service_data.\"Broken\"");
    let load = "COPY table_service_data.\"Broken\" FROM STDIN (FORMAT binary)";
    let at = good.windows(4).position(|part| part == b"text").unwrap();
    for (from, to) in [(at, 0xFF), (at - 1, b' '), (at + 4, 0)] {
        let mut broken = good.clone();
        broken[from] = to;
        let failure = session.copy_in(load, broken).unwrap_err();
        assert!(is_refusal(&failure) || failure.sqlstate == "22P04", "{failure:?}");
    }
    assert_eq!(session.text("SELECT count(*) FROM table_service_data.\"Broken\""), "0");
    assert_eq!(session.copy_in(load, good).unwrap(), 1);
}

#[test]
fn drivers_bind_bags_as_text() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Drivers')");
    let json = r#"{"Name": "O'Brien", "Age": 34}"#;
    // A driver that knows only text casts it …
    session.value::<String>(
        "SELECT table_service.insert_entity($1, $2, $3, $4::text::table_service.properties)",
        &[&"Drivers", &"p", &"cast", &json],
    );
    // … a driver that sends text parameters of any type needs nothing …
    session.value::<String>(
        "SELECT table_service.insert_entity($1, $2, $3, $4)",
        &[&"Drivers", &"p", &"text", &Raw::Text(json.to_owned())],
    );
    // … and jsonb is cast by itself.
    session.value::<String>(
        "SELECT table_service.insert_entity($1, $2, $3, $4::text::jsonb)",
        &[&"Drivers", &"p", &"jsonb", &json],
    );
    let rows = session
        .query(
            "SELECT row_key, properties::text, properties OPERATOR(table_service.->>) 'Name',
                table_service.get_int32(properties, 'Age')
            FROM table_service.get_entities('Drivers', 'p', $1)",
            &[&vec!["text", "cast", "jsonb", "absent"]],
        )
        .unwrap();
    let row_keys: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(row_keys, ["cast", "jsonb", "text"]);
    for row in &rows {
        assert_eq!(row.get::<_, String>(1), r#"{"Age":34,"Name":"O'Brien"}"#);
        assert_eq!(row.get::<_, &str>(2), "O'Brien");
        assert_eq!(row.get::<_, i32>(3), 34);
    }
    // A NULL is no bag.
    session
        .query(
            "SELECT table_service.insert_entity('Drivers', 'p', 'null', $1)",
            &[&None::<Raw>],
        )
        .fails_with("22023", "InvalidInput");
}
