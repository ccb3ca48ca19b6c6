//! Expiry: a table in which entities have expired is like one that never had them, for every function; and sweeps beside
//! writers remove expired entities and nothing else.

use std::fmt::Write;

use system_tests::random::{Random, seeds};
use system_tests::{Database, Session};

/// A trigger that changes nothing takes direct access away from a table.
const TRIGGER: &str = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
    CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON table_service_data.\"Statements\" FOR EACH ROW EXECUTE FUNCTION nothing()";

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Properties with which an entity has expired, has not, and never does, as members of a JSON object.
const PAST: &str = r#""E@odata.type": "Edm.DateTime", "E": "2020-01-01T00:00:00Z""#;
const LIVES: [&str; 5] = [
    r#""E@odata.type": "Edm.DateTime", "E": "2999-01-01T00:00:00Z""#,
    r#""E": 1000000"#,
    r#""E": -1"#,
    r#""E": "soon""#,
    r#""F": 1"#,
];

fn bag(random: &mut Random, dead: usize) -> String {
    let life = if random.chance(dead) {
        PAST
    } else {
        *random.pick(&LIVES)
    };
    format!("'{{{life}, \"N\": {}}}'::table_service.properties", random.below(3))
}

fn operation(random: &mut Random, key: &str, tags: &[Option<String>]) -> String {
    let bag = bag(random, 15);
    let tag = tags[KEYS.iter().position(|known| *known == key).unwrap()]
        .as_ref()
        .filter(|_| random.chance(40))
        .map_or("'*'".to_owned(), |tag| format!("'{}'", tag.replace('\'', "''")));
    match random.below(7) {
        0 => format!("insert|'{key}', {bag}"),
        1 => format!("insert_or_merge|'{key}', {bag}"),
        2 => format!("insert_or_replace|'{key}', {bag}"),
        3 => format!("merge|'{key}', {bag}, {tag}"),
        4 => format!("replace|'{key}', {bag}, {tag}"),
        5 => format!("delete|'{key}', {tag}"),
        _ => format!(
            "patch|'{key}', increment => '{{\"N\": 1}}', condition => 'N lt 2', if_match => {tag}, create_missing => {}",
            random.chance(50)
        ),
    }
}

/// A call on a table. Its result has no Timestamp.
fn call(random: &mut Random, tags: &[Option<String>]) -> Box<dyn Fn(&str) -> String> {
    let filter = *random.pick(&[
        "N eq 1",
        "RowKey gt ''b''",
        "RowKey eq ''c''",
        "N lt 2 or F eq 1",
        "true",
    ]);
    let top = 1 + random.below(4);
    let key = *random.pick(&KEYS);
    match random.below(12) {
        0 => Box::new(move |table| format!("SELECT row_key, properties FROM get_entity('{table}', 'p', '{key}')")),
        1 => Box::new(move |table| {
            format!("SELECT row_key, properties FROM get_entities('{table}', 'p', ARRAY['a', 'c', 'e', 'none'])")
        }),
        2 => Box::new(move |table| format!("SELECT row_key, properties FROM query_entities('{table}', '{filter}')")),
        3 => Box::new(move |table| {
            format!("SELECT row_key, properties FROM query_entities('{table}', '{filter}', top => {top})")
        }),
        // All pages, one behind the other.
        4 => Box::new(move |table| {
            format!(
                "WITH RECURSIVE pages AS (
                    SELECT (query_page_json('{table}', '{filter}', top => {top}, metadata => 'none'))::jsonb AS page
                    UNION ALL SELECT (query_page_json('{table}', '{filter}', top => {top}, continuation_token => page->>'continuationToken', metadata => 'none'))::jsonb
                    FROM pages WHERE page->>'continuationToken' IS NOT NULL)
                SELECT entity->>'RowKey', entity->'N' FROM pages, jsonb_array_elements(page->'value') AS entity"
            )
        }),
        5 => Box::new(move |table| {
            format!(
                "SELECT count_entities('{table}', '{filter}'), (SELECT sum(entities) FROM partition_statistics('{table}'))"
            )
        }),
        6 => Box::new(move |table| format!("SELECT delete_entities('{table}', '{filter}', {top})")),
        7 => Box::new(move |table| format!("SELECT update_entities('{table}', '{filter}', '{{\"U\": 1}}', '{{N}}')")),
        8 | 9 => {
            let mut keys = KEYS.to_vec();
            let operations: Vec<String> = (0..1 + random.below(4))
                .map(|_| {
                    let key = keys.remove(random.below(keys.len()));
                    let operation = operation(random, key, tags);
                    let (name, arguments) = operation.split_once('|').unwrap();
                    format!("batch_{name}({arguments})")
                })
                .collect();
            let operations = operations.join(", ");
            Box::new(move |table| format!("SELECT index, row_key FROM execute_batch('{table}', 'p', {operations})"))
        }
        _ => {
            let operation = operation(random, key, tags);
            let (name, arguments) = operation.split_once('|').unwrap();
            let (name, arguments) = (name.to_owned(), arguments.to_owned());
            Box::new(move |table| format!("SELECT {name}_entity('{table}', 'p', {arguments}) IS NOT NULL"))
        }
    }
}

