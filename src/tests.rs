//! Inside PostgreSQL: every function with its values, NULLs and errors, and what only a session can show. What the
//! functions mean is told, step by step, by the golden tests in `tests/pg_regress/`.

// In a helper of tests, as in tests, a failure may panic.
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#[pgrx::pg_schema]
mod tests {
    use std::ffi::{CStr, CString};

    use pgrx::pg_sys::panic::CaughtError;
    use pgrx::prelude::*;

    use crate::postgres::spi::connect;
    use crate::postgres::subtransaction::in_subtransaction;

    /// The first value of the first row of a statement as text, `NULL`, or `(no rows)`.
    fn value(sql: &str) -> String {
        let sql = CString::new(sql).unwrap();
        connect(|_| {
            // SAFETY: the statement runs in the open connection, and its result is read before that ends.
            unsafe {
                let result = pg_sys::SPI_execute(sql.as_ptr(), false, 0);
                assert!(result > 0, "SPI refused the statement: {result}");
                if pg_sys::SPI_tuptable.is_null() || pg_sys::SPI_processed == 0 {
                    return "(no rows)".to_owned();
                }
                let table = pg_sys::SPI_tuptable;
                let text = pg_sys::SPI_getvalue(*(*table).vals, (*table).tupdesc, 1);
                if text.is_null() {
                    return "NULL".to_owned();
                }
                CStr::from_ptr(text).to_str().unwrap().to_owned()
            }
        })
    }

    fn run(sql: &str) {
        value(sql);
    }

    /// [`value`] in a subtransaction; for an error its SQLSTATE and message.
    fn outcome(sql: &str) -> String {
        let statement = sql.to_owned();
        match in_subtransaction(move || Ok::<_, table_service_model::Error>(value(&statement))) {
            Ok(result) => result.unwrap(),
            Err(error) => match *error {
                CaughtError::PostgresError(report)
                | CaughtError::ErrorReport(report)
                | CaughtError::RustPanic { ereport: report, .. } => {
                    format!("{} {}", sqlstate(report.sql_error_code()), report.message())
                }
            },
        }
    }

    /// PostgreSQL packs a SQLSTATE into an integer, six bits a character.
    fn sqlstate(code: PgSqlErrorCode) -> String {
        let packed = code as i32;
        (0..5)
            .map(|i| char::from(b'0' + u8::try_from((packed >> (6 * i)) & 0x3F).unwrap()))
            .collect()
    }

