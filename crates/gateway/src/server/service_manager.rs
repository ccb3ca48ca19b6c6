//! Messages to the service manager: systemd shows them in `systemctl status`.

use std::env;
use std::ffi::OsStr;
use std::io::Result;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::accounts::tenant::Tenant;
use crate::database::Node;

/// The time between two looks at the databases.
const INTERVAL: Duration = Duration::from_secs(2);
/// The longest line that is sent.
const LONGEST: usize = 1000;

/// Tells the service manager that the gateway listens, and then its databases' problems. Ends at once without one.
pub async fn keep_telling(tenants: Vec<Arc<Tenant>>) {
    let Some(address) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let mut told = String::new();
    loop {
        let state = state(&tenants);
        if state != told {
            if let Err(error) = send(&address, &format!("READY=1\nSTATUS={state}")) {
                tracing::debug!(%error, "the service manager cannot be told");
                return;
            }
            told = state;
        }
        sleep(INTERVAL).await;
    }
}

/// Returns the state of all databases, in a line.
fn state(tenants: &[Arc<Tenant>]) -> String {
    let problems = tenants.iter().flat_map(|tenant| {
        let of_node = |node: &Arc<Node>| Some(format!("{}, {}: {}", tenant.account.name(), node.name, node.why_out()?));
        tenant.database.nodes().filter_map(of_node)
    });
    let problems: Vec<String> = problems.collect();
    if problems.is_empty() {
        return "Serving all accounts".to_owned();
    }
    // A line is a variable of the protocol.
    let all = format!("Waiting for databases: {}", problems.join("; "));
    all.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

fn send(address: &OsStr, text: &str) -> Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(text.as_bytes(), &address)
        .map(drop)
}
