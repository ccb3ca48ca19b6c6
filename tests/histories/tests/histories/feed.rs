//! Change feeds: the changes give the tables, and planted bugs of servers and readers are found.

use std::collections::BTreeMap;

use histories_tests::faults::Service;
use histories_tests::feed::{Change, Copy, Entity, Key, Order, Reader, follow};
use histories_tests::run::{Size, run};
use histories_tests::workload::TABLE;

use crate::servers::seeds;

fn service(gateways: usize) -> Service {
    Service::start(&["wal_level=logical", "max_prepared_transactions=10"], gateways)
}

#[test]
fn the_changes_of_a_feed_give_the_tables() {
    let service = service(2);
    let mut reader = Reader::new(&service, Order::ApplyThenConfirm);
    for seed in seeds() {
        match follow(&mut reader, seed, || run(&service, seed, &Size::default())) {
            Ok(summary) => println!("{summary}"),
            Err(problem) => panic!("{problem}\nAgain: SEED={seed}"),
        }
    }
}

/// Returns the problem of a server that is changed by this SQL, in several seeds without clients and faults.
fn problem(order: Order, change: &str) -> String {
    let service = service(0);
    let mut reader = Reader::new(&service, order);
    service.cluster.session().run(change);
    let problem = (0..20).find_map(|seed| follow(&mut reader, seed, || Ok(String::new())).err());
    let problem = problem.expect("no problem is found");
    println!("{problem}");
    problem
}