    /// Runs each statement in a subtransaction, one after the other, and compares. An expected text that ends in `…` is
    /// the beginning of the result.
    fn check(cases: &[(&str, &str)]) {
        let mut wrong = String::new();
        for &(statement, expected) in cases {
            let got = outcome(statement);
            let as_expected = match expected.strip_suffix('…') {
                Some(beginning) => got.starts_with(beginning),
                None => got == expected,
            };
            if !as_expected {
                wrong.push_str(&format!("\n{statement}\n  expected: {expected}\n  got:      {got}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// Where every test starts: the functions are found, and there is one table with one entity.
    fn start() {
        run("SET LOCAL search_path = public, table_service");
        run("SET LOCAL timezone = 'UTC'");
        run("SET LOCAL datestyle = 'ISO, YMD'");
        run("SET LOCAL intervalstyle = 'postgres'");
        run("SET LOCAL bytea_output = 'hex'");
        run("SELECT create_table('Employees')");
        run("SELECT insert_entity('Employees', 'p', 'r', '{\"a\": 1}')");
    }

    const ALL_TYPES: &str = r#"'{"S": "text", "I": -34, "L@odata.type": "Edm.Int64", "L": "9007199254740993", "D": 1.5, "B": true,
        "T@odata.type": "Edm.DateTime", "T": "2020-02-29T12:34:56.1234567Z", "G@odata.type": "Edm.Guid",
        "G": "a455c812-1f7a-4f5c-9c3b-0123456789ab", "X@odata.type": "Edm.Binary", "X": "AAEC/w=="}'::properties"#;

    const ALREADY_EXISTS: &str = "23505 EntityAlreadyExists: The specified entity already exists.";
    const NOT_FOUND: &str = "P0002 ResourceNotFound: The specified resource does not exist.";
    const NOT_SATISFIED: &str =
        "40002 UpdateConditionNotSatisfied: The update condition specified in the request was not satisfied.";
    const NO_TABLE: &str = "42P01 TableNotFound: The table specified does not exist.";
    const INVALID: &str = "22023 InvalidInput: One of the request inputs is not valid.";
    const UNREADABLE: &str = "22023 InvalidInput: An error occurred while processing this request.";
    const MALFORMED: &str = "22P02 InvalidInput: An error occurred while processing this request.";
    const NEED_VALUE: &str =
        "23502 PropertiesNeedValue: The values are not specified for all properties in the entity.";
    const VALUE_TOO_LARGE: &str =
        "54000 PropertyValueTooLarge: The property value exceeds the maximum allowed size (64KB). …";
    const TOO_MANY: &str = "54000 TooManyProperties: The entity contains more properties than allowed. …";
    const TOO_LARGE: &str = "54000 EntityTooLarge: The entity is larger than the maximum allowed size (1MB).";

    #[pg_test]
    fn tables() {
        start();
        check(&[
            ("SELECT create_table('Zoo')", "table_service_data.\"Zoo\""),
            (
                "SELECT create_table('zoo', if_not_exists => true)",
                "table_service_data.\"Zoo\"",
            ),
            (
                "SELECT create_table('ZOO')",
                "42P07 TableAlreadyExists: The table specified already exists.",
            ),
            (
                "SELECT create_table('ab')",
                "42602 OutOfRangeInput: The specified resource name length is not within the permissible limits.",
            ),
            (
                "SELECT create_table(repeat('a', 64))",
                "42602 OutOfRangeInput: The specified resource name length is not within the permissible limits.",
            ),
            (
                "SELECT create_table('a_b')",
                "42602 InvalidResourceName: The specifed resource name contains invalid characters.",
            ),
            ("SELECT create_table('Tables')", INVALID),
            (
                "SELECT string_agg(table_name || '=' || relation || '=' || coalesce(continuation_token, ''), ' ') FROM query_tables()",
                "Employees=table_service_data.\"Employees\"= Zoo=table_service_data.\"Zoo\"=",
            ),
            ("SELECT delete_table('zOO')", "t"),
            (
                "SELECT delete_table('Zoo')",
                "42P01 ResourceNotFound: The specified resource does not exist.",
            ),
            ("SELECT delete_table('Zoo', if_exists => true)", "f"),
        ]);
    }

    #[pg_test]
    fn access() {
        start();
        check(&[
            ("SELECT get_access_policies('Employees')", "[]"),
            (
                "SELECT set_access_policies('Employees', '[{\"Id\": \"p\", \"Permission\": \"dr\"}]')",
                "",
            ),
            (
                "SELECT get_access_policies('employees')",
                r#"[{"Id":"p","Permission":"rd"}]"#,
            ),
            ("SELECT set_access_policies('Absent', '[]')", NO_TABLE),
            ("SELECT get_access_policies('Absent')", NO_TABLE),
            ("SELECT set_access_policies('Employees', NULL)", INVALID),
            ("SELECT get_access_policies(NULL)", INVALID),
            ("SELECT get_service_properties() ->> 'Cors'", "[]"),
            (
                "SELECT set_service_properties('{}')",
                "22023 InvalidXmlDocument: XML specified is not syntactically valid.",
            ),
            (
                "SELECT set_service_properties('{\"Cors\": [{\"AllowedOrigins\": [\"*\"], \"AllowedMethods\": [\"GET\"], \"MaxAgeInSeconds\": 5}]}')",
                "",
            ),
            (
                "SELECT get_service_properties() -> 'Cors' -> 0 ->> 'MaxAgeInSeconds'",
                "5",
            ),
            (
                "SELECT generate_sas('account1', 'a2V5', 'Employees', 'r', '2030-01-01', policy_id => NULL)",
                "sv=2019-02-02&tn=Employees&sp=r&se=2030-01-01T00%3A00%3A00Z&sig=…",
            ),
            ("SELECT generate_sas('account1', 'a2V5', NULL)", INVALID),
        ]);
    }

    #[pg_test]
    fn writes_and_reads() {
        start();
        check(&[
            (
                "SELECT insert_entity('Employees', 'p', 's', '{\"a\": 1}') ~ '^W/\"datetime''2.*Z''\"$'",
                "t",
            ),
            ("SELECT insert_entity('Employees', 'p', 's', '{}')", ALREADY_EXISTS),
            (
                "SELECT merge_entity('Employees', 'p', 's', '{\"b\": 2}', etag(e)) <> etag(e) FROM get_entity('Employees', 'p', 's') AS e",
                "t",
            ),
            (
                "SELECT properties FROM get_entity('Employees', 'p', 's')",
                r#"{"a":1,"b":2}"#,
            ),
            (
                "SELECT replace_entity('Employees', 'p', 's', '{\"c\": 3}', etag(e)) <> etag(e) FROM get_entity('Employees', 'p', 's') AS e",
                "t",
            ),
            ("SELECT properties FROM get_entity('employees', 'p', 's')", r#"{"c":3}"#),
            (
                "SELECT merge_entity('Employees', 'p', 's', '{\"d\": 4}', '*') IS NOT NULL",
                "t",
            ),
            (
                "SELECT insert_or_merge_entity('Employees', 'p', 's', '{\"e\": 5}') IS NOT NULL",
                "t",
            ),
            (
                "SELECT properties FROM get_entity('Employees', 'p', 's')",
                r#"{"c":3,"d":4,"e":5}"#,
            ),
            (
                "SELECT insert_or_merge_entity('Employees', 'p', 't', '{}') IS NOT NULL",
                "t",
            ),
            (
                "SELECT insert_or_replace_entity('Employees', 'p', 's', '{\"f\": 6}') IS NOT NULL",
                "t",
            ),
            (
                "SELECT insert_or_replace_entity('Employees', 'p', 'u', '{}') IS NOT NULL",
                "t",
            ),
            (
                "SELECT replace_entity('Employees', 'p', 's', '{\"g\": 7, \"h\": 8}', '*') IS NOT NULL",
                "t",
            ),
            (
                "SELECT string_agg(row_key || properties, ' ') FROM get_entities('Employees', 'p', '{u, s, r, nobody}')",
                r#"r{"a":1} s{"g":7,"h":8} u{}"#,
            ),
            (
                "SELECT properties FROM get_entity('Employees', 'p', 's', 'h, nothing')",
                r#"{"h":8}"#,
            ),
            (
                "SELECT string_agg(properties::text, ' ') FROM get_entities('Employees', 'p', '{r, s}', 'a,g')",
                r#"{"a":1} {"g":7}"#,
            ),
            ("SELECT count(*) FROM get_entities('Employees', 'p', '{}')", "0"),
            ("SELECT count(*) FROM get_entity('Employees', 'p', 'nobody')", "0"),
            (
                "SELECT delete_entity('Employees', 'p', 's', 'W/\"old\"')",
                NOT_SATISFIED,
            ),
            (
                "SELECT delete_entity('Employees', 'p', 's', etag(e)) FROM get_entity('Employees', 'p', 's') AS e",
                "t",
            ),
            ("SELECT delete_entity('Employees', 'p', 't')", "t"),
            ("SELECT delete_entity('Employees', 'p', 't')", NOT_FOUND),
            ("SELECT delete_entity('Employees', 'p', 't', if_exists => true)", "f"),
        ]);
    }

    #[pg_test]
    fn errors_of_writes_and_reads() {
        start();
        check(&[
            ("SELECT insert_entity('Nobody', 'p', 'r', '{}')", NO_TABLE),
            ("SELECT replace_entity('Nobody', 'p', 'r', '{}', '*')", NO_TABLE),
            ("SELECT merge_entity('Nobody', 'p', 'r', '{}', '*')", NO_TABLE),
            ("SELECT insert_or_replace_entity('Nobody', 'p', 'r', '{}')", NO_TABLE),
            ("SELECT insert_or_merge_entity('Nobody', 'p', 'r', '{}')", NO_TABLE),
            ("SELECT delete_entity('Nobody', 'p', 'r', if_exists => true)", NO_TABLE),
            ("SELECT get_entity('Nobody', 'p', 'r')", NO_TABLE),
            ("SELECT get_entities('Nobody', 'p', '{r}')", NO_TABLE),
            ("SELECT replace_entity('Employees', 'p', 'x', '{}', '*')", NOT_FOUND),
            (
                "SELECT merge_entity('Employees', 'p', 'x', '{}', 'W/\"old\"')",
                NOT_FOUND,
            ),
            (
                "SELECT replace_entity('Employees', 'p', 'r', '{}', 'W/\"old\"')",
                NOT_SATISFIED,
            ),
            (
                "SELECT merge_entity('Employees', 'p', 'r', '{}', 'W/\"datetime''2020-01-01T00%3A00%3A00Z''\"')",
                NOT_SATISFIED,
            ),
            (
                "SELECT merge_entity('Employees', 'p', 'r', '{}', 'abc')",
                "22023 InvalidInput: The etag value 'abc' specified in one of the request headers is not valid. …",
            ),
            (
                "SELECT insert_entity('Employees', 'a/b', 'r', '{}')",
                "22003 OutOfRangeInput: The 'PartitionKey' parameter of value 'a/b' is out of range.",
            ),
            (
                "SELECT get_entity('Employees', 'p', 'a?')",
                "22003 OutOfRangeInput: The 'RowKey' parameter of value 'a?' is out of range.",
            ),
            (
                "SELECT get_entities('Employees', 'p', '{r, a#}')",
                "22003 OutOfRangeInput: The 'RowKey' parameter of value 'a#' is out of range.",
            ),
            (
                "SELECT insert_entity('Employees', 'p', repeat('x', 1025), '{}')",
                VALUE_TOO_LARGE,
            ),
            (
                "SELECT insert_or_merge_entity('Employees', repeat('日', 800), repeat('x', 281), '{}')",
                VALUE_TOO_LARGE,
            ),
            ("SELECT delete_entity('Employees', 'p', repeat('x', 1025))", NOT_FOUND),
            (
                "SELECT get_entity('Employees', 'p', 'r', string_agg('p' || i, ',')) FROM generate_series(1, 256) AS i",
                INVALID,
            ),
            // Limits of the entity that would be stored.
            (
                "SELECT insert_entity('Employees', 'p', 'many', to_properties(r)) IS NOT NULL FROM (SELECT 1 AS a) AS r",
                "t",
            ),
            (
                "SELECT merge_entity('Employees', 'p', 'many', json_object_agg('P' || i, i)::text::properties, '*') IS NOT NULL FROM generate_series(1, 251) AS i",
                "t",
            ),
            (
                "SELECT merge_entity('Employees', 'p', 'many', '{\"more\": 1}', '*')",
                TOO_MANY,
            ),
            (
                "SELECT insert_or_merge_entity('Employees', 'p', 'many', '{\"more\": 1}')",
                TOO_MANY,
            ),
            (
                "SELECT insert_entity('Employees', 'p', 'large', json_object_agg('S' || i, repeat('x', 32768))::text::properties) IS NOT NULL FROM generate_series(10, 24) AS i",
                "t",
            ),
            (
                "SELECT merge_entity('Employees', 'p', 'large', json_build_object('S25', repeat('x', 32768))::text::properties, '*')",
                TOO_LARGE,
            ),
            // 8 bytes of keys beyond what the bag alone may have.
            (
                "SELECT insert_entity('Employees', 'p', 'key', json_object_agg('S' || i, repeat('x', CASE i WHEN 25 THEN 32622 ELSE 32768 END))::text::properties) FROM generate_series(10, 25) AS i",
                TOO_LARGE,
            ),
            (
                "SELECT insert_entity('Employees', '', '', json_object_agg('S' || i, repeat('x', CASE i WHEN 25 THEN 32622 ELSE 32768 END))::text::properties) IS NOT NULL FROM generate_series(10, 25) AS i",
                "t",
            ),
        ]);
    }

    #[pg_test]
    fn nulls_raise_where_a_value_is_needed() {
        start();
        // For each call: what a NULL in each of its arguments gives.
        let calls: &[(&str, &[(&str, &str)])] = &[
            ("create_table", &[("'New'", INVALID), ("false", INVALID)]),
            ("delete_table", &[("'Employees'", INVALID), ("false", INVALID)]),
            (
                "insert_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'new'", NEED_VALUE),
                    ("'{}'", INVALID),
                ],
            ),
            (
                "replace_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'r'", NEED_VALUE),
                    ("'{}'", INVALID),
                    ("'*'", INVALID),
                ],
            ),
            (
                "merge_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'r'", NEED_VALUE),
                    ("'{}'", INVALID),
                    ("'*'", INVALID),
                ],
            ),
            (
                "insert_or_replace_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'r'", NEED_VALUE),
                    ("'{}'", INVALID),
                ],
            ),
            (
                "insert_or_merge_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'r'", NEED_VALUE),
                    ("'{}'", INVALID),
                ],
            ),
            (
                "delete_entity",
                &[
                    ("'Employees'", INVALID),
                    ("'p'", NEED_VALUE),
                    ("'r'", NEED_VALUE),
                    ("'*'", INVALID),
                    ("false", INVALID),
                ],
            ),
            (
                "get_entity",
                &[("'Employees'", INVALID), ("'p'", NEED_VALUE), ("'r'", NEED_VALUE)],
            ),
            (
                "get_entities",
                &[("'Employees'", INVALID), ("'p'", NEED_VALUE), ("'{r}'", INVALID)],
            ),
        ];
        for (function, arguments) in calls {
            for (missing, (_, expected)) in arguments.iter().enumerate() {
                let given: Vec<&str> = arguments
                    .iter()
                    .enumerate()
                    .map(|(i, (argument, _))| if i == missing { "NULL" } else { argument })
                    .collect();
                check(&[(&format!("SELECT {function}({})", given.join(", ")), expected)]);
            }
        }
        check(&[
            ("SELECT get_entities('Employees', 'p', ARRAY['r', NULL])", NEED_VALUE),
            (
                "SELECT properties FROM get_entity('Employees', 'p', 'r', NULL)",
                r#"{"a":1}"#,
            ),
            ("SELECT string_agg(table_name, ' ') FROM query_tables()", "Employees"),
            ("SELECT count(*) FROM table_service_data.\"Employees\"", "1"),
        ]);
    }

    #[pg_test]
    fn functions_of_values_are_strict() {
        start();
        for call in [
            "etag(NULL::entity)",
            "etag(NULL::timestamptz)",
            "entity_to_json(NULL)",
            "entity_from_json(NULL)",
            "to_properties(NULL)",
            "has_property(NULL, 'a')",
            "property_type('{}', NULL)",
            "get_string(NULL, 'a')",
            "get_int32(NULL, 'a')",
            "get_int64(NULL, 'a')",
            "get_double(NULL, 'a')",
            "get_boolean(NULL, 'a')",
            "get_datetime(NULL, 'a')",
            "get_ticks(NULL, 'a')",
            "get_guid(NULL, 'a')",
            "get_binary('{}', NULL)",
            "merge_properties('{}', NULL)",
            "remove_property('{}', NULL)",
            "remove_properties(NULL, '{a}')",
            "ticks(NULL)",
            "from_ticks(NULL)",
            "inverted_ticks(NULL)",
            "from_inverted_ticks(NULL)",
            "retry_delay(NULL)",
            "retry_delay(1, NULL)",
            "properties_from_jsonb(NULL)",
            "properties_to_jsonb(NULL)",
            "properties_to_text(NULL)",
            "next_timestamp(NULL, now())",
            "entity_is_valid('p', 'r', now(), NULL)",
            "merge_fits('p', 'r', '{}', NULL)",
            "NULL::properties -> 'a'",
            "NULL::properties ->> 'a'",
            "NULL::properties ? 'a'",
            "NULL::properties = '{}'",
            "properties_cmp('{}', NULL)",
            "properties_hash(NULL)",
        ] {
            check(&[(&format!("SELECT {call}"), "NULL")]);
        }
        check(&[("SELECT count(*) FROM each_property(NULL)", "0")]);
    }

    #[pg_test]
    fn bags_and_their_operators() {
        start();
        let with_bag = |expression: &str| format!("SELECT {expression} FROM (SELECT {ALL_TYPES} AS b) AS b");
        for (expression, expected) in [
            (
                "b",
                r#"{"B":true,"D":1.5,"G@odata.type":"Edm.Guid","G":"a455c812-1f7a-4f5c-9c3b-0123456789ab","I":-34,"L@odata.type":"Edm.Int64","L":"9007199254740993","S":"text","T@odata.type":"Edm.DateTime","T":"2020-02-29T12:34:56.1234567Z","X@odata.type":"Edm.Binary","X":"AAEC/w=="}"#,
            ),
            ("b -> 'S'", "\"text\""),
            ("b -> 'I'", "-34"),
            ("b -> 'L'", "\"9007199254740993\""),
            ("b -> 'D'", "1.5"),
            ("b -> 'B'", "true"),
            ("b -> 'x'", "NULL"),
            ("b ->> 'S'", "text"),
            ("b ->> 'T'", "2020-02-29T12:34:56.1234567Z"),
            ("b ->> 'X'", "AAEC/w=="),
            ("b ->> 'x'", "NULL"),
            ("b ? 'S'", "t"),
            ("b ? 's'", "f"),
            ("has_property(b, 'G')", "t"),
            ("property_type(b, 'G')", "Edm.Guid"),
            ("property_type(b, 'g')", "NULL"),
            ("get_string(b, 'S')", "text"),
            ("get_string(b, 'I')", "NULL"),
            ("get_int32(b, 'I')", "-34"),
            ("get_int32(b, 'L')", "NULL"),
            ("get_int64(b, 'L')", "9007199254740993"),
            ("get_int64(b, 'I')", "-34"),
            ("get_double(b, 'D')", "1.5"),
            ("get_double(b, 'I')", "-34"),
            ("get_double(b, 'L')", "NULL"),
            ("get_boolean(b, 'B')", "t"),
            ("get_boolean(b, 'x')", "NULL"),
            ("get_datetime(b, 'T')", "2020-02-29 12:34:56.123456+00"),
            ("get_datetime(b, 'S')", "NULL"),
            ("get_ticks(b, 'T')", "637185764961234567"),
            ("get_ticks(b, 'L')", "NULL"),
            ("get_guid(b, 'G')", "a455c812-1f7a-4f5c-9c3b-0123456789ab"),
            ("get_guid(b, 'S')", "NULL"),
            ("get_binary(b, 'X')", "\\x000102ff"),
            ("get_binary(b, 'S')", "NULL"),
            (
                "(SELECT string_agg(name || ' ' || type || ' ' || value, ',') FROM each_property(b - ARRAY['G', 'T', 'X', 'S']))",
                "B Edm.Boolean true,D Edm.Double 1.5,I Edm.Int32 -34,L Edm.Int64 9007199254740993",
            ),
            ("b::jsonb::properties = b", "t"),
            ("b::text::properties = b", "t"),
            ("(b || b) = b", "t"),
            ("(b - 'S') = b", "f"),
            ("properties_hash(b) = properties_hash(b::text::properties)", "t"),
            ("properties_hash_extended(b, 7) <> properties_hash_extended(b, 8)", "t"),
            ("b || '{\"S\": 1}'::properties ->> 'S'", "1"),
            ("length(properties_send(b)) > 100", "t"),
        ] {
            check(&[(&with_bag(expression), expected)]);
        }
        check(&[
            ("SELECT ('{\"a\": 1}'::properties || '{\"b\": 2}'::properties) - 'a'", r#"{"b":2}"#),
            ("SELECT '{\"a\": 1, \"b\": 2}'::properties - ARRAY['b', NULL]", r#"{"a":1}"#),
            ("SELECT merge_properties('{\"a\": 1}', '{\"a\": 2}')", r#"{"a":2}"#),
            ("SELECT remove_property('{\"a\": 1}', 'a')", "{}"),
            ("SELECT remove_properties('{\"a\": 1}', '{a}')", "{}"),
            ("SELECT properties_get('{\"a\": 1}', 'a')", "1"),
            ("SELECT properties_get_text('{\"a\": 1}', 'a')", "1"),
            // The order is total, whatever it is.
            ("SELECT bool_and((a < b)::int + (a = b)::int + (a > b)::int = 1 AND (a <= b) = (a < b OR a = b) AND (a >= b) = NOT (a < b) AND (a <> b) = NOT (a = b)
                AND properties_cmp(a, b) = (a > b)::int - (a < b)::int AND properties_eq(a, b) = (a = b) AND properties_ne(a, b) = (a <> b) AND properties_lt(a, b) = (a < b)
                AND properties_le(a, b) = (a <= b) AND properties_gt(a, b) = (a > b) AND properties_ge(a, b) = (a >= b))
              FROM unnest(ARRAY['{}', '{\"a\": 1}', '{\"a\": 2}', '{\"a\": \"x\"}', '{\"b\": 1}']::properties[]) AS a,
                unnest(ARRAY['{}', '{\"a\": 1}', '{\"b\": 1}']::properties[]) AS b", "t"),
            ("SELECT properties_from_jsonb('{\"a\": 1.0}')", r#"{"a":1.0}"#),
            ("SELECT properties_to_text('{\"a\": -0.0}')", r#"{"a":-0.0}"#),
            ("SELECT properties_to_jsonb('{\"a\": -0.0}')", r#"{"a": "-0.0", "a@odata.type": "Edm.Double"}"#),
            ("SELECT '{\"a\": 1E+24}'::properties::jsonb::properties", r#"{"a":1E+24}"#),
            ("SELECT to_properties(r) FROM (SELECT 1::int2 AS a, 2 AS b, 3::int8 AS c, 0.1::float4 AS d, 1.50 AS e, true AS f, timestamptz '2020-01-01' AS g, '\\x00'::bytea AS h, 'x'::name AS i, NULL::int AS j, 'p' AS \"PartitionKey\") AS r",
                r#"{"a":1,"b":2,"c@odata.type":"Edm.Int64","c":"3","d":0.1,"e":1.5,"f":true,"g@odata.type":"Edm.DateTime","g":"2020-01-01T00:00:00Z","h@odata.type":"Edm.Binary","h":"AA==","i":"x"}"#),
            ("SELECT to_properties(r) FROM (SELECT uuid 'a455c812-1f7a-4f5c-9c3b-0123456789ab' AS u) AS r", r#"{"u@odata.type":"Edm.Guid","u":"a455c812-1f7a-4f5c-9c3b-0123456789ab"}"#),
            ("SELECT to_properties(r) FROM (SELECT timestamptz 'infinity' AS t) AS r", "22003 OutOfRangeInput: The 't' parameter of value 'infinity' is out of range."),
            ("SELECT to_properties(r) FROM (SELECT 1e400::numeric AS n) AS r", "22003 OutOfRangeInput: The 'n' parameter of value '1000…"),
            ("SELECT to_properties(r) FROM (SELECT 1 AS \"?\") AS r", "22023 PropertyNameInvalid: The property name is invalid."),
        ]);
    }

    #[pg_test]
    fn errors_of_bags() {
        start();
        check(&[
            ("SELECT ''::properties", MALFORMED),
            ("SELECT '[]'::properties", MALFORMED),
            ("SELECT '{\"a\": 1'::properties", MALFORMED),
            ("SELECT '{\"a\": \"\\ud800\"}'::properties", MALFORMED),
            (
                "SELECT ('{\"odata.x\": ' || repeat('[', 100000))::properties",
                MALFORMED,
            ),
            ("SELECT repeat('{\"a\":', 100000)::properties", UNREADABLE),
            ("SELECT '{\"a\": {}}'::properties", UNREADABLE),
            ("SELECT '{\"a\": [1]}'::jsonb::properties", UNREADABLE),
            ("SELECT '{\"a\": \"\\u0000\"}'::properties", UNREADABLE),
            (
                "SELECT '{\"a@odata.type\": \"Edm.Guid\", \"a\": \"x\"}'::properties",
                UNREADABLE,
            ),
            (
                "SELECT '{\"a@odata.type\": \"Edm.Nothing\", \"a\": \"x\"}'::properties",
                UNREADABLE,
            ),
            ("SELECT '{\"a\": 1e400}'::properties", UNREADABLE),
            (
                "SELECT '{\"a\": 1, \"a\": 2}'::properties",
                "22023 DuplicatePropertiesSpecified: A property is specified more than one time.",
            ),
            (
                "SELECT '{\"a b\": 1}'::properties",
                "22023 PropertyNameInvalid: The property name is invalid.",
            ),
            (
                "SELECT json_build_object(repeat('a', 256), 1)::text::properties",
                "54000 PropertyNameTooLong: The property name exceeds the maximum allowed length (255).",
            ),
            (
                "SELECT '{\"a@odata.type\": \"Edm.DateTime\", \"a\": \"1600-12-31T23:59:59Z\"}'::properties",
                "22003 OutOfRangeInput: The 'a' parameter of value '12/31/1600 23:59:59' is out of range.",
            ),
            (
                "SELECT json_build_object('a', repeat('x', 32769))::text::properties",
                VALUE_TOO_LARGE,
            ),
            (
                "SELECT json_object_agg('P' || i, i)::text::properties FROM generate_series(1, 253) AS i",
                TOO_MANY,
            ),
            (
                "SELECT json_object_agg('P' || i, i)::text::properties || '{\"a\": 1}'::properties FROM generate_series(1, 252) AS i",
                TOO_MANY,
            ),
            (
                "SELECT json_object_agg('P' || i, repeat('x', 32768))::text::properties FROM generate_series(1, 16) AS i",
                TOO_LARGE,
            ),
        ]);
    }

    #[pg_test]
    fn entities() {
        start();
        let entity = r#"ROW('p', 'r', '2026-01-31 12:00:00.25+00', '{"L@odata.type": "Edm.Int64", "L": "1"}')::entity"#;
        check(&[
            (
                &format!("SELECT etag({entity})"),
                "W/\"datetime'2026-01-31T12%3A00%3A00.25Z'\"",
            ),
            (
                "SELECT etag(timestamptz '2026-01-31 12:00:00+00')",
                "W/\"datetime'2026-01-31T12%3A00%3A00Z'\"",
            ),
            (
                "SELECT etag('-infinity'::timestamptz)",
                "22003 OutOfRangeInput: The 'timestamp' parameter of value '-infinity' is out of range.",
            ),
            ("SELECT etag(ROW('p', 'r', NULL, '{}')::entity)", "NULL"),
            (
                "SELECT etag(e) = etag(e.\"timestamp\") FROM table_service_data.\"Employees\" AS e",
                "t",
            ),
            (
                &format!("SELECT entity_to_json({entity}, 'none')"),
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-31T12:00:00.25Z","L":"1"}"#,
            ),
            (
                &format!("SELECT entity_to_json({entity})"),
                r#"{"odata.etag":"W/\"datetime'2026-01-31T12%3A00%3A00.25Z'\"","PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-31T12:00:00.25Z","L@odata.type":"Edm.Int64","L":"1"}"#,
            ),
            (
                &format!("SELECT entity_to_json({entity}, 'full') ->> 'Timestamp@odata.type'"),
                "Edm.DateTime",
            ),
            (&format!("SELECT entity_to_json({entity}, 'Full')"), INVALID),
            (
                &format!("SELECT entity_from_json(entity_to_json({entity})::text) = {entity}"),
                "t",
            ),
            (
                "SELECT entity_to_json(e)::jsonb -> 'a' FROM table_service_data.\"Employees\" AS e",
                "1",
            ),
            (
                "SELECT entity_to_json(ROW(NULL, NULL, NULL, NULL)::entity)",
                r#"{"PartitionKey":null,"RowKey":null,"Timestamp":null}"#,
            ),
            (
                "SELECT entity_from_json('{\"PartitionKey\": \"p\", \"RowKey\": \"\"}')",
                r#"(p,"",,{})"#,
            ),
            ("SELECT entity_from_json('{\"PartitionKey\": \"p\"}')", NEED_VALUE),
            (
                "SELECT entity_from_json('{\"PartitionKey\": \"p\", \"RowKey\": 1}')",
                UNREADABLE,
            ),
            (
                "SELECT entity_from_json('{\"PartitionKey\": \"p\", \"RowKey\": \"a/b\"}')",
                "22003 OutOfRangeInput: The 'RowKey' parameter of value 'a/b' is out of range.",
            ),
            ("SELECT entity_from_json('{')", MALFORMED),
        ]);
    }

    #[pg_test]
    fn keys_and_retry() {
        start();
        check(&[
            ("SELECT ticks('2020-01-01 00:00:00+00')", "637134336000000000"),
            (
                "SELECT ticks('infinity')",
                "22003 OutOfRangeInput: The 'timestamp' parameter of value 'infinity' is out of range.",
            ),
            ("SELECT from_ticks(637134336000000019)", "2020-01-01 00:00:00.000001+00"),
            (
                "SELECT from_ticks(-1)",
                "22003 OutOfRangeInput: The 'ticks' parameter of value '-1' is out of range.",
            ),
            (
                "SELECT inverted_ticks('9999-12-31 23:59:59.999999+00')",
                "0000000000000000009",
            ),
            ("SELECT inverted_ticks() < inverted_ticks('2020-01-01')", "t"),
            (
                "SELECT from_inverted_ticks('0000000000000000009')",
                "9999-12-31 23:59:59.999999+00",
            ),
            ("SELECT from_inverted_ticks('9')", INVALID),
            ("SELECT retry_delay(0)", "00:00:03"),
            ("SELECT retry_delay(99)", "00:01:30"),
            ("SELECT retry_delay(99, '1 s', '1 s', '00:00:05')", "00:00:05"),
            (
                "SELECT bool_and(retry_delay(2, '10 s') BETWEEN '27 s' AND '39 s') FROM generate_series(1, 100)",
                "t",
            ),
            (
                "SELECT retry_delay(99, maximum => '290000 years') > '289000 years'",
                "t",
            ),
            ("SELECT retry_delay(-1)", INVALID),
            ("SELECT retry_delay(1, '-1 s')", INVALID),
            ("SELECT retry_delay(1, minimum => '-1 s')", INVALID),
        ]);
    }

    #[pg_test]
    fn tables_keep_the_contract_whoever_writes() {
        start();
        let table = "table_service_data.\"Employees\"";
        let insert = |values: &str| format!("INSERT INTO {table} VALUES ({values}) RETURNING \"timestamp\"");
        for (values, expected) in [
            (
                "'p', 'a/b', DEFAULT, '{}'",
                "22003 OutOfRangeInput: The 'RowKey' parameter of value 'a/b' is out of range.",
            ),
            ("'p', repeat('x', 1025), DEFAULT, '{}'", VALUE_TOO_LARGE),
            (
                "'p', 'x', 'infinity', '{}'",
                "22003 OutOfRangeInput: The 'Timestamp' parameter of value 'infinity' is out of range.",
            ),
            (
                "'p', 'x', '1600-12-31 00:00:00Z', '{}'",
                "22003 OutOfRangeInput: The 'Timestamp' parameter of value '12/31/1600 00:00:00' is out of range.",
            ),
            (
                "'p', 'x', '9999-01-01 00:00:00Z', '{}'",
                "22003 OutOfRangeInput: The 'Timestamp' parameter of value '01/01/9999 00:00:00' is out of range.",
            ),
            (
                "'p', NULL, DEFAULT, '{}'",
                "23502 null value in column \"row_key\" of relation \"Employees\" violates not-null constraint",
            ),
            (
                "'p', 'x', DEFAULT, NULL",
                "23502 null value in column \"properties\" of relation \"Employees\" violates not-null constraint",
            ),
            (
                "'p', 'r', DEFAULT, '{}'",
                "23505 duplicate key value violates unique constraint …",
            ),
            ("'p', 'x', '2020-01-01 00:00:00Z', '{}'", "2020-01-01 00:00:00+00"),
        ] {
            check(&[(&insert(values), expected)]);
        }
        for assignment in [
            "\"timestamp\" = '2000-01-01'",
            "\"timestamp\" = 'infinity'",
            "\"timestamp\" = NULL",
            "\"timestamp\" = \"timestamp\"",
            "properties = '{}'",
        ] {
            check(&[(
                &format!(
                    "UPDATE {table} SET {assignment} WHERE row_key = 'x' RETURNING \"timestamp\" BETWEEN now() AND clock_timestamp()"
                ),
                "t",
            )]);
        }
        check(&[
            (
                &format!("UPDATE {table} SET row_key = 'a\\b' WHERE row_key = 'x'"),
                "22003 OutOfRangeInput: The 'RowKey' parameter of value 'a\\b' is out of range.",
            ),
            ("SELECT entity_is_valid('p', 'r', '2020-01-01', '{}')", "t"),
            (
                "SELECT next_timestamp('2020-01-01 00:00:01Z', '2020-01-01 00:00:00Z')",
                "2020-01-01 00:00:01.000001+00",
            ),
            (
                "SELECT next_timestamp('2020-01-01 00:00:00Z', '2020-01-01 00:00:01Z')",
                "2020-01-01 00:00:01+00",
            ),
            ("SELECT rising_timestamp()", INVALID),
            ("SELECT merge_fits('p', 'r', '{\"a\": 1}', '{\"b\": 1}')", "t"),
        ]);
        // The trigger on a table that is none of ours.
        run("CREATE TABLE other (a int, b int, c text, \"timestamp\" text)");
        run("CREATE TRIGGER t BEFORE UPDATE ON other FOR EACH ROW EXECUTE FUNCTION rising_timestamp()");
        run("INSERT INTO other VALUES (1, 2, 'c', 'd')");
        check(&[("UPDATE other SET a = 2", INVALID)]);
    }

    #[pg_test]
    fn batches() {
        start();
        check(&[
            (
                "SELECT string_agg(index || row_key || (etag IS NOT NULL), ' ') FROM execute_batch('Employees', 'b', batch_insert('1', '{\"a\": 1}'), batch_insert_or_replace('2', '{}'), batch_insert_or_merge('3', '{}'))",
                "01true 12true 23true",
            ),
            (
                "SELECT string_agg(index || row_key || (etag IS NOT NULL), ' ') FROM execute_batch('Employees', 'b', batch_replace('3', '{}', '*'), batch_merge('2', '{\"c\": 1}', '*'), batch_delete('1'))",
                "03true 12true 21false",
            ),
            (
                "SELECT string_agg(row_key || properties, ' ') FROM get_entities('Employees', 'b', '{1, 2, 3}')",
                r#"2{"c":1} 3{}"#,
            ),
            (
                "SELECT etag IS NOT NULL FROM execute_batch_json('Employees', 'b', '[{\"insert\": {\"RowKey\": \"4\", \"a\": 1}}]')",
                "t",
            ),
            (
                "SELECT execute_batch('Employees', 'b', batch_insert('5', '{}'), batch_insert('4', '{}'))",
                "23505 EntityAlreadyExists: 1:The specified entity already exists.",
            ),
            (
                "SELECT execute_batch('Employees', 'b', batch_delete('nobody'))",
                "P0002 ResourceNotFound: 0:The specified resource does not exist.",
            ),
            (
                "SELECT execute_batch('Employees', 'b', batch_merge('4', '{}', 'W/\"old\"'))",
                "40002 UpdateConditionNotSatisfied: 0:The update condition specified in the request was not satisfied.",
            ),
            (
                "SELECT execute_batch('Employees', 'b', batch_delete('4'), batch_delete('4'))",
                "22023 InvalidDuplicateRow: …",
            ),
            (
                "SELECT execute_batch('Nobody', 'b', batch_delete('4'))",
                "42P01 TableNotFound: …",
            ),
            ("SELECT execute_batch('Employees', NULL, batch_delete('4'))", NEED_VALUE),
            (
                "SELECT execute_batch_json('Employees', 'b', '{')",
                "22P02 InvalidInput: …",
            ),
            (
                "SELECT execute_batch('Employees', 'b', VARIADIC array_agg(batch_insert(i::text, '{}'))) FROM generate_series(1, 101) AS i",
                "54000 InvalidInput: …",
            ),
            (
                "SELECT count(*) FROM get_entities('Employees', 'b', '{2, 3, 4, 5}')",
                "3",
            ),
        ]);
    }

    #[pg_test]
    fn queries() {
        start();
        run(
            "SELECT count(insert_entity('Employees', 'q', to_char(i, 'FM000'), jsonb_build_object('I', i))) FROM generate_series(1, 20) AS i",
        );
        check(&[
            (
                "SELECT string_agg(row_key, ' ') FROM query_entities('Employees', 'PartitionKey eq ''q'' and I ge 19')",
                "019 020",
            ),
            (
                "SELECT string_agg(row_key, ' ') FROM query_entities('Employees', 'I lt @n', top => 2, parameters => '{\"n\": 9}')",
                "001 002",
            ),
            (
                "SELECT string_agg(row_key || coalesce(continuation_token, ''), ' ') FROM query_page('Employees', 'I ge 19')",
                "019 020",
            ),
            (
                "SELECT count(continuation_token) FROM query_page('Employees', top => 5)",
                "1",
            ),
            (
                "SELECT string_agg(row_key, ' ') FROM query_page('Employees', 'I gt 0', top => 2, continuation_token => (SELECT max(continuation_token) FROM query_page('Employees', 'I gt 0', top => 2)))",
                "003 004",
            ),
            (
                "SELECT query_page_json('Employees', 'I eq 1', 'I', metadata => 'none') #>> '{value, 0, I}'",
                "1",
            ),
            (
                "SELECT matches(e, 'a eq 1') FROM get_entity('Employees', 'p', 'r') AS e",
                "t",
            ),
            (
                "SELECT matches(e, 'a eq 2') FROM get_entity('Employees', 'p', 'r') AS e",
                "f",
            ),
            (
                "SELECT access FROM explain_query('Employees', 'PartitionKey eq ''p'' and RowKey eq ''r''')",
                "point query",
            ),
            (
                "SELECT string_agg(partition_key || entities, ' ') FROM partition_statistics('Employees')",
                "p1 q20",
            ),
            (
                "SELECT string_agg(table_name, ' ') FROM query_tables('TableName ge ''employees''')",
                "Employees",
            ),
            ("SELECT query_entities('Employees', 'I eq')", "22023 InvalidInput: …"),
            ("SELECT query_entities('Employees', 'I eq @x')", "22023 InvalidInput: …"),
            ("SELECT query_entities('Employees', top => -1)", "22023 InvalidInput: …"),
            ("SELECT query_entities('Nobody')", NO_TABLE),
            (
                "SELECT query_page('Employees', continuation_token => 'x')",
                "22023 InvalidInput: …",
            ),
            ("SELECT query_page_json('Employees', metadata => 'x')", INVALID),
            ("SELECT matches(NULL, 'a eq 1')", INVALID),
            ("SELECT entity_passes('p', 'r', now(), '{\"a\": 1}', 'a eq 1')", "t"),
        ]);
        let predicate = value("SELECT filter_to_sql('PartitionKey eq ''q'' and (I eq 3 or RowKey gt ''018'')')");
        check(&[(
            &format!(
                "SELECT string_agg(row_key, ' ' ORDER BY row_key) FROM table_service_data.\"Employees\" WHERE {predicate}"
            ),
            "003 019 020",
        )]);
    }

    #[pg_test]
    fn a_session_keeps_statements_for_128_tables() {
        start();
        run("SET table_service.enable_direct_access = off");
        for table in 0..140 {
            run(&format!("SELECT create_table('Many{table}')"));
            run(&format!("SELECT insert_entity('Many{table}', 'p', 'r', '{{}}')"));
        }
        for table in 0..140 {
            check(&[(
                &format!("SELECT merge_entity('Many{table}', 'p', 'r', '{{\"a\": {table}}}', '*') IS NOT NULL"),
                "t",
            )]);
        }
        for table in (0..140).rev() {
            check(&[(
                &format!("SELECT properties ->> 'a' FROM get_entity('Many{table}', 'p', 'r')"),
                &table.to_string(),
            )]);
        }
        assert_eq!(crate::postgres::plan::tables_kept(), 128);
    }

    #[pg_test]
    fn tables_may_go_and_come_while_statements_are_kept() {
        start();
        run("SET table_service.enable_direct_access = off");
        check(&[
            ("SELECT delete_table('Employees')", "t"),
            ("SELECT get_entity('Employees', 'p', 'r')", NO_TABLE),
            ("SELECT create_table('EMPLOYEES')", "table_service_data.\"EMPLOYEES\""),
            (
                "SELECT insert_entity('Employees', 'p', 'r', '{\"new\": 1}') IS NOT NULL",
                "t",
            ),
            (
                "ALTER TABLE table_service_data.\"EMPLOYEES\" RENAME TO \"Staff\"",
                "(no rows)",
            ),
            ("SELECT insert_entity('Employees', 'p', 'r', '{}')", NO_TABLE),
            ("SELECT create_table('Employees')", "table_service_data.\"Employees\""),
            ("SELECT count(*) FROM get_entity('Employees', 'p', 'r')", "0"),
            ("SELECT properties FROM get_entity('STAFF', 'p', 'r')", r#"{"new":1}"#),
            (
                "ALTER TABLE table_service_data.\"Staff\" RENAME TO \"Crew\"",
                "(no rows)",
            ),
            ("SELECT create_table('staff')", "table_service_data.staff"),
            (
                "SELECT create_table('crew')",
                "42P07 TableAlreadyExists: The table specified already exists.",
            ),
            ("SELECT count(*) FROM query_tables()", "3"),
        ]);
    }

    #[pg_test]
    fn bags_read_the_same_however_they_are_stored() {
        start();
        run(
            "CREATE FUNCTION noise(n int) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(i::text), '' ORDER BY i), n) FROM generate_series(1, n / 32 + 1) AS i $$",
        );
        // A header of one byte and of four, compressed, out of line, and out of line although compressed.
        run("CREATE TABLE bags AS SELECT id, b FROM (VALUES
            ('short', '{\"Z\": 1}'::properties),
            ('126', jsonb_build_object('A', repeat('x', 114))),
            ('127', jsonb_build_object('A', repeat('x', 115))),
            ('compressed', jsonb_build_object('A', repeat('x', 30000), 'Z', 1)),
            ('out of line', jsonb_build_object('A', noise(30000), 'Z', 1)),
            ('both', (SELECT json_object_agg('S' || i, repeat(noise(320), 102))::text::properties FROM generate_series(10, 24) AS i))) AS v (id, b)");
        check(&[
            ("SELECT count(insert_entity('Employees', 's', id, b)) FROM bags", "6"),
            (
                "SELECT count(*) FROM bags, LATERAL get_entity('Employees', 's', id) AS e WHERE e.properties = b AND e.properties::text = b::text AND length(e.properties ->> 'A') IS NOT DISTINCT FROM length(b ->> 'A')",
                "6",
            ),
            (
                "SELECT count(merge_entity('Employees', 's', row_key, properties || '{\"Y\": 2}'::properties, etag(e))) FROM table_service_data.\"Employees\" AS e WHERE partition_key = 's'",
                "6",
            ),
            (
                "SELECT count(*) FROM table_service_data.\"Employees\" AS e JOIN bags ON row_key = id AND properties - 'Y' = b AND properties_hash(properties - 'Y') = properties_hash(b)",
                "6",
            ),
            (
                "SELECT count(*) FROM table_service_data.\"Employees\" AS e JOIN bags ON row_key = id WHERE entity_from_json(entity_to_json(e)::text) = ROW('s', id, e.\"timestamp\", e.properties)::entity",
                "6",
            ),
            (
                "SELECT count(entity_to_json(e)) FROM (SELECT ROW('p', id, now(), b)::entity AS e FROM bags) AS x",
                "6",
            ),
            (
                "SELECT count(to_properties(x)) FROM (SELECT id, b ->> 'Z' AS z FROM bags) AS x",
                "6",
            ),
        ]);
    }

    /// Receives bytes as the binary protocol brings them.
    fn receive(bytes: &[u8]) -> String {
        let bytes = bytes.to_vec();
        let received = in_subtransaction(move || {
            // SAFETY: a receive function is called with a StringInfo, and its result printed with the output function.
            unsafe {
                let mut message = pg_sys::StringInfoData::default();
                pg_sys::initStringInfo(&mut message);
                pg_sys::appendBinaryStringInfo(
                    &mut message,
                    bytes.as_ptr().cast(),
                    i32::try_from(bytes.len()).unwrap(),
                );
                let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                pg_sys::getTypeBinaryInputInfo(
                    crate::postgres::catalog::properties_type(),
                    &mut function,
                    &mut parameter,
                );
                let bag = pg_sys::OidReceiveFunctionCall(function, &mut message, parameter, -1);
                pg_sys::getTypeOutputInfo(crate::postgres::catalog::properties_type(), &mut function, &mut false);
                let text = pg_sys::OidOutputFunctionCall(function, bag);
                Ok::<_, table_service_model::Error>(CStr::from_ptr(text).to_str().unwrap().to_owned())
            }
        });
        match received {
            Ok(text) => text.unwrap(),
            Err(error) => match *error {
                CaughtError::PostgresError(report)
                | CaughtError::ErrorReport(report)
                | CaughtError::RustPanic { ereport: report, .. } => sqlstate(report.sql_error_code()),
            },
        }
    }

    #[pg_test]
    fn hostile_bytes_are_refused() {
        start();
        let sent = value("SELECT encode(properties_send('{\"S\": \"text\", \"I\": 1, \"B\": true}'), 'hex')");
        let bytes: Vec<u8> = (0..sent.len() / 2)
            .map(|i| u8::from_str_radix(&sent[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(receive(&bytes), r#"{"B":true,"I":1,"S":"text"}"#);
        for length in 0..bytes.len() {
            assert_eq!(receive(&bytes[..length]), "22P03", "cut to {length} bytes");
        }
        for (index, bit) in (0..bytes.len()).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << bit;
            let received = receive(&bytes);
            assert!(
                received.starts_with('{') || ["22P03", "22023", "22003", "54000"].contains(&received.as_str()),
                "byte {index} bit {bit}: {received}"
            );
        }
        assert_eq!(receive(&vec![0xFF; 1_000_000]), "22P03");
    }

    #[pg_test]
    fn memory_does_not_grow_with_the_number_of_calls() {
        start();
        run(
            "CREATE FUNCTION fails(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN EXECUTE statement; RETURN false; EXCEPTION WHEN OTHERS THEN RETURN true; END $$",
        );
        // This process's own memory in KiB, without the buffers that it shares with others.
        run("CREATE FUNCTION memory() RETURNS bigint VOLATILE LANGUAGE sql AS $$
             SELECT (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\\s+(\\d+)'))[1]::bigint $$");
        let entity = "ROW('p', i::text, now(), jsonb_build_object('a', repeat('x', 1000), 'b', i))::entity";
        for call in [
            "insert_or_merge_entity('Employees', 'm', (i % 500)::text, jsonb_build_object('a', repeat('x', 1000), 'b', i))",
            "(SELECT e.properties FROM get_entity('Employees', 'p', 'r', 'a') AS e WHERE i > 0)",
            "(SELECT count(*) FROM get_entities('Employees', 'p', ARRAY['r', i::text]))",
            "(jsonb_build_object('a', repeat('x', 1000), 'b', i)::properties || '{\"c\": 1}'::properties - 'b') ->> 'a'",
            &format!("entity_from_json(entity_to_json({entity})::text)"),
            "(SELECT count(*) FROM each_property(jsonb_build_object('a', repeat('x', 1000), 'b', i)))",
            "fails('SELECT insert_entity(''Employees'', ''p'', ''r'', ''{}'')')",
        ] {
            // What the last of so many calls leaves, while the statement still runs.
            let memory_after = |calls: u32| -> i64 {
                let memory = format!(
                    "SELECT max(CASE i WHEN {calls} THEN memory() END) FROM (SELECT i, {call} AS result FROM generate_series(1, {calls}) AS i OFFSET 0) AS c
                     WHERE result IS NOT DISTINCT FROM result"
                );
                value(&memory).parse().unwrap()
            };
            let warm = memory_after(1_000);
            let grown = memory_after(5_000) - warm;
            assert!(grown < 2 * 1024, "{grown} KiB more after {call}");
        }
    }

    #[pg_test]
    fn every_function_is_tested_here() {
        start();
        let functions = value(
            "SELECT string_agg(DISTINCT p.proname, ' ') FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
             WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND p.pronamespace = 'table_service'::regnamespace",
        );
        // Called by scans, with what they prepare, and by every literal and every result.
        let indirectly = [
            "scan_passes",
            "scan_position",
            "properties_in",
            "properties_out",
            "properties_recv",
        ];
        let source = include_str!("tests.rs");
        let untested: Vec<&str> = functions
            .split(' ')
            .filter(|name| !indirectly.contains(name) && !source.contains(&format!("{name}(")))
            .collect();
        assert!(untested.is_empty(), "{untested:?}");
    }
}
