//! The functions of the type `properties`: input and output, operators, typed access and casts.

pub mod accessors;
pub mod casts;
pub mod io;
pub mod operators;
