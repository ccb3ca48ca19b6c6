//! The subcommand `healthcheck`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks that the emulator is ready, and returns its report.
pub fn check(admin_port: u16) -> Result<String, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, admin_port));
    let answer = request(address).map_err(|error| format!("no emulator answers on {address}: {error}"))?;
    let report = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim_end();
    if answer.starts_with("HTTP/1.1 200 ") {
        Ok(report.to_owned())
    } else {
        Err(format!("the emulator on {address} is not ready: {report}"))
    }
}

fn request(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
