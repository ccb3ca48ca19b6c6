//! Probes a server again and again.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::connection::{Connection, Connector};
use super::probe::Probe;

/// The time between two probes of a server. A probe is one statement.
const INTERVAL: Duration = Duration::from_secs(1);

/// Probes a server as long as the process runs, and at once when `again` changes. `report` gets the answer, or why the server cannot be
/// used.
///
/// A name may lead to another server than before, or to several servers. If `accepts` refuses the answer over the existing connection,
/// a new connection is tried. If it has accepted the answer before that, up to `tries` new connections are tried.
pub async fn keep_probing(
    connector: &Connector,
    mut again: Option<Receiver<u64>>,
    tries: usize,
    accepts: impl Fn(&Probe) -> bool,
    report: impl Fn(Result<Probe, String>),
) {
    let mut connection = None;
    let mut was_accepted = true;
    loop {
        if let Some(again) = &mut again {
            again.mark_unchanged();
        }
        let tries = if was_accepted { tries } else { 1 };
        let probed = probe(connector, &mut connection, tries, &accepts).await;
        was_accepted = probed.as_ref().is_ok_and(&accepts);
        report(probed);
        match &mut again {
            Some(again) => tokio::select! {
                () = sleep(INTERVAL) => {}
                // It fails only at the end of the process.
                _ = again.changed() => {}
            },
            None => sleep(INTERVAL).await,
        }
    }
}

/// Probes over the existing connection, or over new ones.
async fn probe(
    connector: &Connector,
    known: &mut Option<Connection>,
    tries: usize,
    accepts: &impl Fn(&Probe) -> bool,
) -> Result<Probe, String> {
    let mut result = Err("it was not probed".to_owned());
    if let Some(mut connection) = known.take()
        && connection.is_open()
    {
        let probed = match connection.probe().await {
            Ok(probe) if connector.is_standby => connection.check_library().await.map(|()| probe),
            probed => probed,
        };
        match probed {
            Ok(probe) => {
                *known = Some(connection);
                if accepts(&probe) {
                    return Ok(probe);
                }
                result = Ok(probe);
            }
            // It has had its time. If the connection has ended, the server may have started again.
            Err(problem) if connection.is_open() => return Err(problem),
            Err(_) => {}
        }
    }
    for _ in 0..tries {
        let opened = connector.open_and_probe(accepts).await;
        match opened.and_then(|(connection, probe)| connection.version.clone().map(|_| (connection, probe))) {
            Ok((connection, probe)) => {
                *known = Some(connection);
                result = Ok(probe);
                if accepts(&probe) {
                    break;
                }
            }
            Err(problem) if result.is_err() => result = Err(problem),
            Err(_) => {}
        }
    }
    result
}
