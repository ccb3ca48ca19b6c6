//! The sender of a request.

use std::net::IpAddr;

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: IpAddr,
    pub https: bool,
}
