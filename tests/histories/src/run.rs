//! One seed: clients, faults, and the check.

use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use system_tests::random::Random;
use system_tests::wait_until;

use crate::check::check;
use crate::client::{Client, Http, Sql};
use crate::faults::{Fault, Service};
use crate::history::{History, Operation, Outcome, Recorder};
use crate::workload::Workload;

/// How much happens in a run. Histories are short, so that checking stays fast.
pub struct Size {
    pub clients: usize,
    pub partitions: usize,
    /// Of each client.
    pub operations: usize,
    pub faults: usize,
}

impl Default for Size {
    fn default() -> Self {
        Size {
            clients: 6,
            partitions: 4,
            operations: 40,
            faults: 4,
        }
    }
}

/// Lets clients use new partitions while `faults` happen, and returns their histories. When all of that is over, each
/// client reads each partition: the effect of a fault is seen however late it came.
///
/// # Panics
/// If the service gives an answer that it should not give.
pub fn record(service: &Service, seed: u64, size: &Size, faults: &[Fault]) -> Vec<History> {
    let recorders: Vec<Recorder> = (0..size.partitions).map(|_| Recorder::default()).collect();
    let sockets: Vec<Mutex<Option<TcpStream>>> = (0..size.clients).map(|_| Mutex::default()).collect();
    let mut random = Random::new(seed);
    let ended = || recorders.iter().map(Recorder::ended).sum::<usize>();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, socket) in sockets.iter().enumerate() {
            let (recorders, is_over) = (&recorders, &is_over);
            scope.spawn(move || {
                // Every third client speaks SQL.
                let (name, mut client) = match number % 3 {
                    2 => (
                        format!("sql{number}"),
                        Client::Sql(Box::new(Sql::new(service, seed as usize + number / 3))),
                    ),
                    _ => (
                        format!("http{number}"),
                        Client::Http(Http::new(service, number % service.gateways(), socket)),
                    ),
                };
                client.prepare();
                let mut workload = Workload::new(seed, number);
                let mut perform = |partition: usize, operation: &Operation, slowly| {
                    let record = recorders[partition].begin(&name, operation);
                    let outcome = client.perform(&format!("s{seed}p{partition}"), operation, slowly);
                    recorders[partition].end(record, outcome.clone());
                    if outcome == Outcome::Unknown {
                        client.prepare();
                    }
                    outcome
                };
                for _ in 0..size.operations {
                    let (partition, operation) = workload.next(recorders.len());
                    let slowly = workload.chance(40);
                    let outcome = perform(partition, &operation, slowly);
                    workload.learn(partition, &operation, &outcome);
                }
                wait_until("the faults are over", || is_over.load(Ordering::Relaxed));
                for partition in 0..recorders.len() {
                    wait_until("a client reads", || {
                        perform(partition, &Operation::Query, false) != Outcome::Unknown
                    });
                }
            });
        }
        let all = size.clients * size.operations;
        for (number, fault) in faults.iter().enumerate() {
            let at = all * (number + 1) / (faults.len() + 2);
            wait_until("the clients work", || ended() >= at);
            service.suffer(*fault, &mut random, &sockets, &recorders);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let history = |recorder: &Recorder| History {
        is_distributed: service.is_distributed(),
        ..recorder.history()
    };
    recorders.iter().map(history).collect()
}

/// Runs a seed and checks its histories.
pub fn run(service: &Service, seed: u64, size: &Size) -> Result<String, String> {
    let faults = Fault::of_seed(&mut Random::new(seed), size.faults, service);
    let histories = record(service, seed, size, &faults);
    let mut counts = [0; 4];
    for (partition, history) in histories.iter().enumerate() {
        for record in &history.records {
            counts[match record.outcome {
                Outcome::Written(_) | Outcome::Found(_) => 0,
                Outcome::Refused(..) => 1,
                Outcome::Unknown => 2,
                Outcome::RolledBack => 3,
            }] += 1;
        }
        check(history).map_err(|problem| format!("seed {seed}, partition {partition}, {faults:?}: {problem}"))?;
    }
    let [done, refused, unknown, rolled_back] = counts;
    Ok(format!(
        "seed {seed}: {done} operations done, {refused} refused, {unknown} in doubt, {rolled_back} rolled back; {faults:?}"
    ))
}
