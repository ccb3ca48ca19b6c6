//! Who sends a request.

use std::net::IpAddr;

/// Who sends a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: IpAddr,
    pub https: bool,
}
