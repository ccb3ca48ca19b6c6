//! Filters on random entities: whatever way PostgreSQL runs a filter, and whatever property indexes there are, it finds
//! the entities that the model's evaluator finds, in the order of the keys.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use system_tests::{Database, Session};
use table_service_model::entity::Entity;
use table_service_model::filter::{Dialect, Filter};
use table_service_model::json::properties_to_json;
use table_service_model::{PropertiesBuf, PropertiesBuilder, Ticks, Value};

use system_tests::random::{Random, seeds};

/// Seeds that have failed once, run every time.
const FAILED_ONCE: [u64; 0] = [];
/// How many seeds run usually, each with entities of its own.
const SEEDS: u64 = 15;

/// How much a seed does.
struct Size {
    filters: usize,
    entities: usize,
    /// The largest page.
    top: usize,
}

/// Most seeds have few entities and many filters. Every fifth has more entities than a query counts, or reads, before it
/// chooses its way.
fn size(seed: u64) -> Size {
    if seed % 5 == 4 {
        Size {
            filters: 150,
            entities: 3000,
            top: 1000,
        }
    } else {
        Size {
            filters: 450,
            entities: 160,
            top: 60,
        }
    }
}

/// Prefixes of each other, the empty key, quotes, and characters that UTF-8 and UTF-16 order differently.
const KEYS: [&str; 16] = [
    "", "a", "aa", "ab", "abc", "B", "b", "b ", "O'Brien", "''", "é", "\u{d7ff}", "\u{e000}", "\u{ffff}", "😀", "😁x",
];
/// Strings that no key is: prefixes of each other around the length at which a property index cuts them.
static LONG_TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let texts = [511, 512, 513].map(|length| "x".repeat(length));
    let behind = ["", "a", "\u{e000}", "😀"].map(str::to_owned);
    texts
        .iter()
        .flat_map(|text| behind.iter().map(move |end| format!("{text}{end}")))
        .collect()
});
/// RowKeys for more entities than [`KEYS`] suffice for.
static MORE_KEYS: LazyLock<Vec<String>> = LazyLock::new(|| (0..400).map(|number| format!("a{number:03}")).collect());
const NAMES: [&str; 5] = ["p", "q", "r", "été", "Long_Name_9"];
const OPERATORS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const TYPES: [&str; 8] = [
    "String", "Int32", "Int64", "Double", "Boolean", "DateTime", "Guid", "Binary",
];

struct Stored {
    partition_key: &'static str,
    row_key: &'static str,
    timestamp: Ticks,
    properties: PropertiesBuf,
}

impl Stored {
    fn passes(&self, filter: &Filter) -> bool {
        filter.matches(&Entity {
            partition_key: Some(self.partition_key),
            row_key: Some(self.row_key),
            timestamp: Some(self.timestamp),
            properties: self.properties.as_properties(),
        })
    }
}

/// Puts a value of a type, one of few, so that literals meet it, into a bag.
fn push(builder: &mut PropertiesBuilder<'static>, name: &'static str, edm: &str, random: &mut Random) {
    let small = [-1, 0, 1, 2][random.below(4)];
    let extreme = random.chance(10);
    let value = match edm {
        "String" => Value::String(text(random)),
        "Int32" if extreme => Value::Int32(*random.pick(&[i32::MIN, i32::MAX])),
        "Int32" => Value::Int32(small),
        "Int64" if extreme => Value::Int64(*random.pick(&[
            i64::MIN,
            i64::MAX,
            2_147_483_648,
            9_007_199_254_740_992,
            9_007_199_254_740_993,
        ])),
        "Int64" => Value::Int64(small.into()),
        "Double" if extreme => {
            let values = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -0.0,
                5e-324,
                9_007_199_254_740_992.0,
            ];
            Value::Double(*random.pick(&values))
        }
        "Double" => Value::Double(f64::from(small) / 2.0),
        "Boolean" => Value::Boolean(random.chance(50)),
        "DateTime" => Value::DateTime(Ticks::new(Ticks::DATETIME_MIN.get() + i64::from(small) + 1).unwrap()),
        "Guid" => Value::Guid([[0; 16], [1; 16], [255; 16]][random.below(3)]),
        _ => Value::Binary([&[][..], &[0], &[0, 1], &[255]][random.below(4)]),
    };
    builder.push(name.into(), value).unwrap();
}

