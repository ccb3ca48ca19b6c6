//! Concurrent writers of the same entities.

use system_tests::{Database, Expect, Failure, Session, Texts};

fn table(db: &Database) -> Session {
    let session = db.session("set-up");
    session.run("SELECT table_service.create_table('Shared')");
    session
}

/// Runs statements in sessions of their own, all at once.
fn at_once(sessions: &[Session], statements: impl Iterator<Item = String>) -> Vec<Result<Texts, Failure>> {
    let pending: Vec<_> = sessions
        .iter()
        .zip(statements)
        .map(|(session, statement)| session.start(&statement))
        .collect();
    pending.into_iter().map(system_tests::Pending::finish).collect()
}

fn sessions(db: &Database, count: usize, level: &str) -> Vec<Session> {
    let open = |n| {
        let session = db.session(&format!("writer {n}"));
        session.run(&format!("SET default_transaction_isolation = '{level}'"));
        session
    };
    (0..count).map(open).collect()
}

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];
/// PostgreSQL's code at the higher levels for a transaction that should be run again.
const AGAIN: &str = "40001";

fn get(session: &Session, row_key: &str) -> Option<String> {
    let sql = format!("SELECT properties FROM table_service.get_entity('Shared', 'p', '{row_key}')");
    session.run(&sql).first().map(|row| row[0].clone().unwrap())
}

#[test]
fn one_of_many_conditional_writes_wins() {
    let db = Database::new();
    let setup = table(&db);
    for level in LEVELS {
        let writers = sessions(&db, 6, level);
        for (round, write) in [
            "replace_entity('Shared', 'p', 'r', '{\"Winner\": N}', $tag$TAG$tag$)",
            "merge_entity('Shared', 'p', 'r', '{\"Winner\": N}', $tag$TAG$tag$)",
            "delete_entity('Shared', 'p', 'r', $tag$TAG$tag$)",
        ]
        .iter()
        .cycle()
        .take(12)
        .enumerate()
        {
            let tag = setup.text("SELECT table_service.insert_or_replace_entity('Shared', 'p', 'r', '{}')");
            let write = write.replace("TAG", &tag);
            let results = at_once(
                &writers,
                (0..writers.len()).map(|n| format!("SELECT table_service.{}", write.replace('N', &n.to_string()))),
            );
            let winners: Vec<_> = (0..results.len()).filter(|&n| results[n].is_ok()).collect();
            assert_eq!(winners.len(), 1, "{level}, round {round}: {results:?}");
            if write.starts_with("delete") {
                assert_eq!(get(&setup, "r"), None);
            } else {
                assert_eq!(get(&setup, "r"), Some(format!("{{\"Winner\":{}}}", winners[0])));
            }
            for failure in results.into_iter().filter_map(Result::err) {
                match failure.sqlstate.as_str() {
                    AGAIN if level != "read committed" => {}
                    "P0002" if write.starts_with("delete") => {}
                    _ => drop(Err::<(), _>(failure).fails_with("40002", "UpdateConditionNotSatisfied")),
                }
            }
        }
    }
}

#[test]
fn one_of_many_inserts_wins() {
    let db = Database::new();
    let setup = table(&db);
    for level in LEVELS {
        let writers = sessions(&db, 6, level);
        for round in 0..5 {
            let row_key = format!("{level} {round}");
            let insert =
                |n| format!("SELECT table_service.insert_entity('Shared', 'p', '{row_key}', '{{\"N\": {n}}}')");
            let results = at_once(&writers, (0..writers.len()).map(insert));
            let winners: Vec<_> = (0..results.len()).filter(|&n| results[n].is_ok()).collect();
            assert_eq!(winners.len(), 1, "{results:?}");
            assert_eq!(get(&setup, &row_key), Some(format!("{{\"N\":{}}}", winners[0])));
            for failure in results.into_iter().filter_map(Result::err) {
                if level == "read committed" || failure.sqlstate != AGAIN {
                    Err::<(), _>(failure).fails_with("23505", "EntityAlreadyExists");
                }
            }
        }
    }
}

#[test]
fn merges_of_different_properties_all_survive() {
    let db = Database::new();
    let setup = table(&db);
    let writers = sessions(&db, 6, "read committed");
    for write in [
        "merge_entity('Shared', 'p', 'r', '{\"PN\": M}', '*')",
        "insert_or_merge_entity('Shared', 'p', 'r', '{\"PN\": M}')",
    ] {
        setup.run("SELECT table_service.insert_or_replace_entity('Shared', 'p', 'r', '{\"Old\": 0}')");
        // Each session writes its own property many times.
        let statement = |n: usize| {
            (0..20)
                .map(|m| {
                    format!(
                        "SELECT table_service.{}; ",
                        write.replace('N', &n.to_string()).replace('M', &m.to_string())
                    )
                })
                .collect::<String>()
        };
        for result in at_once(&writers, (0..writers.len()).map(statement)) {
            result.unwrap();
        }
        assert_eq!(
            get(&setup, "r").unwrap(),
            "{\"Old\":0,\"P0\":19,\"P1\":19,\"P2\":19,\"P3\":19,\"P4\":19,\"P5\":19}"
        );
    }
}

