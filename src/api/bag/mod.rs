//! The functions of the type `properties`: input and output, operators, subscripts, typed access and casts.

pub mod accessors;
pub mod casts;
pub mod io;
pub mod operators;
pub mod subscript;
