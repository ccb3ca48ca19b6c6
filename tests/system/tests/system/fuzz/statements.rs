//! Random statements: calls of every function, filters in WHERE, and direct writes.

use system_tests::Session;
use system_tests::random::Random;

use super::shapes::NAMES;

/// A function of the extension, from the catalog: so a new one is called as soon as it exists.
pub struct Function {
    pub name: String,
    arguments: Vec<Argument>,
    /// How many of them have a default.
    defaults: usize,
    is_variadic: bool,
}

struct Argument {
    /// Empty if it has none.
    name: String,
    kind: String,
}

impl Function {
    /// Whether it works on a table that it gets by name.
    pub fn takes_a_table(&self) -> bool {
        self.arguments.iter().any(|argument| argument.name == "table_name")
    }

    /// All functions that SQL may call: those without values that only PostgreSQL makes, and without triggers.
    pub fn all(session: &Session) -> Vec<Function> {
        let rows = session.run(
            "SELECT p.proname, p.pronargdefaults, p.provariadic <> 0,
               (SELECT pg_catalog.string_agg(coalesce(p.proargnames[n], '') || ' ' || t::regtype::text, '|' ORDER BY n) FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY AS a (t, n))
             FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
             WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
               AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service')
               AND NOT 'internal'::regtype = ANY (p.proargtypes) AND p.prorettype <> 'trigger'::regtype
             ORDER BY p.oid::regprocedure::text",
        );
        let function = |row: Vec<Option<String>>| Function {
            name: row[0].clone().unwrap(),
            arguments: row[3]
                .iter()
                .flat_map(|arguments| arguments.split('|'))
                .map(|argument| {
                    let (name, kind) = argument.split_once(' ').unwrap();
                    Argument {
                        name: name.to_owned(),
                        kind: kind.to_owned(),
                    }
                })
                .collect(),
            defaults: row[1].as_deref().unwrap().parse().unwrap(),
            is_variadic: row[2].as_deref() == Some("t"),
        };
        rows.into_iter().map(function).collect()
    }
}

/// Texts that some function understands, and others.
const TEXTS: [&str; 44] = [
    "'p'",
    "'r'",
    "'r1'",
    "'r2'",
    "''",
    "'*'",
    "'A'",
    "'B'",
    "'A,B'",
    "'*,A'",
    "'PartitionKey'",
    "'W/\"datetime''2026-01-01T00%3A00%3A00Z''\"'",
    "'W/\"datetime''2026-01-01T00%3A00%3A01Z''\"'",
    "'W/\"x\"'",
    "'minimal'",
    "'full'",
    "'none'",
    "'raud'",
    "'a2V5'",
    "'devstoreaccount1'",
    "'10.0.0.1-10.0.0.9'",
    "'https'",
    "'[{\"insert\": {\"RowKey\": \"r9\", \"A\": 1}}, {\"delete\": {\"RowKey\": \"r\"}}]'",
    "'[{\"merge\": {\"RowKey\": \"r1\", \"A\": null}, \"ifMatch\": \"*\"}]'",
    "'{\"PartitionKey\": \"p\", \"RowKey\": \"r\", \"A\": 1}'",
    "'{'",
    "repeat('[', 100000)",
    "repeat('x', 1024)",
    "repeat('x', 1025)",
    "repeat('a', 2000000)",
    "chr(1114109)",
    "E'\\n'",
    "E'a/b\\\\c#?'",
    "'2521729727999999999'",
    "U&'\\FFFF'",
    "E'e\\u0301'",
    "'x; DROP TABLE other'",
    "'\"'",
    "'%'",
    "current_setting('other_encoding.text')",
    "current_setting('other_encoding.text')",
    "(SELECT continuation_token FROM query_page('Plain', top => 2) WHERE continuation_token IS NOT NULL)",
    "(SELECT etag(t::entity) FROM get_entity('Plain', 'p', 'r1') AS t)",
    "(SELECT continuation_token FROM query_tables(top => 1) WHERE continuation_token IS NOT NULL)",
];

