//! Why there is no connection, or none any more.

use std::error::Error;

/// Returns an error and its causes, in one line.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

/// Returns whether the server has no valid certificate for its name, or no TLS that this program knows.
pub fn is_refused_by_tls(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        use rustls::Error::{InvalidCertificate, InvalidMessage, PeerIncompatible};
        return matches!(error, InvalidCertificate(_) | InvalidMessage(_) | PeerIncompatible(_));
    }
    // An I/O error has another error inside, and not as its source.
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| is_refused_by_tls(inner)) || error.source().is_some_and(is_refused_by_tls)
}
