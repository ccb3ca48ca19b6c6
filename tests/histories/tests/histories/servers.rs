//! Histories of servers: as they should be, and with planted faults.

use histories_tests::check::check;
use histories_tests::faults::{Fault, Service};
use histories_tests::history::History;
use histories_tests::run::{Size, record, run};
use system_tests::Cluster;

/// The seeds to run: SEED alone if it is set, else the first HISTORIES.
pub fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HISTORIES").unwrap_or(4),
    }
}

fn all_seeds(service: &Service) {
    seeds().for_each(|seed| one_seed(service, seed));
}

fn one_seed(service: &Service, seed: u64) {
    match run(service, seed, &Size::default()) {
        Ok(summary) => println!("{summary}"),
        Err(problem) => panic!("{problem}\nAgain: SEED={seed}"),
    }
}

#[test]
fn one_order_explains_what_clients_saw() {
    all_seeds(&Service::start(&[], 2));
}

#[test]
fn one_order_explains_what_clients_of_a_table_with_an_expiry_saw() {
    let service = Service::start(&[], 2);
    service.set_expiry();
    all_seeds(&service);
}

/// With so many clients writes of several partitions share transactions.
#[test]
fn one_order_explains_what_clients_saw_whose_writes_share_transactions() {
    let service = Service::start(&[], 1);
    let size = Size {
        clients: 36,
        partitions: 18,
        ..Size::default()
    };
    let mut grouped = 0.0;
    for seed in seeds() {
        match run(&service, seed, &size) {
            Ok(summary) => println!("{summary}"),
            Err(problem) => panic!("{problem}\nAgain: SEED={seed}"),
        }
        grouped += service.grouped_writes();
    }
    println!("{grouped} writes shared a transaction");
    assert!(grouped > 0.0);
}

/// A write that a lost primary acknowledged is there after a promotion, and nothing was executed twice.
#[test]
fn one_order_explains_what_clients_saw_of_a_promotion() {
    for seed in seeds() {
        one_seed(&Service::with_standbys(3), seed);
    }
}

#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn one_order_explains_what_clients_saw_on_a_cluster() {
    let servers = std::env::var("CITUS_SERVERS").unwrap();
    let mut servers = servers.split(' ').map(Cluster::running_in);
    let coordinator = servers.next().unwrap();
    let service = Service::of(coordinator, servers.collect(), "tables", "owner", 2);
    let direct = |seed| {
        one_seed(&service, seed);
        service.wait_until_nothing_is_prepared();
        service.direct_batches(seed)
    };
    let direct: u64 = seeds().map(direct).sum();
    println!("{direct} batches that were still stored had been inserted directly");
    // Few seeds may leave none.
    assert!(direct > 0 || seeds().count() < 8);
}

/// Returns the first report of a problem of the kind that the server was made to have, in several seeds. One fault can
/// have effects of several kinds, for example a lost update with a Timestamp too late for the version that it replaces.
fn first_problem(
    service: &Service,
    faults: &[Fault],
    prepare: impl Fn(&Service),
    is_planted: impl Fn(&str) -> bool,
) -> Option<String> {
    (0..20).find_map(|seed| {
        prepare(service);
        let histories: Vec<History> = record(service, seed, &Size::default(), faults);
        let mut problems = histories.iter().filter_map(|history| check(history).err());
        problems.find(|problem| is_planted(problem.lines().next().unwrap()))
    })
}

#[test]
fn acknowledged_writes_that_a_server_loses_are_found() {
    // PostgreSQL acknowledges before it writes its log, which no process does before its time.
    let service = Service::start(
        &["synchronous_commit=off", "autovacuum=off", "bgwriter_lru_maxpages=0"],
        1,
    );
    let is_planted = |first: &str| first.contains("is lost") && first.contains("PostgreSQL was killed");
    let problem = first_problem(&service, &[Fault::KillPostgres], Service::stop_wal_writer, is_planted);
    println!("{}", problem.unwrap());
}

#[test]
fn acknowledged_writes_that_a_promotion_loses_are_found() {
    let service = Service::with_standbys(1);
    service.stop_replication();
    let histories = record(&service, 0, &Size::default(), &[Fault::Promote]);
    let mut problems = histories.iter().filter_map(|history| check(history).err());
    let is_lost = |problem: &String| problem.lines().next().unwrap().contains("is lost");
    println!("{}", problems.find(is_lost).unwrap());
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
    let problem = first_problem(&service, &[], |_| (), |first| first.starts_with("a lost update"));
    println!("{}", problem.unwrap());
}
