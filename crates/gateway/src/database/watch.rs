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
///
/// Behind one name another server may be there than before, or several may be. So if the server of the connection that there is does
/// not say what `accepts` accepts, a new connection is looked at. If what was accepted until now is there no more, up to `tries`
/// connections are made at once.
pub async fn keep_looking(
    connector: &Connector,
    mut again: Option<Receiver<u64>>,
    tries: usize,
    accepts: impl Fn(&Look) -> bool,
    report: impl Fn(Result<Look, String>),
) {
    let mut connection = None;
    let mut was_accepted = true;
    loop {
        if let Some(again) = &mut again {
            again.mark_unchanged();
        }
        let tries = if was_accepted { tries } else { 1 };
        let looked = look(connector, &mut connection, tries, &accepts).await;
        was_accepted = looked.as_ref().is_ok_and(&accepts);
        report(looked);
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

/// Looks over the connection that there is, or over new ones.
async fn look(
    connector: &Connector,
    known: &mut Option<Connection>,
    tries: usize,
    accepts: &impl Fn(&Look) -> bool,
) -> Result<Look, String> {
    let mut result = Err("it was not asked".to_owned());
    if let Some(mut connection) = known.take()
        && connection.is_open()
    {
        let looked = match connection.look().await {
            Ok(look) if connector.is_standby() => connection.check_library().await.map(|()| look),
            looked => looked,
        };
        match looked {
            Ok(look) => {
                *known = Some(connection);
                if accepts(&look) {
                    return Ok(look);
                }
                result = Ok(look);
            }
            // It has had its time. Else the server may have started again.
            Err(problem) if connection.is_open() => return Err(problem),
            Err(_) => {}
        }
    }
    for _ in 0..tries {
        match open(connector, accepts).await {
            Ok((connection, look)) => {
                *known = Some(connection);
                result = Ok(look);
                if accepts(&look) {
                    break;
                }
            }
            Err(problem) if result.is_err() => result = Err(problem),
            Err(_) => {}
        }
    }
    result
}

async fn open(connector: &Connector, accepts: &impl Fn(&Look) -> bool) -> Result<(Connection, Look), String> {
    let (connection, extension, look) = connector.open_and_look(accepts).await?;
    usable(extension)?;
    Ok((connection, look))
}
