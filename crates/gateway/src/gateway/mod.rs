//! The way of a request, and the hook of a program that has the gateway in it.

pub mod hook;
mod stages;

pub use stages::{Gateway, NoAnswer, TimeLimits, into_http};