#[test]
fn a_counter_guarded_by_etags_loses_no_increment() {
    let db = Database::new();
    let setup = table(&db);
    setup.run("SELECT table_service.insert_entity('Shared', 'p', 'r', '{\"Count\": 0}')");
    let writers = sessions(&db, 4, "read committed");
    std::thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(move || {
                let mut done = 0;
                while done < 25 {
                    let rows = writer.run(
                        "SELECT table_service.etag(e), table_service.get_int32(e.properties, 'Count')
                        FROM table_service.get_entity('Shared', 'p', 'r') AS e",
                    );
                    let (tag, count) = (rows[0][0].clone().unwrap(), rows[0][1].clone().unwrap());
                    let next = count.parse::<i32>().unwrap() + 1;
                    let written = writer.query(
                        "SELECT table_service.replace_entity('Shared', 'p', 'r',
                            jsonb_build_object('Count', $1::int), $2)",
                        &[&next, &tag],
                    );
                    match written {
                        Ok(_) => done += 1,
                        result => drop(result.fails_with("40002", "UpdateConditionNotSatisfied")),
                    }
                }
            });
        }
    });
    assert_eq!(get(&setup, "r").unwrap(), "{\"Count\":100}");
}

#[test]
fn upserts_never_fail_for_being_concurrent() {
    let db = Database::new();
    let setup = table(&db);
    for level in LEVELS {
        let writers = sessions(&db, 6, level);
        std::thread::scope(|scope| {
            for (n, writer) in writers.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..60 {
                        let row_key = round % 3;
                        let result = match n {
                            0 | 1 => writer.sql(&format!(
                                "SELECT table_service.delete_entity('Shared', 'p', '{row_key}', if_exists => true)"
                            )),
                            2 => writer.sql(&format!(
                                "SELECT table_service.insert_entity('Shared', 'p', '{row_key}', '{{}}')"
                            )),
                            3 => writer.sql(&format!(
                                "SELECT table_service.insert_or_replace_entity('Shared', 'p', '{row_key}', '{{}}')"
                            )),
                            _ => writer.sql(&format!(
                                "SELECT table_service.insert_or_merge_entity('Shared', 'p', '{row_key}', '{{\"N\": {n}}}')"
                            )),
                        };
                        match result {
                            Ok(_) => {}
                            Err(failure) if failure.sqlstate == "23505" && n == 2 => {
                                assert!(failure.message.starts_with("EntityAlreadyExists: "), "{failure:?}");
                            }
                            Err(failure) => {
                                assert!(
                                    failure.sqlstate == AGAIN && level != "read committed",
                                    "writer {n} at {level}: {failure:?}"
                                );
                            }
                        }
                    }
                });
            }
        });
    }
    setup.run("SELECT * FROM table_service_data.\"Shared\"");
}

#[test]
fn unconditional_writes_survive_concurrent_deletes_and_inserts() {
    let db = Database::new();
    table(&db);
    let writers = sessions(&db, 5, "read committed");
    std::thread::scope(|scope| {
        for (n, writer) in writers.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..80 {
                    let (sql, expected) = match n {
                        0 => (
                            // One transaction: it is never absent to the others.
                            "BEGIN; SELECT table_service.delete_entity('Shared', 'p', 'r', if_exists => true);
                            SELECT table_service.insert_or_replace_entity('Shared', 'p', 'r', '{}'); COMMIT",
                            &[][..],
                        ),
                        1 => (
                            "SELECT table_service.delete_entity('Shared', 'p', 'gone')",
                            &[("P0002", "ResourceNotFound: ")][..],
                        ),
                        2 => (
                            "SELECT table_service.insert_or_merge_entity('Shared', 'p', 'gone', '{}')",
                            &[][..],
                        ),
                        3 => (
                            "SELECT table_service.merge_entity('Shared', 'p', 'gone', '{\"M\": 1}', '*')",
                            &[("P0002", "ResourceNotFound: ")][..],
                        ),
                        _ if round == 0 => (
                            "SELECT table_service.insert_or_replace_entity('Shared', 'p', 'r', '{}')",
                            &[][..],
                        ),
                        // The entity exists at every moment from here on, so this always finds one.
                        _ => (
                            "SELECT table_service.replace_entity('Shared', 'p', 'r', '{\"R\": 1}', '*')",
                            &[][..],
                        ),
                    };
                    if let Err(failure) = writer.sql(sql) {
                        let documented = expected
                            .iter()
                            .any(|(sqlstate, code)| failure.sqlstate == *sqlstate && failure.message.starts_with(code));
                        assert!(documented, "{sql}: {failure:?}");
                    }
                }
            });
        }
    });
}

