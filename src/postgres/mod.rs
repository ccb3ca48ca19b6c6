//! PostgreSQL in Rust's terms, for the storeys `engine` and `api`: values, rows, scans, statements, locks, settings and errors.
//!
//! It knows the extension's own types, tables and functions, and how the rows and the statements of an entity look. The storeys
//! above decide what a call does with them, and the rules of the Table service are those of the model.

pub mod analysis;
pub mod arguments;
pub mod btree;
pub mod call;
pub mod catalog;
pub mod citus;
pub mod clock;
mod columns;
pub mod cursor;
pub mod definition;
mod descriptor;
pub mod error;
pub mod execution;
pub mod expired;
pub mod guarded;
pub mod guc;
pub mod hash;
pub mod indexes;
pub mod inlining;
pub mod memory;
pub mod name;
mod nodes;
pub mod out_of_memory;
pub mod plan;
pub mod planner;
pub mod procedure;
pub mod property_index;
pub mod raised;
pub mod random;
pub mod receiver;
pub mod relation;
pub mod replication_slot;
mod reserve;
pub mod result_set;
pub mod row;
pub mod settings;
pub mod spi;
pub mod statement;
pub mod subscript;
pub mod subtransaction;
pub mod table_locks;
pub mod trigger;
pub mod types;
pub mod varlena;
pub mod visit;
mod waiting;
