//! Removes entities that have expired from the databases of the accounts. Nobody sees them any more; this gives their room back.
//!
//! Any number of gateways may do this for one database: a sweep skips what others have locked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::account::Tenant;
use crate::database::{Session, Swept};
use crate::gateway::Gateway;

/// How many entities of each table one statement removes.
const TOP: i64 = 10_000;

/// How often a sweep begins with what expired first, and not where the sweep before it has ended. It finds what was locked then,
/// and entities that had expired when they were written. Beside a transaction that stays open for long, each such sweep reads
/// again past all that was removed since that one began.
const FULL: Duration = Duration::from_secs(60);

/// Sweeps the database of an account again and again, as long as it can be reached.
pub async fn keep_sweeping(gateway: Arc<Gateway>, tenant: Arc<Tenant>, interval: Duration) {
    let (mut since, mut full) = (None, Instant::now());
    let mut stuck = BTreeSet::new();
    loop {
        tokio::time::sleep(interval).await;
        if tenant.database.first().is_away() {
            continue;
        }
        let is_full = full.elapsed() >= FULL;
        if is_full {
            full = Instant::now();
        }
        let mut from = since.filter(|_| !is_full);
        while let Some(round) = sweep(&gateway, &tenant, from, &mut stuck).await {
            from = round.oldest.or(from);
            // A sweep from the beginning may end early. The next one still begins where the one that came furthest has ended.
            since = since.max(from);
            if !round.goes_on {
                break;
            }
        }
    }
}

/// What a sweep of all tables of a database says together.
struct Round {
    /// Where the next one begins.
    oldest: Option<SystemTime>,
    /// Whether there is more to remove.
    goes_on: bool,
}

/// Sweeps all tables once. `None` if it failed: then the next one comes after the interval. `stuck` has the tables of which the sweep
/// before it removed nothing, although there was something.
async fn sweep(
    gateway: &Gateway,
    tenant: &Tenant,
    since: Option<SystemTime>,
    stuck: &mut BTreeSet<String>,
) -> Option<Round> {
    let account = tenant.account.name();
    let session = Session::new(&tenant.database, Instant::now() + gateway.limits.request);
    let tables = match session.expire_entities(TOP, since).await {
        Ok(tables) => tables,
        Err(failure) => {
            tracing::warn!(account, %failure, "entities that have expired were not removed");
            return None;
        }
    };
    let deleted = tables.iter().map(|table| table.deleted).sum();
    let oldest = tables.iter().filter_map(|table| table.oldest).min();
    // Without a table that has an expiry nothing is late.
    gateway.metrics.swept(account, deleted, oldest);
    let now = tables.iter().filter(|table| table.more && table.deleted == 0);
    let now: BTreeSet<String> = now.map(|table| table.table.clone()).collect();
    for table in now.difference(stuck) {
        tracing::warn!(
            account,
            table,
            "entities that have expired cannot be removed; table_service.expire_entities says why if it is called for this table"
        );
    }
    *stuck = now;
    let is_left = |table: &Swept| table.more && table.deleted > 0;
    Some(Round {
        oldest,
        goes_on: tables.iter().any(is_left),
    })
}
