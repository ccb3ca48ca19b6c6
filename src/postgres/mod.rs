//! PostgreSQL's concepts as Rust types, for the storeys `engine` and `api`. This storey has no rule of the Table
//! service.

pub mod arguments;
pub mod btree;
pub mod catalog;
pub mod citus;
pub mod clock;
mod columns;
pub mod cursor;
mod descriptor;
pub mod error;
pub mod guarded;
pub mod guc;
pub mod indexes;
pub mod memory;
pub mod name;
pub mod out_of_memory;
pub mod plan;
pub mod planner;
pub mod procedure;
pub mod property_index;
pub mod raised;
pub mod receiver;
pub mod replication_slot;
mod reserve;
pub mod result_set;
pub mod row;
pub mod settings;
pub mod spi;
pub mod statement;
pub mod subtransaction;
pub mod table_locks;
pub mod types;
pub mod varlena;
mod waiting;
