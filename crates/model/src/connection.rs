//! The meaning of a URL: the place of a database. The gateway and the copy program read URLs with their driver and ask
//! here what they mean.

use std::net::IpAddr;

use crate::secret;

/// A host of a URL.
#[derive(Debug, Clone, Copy)]
pub enum Host<'a> {
    /// A name or an address.
    Name(&'a str),
    /// The directory of a socket.
    Directory,
}

/// Returns how many servers a URL names that has so many hosts, addresses (`hostaddr`) and ports. As in libpq, each server has a host,
/// an address or both, and either each has a port or all have the same.
///
/// # Errors
/// The problem of the URL, as the rest of a sentence.
pub fn servers(hosts: usize, addresses: usize, ports: usize) -> Result<usize, &'static str> {
    let servers = hosts.max(addresses);
    let fits = |count: usize, least: usize| count <= least || count == servers;
    if servers == 0 {
        Err("names no host: it is localhost, or the directory of a socket, such as %2Frun%2Fpostgresql")
    } else if fits(hosts, 0) && fits(addresses, 0) && fits(ports, 1) {
        Ok(servers)
    } else {
        Err("has not as many addresses (hostaddr) or ports as hosts; one port is enough")
    }
}

/// Returns whether every place that a connection may be made to is on this machine. A driver connects to an address of
/// `hostaddr` instead of the host beside it, so both have to be.
#[must_use]
pub fn is_this_machine<'a>(hosts: impl IntoIterator<Item = Host<'a>>, addresses: &[IpAddr]) -> bool {
    let is_here = |host: Host<'_>| match host {
        Host::Name(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Directory => true,
    };
    hosts.into_iter().all(is_here) && addresses.iter().all(IpAddr::is_loopback)
}

/// Returns whether a text has the form of a host's name or address. If a URL is mistyped, a part of its password can
/// stand where the host does; that part must not be looked up or shown.
#[must_use]
pub fn is_host(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_part)
}

/// Returns the name of a database, for messages. One with other characters than names have may be a mistyped secret.
#[must_use]
pub fn shown_name(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '$');
    if text.len() <= 63 && text.chars().all(is_part) {
        return text.to_owned();
    }
    format!("({})", secret::describe(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_host_or_an_address_each() {
        for (hosts, addresses, ports, expected) in [
            (1, 0, 1, Some(1)),
            (0, 2, 0, Some(2)),
            (3, 3, 3, Some(3)),
            (3, 0, 1, Some(3)),
            (0, 0, 1, None),
            (2, 1, 1, None),
            (1, 2, 1, None),
            (2, 0, 3, None),
            (1, 0, 2, None),
        ] {
            let found = servers(hosts, addresses, ports);
            assert_eq!(found.ok(), expected, "{hosts} {addresses} {ports}");
        }
    }

    #[test]
    fn hosts_and_addresses_count() {
        let here = |hosts: &[Host<'_>], addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            is_this_machine(hosts.iter().copied(), &addresses)
        };
        assert!(here(&[], &[]));
        assert!(here(
            &[Host::Name("LocalHost"), Host::Name("::1"), Host::Directory],
            &[]
        ));
        assert!(here(&[Host::Name("127.0.0.1")], &["127.0.0.2", "::1"]));
        assert!(!here(&[Host::Name("localhost")], &["10.0.0.1"]));
        assert!(!here(&[Host::Directory], &["10.0.0.1"]));
        assert!(!here(&[], &["127.0.0.1", "10.0.0.1"]));
        assert!(!here(&[Host::Name("db.example.com")], &["127.0.0.1"]));
        assert!(!here(
            &[Host::Name("localhost"), Host::Name("127.0.0.1.example.com")],
            &[]
        ));
        assert!(!here(&[Host::Name("0.0.0.0")], &[]));
    }

    #[test]
    fn mistyped_hosts_are_noticed() {
        for host in ["db.example.com", "10.0.0.1", "::1", "straße.example", "db_1"] {
            assert!(is_host(host), "{host}");
        }
        for host in ["", "ss@host", "host;password=x", "host password", "a/b", "%40", "x=y"] {
            assert!(!is_host(host), "{host}");
        }
    }
}
