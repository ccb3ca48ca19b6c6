//! The addresses that a signature is for.

use std::net::IpAddr;

/// The addresses of `sip`: one, or all from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    pub first: IpAddr,
    pub last: IpAddr,
}

impl AddressRange {
    /// Reads `168.1.5.60` or `168.1.5.60-168.1.5.70`.
    pub fn parse(text: &str) -> Option<AddressRange> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let ordered = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => first <= last,
            (IpAddr::V6(first), IpAddr::V6(last)) => first <= last,
            _ => false,
        };
        ordered.then_some(AddressRange { first, last })
    }

    /// Returns whether an address is in the range. An IPv4 address that arrives as an IPv6 one is the same address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }
}
