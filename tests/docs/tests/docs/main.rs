//! The documentation, run and compared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod drivers;
mod links;
mod pages;
mod pictures;
mod readme;
mod red;
mod reference;
