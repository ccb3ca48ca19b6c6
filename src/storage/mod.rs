//! How entities are stored in PostgreSQL: tables, their rows, columns and indexes, and the statements and plans that
//! read and write them. This storey is between `engine` and `postgres`.

pub mod arguments;
pub mod batch_operation;
pub mod columns;
pub mod contract;
pub mod direct;
pub mod entity;
pub mod execution;
pub mod expired;
pub mod expiry;
pub mod fetch;
pub mod indexes;
pub mod inlining;
pub mod known;
pub mod name;
pub mod names;
pub mod placement;
pub mod plan;
pub mod planner;
pub mod primary_key;
pub mod property_index;
pub mod residual;
pub mod result_set;
pub mod row;
mod shard_writes;
pub mod statement;
pub mod table;