/// One session writes and does not commit yet. A second one waits for it: what does it see?
#[test]
fn the_second_writer_waits_and_decides_on_what_was_committed() {
    let db = Database::new();
    let setup = table(&db);
    let merge = "SELECT table_service.merge_entity('Shared', 'p', 'r', '{\"Second\": 2}', MATCH)";
    let replace = "SELECT table_service.replace_entity('Shared', 'p', 'r', '{\"Second\": 2}', MATCH)";
    let delete = "SELECT table_service.delete_entity('Shared', 'p', 'r', MATCH)";
    let upsert = "SELECT table_service.insert_or_merge_entity('Shared', 'p', 'r', '{\"Second\": 2}')";
    let insert = "SELECT table_service.insert_entity('Shared', 'p', 'r', '{\"Second\": 2}')";
    let first_merge = "SELECT table_service.merge_entity('Shared', 'p', 'r', '{\"First\": 1}', '*')";
    let first_delete = "SELECT table_service.delete_entity('Shared', 'p', 'r')";
    let moved = "SELECT table_service.delete_entity('Shared', 'p', 'r');
        SELECT table_service.insert_entity('Shared', 'p', 'r', '{\"First\": 1}')";
    let lost = Err(("40002", "UpdateConditionNotSatisfied"));
    let absent = Err(("P0002", "ResourceNotFound"));
    let exists = Err(("23505", "EntityAlreadyExists"));
    let (a, b) = (db.session("a"), db.session("b"));
    // The first writer, the second, its If-Match, and the entity at the end (or the error of the second).
    for (first, second, if_match, expected) in [
        (
            first_merge,
            merge,
            "*",
            Ok(Some("{\"First\":1,\"Old\":0,\"Second\":2}")),
        ),
        (first_merge, replace, "*", Ok(Some("{\"Second\":2}"))),
        (first_merge, delete, "*", Ok(None)),
        (
            first_merge,
            upsert,
            "*",
            Ok(Some("{\"First\":1,\"Old\":0,\"Second\":2}")),
        ),
        (first_merge, merge, "tag", lost),
        (first_merge, replace, "tag", lost),
        (first_merge, delete, "tag", lost),
        (first_merge, insert, "*", exists),
        (first_delete, merge, "*", absent),
        (first_delete, replace, "*", absent),
        (first_delete, delete, "*", absent),
        (first_delete, merge, "tag", absent),
        (first_delete, replace, "tag", absent),
        (first_delete, delete, "tag", absent),
        (first_delete, upsert, "*", Ok(Some("{\"Second\":2}"))),
        (first_delete, insert, "*", Ok(Some("{\"Second\":2}"))),
        (moved, merge, "*", Ok(Some("{\"First\":1,\"Second\":2}"))),
        (moved, replace, "*", Ok(Some("{\"Second\":2}"))),
        (moved, delete, "*", Ok(None)),
        (moved, merge, "tag", lost),
        (moved, delete, "tag", lost),
        (moved, upsert, "*", Ok(Some("{\"First\":1,\"Second\":2}"))),
        (moved, insert, "*", exists),
    ] {
        for level in LEVELS {
            // The first transaction commits, or rolls back as if it had never run.
            for end in ["COMMIT", "ROLLBACK"] {
                let tag =
                    setup.text("SELECT table_service.insert_or_replace_entity('Shared', 'p', 'r', '{\"Old\": 0}')");
                let what = format!("{first}, {second}, {if_match}, {end} at {level}");
                let second = match if_match {
                    "tag" => second.replace("MATCH", &format!("$tag${tag}$tag$")),
                    _ => second.replace("MATCH", "'*'"),
                };
                b.run(&format!(
                    "BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM table_service_data.\"Shared\""
                ));
                a.run(&format!("BEGIN; {first}"));
                let pending = b.start(&second).waits();
                a.run(end);
                let result = pending.finish();
                b.run(if result.is_ok() { "COMMIT" } else { "ROLLBACK" });
                match (end, &result) {
                    ("COMMIT", Err(failure)) if failure.sqlstate == AGAIN => {
                        assert_ne!(level, "read committed", "{what}")
                    }
                    ("COMMIT", _) => match expected {
                        Ok(properties) => {
                            assert!(result.is_ok(), "{what}: {result:?}");
                            assert_eq!(get(&setup, "r").as_deref(), properties, "{what}");
                        }
                        Err((sqlstate, code)) => drop(result.fails_with(sqlstate, code)),
                    },
                    (_, _) if second == insert => drop(result.fails_with("23505", "EntityAlreadyExists")),
                    (_, result) => assert!(result.is_ok(), "{what}: {result:?}"),
                }
            }
        }
    }
}