fn entities(random: &mut Random, number: usize) -> Vec<Stored> {
    let mut entities = BTreeMap::new();
    for _ in 0..number {
        let row_key = match random.below(number) {
            0..200 => one(random, &KEYS),
            _ => &MORE_KEYS[random.below(MORE_KEYS.len())],
        };
        let key = (one(random, &KEYS), row_key);
        let mut builder = PropertiesBuilder::new();
        for name in NAMES {
            if random.chance(60) {
                let edm = one(random, &TYPES);
                push(&mut builder, name, edm, random);
            }
        }
        let stored = Stored {
            partition_key: key.0,
            row_key: key.1,
            timestamp: Ticks::parse("2022-04-13T21:50:14Z").unwrap(),
            properties: builder.finish().unwrap(),
        };
        entities.insert(key, stored);
    }
    let second = 10_000_000;
    let mut entities: Vec<Stored> = entities.into_values().collect();
    for stored in &mut entities {
        let later = i64::try_from(random.below(3)).unwrap() * second;
        stored.timestamp = Ticks::new(stored.timestamp.get() + later).unwrap();
    }
    entities
}

/// Makes a table of entities.
fn store(session: &Session, entities: &[Stored]) {
    session.run("SELECT table_service.create_table('Oracle')");
    let mut rows: Vec<String> = entities
        .iter()
        .map(|entity| {
            let json = String::from_utf8(properties_to_json(entity.properties.as_properties())).unwrap();
            let [pk, rk, json] = [entity.partition_key, entity.row_key, &json].map(|text| text.replace('\'', "''"));
            format!("('{pk}', '{rk}', '{}', '{json}')", entity.timestamp)
        })
        .collect();
    // So that the order in the table is not the order of the keys.
    rows.sort_by_key(|row| row.bytes().rev().collect::<Vec<_>>());
    session.run(&format!(
        "INSERT INTO table_service_data.\"Oracle\" VALUES {}",
        rows.join(", ")
    ));
    session.run(
        "CREATE FUNCTION ids(filter text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            result text;
        BEGIN
            SELECT string_agg(partition_key || E'\\x01' || row_key, E'\\x02') INTO result FROM table_service.query_entities('Oracle', filter);
            RETURN coalesce(result, 'none');
        END $$;
        CREATE FUNCTION matching(filter text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            result text;
        BEGIN
            -- The planner sees a constant.
            EXECUTE pg_catalog.format('SELECT string_agg(partition_key || E''\\x01'' || row_key, E''\\x02'' ORDER BY partition_key, row_key)
                FROM table_service_data.\"Oracle\" AS o WHERE table_service.matches(o, %L)', filter) INTO result;
            RETURN coalesce(result, 'none');
        END $$;
        CREATE FUNCTION selected(filter text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            result text;
        BEGIN
            EXECUTE 'SELECT string_agg(partition_key || E''\\x01'' || row_key, E''\\x02'' ORDER BY partition_key, row_key) FROM table_service_data.\"Oracle\" AS \"an alias\" WHERE '
                || table_service.filter_to_sql(filter, 'an alias') INTO result;
            RETURN coalesce(result, 'none');
        END $$;
        CREATE FUNCTION paged(filter text, tops bigint[], time_limit text, changing text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            result text;
            page text;
            token text;
            json json;
            top bigint;
            pages integer := 0;
        BEGIN
            PERFORM set_config('table_service.page_time_limit', time_limit, true);
            LOOP
                top := tops[1 + pages % cardinality(tops)];
                IF pages % 3 = 1 THEN
                    json := table_service.query_page_json('Oracle', filter, 'PartitionKey,RowKey', top, token);
                    SELECT string_agg((e ->> 'PartitionKey') || E'\\x01' || (e ->> 'RowKey'), E'\\x02') INTO page FROM json_array_elements(json -> 'value') AS e;
                    token := json ->> 'continuationToken';
                ELSE
                    SELECT string_agg(partition_key || E'\\x01' || row_key, E'\\x02'), max(continuation_token) INTO page, token
                    FROM table_service.query_page('Oracle', filter, NULL, top, token);
                END IF;
                result := nullif(concat_ws(E'\\x02', result, page), '');
                EXIT WHEN token IS NULL;
                pages := pages + 1;
                -- A token stays valid when an index comes or goes.
                IF changing IS NOT NULL AND pages < 20 AND NOT table_service.drop_property_index('Oracle', changing, if_exists => true) THEN
                    PERFORM table_service.create_property_index('Oracle', changing);
                END IF;
                IF pages > 10000 THEN
                    RAISE 'the pages do not end';
                END IF;
            END LOOP;
            RETURN coalesce(result, 'none');
        END $$;
        -- What is counted, updated and deleted by the filter: its entities, once each. Everything is undone.
        CREATE FUNCTION worked_on(filter text, top bigint) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            counted bigint := table_service.count_entities('Oracle', filter);
            result text;
            changed bigint;
            deleted bigint := 0;
            now_deleted bigint;
            token text;
            kept text;
        BEGIN
            BEGIN
                changed := table_service.update_entities('Oracle', filter, '{\"Marked\": true}');
                result := ids('Marked');
                RAISE EXCEPTION USING ERRCODE = 'ZZ999';
            EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
            END;
            BEGIN
                LOOP
                    SELECT s.deleted, s.continuation_token INTO now_deleted, token
                    FROM table_service.delete_entities_step('Oracle', filter, top, token) AS s;
                    deleted := deleted + now_deleted;
                    EXIT WHEN token IS NULL;
                END LOOP;
                kept := ids(filter);
                RAISE EXCEPTION USING ERRCODE = 'ZZ999';
            EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
            END;
            IF changed <> counted OR deleted <> counted OR kept <> 'none' THEN
                RETURN format('%s counted, %s changed, %s deleted, kept: %s', counted, changed, deleted, kept);
            END IF;
            RETURN result;
        END $$",
    );
}

/// A literal as a filter spells it, in one of its spellings.
fn literal(edm: &str, random: &mut Random) -> String {
    let small = [-1, 0, 1, 2][random.below(4)];
    match edm {
        "String" => format!("'{}'", text(random).replace('\'', "''")),
        "Int32" => match random.below(12) {
            0 => "2147483647".to_owned(),
            1 => "-2147483648".to_owned(),
            _ => small.to_string(),
        },
        "Int64" => match random.below(12) {
            0 => "9223372036854775807".to_owned(),
            1 => random.pick(&["9007199254740992L", "9007199254740993L"]).to_string(),
            2 => "2147483648".to_owned(),
            _ => format!("{small}{}", random.pick(&["L", "l"])),
        },
        "Double" => match random.below(14) {
            0 => "NaN".to_owned(),
            1 => "INF".to_owned(),
            2 => "-INF".to_owned(),
            3 => "-0.0".to_owned(),
            4 => "9007199254740992.0".to_owned(),
            5 => format!("{small}D"),
            6 => format!("{small}e0"),
            _ => format!("{:?}", f64::from(small) / 2.0),
        },
        "Boolean" => random.pick(&["true", "false"]).to_string(),
        "DateTime" => format!(
            "datetime'{}'",
            random.pick(&[
                "1601-01-01",
                "1601-01-01T00:00:00.0000001Z",
                "1601-01-01T01:00:00.0000002+01:00",
                "2022-04-13T21:50:14Z",
                "2022-04-13T21:50:15",
            ])
        ),
        "Guid" => format!(
            "guid'{}'",
            random.pick(&[
                "00000000-0000-0000-0000-000000000000",
                "01010101-0101-0101-0101-010101010101",
                "FFFFFFFF-ffff-FFFF-ffff-FFFFFFFFFFFF",
            ])
        ),
        _ => random.pick(&["X''", "x'00'", "X'0001'", "binary'fF'"]).to_string(),
    }
}

fn one(random: &mut Random, from: &[&'static str]) -> &'static str {
    from[random.below(from.len())]
}

/// A String value.
fn text(random: &mut Random) -> &'static str {
    if random.chance(15) {
        &LONG_TEXTS[random.below(LONG_TEXTS.len())]
    } else {
        one(random, &KEYS)
    }
}

fn property(random: &mut Random) -> &'static str {
    match random.below(10) {
        0..=2 => "PartitionKey",
        3..=5 => "RowKey",
        6 if random.chance(40) => "Timestamp",
        _ => one(random, &NAMES),
    }
}

fn comparison(random: &mut Random, out: &mut String) {
    if random.chance(7) {
        return extended(random, out);
    }
    let property = property(random);
    let edm = type_of_literal(property, random);
    let (operator, literal) = (one(random, &OPERATORS), literal(edm, random));
    let written = if random.chance(15) {
        write!(out, "{literal} {operator} {property}")
    } else {
        write!(out, "{property} {operator} {literal}")
    };
    written.unwrap();
}

fn type_of_literal(property: &str, random: &mut Random) -> &'static str {
    match property {
        "PartitionKey" | "RowKey" if random.chance(92) => "String",
        "Timestamp" if random.chance(80) => "DateTime",
        _ => one(random, &TYPES),
    }
}

/// The syntax that only the extended dialect has.
fn extended(random: &mut Random, out: &mut String) {
    let property = property(random);
    let text = literal("String", random);
    match random.below(6) {
        0 => write!(out, "startswith({property}, {text})").unwrap(),
        1 => write!(out, "endswith({property}, {text})").unwrap(),
        2 => write!(out, "contains({property}, {text})").unwrap(),
        3 => write!(out, "substringof({text}, {property})").unwrap(),
        4 => {
            let members: Vec<_> = (0..1 + random.below(4))
                .map(|_| match random.below(10) {
                    0 => "null".to_owned(),
                    _ => literal(type_of_literal(property, random), random),
                })
                .collect();
            write!(out, "{property} in ({})", members.join(", ")).unwrap();
        }
        _ => write!(out, "{property} {} null", one(random, &["eq", "ne"])).unwrap(),
    }
}

/// Writes a random filter, with parentheses that it needs and some that it does not.
fn filter(random: &mut Random, depth: usize, out: &mut String) {
    match random.below(if depth == 0 { 10 } else { 24 }) {
        0 => out.push_str(one(random, &NAMES)),
        1 if random.chance(20) => out.push_str(one(random, &["true", "false", "RowKey", "Timestamp"])),
        1..=9 => comparison(random, out),
        10..=11 => {
            out.push_str("not ");
            if random.chance(50) {
                out.push('(');
                filter(random, depth - 1, out);
                out.push(')');
            } else {
                comparison(random, out);
            }
        }
        // All entities of a key, of two: plans are made of these.
        12..=13 => {
            let (pk, rk) = (literal("String", random), literal("String", random));
            let operator = one(random, &OPERATORS);
            write!(out, "(PartitionKey eq {pk} and RowKey {operator} {rk})").unwrap();
        }
        // Values between two ends: property indexes are made for these.
        14 => {
            let (name, edm) = (one(random, &NAMES), one(random, &TYPES));
            let (lower, upper) = (literal(edm, random), literal(edm, random));
            let (least, most) = (one(random, &["ge", "gt"]), one(random, &["le", "lt"]));
            write!(out, "({name} {least} {lower} and {name} {most} {upper})").unwrap();
        }
        _ => {
            let word = one(random, &[" and ", " or ", " or "]);
            out.push('(');
            for n in 0..2 + random.below(3) {
                if n > 0 {
                    out.push_str(word);
                }
                filter(random, depth - 1, out);
            }
            out.push(')');
        }
    }
}

/// Returns how many entities the evaluator lets pass. The error shows the first way that finds others.
fn compare(
    session: &Session,
    entities: &[Stored],
    text: &str,
    top: usize,
    random: &mut Random,
) -> Result<usize, String> {
    let filter = Filter::parse(text, None, Dialect::Extended).map_err(|error| format!("{text}: {error}"))?;
    let passing: Vec<String> = entities
        .iter()
        .filter(|entity| entity.passes(&filter))
        .map(|entity| format!("{}\u{1}{}", entity.partition_key, entity.row_key))
        .collect();
    let expected = if passing.is_empty() {
        "none".to_owned()
    } else {
        passing.join("\u{2}")
    };
    let tops: Vec<i64> = (0..1 + random.below(4))
        .map(|_| i64::try_from(1 + random.below(top)).unwrap())
        .collect();
    // Without time, every page examines one entity: slow, so not always.
    let time_limit = match random.below(20) {
        0 if entities.len() < 300 => "0",
        1..=4 => "1ms",
        _ => "5s",
    };
    let changing = random.chance(10).then(|| one(random, &NAMES));
    let works = if random.chance(20) {
        "worked_on($1, ($2::bigint[])[1])"
    } else {
        "ids($1)"
    };
    let row = session
        .query(
            &format!("SELECT ids($1), matching($1), selected($1), {works}, paged($1, $2, $3, $4)"),
            &[&text, &tops, &time_limit, &changing],
        )
        .map_err(|failure| format!("{text}: {failure:?}"))?;
    for (column, way) in [
        "query_entities",
        "matches",
        "filter_to_sql",
        "work by filter",
        "query_page",
    ]
    .iter()
    .enumerate()
    {
        let found: String = row[0].get(column);
        if found != expected {
            return Err(format!(
                "{way} of {text} finds {found:?} instead of {expected:?} (pages of {tops:?}, {time_limit}, {changing:?} \
                 comes and goes, indexes {:?})",
                session.run("SELECT property FROM table_service.query_property_indexes()")
            ));
        }
    }
    Ok(passing.len())
}

#[test]
fn random_filters() {
    let chosen = seeds(SEEDS);
    let all = std::env::var("SEED").is_err();
    let mut queue: Vec<u64> = chosen.chain(FAILED_ONCE.into_iter().filter(|_| all)).collect();
    queue.sort_unstable();
    queue.dedup();
    let (filters, telling) = std::thread::scope(|scope| {
        let halves = queue.chunks(queue.len().div_ceil(2));
        let running: Vec<_> = halves
            .map(|seeds| scope.spawn(move || seeds.iter().map(|&seed| run(seed)).collect::<Vec<_>>()))
            .collect();
        let results = running.into_iter().flat_map(|thread| thread.join().unwrap());
        results.fold((0, 0), |sum, result| (sum.0 + result.0, sum.1 + result.1))
    });
    println!("{filters} filters, {telling} of them neither empty nor everything");
    assert!(!all || filters >= 5000, "only {filters} filters");
    assert!(telling * 5 >= filters, "only {telling} of {filters} tell anything");
}

/// How many filters a seed made, and how many of them found some entities but not all.
fn run(seed: u64) -> (usize, usize) {
    let db = Database::new();
    let session = db.session("oracle");
    let mut random = Random::new(seed);
    let size = size(seed);
    let entities = entities(&mut random, size.entities);
    store(&session, &entities);
    if random.chance(25) {
        session.run("SET table_service.enable_direct_access = off");
    }
    if random.chance(50) {
        session.run("ANALYZE table_service_data.\"Oracle\"");
    }
    // Small tables are read as a whole unless that is made expensive.
    for setting in ["enable_seqscan", "enable_indexscan", "enable_bitmapscan"] {
        if random.chance(35) {
            session.run(&format!("SET {setting} = off"));
        }
    }
    let with_indexes = random.chance(75);
    let mut is_extended = false;
    let mut telling = 0;
    for _ in 0..size.filters {
        if with_indexes && random.chance(10) {
            toggle_index(&session, one(&mut random, &NAMES));
        }
        let mut text = String::new();
        let depth = random.below(5);
        filter(&mut random, depth, &mut text);
        let needs_extended = Filter::parse(&text, None, Dialect::Service).is_err();
        if needs_extended != is_extended && (needs_extended || random.chance(30)) {
            is_extended = needs_extended;
            let dialect = if is_extended { "extended" } else { "service" };
            session.run(&format!("SET table_service.filter_dialect = {dialect}"));
        }
        match compare(&session, &entities, &text, size.top, &mut random) {
            Ok(passing) => telling += usize::from(passing > 0 && passing < entities.len()),
            Err(difference) => panic!("SEED={seed}: {difference}"),
        }
    }
    (size.filters, telling)
}

/// Drops the index on a property, or creates one.
fn toggle_index(session: &Session, property: &str) {
    let sql = "SELECT table_service.drop_property_index('Oracle', $1, if_exists => true)";
    if !session.value::<bool>(sql, &[&property]) {
        session
            .query("SELECT table_service.create_property_index('Oracle', $1)", &[&property])
            .unwrap();
    }
}

/// All ordered pairs of types under all operators, with and without `not`, and an absent property: some literals of each
/// type against some values of each, with an index and without.
#[test]
fn every_pair_of_types() {
    for is_indexed in [false, true] {
        compare_every_pair_of_types(is_indexed);
    }
}

fn compare_every_pair_of_types(is_indexed: bool) {
    let db = Database::new();
    let session = db.session("oracle");
    let mut random = Random::new(1);
    let mut entities = Vec::new();
    for (edm, partition_key) in TYPES.into_iter().zip(KEYS) {
        for row_key in &KEYS[..8] {
            let mut builder = PropertiesBuilder::new();
            push(&mut builder, "p", edm, &mut random);
            entities.push(Stored {
                partition_key,
                row_key,
                timestamp: Ticks::parse("2022-04-13T21:50:14Z").unwrap(),
                properties: builder.finish().unwrap(),
            });
        }
    }
    entities.push(Stored {
        partition_key: "😀",
        row_key: "absent",
        timestamp: Ticks::parse("2022-04-13T21:50:14Z").unwrap(),
        properties: PropertiesBuf::empty(),
    });
    entities.sort_by_key(|entity| (entity.partition_key, entity.row_key));
    store(&session, &entities);
    if is_indexed {
        toggle_index(&session, "p");
        session.run("SET enable_seqscan = off");
    }
    let mut comparisons = 0;
    for edm in TYPES {
        let mut literals: Vec<_> = (0..16).map(|_| literal(edm, &mut random)).collect();
        literals.sort_unstable();
        literals.dedup();
        assert!(literals.len() > 1, "{edm}");
        for literal in literals.iter().take(5) {
            for operator in OPERATORS {
                for text in [
                    format!("p {operator} {literal}"),
                    format!("not (p {operator} {literal})"),
                    format!("{literal} {operator} p or RowKey eq 'nobody'"),
                ] {
                    if let Err(difference) = compare(&session, &entities, &text, 60, &mut random) {
                        panic!("{difference}");
                    }
                    comparisons += entities.len();
                }
            }
        }
    }
    assert!(comparisons >= 8 * 9 * 6 * 3, "{comparisons}");
}
