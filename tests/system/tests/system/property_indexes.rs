//! Values and keys that are longer than an entry of a property index, and queries that turn from the keys to an index.

use system_tests::{Database, Session};

/// Values of the property `v`, as SQL. The longest three Strings and the two Binaries have the same bytes in an index.
const VALUES: [&str; 7] = [
    "jsonb_build_object('v', repeat('€', 32767) || 'a')",
    "jsonb_build_object('v', repeat('€', 32767) || 'b')",
    "jsonb_build_object('v', repeat('€', 32767) || '€')",
    "jsonb_build_object('v', repeat('€', 170) || 'xx')",
    "jsonb_build_object('v@odata.type', 'Edm.Binary', 'v', replace(encode(decode(repeat('07', 65535) || '01', 'hex'), 'base64'), chr(10), ''))",
    "jsonb_build_object('v@odata.type', 'Edm.Binary', 'v', replace(encode(decode(repeat('07', 65535) || '02', 'hex'), 'base64'), chr(10), ''))",
    "jsonb_build_object('v', 1)",
];

/// Keys of about 2680 bytes. Behind a long value they differ only in bytes that an index does not hold.
fn keys() -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for partition in ["a", "b"] {
        for row in ["000", "001", "002", "003"] {
            let long = "€".repeat(446);
            keys.push((format!("{long}{partition}"), format!("{long}{row}")));
        }
    }
    for partition in ["aa", "ab"] {
        keys.push((format!("{}{partition}", "€".repeat(892)), "r1".to_owned()));
        keys.push((format!("{}{partition}", "€".repeat(892)), "r2".to_owned()));
    }
    keys
}

/// Stores each value under each key. The end of the RowKey is the number of the value.
fn fill(session: &Session) {
    session.run("SET search_path = table_service; SELECT create_table('Long'), create_property_index('Long', 'v')");
    for (value, sql) in VALUES.iter().enumerate() {
        for (number, (partition_key, row_key)) in keys().into_iter().enumerate() {
            let end = row_key.len() - 1;
            let row_key = format!("{}{}{value}", &row_key[..end - 1], &row_key[end..]);
            // By direct access and by batches.
            let insert = if number % 2 == 0 {
                format!("SELECT insert_entity($1, $2, $3, ({sql})::properties)")
            } else {
                format!("SELECT execute_batch($1, $2, batch_insert($3, ({sql})::properties))")
            };
            session.query(&insert, &[&"Long", &partition_key, &row_key]).unwrap();
        }
    }
}

type Keys = Vec<(String, String)>;

