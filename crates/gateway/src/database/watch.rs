//! Looks at a server again and again: which part it has in replication, and how far it is.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::connection::{Connection, Connector};
use super::sight::Look;
use super::version::usable;

/// How often a server is looked at. It executes one statement each time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at a server as long as the process runs, and at once when `again` changes. `report` gets what it says of itself, or why it
/// cannot be used.
pub async fn keep_looking(
    connector: &Connector,
    mut again: Option<Receiver<u64>>,
    report: impl Fn(Result<Look, String>),
) {
    let mut connection = None;
    loop {
        if let Some(again) = &mut again {
            again.mark_unchanged();
        }
        report(look(connector, &mut connection).await);
        match &mut again {
            Some(again) => tokio::select! {
                () = sleep(INTERVAL) => {}
                // It fails only when nobody looks any more.
                _ = again.changed() => {}
            },
            None => sleep(INTERVAL).await,
        }
    }
}

/// Looks over the connection that there is, or over a new one.
async fn look(connector: &Connector, known: &mut Option<Connection>) -> Result<Look, String> {
    if let Some(mut connection) = known.take()
        && connection.is_open()
    {
        match connection.look().await {
            Ok(look) => {
                *known = Some(connection);
                return Ok(look);
            }
            // It has had its time. Else the server may have started again.
            Err(problem) if connection.is_open() => return Err(problem),
            Err(_) => {}
        }
    }
    let (connection, version, look) = connector.open_and_look().await?;
    usable(version)?;
    *known = Some(connection);
    Ok(look)
}
