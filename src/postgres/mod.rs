//! PostgreSQL in Rust's terms, for the storeys above: values, scans, statements, locks, settings and errors.
//!
//! It knows the extension's own types, tables and functions, and no entity: how those lie in PostgreSQL is the storey `storage`.

pub mod analysis;
pub mod btree;
pub mod call;
pub mod catalog;
pub mod catalog_scan;
pub mod citus;
pub mod clock;
pub mod cursor;
pub mod definition;
pub mod descriptor;
pub mod error;
pub mod guarded;
pub mod guc;
pub mod hash;
pub mod memory;
pub mod nodes;
pub mod notes;
pub mod out_of_memory;
pub mod privileges;
pub mod procedure;
pub mod raised;
pub mod random;
pub mod relation;
pub mod replication_slot;
mod reserve;
pub mod settings;
pub mod snapshot;
pub mod spi;
pub mod subscript;
pub mod subtransaction;
pub mod table_locks;
pub mod trigger;
pub mod types;
pub mod varlena;
pub mod visit;
pub mod waiting;