fn read(session: &Session, sql: &str, filter: &str) -> Keys {
    let rows = session.query(sql, &[&filter]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The keys that a filter finds. The condition hides it from the planner, so no index serves it.
fn without_index(session: &Session, table: &str, filter: &str, parameters: &str) -> Keys {
    let sql = format!(
        "SELECT partition_key, row_key FROM table_service_data.\"{table}\" AS e
        WHERE CASE WHEN matches(e, $1, {parameters}) THEN true ELSE false END ORDER BY partition_key, row_key"
    );
    read(session, &sql, filter)
}

/// All pages of a filter, and how many.
fn pages(session: &Session, table: &str, filter: &str, parameters: &str, top: i64) -> (Keys, usize) {
    let sql = format!(
        "SELECT partition_key, row_key, continuation_token FROM query_page('{table}', $1, top => $2, continuation_token => $3, parameters => {parameters})"
    );
    let (mut keys, mut token, mut count) = (Vec::new(), None::<String>, 0);
    loop {
        let rows = session.query(&sql, &[&filter, &top, &token]).unwrap();
        keys.extend(
            rows.iter()
                .filter_map(|row| Some((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))),
        );
        token = rows.last().and_then(|row| row.get(2));
        count += 1;
        assert!(count < 1000, "{filter}: the pages do not end");
        if token.is_none() {
            return (keys, count);
        }
    }
}

#[test]
fn what_is_cut_in_an_index_is_found() {
    let db = Database::new();
    let session = db.session("reader");
    fill(&session);
    let (long, row) = ("€".repeat(446), "€".repeat(446));
    let mut found = 0;
    for value in VALUES {
        let parameters = format!("({value})::properties");
        for filter in [
            "v eq @v".to_owned(),
            "v gt @v".to_owned(),
            "v le @v".to_owned(),
            "v ge @v and v lt 'ﬀ'".to_owned(),
            "v eq @v or v eq 1".to_owned(),
            format!("PartitionKey eq '{long}b' and v eq @v"),
            format!("PartitionKey eq '{long}a' and RowKey ge '{row}02' and v eq @v"),
            format!("PartitionKey eq '{long}a' and RowKey gt '{row}010' and RowKey le '{row}03' and v ge @v"),
            format!("PartitionKey gt '{}aa' and v eq @v", "€".repeat(892)),
        ] {
            let expected = without_index(&session, "Long", &filter, &parameters);
            found += expected.len();
            let whole =
                format!("SELECT partition_key, row_key FROM query_entities('Long', $1, parameters => {parameters})");
            assert_eq!(read(&session, &whole, &filter), expected, "{value}: {filter}");
            for top in [1, 3, 1000] {
                let (keys, count) = pages(&session, "Long", &filter, &parameters, top);
                assert_eq!(keys, expected, "{value}: {filter}, pages of {top}");
                assert_eq!(
                    count,
                    expected.len().div_ceil(top as usize).max(1),
                    "{value}: {filter}, pages of {top}"
                );
            }
        }
        let access = format!("SELECT access FROM explain_query('Long', 'v eq @v', parameters => {parameters})");
        assert_eq!(session.text(&access), "property index scan", "{value}");
    }
    assert!(found > 500, "{found}");
}

/// Entities numbered in key order: the last ones have `late` and the first ones `early`.
fn fill_numbered(session: &Session, table: &str) {
    session.run(&format!(
        "INSERT INTO table_service_data.\"{table}\" SELECT 'p' || lpad((n / 1000)::text, 2, '0'), lpad(n::text, 5, '0'), clock_timestamp(),
            (jsonb_build_object('n', n, 'twice', 2 * n, 'odd', n % 2) || CASE WHEN n >= 5500 THEN '{{\"late\": 1}}'::jsonb ELSE '{{}}' END
                || CASE WHEN n < 6000 THEN '{{\"early\": 1}}'::jsonb ELSE '{{}}' END)::properties
        FROM generate_series(0, 11999) AS n ORDER BY n * 7919 % 12000;
        SELECT create_property_index('{table}', property) FROM unnest('{{n,twice,odd,late,early}}'::text[]) AS property"
    ));
}

/// Queries begin in key order and turn to an index when that finds too little, to another index, or back.
#[test]
fn a_query_that_turns_to_an_index_loses_and_repeats_nothing() {
    let db = Database::new();
    let session = db.session("reader");
    session.run("SET search_path = table_service; SELECT create_table('Turn')");
    fill_numbered(&session, "Turn");
    session.run(
        "CREATE TABLE table_service_data.\"Parts\" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
        CREATE TABLE parts_0 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE parts_1 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY HASH (row_key);
        CREATE TABLE parts_1_0 PARTITION OF parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE parts_1_1 PARTITION OF parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    );
    fill_numbered(&session, "Parts");
    let partitions: Vec<String> = (0..11).map(|n| format!("PartitionKey eq 'p{n:02}'")).collect();
    let partitions = partitions.join(" or ");
    // Without direct access, statements also read few entities. In partitioned tables they always do.
    for (table, direct) in [("Turn", "on"), ("Turn", "off"), ("Parts", "on")] {
        session.run(&format!("SET table_service.enable_direct_access = {direct}"));
        for (filter, count) in [
            ("n ge 9000 and n lt 9010".to_owned(), 10),
            ("n ge 9000 and n lt 9200".to_owned(), 200),
            (
                "n ge 9000 and n lt 9010 or twice ge 18010 and twice lt 18030".to_owned(),
                15,
            ),
            (
                "PartitionKey gt 'p08' and (n ge 9000 and n lt 9050 or twice ge 17900 and twice lt 18030)".to_owned(),
                50,
            ),
            ("n ge 9000 and n lt 9300".to_owned(), 300),
            ("n ge 11000 and n lt 12000".to_owned(), 1000),
            ("late ge 1 and late lt 2".to_owned(), 6500),
            ("late eq 1".to_owned(), 6500),
            ("late eq 1 and n lt 11990".to_owned(), 6490),
            ("PartitionKey gt 'p02' and late eq 1".to_owned(), 6500),
            ("late eq 1 and early eq 1".to_owned(), 500),
            ("late eq 1 and early eq 1 and odd eq 1".to_owned(), 250),
            ("late eq 1 and odd ge 1 and odd lt 2 and n gt 11990".to_owned(), 5),
            ("PartitionKey gt 'p03' and n ge 9000 and n lt 9300".to_owned(), 300),
            ("PartitionKey eq 'p05' and late ge 1 and late lt 2".to_owned(), 500),
            (format!("({partitions}) and n ge 9900 and n lt 10100"), 200),
            (format!("({partitions}) and n ge 10900 and n lt 11100"), 100),
            (
                format!("({partitions} or PartitionKey eq 'p11' and RowKey eq '11050') and n ge 10900 and n lt 11100"),
                101,
            ),
            (format!("({partitions}) and late eq 1 and early eq 1"), 500),
            (format!("({partitions}) and late ge 1 and late lt 2"), 5500),
        ] {
            let expected = without_index(&session, table, &filter, "NULL");
            assert_eq!(expected.len(), count, "{filter}");
            let whole = format!("SELECT partition_key, row_key FROM query_entities('{table}', $1)");
            assert!(read(&session, &whole, &filter) == expected, "{table}: {filter}");
            for top in [30, 299, 1000] {
                let first = format!("SELECT partition_key, row_key FROM query_entities('{table}', $1, top => {top})");
                let beginning: Keys = expected.iter().take(top as usize).cloned().collect();
                assert!(
                    read(&session, &first, &filter) == beginning,
                    "{table}: {filter}, the first {top}"
                );
                let (keys, pages) = pages(&session, table, &filter, "NULL", top);
                assert!(keys == expected, "{table}: {filter}, pages of {top}");
                assert_eq!(pages, count.div_ceil(top as usize), "{table}: {filter}, pages of {top}");
            }
        }
    }
    // Many ranges are read together, and partitioned tables through the indexes of their parts.
    for table in ["Turn", "Parts"] {
        for filter in [
            "n ge 9000 and n lt 9010".to_owned(),
            format!("({partitions}) and n ge 9900 and n lt 10100"),
        ] {
            assert_eq!(
                session.value::<String>("SELECT access FROM explain_query($1, $2)", &[&table, &filter]),
                if filter.starts_with('(') {
                    "row range scan"
                } else {
                    "property index scan"
                },
                "{table}: {filter}"
            );
            let plan = session.value::<String>("SELECT plan FROM explain_query($1, $2)", &[&table, &filter]);
            assert!(plan.contains("property_index_key"), "{plan}");
        }
    }
}

/// A page ends at 16 MiB, whichever way its entities are found.
#[test]
fn a_large_page_ends_where_it_ends_without_an_index() {
    let db = Database::new();
    let session = db.session("reader");
    session.run("SET search_path = table_service; SELECT create_table('Large')");
    session.run(
        "SELECT count(insert_entity('Large', 'p' || n % 2, lpad(n::text, 4, '0'),
            jsonb_build_object('A', repeat('a', 32000), 'B', repeat('b', 32000), 'N', n % 3)))
        FROM generate_series(1, 1200) AS n",
    );
    // One value with its entities in key order, and two that are sorted.
    for filter in ["N eq 1", "N ge 1 and N lt 2"] {
        session.run("SELECT drop_property_index('Large', 'N', if_exists => true)");
        let (expected, count) = pages(&session, "Large", filter, "NULL", 1000);
        assert_eq!((expected.len(), count), (400, 2), "{filter}");
        let page = "SELECT partition_key, row_key FROM query_page('Large', $1) WHERE row_key IS NOT NULL";
        let first = read(&session, page, filter);
        session.run("SELECT create_property_index('Large', 'N')");
        for direct in ["on", "off"] {
            session.run(&format!("SET table_service.enable_direct_access = {direct}"));
            let whole = pages(&session, "Large", filter, "NULL", 1000);
            assert!(whole == (expected.clone(), count), "{filter}");
            assert!(read(&session, page, filter) == first, "{filter}");
        }
        session.run("RESET table_service.enable_direct_access");
    }
}
