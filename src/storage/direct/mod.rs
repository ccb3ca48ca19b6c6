//! Direct access: reads and writes entities by their keys, through the primary key's index and the table, without a statement:
//! one entity, or the inserts of a batch, page by page.
//!
//! It saves the start and the end of the executor, which cost more than the work itself. It is used only if a statement
//! would have the same result: in a table as `create_table` makes it, with no additions, and for a caller with the
//! privileges on the whole table. Statements do everything else.

mod eligibility;
mod index_entries;
mod inserter;
mod reader;
mod stamp;
mod updater;

pub use eligibility::{EveryRow, may_read, reads_every_row, runs_code_of_users};
pub use inserter::Inserter;
pub use reader::{Lookup, Reader};
pub use stamp::{completed_transactions, needs_attempts, settle};
pub use updater::{NewProperties, Updater};