/// Makes the server's `query_changes` this query of its own one, `changes`.
fn querying(query: &str) -> String {
    format!(
        "ALTER FUNCTION table_service.query_changes RENAME TO query_changes_of_us;
         CREATE FUNCTION table_service.query_changes(text, bigint) RETURNS TABLE (\"position\" text, committed timestamptz, table_name text,
           kind text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties)
           LANGUAGE sql AS $$
             WITH changes AS (
               SELECT *, kind = 'delete' AND lead(kind) OVER () = 'insert' AND lead(\"position\") OVER () = \"position\"
                 AND \"position\" NOT IN (coalesce(lag(\"position\") OVER (), ''), coalesce(lead(\"position\", 2) OVER (), '')) AS begins_key_change
               FROM table_service.query_changes_of_us($1, $2)
             )
             SELECT \"position\", committed, table_name, kind, partition_key, row_key, \"timestamp\", {query} $$"
    )
}

#[track_caller]
fn is_one_of(problem: &str, kinds: &[&str]) {
    assert!(kinds.iter().any(|kind| problem.contains(kind)), "{problem}");
}

const LOST: [&str; 5] = [
    "the copy is not the table",
    "insert of an entity that is there",
    "update of an entity that is not there",
    "delete of an entity that is not there",
    "a change has no version",
];

#[test]
fn a_reader_that_confirms_before_it_has_applied_is_found() {
    let problem = problem(Order::ConfirmThenApply, "");
    is_one_of(&problem, &LOST);
}

#[test]
fn a_transaction_that_is_cut_in_the_middle_is_found() {
    let problem = problem(Order::ApplyThenConfirm, &querying("properties FROM changes LIMIT $2"));
    // It is lost, or the reader is interrupted and gets more of it.
    let came_again = problem.contains("a transaction is another one when it comes again");
    assert!(
        came_again || LOST.iter().any(|kind| problem.contains(kind)),
        "{problem}"
    );
}

#[test]
fn a_key_change_without_its_delete_is_found() {
    let problem = problem(
        Order::ApplyThenConfirm,
        &querying("properties FROM changes WHERE begins_key_change IS NOT TRUE"),
    );
    is_one_of(&problem, &LOST);
}

#[test]
fn large_properties_that_are_taken_for_empty_ones_are_found() {
    let problem = problem(
        Order::ApplyThenConfirm,
        &querying("CASE kind WHEN 'update' THEN coalesce(properties, '{}') ELSE properties END FROM changes"),
    );
    is_one_of(&problem, &["the copy is not the table"]);
}

#[test]
fn a_confirmation_that_a_server_forgets_is_found() {
    let problem = problem(
        Order::ApplyThenConfirm,
        "ALTER FUNCTION table_service.confirm_changes RENAME TO confirm_changes_of_us;
         CREATE FUNCTION table_service.confirm_changes(text, text) RETURNS void LANGUAGE sql AS ''",
    );
    is_one_of(&problem, &["a change comes again that is confirmed"]);
}

fn key(row_key: &str) -> Key {
    (TABLE.to_owned(), "p".to_owned(), row_key.to_owned())
}

/// A change that has its Timestamp as its properties.
fn change(position: u64, kind: &str, row_key: &str, timestamp: i64) -> Change {
    let version = matches!(kind, "insert" | "update").then_some(timestamp);
    Change {
        position,
        kind: kind.to_owned(),
        key: key(row_key),
        timestamp: version,
        properties: version.map(|timestamp| timestamp.to_string()),
    }
}

/// Applies pages; the copy then has these entities.
#[track_caller]
fn gives(pages: &[&[Change]], entities: &[(&str, i64, &str)]) {
    let mut copy = Copy::default();
    for page in pages {
        copy.apply(page).unwrap();
    }
    let entity = |&(row_key, timestamp, properties): &(&str, i64, &str)| {
        let properties = properties.to_owned();
        (key(row_key), Entity { timestamp, properties })
    };
    let entities: BTreeMap<Key, Entity> = entities.iter().map(entity).collect();
    copy.compare(&entities).unwrap();
}

#[track_caller]
fn fails(pages: &[&[Change]], expected: &str) {
    let mut copy = Copy::default();
    let problem = pages.iter().find_map(|page| copy.apply(page).err()).unwrap();
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn pages_that_come_again_change_nothing() {
    let first = [
        change(1, "insert", "a", 1),
        change(1, "insert", "b", 1),
        change(2, "update", "a", 2),
    ];
    let more = [&first[..], &[change(3, "delete", "b", 0)]].concat();
    gives(&[&first, &first[..2], &more, &more[2..]], &[("a", 2, "2")]);
    let cleared = [change(4, "clear", "", 0), change(4, "insert", "b", 5)];
    gives(&[&more, &cleared, &more], &[("b", 5, "5")]);
    let mut untouched = change(2, "update", "a", 2);
    untouched.properties = None;
    gives(&[&first[..2], &[untouched]], &[("a", 2, "1"), ("b", 1, "1")]);
    let mut moved = change(2, "insert", "c", 2);
    moved.properties = None;
    gives(
        &[&first[..2], &[change(2, "delete", "a", 0), moved]],
        &[("b", 1, "1"), ("c", 2, "1")],
    );
}

#[test]
fn pages_that_cannot_be_are_found() {
    let (a, b) = (change(1, "insert", "a", 1), change(1, "insert", "b", 1));
    let again = "a transaction is another one when it comes again";
    fails(&[std::slice::from_ref(&a), &[a.clone(), b.clone()]], again);
    fails(&[&[a.clone(), b.clone()], &[b, a.clone()]], again);
    let (third, second) = (change(3, "insert", "c", 1), change(2, "insert", "d", 1));
    fails(&[&[third.clone(), second.clone()]], "positions do not rise");
    fails(&[&[third], &[second]], "a transaction is late");
    fails(
        &[&[a.clone(), change(2, "insert", "a", 2)]],
        "insert of an entity that is there",
    );
    fails(
        &[&[change(2, "update", "a", 2)]],
        "update of an entity that is not there",
    );
    fails(
        &[&[change(2, "delete", "a", 2)]],
        "delete of an entity that is not there",
    );
    fails(
        &[&[a.clone(), change(2, "update", "a", 1)]],
        "a Timestamp does not rise",
    );
    // A deleted entity keeps its last Timestamp.
    let inserted_again = [a, change(2, "delete", "a", 0), change(3, "insert", "a", 1)];
    fails(&[&inserted_again], "a Timestamp does not rise");
    gives(
        &[&[&inserted_again[..], &[change(3, "update", "a", 2)]].concat()],
        &[("a", 2, "2")],
    );
}
