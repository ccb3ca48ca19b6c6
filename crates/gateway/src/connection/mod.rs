//! A connection of a client: TLS, and limits of its heads, bodies and answers.

pub mod accept;
pub mod body;
pub mod head_limit;
pub mod line_ends;
pub mod self_waking;
pub mod tls;
pub mod uncancelled;
pub mod write_limit;
