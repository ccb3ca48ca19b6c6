//! Direct access: one entity is read or written through the primary key's index and the table themselves, without a statement.
//!
//! It saves setting up and tearing down the executor, which costs more than the work. It is done only where a statement would do just the
//! same: in a table that has what `create_table` gave it and nothing else that a statement must respect, and for a caller who has the
//! privileges on the whole table. Statements do everything else.

mod access;
mod eligibility;
mod stamp;

pub use access::{Direct, has_one_snapshot, with};
pub use eligibility::Purpose;
pub use stamp::{completed_transactions, settle};