/// The result of a statement: its rows, or its error without the hint.
fn seen(session: &Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    session.sql(sql).map_err(|failure| failure.message)
}

#[test]
fn a_table_is_as_if_it_never_had_what_has_expired() {
    let db = Database::new();
    let session = db.session("session");
    session.run(
        "SET search_path = table_service, public;
        SELECT create_table(name) FROM unnest(ARRAY['Direct', 'Statements', 'Indexed', 'Twin']) AS name;
        CREATE TABLE table_service_data.\"Parted\" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
        CREATE TABLE table_service_data.parted_0 PARTITION OF table_service_data.\"Parted\" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE table_service_data.parted_1 PARTITION OF table_service_data.\"Parted\" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        SELECT set_expiry(name, 'E') FROM unnest(ARRAY['Direct', 'Statements', 'Indexed', 'Parted']) AS name;
        SELECT create_property_index('Indexed', 'N'), create_property_index('Indexed', 'E')",
    );
    session.run(TRIGGER);
    for seed in seeds(4) {
        let mut random = Random::new(seed);
        let table = ["Direct", "Statements", "Indexed", "Parted"][(seed % 4) as usize];
        for round in 0..60 {
            let mut sql = format!("TRUNCATE table_service_data.\"{table}\", table_service_data.\"Twin\";");
            for key in KEYS {
                if random.chance(20) {
                    continue;
                }
                let bag = bag(&mut random, 50);
                write!(
                    sql,
                    "INSERT INTO table_service_data.\"{table}\" VALUES ('p', '{key}', '2024-01-01T00:00:00Z'::timestamptz + ascii('{key}') * interval '1 s', {bag});"
                )
                .unwrap();
            }
            session.run(&sql);
            session.run(&format!(
                "INSERT INTO table_service_data.\"Twin\" SELECT * FROM table_service_data.\"{table}\"
                WHERE expires_at(\"timestamp\", properties, 'E', NULL) > now() IS NOT FALSE"
            ));
            let tags = KEYS.map(|key| {
                let sql = format!("SELECT etag(e) FROM table_service_data.\"{table}\" AS e WHERE row_key = '{key}'");
                session.run(&sql).first().and_then(|row| row[0].clone())
            });
            for _ in 0..4 {
                let call = call(&mut random, &tags);
                let context = format!("seed {seed}, round {round}, {table}: {}", call(table));
                assert_eq!(seen(&session, &call(table)), seen(&session, &call("Twin")), "{context}");
                // An entity that was written with a moment in the past has expired at once.
                session.run("DELETE FROM table_service_data.\"Twin\" WHERE expires_at(\"timestamp\", properties, 'E', NULL) <= now()");
                let all =
                    |table: &str| session.run(&format!("SELECT row_key, properties FROM query_entities('{table}')"));
                assert_eq!(all(table), all("Twin"), "{context}");
            }
        }
        // Some of it is still stored.
        session.run(&format!("SELECT drop_expiry('{table}'), set_expiry('{table}', 'E')"));
    }
}

#[test]
fn sweeps_beside_writers_remove_what_has_expired_and_nothing_else() {
    const ENTITIES: u64 = 400;
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table('Sessions'), table_service.set_expiry('Sessions', 'E')");
    let past = format!("'{{{PAST}}}'::table_service.properties");
    let sessions: Vec<_> = (0..6).map(|n| db.session(&format!("session {n}"))).collect();
    let pending: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| {
            let body = if n < 3 {
                // Entities that have expired, and are renewed or not; two writers have the same keys.
                let partition = n / 2;
                format!(
                    "PERFORM table_service.insert_or_replace_entity('Sessions', 'p{partition}', i::text, {past});
                    IF i % 3 = 0 THEN PERFORM table_service.insert_or_replace_entity('Sessions', 'p{partition}', i::text, '{{\"Kept\": true}}'); END IF;"
                )
            } else {
                "PERFORM table_service.expire_entities(top => 7);".to_owned()
            };
            session.start(&format!("DO $$ BEGIN FOR i IN 1..{ENTITIES} LOOP {body} COMMIT; END LOOP; END $$"))
        })
        .collect();
    for session in pending {
        session.finish().unwrap();
    }
    owner.run("SELECT table_service.expire_entities(top => 1000000)");
    let stored = owner.run(
        "SELECT partition_key, count(*), bool_and(properties::text LIKE '%Kept%'), bool_and(row_key::int % 3 = 0)
        FROM table_service_data.\"Sessions\" GROUP BY 1 ORDER BY 1",
    );
    // The other writer of p0 may have written last.
    assert!(
        stored
            .iter()
            .all(|row| row[2].as_deref() == Some("t") && row[3].as_deref() == Some("t")),
        "{stored:?}"
    );
    assert_eq!(
        stored.last().unwrap()[1],
        Some((ENTITIES / 3).to_string()),
        "{stored:?}"
    );
    let expiry = owner.text("SELECT (oldest IS NULL)::text FROM table_service.query_expiry()");
    assert_eq!(expiry, "true");
}