const FILTERS: [&str; 30] = [
    "''",
    "'A eq 1'",
    "'A eq 1'",
    "'A ne 1'",
    "'A ge 1 and B eq ''x'''",
    "'A gt 2 or B eq ''x7'''",
    "'A lt 5L'",
    "'B gt ''x'' and B lt ''x2'''",
    "'RowKey eq ''r'''",
    "'RowKey ge ''r1'' and A eq 1'",
    "'PartitionKey eq ''p'' and (RowKey eq ''r'' or A gt 1.5)'",
    "'PartitionKey eq ''p1'' and A eq 3'",
    "'PartitionKey eq ''p'' and RowKey gt ''r'' and RowKey lt ''r5'' and (A eq 1 or A eq 2)'",
    "'(PartitionKey eq ''p'' and RowKey eq ''r1'') or (PartitionKey eq ''p'' and RowKey eq ''r2'')'",
    "'not (A eq 1'",
    "'not (A eq 1)'",
    "'A eq @a or B eq @b'",
    "'TableName ge ''M'''",
    "'Timestamp ge datetime''2026-01-01T00:00:00Z'''",
    "'C eq 1 and true and not false'",
    "'A eq X''00'' or A eq guid''00000000-0000-0000-0000-000000000000'''",
    "repeat('(', 3000)",
    "repeat('not ', 3000) || 'A eq 1'",
    "repeat('A eq 1 or ', 900) || 'A eq 2'",
    "(SELECT string_agg(format('(PartitionKey eq ''p'' and RowKey eq ''r%s'' and A eq 1)', i), ' or ') FROM generate_series(1, 300) AS i)",
    "(SELECT string_agg(format('(PartitionKey gt ''p%s'' and PartitionKey lt ''p%sz'' and A eq 1)', i, i), ' or ') FROM generate_series(1, 80) AS i)",
    "'A eq ''' || repeat('x', 40000) || ''''",
    "'A eq 1e400'",
    "'A eq 99999999999999999999L'",
    "current_setting('other_encoding.text')",
];

const BAGS: [&str; 18] = [
    "'{}'",
    "'{\"A\": 1}'",
    "'{\"A\": 2}'",
    "'{\"A\": 1.5, \"B\": \"x\"}'",
    "'{\"B\": null}'",
    "'{\"A\": {\"x\": 1}}'",
    "'{\"A\": [1]}'",
    "'{'",
    "''",
    "'{\"a\": 1, \"a\": 2}'",
    "'{\"I@odata.type\": \"Edm.Int64\", \"I\": \"9223372036854775807\", \"D@odata.type\": \"Edm.DateTime\", \"D\": \"2026-01-01T00:00:00Z\"}'",
    "'{\"N@odata.type\": \"Edm.Binary\", \"N\": \"AAEC\", \"G@odata.type\": \"Edm.Guid\", \"G\": \"00000000-0000-0000-0000-000000000000\"}'",
    "jsonb_build_object('L', repeat('x', 32768))",
    "jsonb_build_object('L', repeat('x', 32769))",
    "(SELECT jsonb_object_agg('P' || i, repeat('y', 4000)) FROM generate_series(1, 250) AS i)",
    "(SELECT jsonb_object_agg('P' || i, i) FROM generate_series(1, 253) AS i)",
    "current_setting('other_encoding.text')",
    "(SELECT properties FROM table_service_data.\"Large\" LIMIT 1)",
];

/// Makes statements.
pub struct Statements<'a> {
    pub random: &'a mut Random,
}

