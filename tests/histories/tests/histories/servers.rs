//! Histories of servers: as they should be, and with planted faults.

use histories_tests::check::check;
use histories_tests::faults::{Fault, Service};
use histories_tests::history::History;
use histories_tests::run::{Size, record, run};

/// The seeds to run: SEED alone if it is set, else the first HISTORIES.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HISTORIES").unwrap_or(4),
    }
}

#[test]
fn one_order_explains_what_clients_saw() {
    let service = Service::start(&[], 2);
    let size = Size::default();
    for seed in seeds() {
        match run(&service, seed, &size) {
            Ok(summary) => println!("{summary}"),
            Err(problem) => panic!("{problem}\nAgain: SEED={seed} make histories"),
        }
    }
}

/// What is wrong with the first history that is wrong, in several seeds.
fn first_problem(service: &Service, faults: &[Fault]) -> Option<String> {
    (0..20).find_map(|seed| {
        let histories: Vec<History> = record(service, seed, &Size::default(), faults);
        histories.iter().find_map(|history| check(history).err())
    })
}

#[test]
fn acknowledged_writes_that_a_server_loses_are_found() {
    // PostgreSQL acknowledges before it writes its log.
    let service = Service::start(&["synchronous_commit=off", "wal_writer_delay=10s"], 1);
    let problem = first_problem(&service, &[Fault::KillPostgres]).unwrap();
    let first = problem.lines().next().unwrap();
    assert!(
        first.contains("is lost") && first.contains("PostgreSQL was killed"),
        "{problem}"
    );
    println!("{problem}");
}

#[test]
fn updates_that_a_server_loses_are_found() {
    let service = Service::start(&[], 1);
    // The server ignores the ETag of a replace.
    service.cluster.session().run(
        "ALTER FUNCTION table_service.replace_entity RENAME TO replace_entity_of_us;
         CREATE FUNCTION table_service.replace_entity(text, text, text, table_service.properties, text) RETURNS text
           LANGUAGE sql BEGIN ATOMIC; SELECT table_service.replace_entity_of_us($1, $2, $3, $4, '*'); END",
    );
    let problem = first_problem(&service, &[]).unwrap();
    assert!(problem.starts_with("a lost update"), "{problem}");
    println!("{problem}");
}
