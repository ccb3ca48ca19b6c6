//! Removes expired entities from the databases of the accounts. No read finds them; the sweep frees their space.
//!
//! Each table is swept in a transaction of its own, with a share of the time: its triggers are code of its owner, and
//! keep no other table from its sweep. Any number of gateways may sweep one database: a sweep skips locked entities.

mod rounds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use table_service_model::Code;
use tokio::time::Instant;

use self::rounds::{Rounds, Visit};
use crate::accounts::tenant::Tenant;
use crate::database::Session;
use crate::failure::Failure;
use crate::gateway::Gateway;

/// The most entities that one statement removes.
const TOP: i64 = 10_000;
/// The time limit of one statement.
const SHARE: Duration = Duration::from_secs(5);
/// After this time a round begins with no other table. The next round goes on.
const ROUND: Duration = Duration::from_secs(30);

/// Sweeps the database of an account again and again, as long as it can be reached.
pub async fn keep_sweeping(gateway: Arc<Gateway>, tenant: Arc<Tenant>, interval: Duration) {
    let mut rounds = Rounds::default();
    let mut told = Told::default();
    loop {
        tokio::time::sleep(interval).await;
        while !tenant.database.first.is_away() {
            match sweep(&gateway, &tenant, &mut rounds, &mut told).await {
                Ok(()) if rounds.is_unfinished() => {}
                Ok(()) => break,
                Err(failure) => {
                    let account = tenant.account.name();
                    tracing::warn!(account, %failure, "entities that have expired were not removed");
                    break;
                }
            }
        }
    }
}

/// Sweeps the tables of a database, until nothing is left or the time of a round is over.
///
/// # Errors
/// If the database does not say which tables there are, or is busy or away.
async fn sweep(gateway: &Gateway, tenant: &Tenant, rounds: &mut Rounds, told: &mut Told) -> Result<(), Failure> {
    let account = tenant.account.name();
    let end = Instant::now() + ROUND;
    let session = Session::new(&tenant.database, Instant::now() + gateway.limits.request);
    // All entities that expired before these moments were removed.
    let mut oldest: BTreeMap<String, SystemTime> = BTreeMap::new();
    let mut names = Vec::new();
    for (table, moment) in session.query_expiry().await? {
        oldest.extend(moment.map(|moment| (table.clone(), moment)));
        names.push(table);
    }
    told.retain(&names);
    rounds.begin(names);
    let (mut deleted, mut result) = (0, Ok(()));
    while Instant::now() < end
        && let Some(Visit { table, from }) = rounds.next(Instant::now())
    {
        let swept = match session.expire_entities(&table, TOP, from, SHARE).await {
            Ok(swept) => swept,
            Err(failure) if failure.code == Code::ServerBusy => {
                result = Err(failure);
                break;
            }
            Err(failure) => {
                let reason = match failure.code {
                    Code::OperationTimedOut => format!("it takes longer than {} seconds", SHARE.as_secs()),
                    _ => failure.to_string(),
                };
                told.cannot(account, table, reason);
                continue;
            }
        };
        // Without a row another session sweeps it, or this role may not.
        let Some(swept) = swept else {
            oldest.remove(&table);
            continue;
        };
        deleted += swept.deleted;
        oldest.extend(swept.oldest.map(|moment| (table.clone(), moment)));
        match swept.reason {
            Some(reason) => told.cannot(account, table, reason),
            None => {
                told.can(&table);
                rounds.swept(table, swept.oldest, swept.more && swept.deleted > 0);
            }
        }
    }
    // Without a table that has an expiry nothing is late.
    gateway.metrics.swept(account, deleted, oldest.values().min().copied());
    result
}

/// Why tables cannot be swept, as far as the log says it already.
#[derive(Default)]
struct Told(BTreeMap<String, String>);

impl Told {
    /// Logs why a table cannot be swept, if that is news.
    fn cannot(&mut self, account: &str, table: String, reason: String) {
        if self.0.get(&table) != Some(&reason) {
            tracing::warn!(account, table, reason, "entities that have expired cannot be removed");
            self.0.insert(table, reason);
        }
    }

    fn can(&mut self, table: &str) {
        self.0.remove(table);
    }

    /// Forgets the tables that do not exist any more.
    fn retain(&mut self, tables: &[String]) {
        self.0.retain(|table, _| tables.contains(table));
    }
}
