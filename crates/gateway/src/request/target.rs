//! The account and the endpoint of a request, in both URL styles (semantics 3.1).

use std::net::IpAddr;

use super::host::Host;

/// The account and the endpoint of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    pub account: &'a str,
    /// The read-only secondary endpoint.
    pub secondary: bool,
    /// The account is in the path, as with the emulator, and not in the host name.
    pub path_style: bool,
    /// The rest of the path, without the slash before it.
    pub path: &'a str,
}

const SECONDARY: &str = "-secondary";

impl<'a> Target<'a> {
    /// Splits a request by its host and its path, as in the request line.
    ///
    /// A host of the form `<account>.table.<anything>` names the account. For any other host, the first segment of the
    /// path that is not empty does. `None` if there is no such segment.
    pub fn parse(host: &'a Host, path: &'a str) -> Option<Target<'a>> {
        let path = path.trim_start_matches('/');
        if let Some(label) = account_label(host.name()) {
            let (account, secondary) = split_secondary(label);
            return Some(Target {
                account,
                secondary,
                path_style: false,
                path,
            });
        }
        let (segment, path) = path.split_once('/').unwrap_or((path, ""));
        let (account, secondary) = split_secondary(segment);
        // When they fail over, some clients turn /account/Tables into /account-secondary/account/Tables.
        let doubled = path.strip_prefix(account).and_then(|rest| rest.strip_prefix('/'));
        (!account.is_empty()).then_some(Target {
            account,
            secondary,
            path_style: true,
            path: doubled.filter(|_| secondary).unwrap_or(path),
        })
    }

    /// The path of the primary endpoint, for a request to the secondary endpoint in path style. Some clients sign it instead
    /// of the path that they send: `/account/Tables` for `/account-secondary/Tables`, and also for
    /// `/account-secondary/account/Tables`.
    pub fn primary_path(&self, sent: &str) -> Option<String> {
        if !(self.path_style && self.secondary) {
            return None;
        }
        let (account, rest) = sent.split_once(SECONDARY)?;
        let doubled = rest.strip_suffix(self.path).unwrap_or(rest).trim_matches('/') == self.account;
        Some(if doubled {
            rest.to_owned()
        } else {
            format!("{account}{rest}")
        })
    }
}

fn account_label(host: &str) -> Option<&str> {
    let (label, rest) = host.split_once('.')?;
    (rest.starts_with("table.") && label.parse::<IpAddr>().is_err()).then_some(label)
}

fn split_secondary(name: &str) -> (&str, bool) {
    match name.strip_suffix(SECONDARY) {
        Some(account) => (account, true),
        None => (name, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(host: &str, path: &'a str) -> Option<(String, bool, bool, &'a str)> {
        let host = Host::parse(host).unwrap();
        let Target {
            account,
            secondary,
            path_style,
            path: rest,
        } = Target::parse(&host, path)?;
        let rest = &path[path.len() - rest.len()..];
        Some((account.to_owned(), secondary, path_style, rest))
    }

    #[test]
    fn the_account_is_in_the_host_or_in_the_path() {
        for (host, path, expected) in [
            ("one.table.core.windows.net", "/Tables", ("one", false, false, "Tables")),
            (
                "one-secondary.table.core.windows.net",
                "/t()",
                ("one", true, false, "t()"),
            ),
            ("one.table.localhost:10002", "/", ("one", false, false, "")),
            ("one.TABLE.example.com", "", ("one", false, false, "")),
            ("One-Secondary.table.x:1", "/t", ("one", true, false, "t")),
            (
                "127.0.0.1:10002",
                "/devstoreaccount1/Tables",
                ("devstoreaccount1", false, true, "Tables"),
            ),
            (
                "localhost:10002",
                "/devstoreaccount1-secondary/t",
                ("devstoreaccount1", true, true, "t"),
            ),
            ("gateway", "/one", ("one", false, true, "")),
            ("gateway.example.com", "/one/", ("one", false, true, "")),
            ("gateway", "//one//Tables/", ("one", false, true, "/Tables/")),
            ("gateway", "/one-secondary/one/Tables", ("one", true, true, "Tables")),
            ("gateway", "/one-secondary/one", ("one", true, true, "one")),
            ("gateway", "/one/one/Tables", ("one", false, true, "one/Tables")),
            ("[::1]:10002", "/one/$batch", ("one", false, true, "$batch")),
            (
                "gateway",
                "/one/t(PartitionKey='a',RowKey='b')",
                ("one", false, true, "t(PartitionKey='a',RowKey='b')"),
            ),
        ] {
            let (account, secondary, path_style, rest) = expected;
            let expected = (account.to_owned(), secondary, path_style, rest);
            assert_eq!(parse(host, path), Some(expected), "{host} {path}");
        }
        for (host, path) in [("localhost", "/"), ("localhost", ""), ("127.0.0.1", "//")] {
            assert_eq!(parse(host, path), None, "{host} {path}");
        }
    }
}
