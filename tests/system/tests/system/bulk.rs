//! Work by filter beside other sessions: no deadlock, no entity twice; work that is cancelled, killed or refused goes
//! on from its token.

use system_tests::random::{Random, rounds};
use system_tests::{Database, Expect, Session};

fn table(db: &Database, entities: usize) -> Session {
    let session = db.session("owner");
    session.run("SELECT table_service.create_table('Bulk')");
    fill(&session, entities);
    session
}

fn fill(session: &Session, entities: usize) {
    session.run(&format!(
        "INSERT INTO table_service_data.\"Bulk\" SELECT 'p' || i % 3, lpad(i::text, 5, '0'), now(), format('{{\"N\": %s}}', i)::table_service.properties
        FROM generate_series(1, {entities}) AS i"
    ));
}

/// The token in the hint of an error.
fn token(hint: &str) -> &str {
    let (_, rest) = hint
        .split_once("continuation_token => '")
        .unwrap_or_else(|| panic!("no token in {hint:?}"));
    rest.split_once('\'').unwrap().0
}

const COUNT: &str = "SELECT count(*) FROM table_service_data.\"Bulk\"";

/// A trigger that refuses or delays the deletion of one entity.
fn trigger(session: &Session, does: &str) {
    session.run(&format!(
        "CREATE OR REPLACE FUNCTION obstacle() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF OLD.row_key = '00200' THEN {does} END IF;
            RETURN OLD;
        END $$;
        CREATE OR REPLACE TRIGGER obstacle BEFORE DELETE ON table_service_data.\"Bulk\" FOR EACH ROW EXECUTE FUNCTION obstacle()"
    ));
}

#[test]
fn a_procedure_that_fails_says_where_to_go_on() {
    let db = Database::new();
    let session = table(&db, 300);
    trigger(
        &session,
        "RAISE EXCEPTION 'kept' USING ERRCODE = '45000', HINT = 'Ask.', DETAIL = 'Why.', CONSTRAINT = 'c';",
    );
    let failure = session
        .sql("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)")
        .fails_in_postgres("45000");
    assert_eq!(
        (&*failure.message, failure.others.constraint.as_deref()),
        ("kept", Some("c"))
    );
    assert_eq!(failure.others.detail.as_deref(), Some("Why."));
    // p0 and p1 have 100 each; 00200 is in p2.
    assert!(
        failure
            .hint
            .starts_with("Ask. delete_entities_in_steps(): 240 deleted so far."),
        "{}",
        failure.hint
    );
    assert_eq!(session.text(COUNT), "60");
    session.run("DROP TRIGGER obstacle ON table_service_data.\"Bulk\"");
    let go_on = format!(
        "CALL table_service.delete_entities_in_steps('Bulk', 'true', 30, deleted => 240, continuation_token => '{}')",
        token(&failure.hint)
    );
    assert_eq!(session.run(&go_on), [[Some("300".to_owned()), None]]);
    // Also before the first step, and the hint of a user that has no full stop gets one.
    fill(&session, 300);
    trigger(&session, "RAISE EXCEPTION 'kept' USING HINT = 'Ask me';");
    let locker = db.session("locker");
    locker.run("BEGIN; LOCK table_service_data.\"Bulk\"");
    session.run("SET lock_timeout = '100ms'");
    let hint = session.sql(&go_on).fails_in_postgres("55P03").hint;
    assert_eq!(token(&hint), token(&failure.hint));
    locker.run("COMMIT");
    session.run("RESET lock_timeout");
    let hint = session.sql(&go_on).fails_in_postgres("P0001").hint;
    assert!(
        hint.starts_with("Ask me. delete_entities_in_steps(): 240 deleted so far."),
        "{hint}"
    );
    assert_eq!(token(&hint), token(&failure.hint));
    session.run("SELECT table_service.clear_table('Bulk')");
    // In the first step there is nothing to go on from.
    fill(&session, 300);
    trigger(&session, "RAISE EXCEPTION 'kept';");
    let failure = session
        .sql("CALL table_service.delete_entities_in_steps('Bulk', 'true', 1000)")
        .fails_in_postgres("P0001");
    assert_eq!(failure.hint, "delete_entities_in_steps(): no step was completed.");
    assert_eq!(session.text(COUNT), "300");
}

#[test]
fn a_cancel_undoes_its_step_alone() {
    let db = Database::new();
    let owner = table(&db, 300);
    let locker = db.session("locker");
    let session = db.session("session");
    for cancelled in [
        "CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)",
        "SELECT table_service.delete_entities('Bulk', 'true')",
    ] {
        owner.run("SELECT table_service.clear_table('Bulk')");
        fill(&owner, 300);
        locker.run("BEGIN; SELECT table_service.merge_entity('Bulk', 'p2', '00200', '{}', '*')");
        let pending = session.start(cancelled).waits();
        session.cancel();
        let failure = pending.finish().fails_in_postgres("57014");
        locker.run("COMMIT");
        if cancelled.starts_with("CALL") {
            assert_eq!(owner.text(COUNT), "60");
            let step = format!(
                "SELECT deleted FROM table_service.delete_entities_step('Bulk', 'true', 30, '{}')",
                token(&failure.hint)
            );
            assert_eq!(session.text(&step), "30");
        } else {
            assert_eq!(owner.text(COUNT), "300");
        }
    }
}