#[test]
fn a_page_ends_at_its_time_limit_among_what_has_expired() {
    let db = Database::new();
    let session = db.session("session");
    session.run(
        "SET search_path = table_service, public; SELECT create_table('Sessions'), set_expiry('Sessions', 'E');
        SET table_service.page_time_limit = 1",
    );
    session.run(&format!(
        "INSERT INTO table_service_data.\"Sessions\" SELECT 'p', lpad(i::text, 6, '0'), now(), '{{{PAST}}}' FROM generate_series(1, 20000) AS i;
        INSERT INTO table_service_data.\"Sessions\" VALUES ('p', 'z', now(), '{{}}')"
    ));
    let first = session.run("SELECT row_key, continuation_token IS NOT NULL FROM query_page('Sessions')");
    assert_eq!(first, [[None, Some("t".to_owned())]]);
    session.run("RESET table_service.page_time_limit");
    assert_eq!(session.text("SELECT row_key FROM query_page('Sessions')"), "z");
}

#[test]
fn every_session_knows_at_once_whether_a_table_has_an_expiry() {
    const TABLE: &str = "table_service_data.\"Sessions\"";
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table('Sessions')");
    // These sessions keep their plans.
    let readers = [db.session("direct"), db.session("statements")];
    readers[1].run("SET plan_cache_mode = force_generic_plan; SET enable_indexscan = off");
    let writer = db.session("writer");
    let counts = [
        "SELECT count(*)::text FROM table_service.get_entity('Sessions', 'p', 'dead')",
        "SELECT count(*)::text FROM table_service.get_entities('Sessions', 'p', ARRAY['dead'])",
        "SELECT count(*)::text FROM table_service.query_entities('Sessions', 'N eq 1')",
        "SELECT count(row_key)::text FROM table_service.query_page('Sessions')",
        "SELECT table_service.count_entities('Sessions')::text",
    ];
    let definitions = [
        "SELECT table_service.set_expiry('Sessions', 'E')",
        "SELECT table_service.set_expiry('Sessions', time_to_live => '1 hour')",
        "CREATE INDEX ON table_service_data.\"Sessions\" (table_service.expires_at(\"timestamp\", properties, 'E', 60))
            WHERE table_service.expires_at(\"timestamp\", properties, 'E', 60) IS NOT NULL",
    ];
    for definition in definitions {
        for round in 0..4 {
            owner.run(&format!(
                "INSERT INTO {TABLE} VALUES ('p', 'dead', '2020-01-01Z', '{{{PAST}, \"N\": 1}}')"
            ));
            let seen = |expected: &str, moment: &str| {
                let context = format!("{definition}, round {round}, {moment}");
                for reader in &readers {
                    for count in counts {
                        assert_eq!(reader.text(count), expected, "{context}: {count}");
                    }
                }
                let written =
                    writer.sql("BEGIN; SELECT table_service.merge_entity('Sessions', 'p', 'dead', '{}', '*')");
                writer.run("ROLLBACK");
                assert_eq!(written.is_ok(), expected == "1", "{context}");
            };
            seen("1", "before");
            owner.run(&format!("BEGIN; {definition}; ROLLBACK"));
            seen("1", "after a rollback");
            owner.run(definition);
            seen("0", "with its expiry");
            if round % 2 == 0 {
                let indexes = owner.run("SELECT index::text FROM table_service.query_expiry('Sessions')");
                owner.run(&format!(
                    "REINDEX INDEX CONCURRENTLY {}",
                    indexes[0][0].as_ref().unwrap()
                ));
                seen("0", "after REINDEX");
            }
            // Expired entities are removed, so they do not appear again.
            owner.run("SELECT table_service.drop_expiry('Sessions')");
            assert_eq!(owner.text(&format!("SELECT count(*)::text FROM {TABLE}")), "0");
        }
    }
}

#[test]
fn a_table_gets_and_loses_its_expiry_while_it_is_used() {
    const ROUNDS: usize = 15;
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table('Sessions')");
    let sessions: Vec<_> = (0..4).map(|n| db.session(&format!("session {n}"))).collect();
    // Living entities are written and read until the owner has finished; no statement fails, and none of them is lost.
    let pending: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| {
            session.start(&format!(
                "DO $$
                BEGIN
                    FOR i IN 1..100000 LOOP
                        PERFORM table_service.insert_or_merge_entity('Sessions', 'p{n}', (i % 50)::text, jsonb_build_object('N', i));
                        PERFORM table_service.insert_or_replace_entity('Sessions', 'p{n}', 'x' || i % 50, '{{{PAST}}}');
                        COMMIT;
                        IF (SELECT (properties OPERATOR(table_service.->>) 'N')::int FROM table_service.get_entity('Sessions', 'p{n}', (i % 50)::text)) IS DISTINCT FROM i THEN
                            RAISE 'lost: %', i;
                        END IF;
                        EXIT WHEN to_regclass('public.finished') IS NOT NULL;
                    END LOOP;
                END $$"
            ))
        })
        .collect();
    for _ in 0..ROUNDS {
        owner.run("SELECT table_service.set_expiry('Sessions', 'E')");
        owner.run("SELECT pg_sleep(0.05)");
        owner.run("SELECT table_service.drop_expiry('Sessions')");
        owner.run("SELECT pg_sleep(0.05)");
    }
    owner.run("CREATE TABLE public.finished ()");
    for session in pending {
        session.finish().unwrap();
    }
}
