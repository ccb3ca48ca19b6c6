//! The client of a request that comes through a reverse proxy.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

use super::peer::Peer;

const FOR: &str = "x-forwarded-for";
const PROTO: &str = "x-forwarded-proto";

/// The proxies that are believed about the address and the protocol of their clients. From anybody else the headers are
/// ignored, because any client can send them.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Reads addresses and networks: `10.1.2.3`, `10.0.0.0/8`, `fd00::/8`.
    pub fn parse(texts: &[String]) -> Result<TrustedProxies, String> {
        let read = |text: &String| {
            let text = text.trim();
            let address = text.parse::<IpAddr>().map(IpNet::from);
            address
                .or_else(|_| text.parse::<IpNet>())
                .map_err(|_| format!("{text:?} is no address, such as 10.1.2.3, and no network, such as 10.0.0.0/8"))
        };
        texts.iter().map(read).collect::<Result<_, _>>().map(TrustedProxies)
    }

    /// Returns the client of a request that came from `peer`: `peer` itself, unless it is a trusted proxy.
    ///
    /// Each proxy appends the address of its peer to X-Forwarded-For. So the list is read from its end, as long as the
    /// addresses are those of trusted proxies. X-Forwarded-Proto is that of the last proxy.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if !self.contain(peer.address) {
            return peer;
        }
        let mut address = peer.address;
        for hop in items(headers, FOR).map_while(parse_address) {
            address = hop;
            if !self.contain(hop) {
                break;
            }
        }
        let https = items(headers, PROTO)
            .next()
            .map_or(peer.https, |protocol| protocol.eq_ignore_ascii_case("https"));
        Peer { address, https }
    }

    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// Returns the items of a header's lists, the last one first.
fn items<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter().rev();
    // A value that is not text becomes an item that is not an address, which ends the reading.
    values
        .flat_map(|value| value.to_str().unwrap_or_default().rsplit(','))
        .map(str::trim)
}

/// Returns an address, with or without the port that some proxies add.
fn parse_address(text: &str) -> Option<IpAddr> {
    let address = text.parse().ok().or_else(|| {
        let socket: SocketAddr = text.parse().ok()?;
        Some(socket.ip())
    });
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded_for: &[&str], proto: Option<&str>) -> (String, bool) {
        let trusted = ["10.0.0.0/8", "192.168.1.1", "fd00::/8"].map(str::to_owned);
        let trusted = TrustedProxies::parse(&trusted).unwrap();
        let mut headers = HeaderMap::new();
        for value in forwarded_for {
            headers.append(FOR, value.parse().unwrap());
        }
        if let Some(proto) = proto {
            headers.append(PROTO, proto.parse().unwrap());
        }
        let peer = Peer {
            address: peer.parse().unwrap(),
            https: false,
        };
        let client = trusted.client(peer, &headers);
        (client.address.to_string(), client.https)
    }

    #[test]
    fn trusted_proxies_tell_who_their_client_is() {
        for (peer, forwarded_for, proto, address, https) in [
            ("10.0.0.1", &["203.0.113.7"][..], Some("https"), "203.0.113.7", true),
            ("10.0.0.1", &["203.0.113.7"], Some("http"), "203.0.113.7", false),
            ("10.0.0.1", &["203.0.113.7"], None, "203.0.113.7", false),
            // The client itself can have written the addresses before its own.
            ("10.0.0.1", &["198.51.100.1, 203.0.113.7"], None, "203.0.113.7", false),
            ("10.0.0.1", &["198.51.100.1", "203.0.113.7"], None, "203.0.113.7", false),
            (
                "10.0.0.1",
                &["203.0.113.7, 192.168.1.1, 10.9.9.9"],
                None,
                "203.0.113.7",
                false,
            ),
            ("10.0.0.1", &["10.0.0.5"], None, "10.0.0.5", false),
            ("10.0.0.1", &[], Some("HTTPS"), "10.0.0.1", true),
            ("10.0.0.1", &["203.0.113.7:4711"], None, "203.0.113.7", false),
            ("fd00::1", &["[2001:db8::7]:80"], None, "2001:db8::7", false),
            ("10.0.0.1", &["::ffff:203.0.113.7"], None, "203.0.113.7", false),
            // Nothing is believed before an item that is not an address.
            ("10.0.0.1", &["203.0.113.7, unknown"], None, "10.0.0.1", false),
            ("10.0.0.1", &["203.0.113.7, unknown, 10.0.0.2"], None, "10.0.0.2", false),
            ("10.0.0.1", &["203.0.113.7,"], None, "10.0.0.1", false),
            ("10.0.0.1", &["203.0.113.7"], Some("https, http"), "203.0.113.7", false),
        ] {
            let expected = (address.to_owned(), https);
            assert_eq!(
                client(peer, forwarded_for, proto),
                expected,
                "{peer} {forwarded_for:?} {proto:?}"
            );
        }
    }

    #[test]
    fn nobody_else_is_believed() {
        for peer in ["203.0.113.7", "192.168.1.2", "2001:db8::7"] {
            assert_eq!(client(peer, &["10.0.0.1"], Some("https")), (peer.to_owned(), false));
        }
        assert!(TrustedProxies::parse(&["proxy.example".to_owned()]).is_err());
        assert!(TrustedProxies::parse(&["10.0.0.0/33".to_owned()]).is_err());
    }
}
