//! Reads the state of the change feeds of the accounts' databases, for the metrics: a feed without a reader fills a disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::accounts::tenant::Tenant;
use crate::database::Session;
use crate::gateway::Gateway;

/// The time between two readings.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the state of the feeds of an account's database again and again, as long as it can be reached.
pub async fn keep_watching(gateway: Arc<Gateway>, tenant: Arc<Tenant>) {
    let account = tenant.account.name();
    loop {
        tokio::time::sleep(INTERVAL).await;
        if !tenant.database.first.is_away() {
            let session = Session::new(&tenant.database, Instant::now() + gateway.limits.request);
            match session.query_change_feeds().await {
                Ok(feeds) => gateway.metrics.feeds(account, feeds),
                Err(failure) => tracing::debug!(account, %failure, "the state of the change feeds could not be read"),
            }
        }
    }
}
