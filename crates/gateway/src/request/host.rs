//! The host that a request names.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{HeaderMap, Uri};
use table_service_model::RequestError;

use super::headers::header;

/// The longest host. A name has at most 253 characters, and a port 5. Links in responses repeat it, once for every entity.
const HOST_BYTES: usize = 260;

/// The host that a request names: a name or an address, perhaps with a port. Nothing else gets into links and comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// As it was sent, for links.
    text: String,
    /// In lower case and without the port, for comparisons.
    name: String,
}

impl Host {
    /// Returns the host of a request: that of its absolute URL, else that of its header.
    ///
    /// # Errors
    /// `HostInformationNotPresent` for no host, or for more than one; `InvalidHeaderValue` or `InvalidInput` for another text.
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Result<Host, RequestError> {
        let (text, invalid) = match uri.authority() {
            Some(authority) => (authority.as_str(), RequestError::UrlSyntax),
            None => (
                header(headers, HOST).ok_or(RequestError::HostMissing)?,
                RequestError::HeaderInvalid { name: "Host" },
            ),
        };
        if text.is_empty() || headers.get_all(HOST).iter().count() > 1 {
            return Err(RequestError::HostMissing);
        }
        Host::parse(text).ok_or(invalid)
    }

    /// Reads `name`, `127.0.0.1` or `[::1]`, each perhaps with `:` and a number.
    pub fn parse(text: &str) -> Option<Host> {
        if text.len() > HOST_BYTES {
            return None;
        }
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (text.get(..address.len() + 2)?, port)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                let (name, port) = text.split_at(end);
                let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
                (!name.is_empty() && name.bytes().all(is_part)).then_some((name, port))?
            }
        };
        let is_port = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok();
        (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then(|| Host {
            text: text.to_owned(),
            name: name.to_ascii_lowercase(),
        })
    }

    /// As it was sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name or the address, in lower case and without the port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it is an address and not a name.
    pub fn is_address(&self) -> bool {
        self.name.starts_with('[') || self.name.parse::<Ipv4Addr>().is_ok()
    }

    /// Returns whether no page on the web can have this name: it is an address, has no dot, or ends as names of private
    /// networks do. The owner of any other name can let it lead to this machine (DNS rebinding).
    pub fn is_local(&self) -> bool {
        // As in RFC 6761, 6762 and 8375, and the names that ICANN has reserved. Docker, Podman and Kubernetes use them.
        const ENDS: [&str; 6] = ["localhost", "local", "internal", "test", "home.arpa", "lan"];
        let name = self.name.trim_end_matches('.');
        let has_end = |end: &&str| {
            name.strip_suffix(end)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.is_address() || !name.contains('.') || ENDS.iter().any(has_end)
    }

    /// Returns whether it names a port.
    pub fn has_port(&self) -> bool {
        self.text.len() > self.name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_internet_are_not_local() {
        for (text, is_local) in [
            ("127.0.0.1:10002", true),
            ("192.168.1.7", true),
            ("[::1]:10002", true),
            ("localhost:10002", true),
            ("LOCALHOST.", true),
            ("devstoreaccount1.table.localhost", true),
            ("azurite", true),
            ("my_service-1:10002", true),
            ("host.docker.internal", true),
            ("azurite.default.svc.cluster.local", true),
            ("evil.example.com", false),
            ("devstoreaccount1.table.evil.com", false),
            ("localhost.evil.com", false),
            ("evil-localhost.com", false),
            ("127.0.0.1.evil.com", false),
            ("notlocal.mylocalhost", false),
            ("evil.com.", false),
        ] {
            assert_eq!(Host::parse(text).unwrap().is_local(), is_local, "{text}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_number() {
        for (text, name, is_address, has_port) in [
            ("gateway", "gateway", false, false),
            ("One.Table.Example:10002", "one.table.example", false, true),
            ("my_service-1.x", "my_service-1.x", false, false),
            ("127.0.0.1:0", "127.0.0.1", true, true),
            ("[::1]", "[::1]", true, false),
            ("[FE80::1]:65535", "[fe80::1]", true, true),
            ("127.1", "127.1", false, false),
        ] {
            let host = Host::parse(text).unwrap();
            assert_eq!(
                (host.name(), host.is_address(), host.has_port()),
                (name, is_address, has_port),
                "{text}"
            );
            assert_eq!(host.as_str(), text);
        }
    }

    #[test]
    fn nothing_else_is_one() {
        for text in [
            "",
            ":80",
            "x:evil",
            "x:",
            "x:80:80",
            "x:+80",
            "x:65536",
            "x:8 0",
            "a b",
            "a/b",
            "a@b",
            "a\"b",
            "a,b",
            "ä",
            "::1",
            "[::1",
            "[::1]80",
            "[x]",
            "[127.0.0.1]",
            "[::1%25lo]",
            "]",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