#[test]
fn a_procedure_waits_without_a_snapshot_and_can_be_cancelled_there() {
    let db = Database::new();
    let owner = table(&db, 300);
    let session = db.session("session");
    let pending = session.start("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30, pause => '1 h')");
    system_tests::wait_until("the first step is committed", || owner.text(COUNT) == "270");
    let holds = format!(
        "SELECT backend_xmin IS NOT NULL OR backend_xid IS NOT NULL FROM pg_stat_activity WHERE pid = {}",
        session.pid()
    );
    system_tests::wait_until("it holds no snapshot", || owner.text(&holds) == "f");
    let locks = format!(
        "SELECT count(*) FROM pg_locks WHERE pid = {} AND locktype = 'relation'",
        session.pid()
    );
    system_tests::wait_until("it holds no lock of a table", || owner.text(&locks) == "0");
    session.cancel();
    let failure = pending.finish().fails_in_postgres("57014");
    assert!(failure.hint.contains("30 deleted so far"), "{}", failure.hint);
    assert_eq!(owner.text(COUNT), "270");
    token(&failure.hint);
}

#[test]
fn what_a_killed_procedure_has_committed_stays() {
    let db = Database::new();
    let owner = table(&db, 300);
    let locker = db.session("locker");
    locker.run("BEGIN; SELECT table_service.merge_entity('Bulk', 'p2', '00200', '{}', '*')");
    let session = db.session("session");
    let pending = session
        .start("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)")
        .waits();
    owner.run(&format!("SELECT pg_terminate_backend({})", session.pid()));
    pending.finish().fails_in_postgres("57P01");
    locker.run("COMMIT");
    assert_eq!(owner.text(COUNT), "60");
    assert_eq!(
        owner.run("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)"),
        [[Some("60".to_owned()), None]]
    );
}

#[test]
fn a_step_that_was_rolled_back_is_repeated() {
    let db = Database::new();
    let owner = table(&db, 300);
    let session = db.session("session");
    session.run("SET default_transaction_isolation = 'repeatable read'");
    let other = db.session("other");
    other.run("BEGIN; SELECT table_service.merge_entity('Bulk', 'p0', '00003', '{\"Touched\": true}', '*')");
    let pending = session
        .start("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)")
        .waits();
    // A serialization failure for the first attempt.
    other.run("COMMIT");
    assert_eq!(pending.finish().unwrap(), [[Some("300".to_owned()), None]]);
    assert_eq!(owner.text(COUNT), "0");
}

/// A caller that has written in the transaction of the first step gets the error: to repeat the step would undo its writes.
#[test]
fn a_repeated_step_loses_nothing_of_the_caller() {
    let db = Database::new();
    let session = table(&db, 30);
    session.run(
        "CREATE SEQUENCE attempts MINVALUE -9 START 1;
        CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('attempts') = 1 THEN RAISE 'not now' USING ERRCODE = '40001'; END IF;
            RETURN OLD;
        END $$;
        CREATE TRIGGER once BEFORE DELETE ON table_service_data.\"Bulk\" FOR EACH STATEMENT EXECUTE FUNCTION once()",
    );
    let after_a_write = "DO $$
        DECLARE deleted bigint := 0; token text;
        BEGIN
            PERFORM table_service.insert_entity('Bulk', 'before', '1', '{}');
            CALL table_service.delete_entities_in_steps('Bulk', 'PartitionKey ge ''p''', 10, '0', NULL, deleted, token);
        END $$";
    let failure = session.sql(after_a_write).fails_in_postgres("40001");
    assert_eq!(failure.hint, "delete_entities_in_steps(): no step was completed.");
    assert_eq!(session.text(COUNT), "30");
    session.run(after_a_write);
    assert_eq!(
        session.text("SELECT string_agg(partition_key, ',') FROM table_service.query_entities('Bulk')"),
        "before"
    );
    // Later steps are repeated: their transactions are the procedure's own.
    fill(&session, 30);
    session.run("ALTER SEQUENCE attempts RESTART WITH -1");
    session.run(after_a_write.replace("'before', '1'", "'before', '2'").as_str());
    assert_eq!(session.text(COUNT), "2");
}

