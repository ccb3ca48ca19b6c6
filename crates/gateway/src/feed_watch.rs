//! Looks after the change feeds of the accounts' databases, for the metrics: a feed that nobody reads fills a disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::account::Tenant;
use crate::database::Session;
use crate::gateway::Gateway;

/// How often the feeds are looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// Looks at the feeds of the database of an account again and again, as long as it can be reached.
pub async fn keep_watching(gateway: Arc<Gateway>, tenant: Arc<Tenant>) {
    let account = tenant.account.name();
    loop {
        tokio::time::sleep(INTERVAL).await;
        if !tenant.database.first().is_away() {
            let session = Session::new(&tenant.database, Instant::now() + gateway.limits.request);
            match session.query_change_feeds().await {
                Ok(feeds) => gateway.metrics.feeds(account, feeds),
                Err(failure) => tracing::debug!(account, %failure, "the change feeds could not be looked at"),
            }
        }
    }
}
