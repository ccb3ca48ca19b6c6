//! Change feeds of many changes, and of large ones. With SOAK=10 the tests are as large as feeds that must work.

use std::sync::atomic::{AtomicBool, Ordering};

use system_tests::random::rounds;
use system_tests::{Cluster, Session};

use super::change_feeds::{State, apply, confirm, state, with_a_feed};

fn prepared(settings: &[&str]) -> Cluster {
    with_a_feed(&[&["wal_level=logical", "max_wal_size=2GB"], settings].concat())
}

#[test]
fn many_transactions_and_a_large_one_are_read_beside_one_that_stays_open() {
    let cluster = prepared(&[]);
    let (session, old) = (cluster.session(), cluster.session());
    let (small, large) = (10_000 * rounds(1), 100_000 * rounds(1));
    old.run("BEGIN; SELECT insert_entity('Orders', 'old', 'r', '{\"N\": 0}')");
    session.run(&format!(
        "DO $$ BEGIN FOR n IN 1..{small} LOOP
            PERFORM table_service.insert_or_replace_entity('Orders', 'small', (n % 1000)::text, jsonb_build_object('N', n)); COMMIT;
        END LOOP; END $$"
    ));
    let mut copy = State::new();
    let follow = |copy: &mut State| {
        let position = apply(&session, "f", 1000, copy)?;
        session.run(&format!("SELECT confirm_changes('f', '{position}')"));
        Some(position)
    };
    let mut pages = 0;
    while follow(&mut copy).is_some() {
        pages += 1;
    }
    assert_eq!(pages, small / 1000);
    assert_eq!(copy, state(&session, &["Orders"]));
    // One page, however many changes a page should have.
    session.run(&format!(
        "INSERT INTO table_service_data.\"Orders\" SELECT 'large', n::text, now(), jsonb_build_object('N', n) FROM generate_series(1, {large}) AS n"
    ));
    let one = session.run(
        "SELECT count(*), count(DISTINCT row_key), sum(get_int32(properties, 'N')), count(DISTINCT \"position\") FROM query_changes('f', 10) WHERE partition_key = 'large'",
    );
    let expected = [large, large, large * (large + 1) / 2, 1].map(|number| Some(number.to_string()));
    assert_eq!(one, [expected]);
    confirm(&session, "f");
    // The transaction that began first commits last, and comes last.
    old.run("COMMIT");
    assert!(follow(&mut copy).is_some());
    assert_eq!(copy.len(), 1001);
    assert!(follow(&mut copy).is_none());
}

/// The most memory of its own that a session's process had while it ran a statement, in kB.
fn memory(session: &Session, sql: &str) -> u64 {
    let is_over = AtomicBool::new(false);
    let pid = session.pid();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
                most = most.max(line.trim().trim_end_matches(" kB").parse().unwrap());
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            most
        });
        session.run(sql);
        is_over.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    })
}

#[test]
fn bags_of_a_mebibyte_are_read_in_bounded_memory() {
    let cluster = prepared(&["logical_decoding_work_mem=4MB", "work_mem=4MB"]);
    let session = cluster.session();
    let rounds = rounds(1);
    let count = 150 * rounds;
    // One transaction. Two bytes a letter, and each letter as likely as the others.
    session.run("BEGIN");
    for round in 0..rounds {
        session.run(&format!(
            "INSERT INTO table_service_data.\"Orders\" SELECT 'p{round}', n::text, now(),
                (SELECT jsonb_object_agg('T' || i, (SELECT left(translate(string_agg(md5(n || ' ' || i || ' ' || j), ''), '0123456789abcdef', 'äöüßéèêëàâçñíóúÿ'), 32000) FROM generate_series(1, 1000) AS j)) FROM generate_series(1, 15) AS i)
             FROM generate_series(1, 150) AS n"
        ));
    }
    session.run("COMMIT");
    let of_all = "SELECT count(*), sum(octet_length(properties::text)) FROM query_changes('f')";
    let fresh = cluster.session();
    let most = memory(&fresh, of_all);
    let read = session.run(of_all);
    assert_eq!(read[0][0].as_deref(), Some(count.to_string().as_str()));
    let bytes: u64 = read[0][1].as_deref().unwrap().parse().unwrap();
    assert!(bytes / 1024 > 900 * count, "{bytes} bytes");
    println!("{bytes} bytes with {most} kB");
    assert!(most < 150_000, "{most} kB for {bytes} bytes");
}