#[test]
fn no_two_single_writes_deadlock() {
    let db = Database::new();
    let setup = table(&db);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let writers = sessions(&db, 6, "read committed");
    std::thread::scope(|scope| {
        for (n, writer) in writers.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..60 {
                    let row_key = (round * 7 + n * 3) % 4;
                    let write = match (round + n) % 4 {
                        0 => format!("insert_or_replace_entity('Shared', 'p', '{row_key}', '{{}}')"),
                        1 => format!("insert_or_merge_entity('Shared', 'p', '{row_key}', '{{\"A\": 1}}')"),
                        2 => format!("delete_entity('Shared', 'p', '{row_key}', if_exists => true)"),
                        _ => format!("insert_or_merge_entity('Shared', 'p', '{row_key}', '{{\"B\": 1}}')"),
                    };
                    writer.run(&format!("SELECT table_service.{write}"));
                }
            });
        }
    });
    assert_eq!(setup.text(deadlocks), "0");
}

#[test]
fn concurrent_definitions_of_a_property_index_never_deadlock() {
    let db = Database::new();
    let setup = table(&db);
    let owners = sessions(&db, 4, "read committed");
    for _ in 0..50 {
        setup.run("SELECT table_service.create_property_index('Shared', 'N', if_not_exists => true)");
        // All that do not come first find none.
        let dropped = at_once(
            &owners,
            owners
                .iter()
                .map(|_| "SELECT table_service.drop_property_index('Shared', 'N', if_exists => true)::int".to_owned()),
        );
        let dropped = dropped
            .into_iter()
            .map(|result| result.expect("drop_property_index")[0][0].clone());
        assert_eq!(dropped.flatten().filter(|answer| answer == "1").count(), 1);
        // Creations among the drops.
        let both = [
            "create_property_index('Shared', 'N', if_not_exists => true)",
            "drop_property_index('Shared', 'N', if_exists => true)",
        ];
        let statements = both
            .iter()
            .cycle()
            .map(|call| format!("SELECT table_service.{call} IS NOT NULL"));
        for result in at_once(&owners, statements) {
            result.expect("create and drop");
        }
    }
}

/// PostgreSQL's own DROP raises XX000 here: these definitions change rows of its catalogs, and hold no lock that keeps DROP
/// from reading them before.
#[test]
fn concurrent_definitions_of_others_do_not_break_a_drop() {
    let db = Database::new();
    let setup = table(&db);
    // The end of CREATE INDEX CONCURRENTLY waits, when the index is valid already and the lock on the table is gone.
    setup.run(
        "CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); END $$;
         CREATE EVENT TRIGGER hold ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION hold()",
    );
    let (holder, other, owner) = (db.session("holder"), db.session("other"), db.session("owner"));
    let index = setup.text("SELECT table_service.property_index_sql('Shared', 'N')");
    for drop in [
        "drop_property_index('Shared', 'N')",
        "drop_property_index('Shared', 'N', true)",
        "delete_table('Shared')",
        "delete_table('Shared', true)",
    ] {
        setup.run("SELECT table_service.create_table('Shared', true)");
        holder.run("SELECT pg_advisory_lock(1)");
        let index = other.start(&index).waits();
        let dropped = owner.start(&format!("SELECT table_service.{drop}")).waits();
        holder.run("SELECT pg_advisory_unlock(1)");
        index.finish().expect("CREATE INDEX CONCURRENTLY");
        assert_eq!(dropped.text(), "t", "{drop}");
        let left = "SELECT count(*) FROM table_service.query_property_indexes()";
        assert_eq!(setup.text(left), "0", "{drop}");
    }
    for (end, drop) in [
        ("COMMIT", "delete_table('Shared')"),
        ("ROLLBACK", "delete_table('Shared', true)"),
    ] {
        setup.run("SELECT table_service.create_table('Shared', true)");
        other.run("BEGIN; GRANT SELECT ON table_service_data.\"Shared\" TO PUBLIC");
        let dropped = owner.start(&format!("SELECT table_service.{drop}")).waits();
        other.run(end);
        assert_eq!(dropped.text(), "t", "{drop}");
    }
    // The second one finds nothing to drop.
    setup.run("SELECT table_service.create_table('Shared')");
    other.run("BEGIN; SELECT table_service.delete_table('Shared')");
    let dropped = owner.start("SELECT table_service.delete_table('Shared', true)").waits();
    other.run("COMMIT");
    assert_eq!(dropped.text(), "f");
}
