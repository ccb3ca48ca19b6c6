//! How it is done: tables found, entities read and written, filters and pages. The storey between the functions that SQL users call and
//! PostgreSQL.

pub mod batch;
pub mod contract;
pub mod deadline;
pub mod direct;
pub mod page;
pub mod policies;
pub mod residual;
pub mod scan;
pub mod table;
pub mod write;