impl Statements<'_> {
    fn pick(&mut self, from: &[&str]) -> String {
        (*self.random.pick(from)).to_owned()
    }

    fn name(&mut self) -> String {
        format!("'{}'", self.random.pick(&NAMES))
    }

    fn table(&mut self) -> String {
        format!("table_service_data.\"{}\"", self.random.pick(&NAMES))
    }

    /// An expression of this type.
    fn value(&mut self, kind: &str) -> String {
        if self.random.chance(8) {
            return format!("NULL::{kind}");
        }
        let value = match kind {
            "text" => match self.random.below(10) {
                0 | 1 => self.name(),
                2..=4 => self.pick(&FILTERS),
                _ => self.pick(&TEXTS),
            },
            "cstring" => return format!("{}::cstring", self.pick(&BAGS[..12])),
            "boolean" => self.pick(&["true", "false"]),
            "smallint" | "integer" => self.pick(&["0", "1", "-1", "7", "2147483647", "-2147483648"]),
            "bigint" => self.pick(&[
                "0",
                "1",
                "3",
                "-1",
                "1000",
                "1001",
                "9223372036854775807",
                "-9223372036854775808",
                "638000000000000000",
            ]),
            "timestamp with time zone" => self.pick(&[
                "now()",
                "'infinity'",
                "'-infinity'",
                "'4713-01-01 BC'",
                "'2026-01-01'",
                "'294276-12-31'",
            ]),
            "interval" => self.pick(&["'1 s'", "'0'", "'-1 year'", "'178000000 years'"]),
            "json" | "jsonb" => self.pick(&[
                "'{}'",
                "'[]'",
                "'1'",
                "'null'",
                "'{\"A\": 1}'",
                "'{\"A\": {\"B\": []}}'",
                "'[{\"Id\": \"x\", \"Permission\": \"r\"}]'",
                "'[{\"Id\": \"x\"}, {\"Id\": \"x\"}]'",
                "'{\"Cors\": [{\"AllowedOrigins\": [\"*\"], \"AllowedMethods\": [\"GET\"], \"MaxAgeInSeconds\": 5}]}'",
            ]),
            "bytea" => self.pick(&[
                "''",
                "'\\x00'",
                "'\\x01ff'",
                "'\\x0102030405060708090a0b0c0d0e0f'",
                "decode(repeat('ff', 70000), 'hex')",
            ]),
            "table_service.properties" | "properties" => self.pick(&BAGS),
            "table_service.entity" | "entity" => {
                if self.random.chance(40) {
                    let table = self.table();
                    return format!("(SELECT t::table_service.entity FROM {table} AS t LIMIT 1)");
                }
                let parts = ["text", "text", "timestamp with time zone", "properties"].map(|kind| self.value(kind));
                format!("ROW({})", parts.join(", "))
            }
            "table_service.batch_operation" | "batch_operation" => {
                let operation = self.pick(&[
                    "'insert'",
                    "'replace'",
                    "'merge'",
                    "'insert_or_merge'",
                    "'insert_or_replace'",
                    "'delete'",
                    "'x'",
                    "NULL",
                ]);
                let row_key = match self.random.chance(70) {
                    true => format!("'r{}'", self.random.below(60)),
                    false => self.value("text"),
                };
                let bag = self.value("properties");
                let condition = self.pick(&["'*'", "'*'", "NULL", "'x'"]);
                format!("ROW({operation}, {row_key}, {bag}, {condition})")
            }
            "oid" => self.pick(&[
                "0",
                "4294967295",
                "'pg_class'::regclass",
                "(SELECT max(c.oid) FROM pg_class AS c)",
            ]),
            "record" => {
                return self.pick(&[
                    "ROW()",
                    "ROW(1, 'x', now())",
                    "ROW(ROW(1))",
                    "(SELECT c FROM pg_class AS c LIMIT 1)",
                    "(SELECT t FROM table_service_data.\"Holes\" AS t LIMIT 1)",
                ]);
            }
            array if array.ends_with("[]") => {
                let element = array.trim_end_matches("[]");
                match self.random.below(12) {
                    // Large, but not as large as the product of two large things.
                    0 if element == "text" => "array_fill('r1'::text, ARRAY[20000])".to_owned(),
                    0 => "array_fill(NULL::table_service.batch_operation, ARRAY[200])".to_owned(),
                    1 => format!("ARRAY[ARRAY[{}]]", self.value(element)),
                    _ => {
                        let values: Vec<String> = (0..self.random.below(5)).map(|_| self.value(element)).collect();
                        format!("ARRAY[{}]", values.join(", "))
                    }
                }
            }
            other => panic!("no values of type {other} are known"),
        };
        format!("({value})::{kind}")
    }

    /// A value that the argument is made for: so that most calls come as far as the table and its entities.
    fn meant(&mut self, argument: &Argument) -> String {
        let value = match argument.name.as_str() {
            "table_name" => self.name(),
            "partition_key" => "'p'".to_owned(),
            "row_key" => format!("'r{}'", self.random.below(60)),
            "filter" => self.pick(&FILTERS),
            "property" => self.pick(&["'A'", "'B'"]),
            "projection" => self.pick(&["NULL", "'A'", "'A,B'", "'RowKey,C'", "'*'"]),
            "if_match" => self.pick(&["'*'", "NULL", "'W/\"datetime''2026-01-01T00%3A00%3A00Z''\"'"]),
            "continuation_token" => format!("SELECT continuation_token FROM query_page({}, top => 2)", self.name()),
            _ => return self.value(&argument.kind),
        };
        format!("({value})::{}", argument.kind)
    }

    /// A call of a function.
    pub fn call(&mut self, function: &Function) -> String {
        let count = function.arguments.len() - self.random.below(function.defaults + 1);
        let mut arguments = Vec::new();
        for (number, argument) in function.arguments[..count].iter().enumerate() {
            let argument = match self.random.chance(80) {
                true => self.meant(argument),
                false => self.value(&argument.kind),
            };
            let is_rest = function.is_variadic && number + 1 == function.arguments.len();
            arguments.push(format!("{}{argument}", if is_rest { "VARIADIC " } else { "" }));
        }
        format!(
            "SELECT * FROM table_service.{}({})",
            function.name,
            arguments.join(", ")
        )
    }

    /// A query of this table with a filter. So each shape of table meets filters on keys and on indexed properties.
    pub fn query(&mut self, name: &str) -> String {
        let filter = self.pick(&FILTERS);
        match self.random.below(5) {
            0 => format!("SELECT * FROM table_service_data.\"{name}\" AS t WHERE matches(t, {filter})"),
            1 => format!("SELECT * FROM explain_query('{name}', {filter})"),
            2 => format!("SELECT * FROM query_page('{name}', {filter}, top => 7)"),
            3 => format!("SELECT * FROM query_page_json('{name}', {filter})"),
            _ => format!("SELECT * FROM query_entities('{name}', {filter})"),
        }
    }

    /// A filter that the planner sees, on any table and in any place.
    fn filtered(&mut self) -> String {
        let (table, other) = (self.table(), self.table());
        let filter = match self.random.chance(80) {
            true => self.pick(&FILTERS),
            false => self.value("text"),
        };
        let parameters = match self.random.below(4) {
            0 => format!(", {}", self.value("properties")),
            1 => ", '{\"a\": 1, \"b\": \"x\"}'".to_owned(),
            _ => String::new(),
        };
        let call = |alias: &str| format!("matches({alias}, {filter}{parameters})");
        match self.random.below(8) {
            0 => format!(
                "SELECT t.row_key, u.row_key FROM {table} AS t LEFT JOIN {other} AS u ON {} AND t.row_key = u.row_key LIMIT 10",
                call("u")
            ),
            1 => format!(
                "SELECT count(*) FROM {other} AS u LEFT JOIN {table} AS t USING (row_key) WHERE {} IS NOT TRUE",
                call("t")
            ),
            2 => format!(
                "UPDATE {table} AS t SET properties = properties || '{{\"Z\": 1}}' WHERE {} RETURNING {}",
                call("t"),
                call("t")
            ),
            3 => format!("DELETE FROM {table} AS t WHERE {} AND row_key = 'r3'", call("t")),
            4 => format!(
                "SELECT (SELECT count(*) FROM {other} AS u WHERE {}) FROM {table} AS t LIMIT 3",
                call("t")
            ),
            5 => format!(
                "SELECT count(*) FROM (SELECT t AS e FROM {table} AS t UNION ALL SELECT u FROM {table} AS u) AS s WHERE {}",
                call("s.e")
            ),
            _ => format!("SELECT * FROM {table} AS t WHERE {}", call("t")),
        }
    }

    /// A write without a function.
    fn written(&mut self) -> String {
        let table = self.table();
        let values = ["text", "text", "timestamp with time zone", "properties"].map(|kind| self.value(kind));
        match self.random.below(5) {
            0 => format!(
                "INSERT INTO {table} (partition_key, row_key, \"timestamp\", properties) VALUES ({}) ON CONFLICT DO NOTHING",
                values.join(", ")
            ),
            1 => format!("UPDATE {table} SET properties = {} WHERE row_key = 'r2'", values[3]),
            2 => format!("UPDATE {table} SET \"timestamp\" = {} WHERE row_key = 'r2'", values[2]),
            3 => format!("DELETE FROM {table} WHERE row_key = 'r{}'", self.random.below(60)),
            _ => format!(
                "INSERT INTO {table} (partition_key, row_key, \"timestamp\", properties) VALUES ('p', 'r{}', now(), {})",
                self.random.below(60),
                values[3]
            ),
        }
    }

    /// Any statement.
    pub fn any(&mut self, functions: &[Function]) -> String {
        match self.random.below(10) {
            0 | 1 => self.filtered(),
            2 => self.written(),
            _ => {
                // Two of three calls are for a table: there the shapes matter.
                let of_tables = self.random.below(3) > 0;
                let function = loop {
                    let function = &functions[self.random.below(functions.len())];
                    if !of_tables || function.takes_a_table() {
                        break function;
                    }
                };
                self.call(function)
            }
        }
    }

    /// A statement in one of the forms in which clients run it.
    pub fn in_some_form(&mut self, statement: &str) -> String {
        match self.random.below(14) {
            0 => format!("BEGIN; SAVEPOINT a; {statement}; ROLLBACK TO a; {statement}; RELEASE a; COMMIT"),
            1 => format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {statement}; {statement}; ROLLBACK"),
            2 => format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {statement}; COMMIT"),
            3 => format!(
                "DO $do$ BEGIN BEGIN EXECUTE $fuzz${statement}$fuzz$; EXCEPTION WHEN OTHERS THEN NULL; END; EXECUTE $fuzz${statement}$fuzz$; END $do$"
            ),
            4 | 5 => format!("SET statement_timeout = {}; {statement}", 1 + self.random.below(5)),
            6 if statement.starts_with("SELECT") => {
                format!("BEGIN; DECLARE c CURSOR FOR {statement}; FETCH 1 FROM c; FETCH 5 FROM c; COMMIT")
            }
            7 => format!("PREPARE q AS {statement}; EXECUTE q; EXECUTE q; EXECUTE q; EXECUTE q; EXECUTE q; EXECUTE q"),
            8 => format!("EXPLAIN (ANALYZE, TIMING off) {statement}"),
            _ => statement.to_owned(),
        }
    }
}