/// At SERIALIZABLE many serialization failures come with the commit. Here a deferred trigger raises some.
#[test]
fn a_step_whose_commit_fails_is_repeated() {
    let db = Database::new();
    let session = table(&db, 300);
    session.run(
        "CREATE SEQUENCE commits;
        CREATE FUNCTION sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF OLD.row_key IN ('00003', '00200') AND nextval('commits') % 3 > 0 THEN RAISE 'not now' USING ERRCODE = '40001'; END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER sometimes AFTER DELETE ON table_service_data.\"Bulk\" DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION sometimes()",
    );
    let done = session.run("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)");
    assert_eq!(done, [[Some("300".to_owned()), None]]);
    assert_eq!(session.text(COUNT), "0");
    // One that always fails ends the procedure, with the token of the work that is done.
    fill(&session, 300);
    session.run("CREATE OR REPLACE FUNCTION sometimes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.row_key = '00200' THEN RAISE 'never' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$");
    let failure = session
        .sql("CALL table_service.delete_entities_in_steps('Bulk', 'true', 30)")
        .fails_in_postgres("40001");
    assert_eq!(failure.message, "never");
    assert_eq!(session.text(COUNT), "60", "{}", failure.hint);
    session.run("DROP TRIGGER sometimes ON table_service_data.\"Bulk\"");
    let rest = format!(
        "CALL table_service.delete_entities_in_steps('Bulk', 'true', 30, continuation_token => '{}')",
        token(&failure.hint)
    );
    assert_eq!(session.run(&rest), [[Some("60".to_owned()), None]]);
}

/// Two sessions work on overlapping filters, beside batches: nothing deadlocks, and no entity is counted twice.
#[test]
fn overlapping_work_does_not_deadlock() {
    let db = Database::new();
    let owner = table(&db, 30);
    for round in 0..rounds(40) {
        let mut random = Random::new(round);
        owner.run("SELECT table_service.clear_table('Bulk')");
        fill(&owner, 30);
        let limits: Vec<usize> = (0..2).map(|_| random.below(31)).collect();
        let deletes = random.chance(70);
        let work = |session: &Session, limit: usize, turn: usize| -> i64 {
            let filter = if turn == 0 {
                format!("N le {limit}")
            } else {
                format!("N ge {limit}")
            };
            let sql = match (turn, deletes) {
                (0, _) => format!("SELECT table_service.delete_entities('Bulk', '{filter}')"),
                (_, true) => format!("SELECT deleted FROM table_service.delete_entities_step('Bulk', '{filter}')"),
                (_, false) => format!("SELECT table_service.update_entities('Bulk', '{filter}', '{{\"Seen\": true}}')"),
            };
            let count = session
                .sql(&sql)
                .unwrap_or_else(|failure| panic!("round {round}: {failure:?}"));
            count[0][0].as_deref().unwrap().parse().unwrap()
        };
        let counts: Vec<i64> = std::thread::scope(|scope| {
            let running: Vec<_> = limits
                .iter()
                .enumerate()
                .map(|(turn, &limit)| {
                    let (db, work) = (&db, &work);
                    scope.spawn(move || work(&db.session("worker"), limit, turn))
                })
                .collect();
            let batches = db.session("batches");
            let batch = "SELECT count(*) FROM table_service.execute_batch('Bulk', 'p1', table_service.batch_insert_or_merge('00028', '{}'), table_service.batch_insert_or_merge('00001', '{}'))";
            batches
                .sql(batch)
                .unwrap_or_else(|failure| panic!("round {round}: {failure:?}"));
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let left: i64 = owner.text(COUNT).parse().unwrap();
        if deletes {
            // The batch may have put back two entities without N after they were deleted.
            let back: i64 = owner
                .text("SELECT count(*) FROM table_service_data.\"Bulk\" WHERE properties OPERATOR(table_service.->>) 'N' IS NULL")
                .parse()
                .unwrap();
            assert_eq!(
                counts.iter().sum::<i64>() + left - back,
                30,
                "round {round}: {counts:?}, {left} left, {back} back"
            );
        }
    }
}

/// Reads and writes by an array of RowKeys read these entities, and not their partition.
#[test]
fn many_keys_do_not_read_their_partition() {
    let db = Database::new();
    let session = db.session("session");
    session.run("SELECT table_service.create_table('Large')");
    session.run(
        "INSERT INTO table_service_data.\"Large\" SELECT 'p' || i % 2, lpad(i::text, 6, '0'), now(), '{}' FROM generate_series(1, 20000) AS i",
    );
    for statistics in ["SELECT 1", "ANALYZE table_service_data.\"Large\""] {
        session.run(statistics);
        for call in [
            "count(*) FROM table_service.get_entities('Large', 'p0', '{000002,010000,020000}')",
            "count(*) FROM table_service.execute_batch('Large', 'p0', table_service.batch_merge('000002', '{\"A\": 1}', '*'), table_service.batch_delete('010000'), table_service.batch_replace('020000', '{}', '*'))",
            "table_service.delete_entities('Large', 'PartitionKey eq ''p0'' and (RowKey eq ''000002'' or RowKey eq ''010000'')')",
            "table_service.update_entities('Large', 'PartitionKey eq ''p0'' and (RowKey eq ''000002'' or RowKey eq ''010000'')', '{}')",
        ] {
            session.run("BEGIN");
            session.run(&format!("SELECT {call}"));
            let read: i64 = session
                .text("SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'Large'")
                .parse()
                .unwrap();
            assert!(read < 100, "{call} reads {read} rows");
            session.run("ROLLBACK");
        }
    }
}
