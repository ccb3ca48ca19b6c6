//! PostgreSQL in Rust's terms, for the storeys above: values, scans, statements, locks, settings and errors.
//!
//! It knows the extension's own types, tables and functions, but no entities: these are stored by the storey `storage`.

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

pub use btree::{Index, Scan, ScanCondition};
pub use call::Call;
pub use catalog::{DATA_SCHEMA, OwnObjects};
pub use citus::{ColocationLock, LocalShard, Shards};
pub use clock::{etag, now, ticks_of};
pub use cursor::Cursor;
pub use definition::{hold_names, run_on_new_rows};
pub use error::{OrRaise, Texts, raise, raising};
pub use memory::{RowMemory, new_context};
pub use nodes::{elements, of_type};
pub use procedure::{Done, Procedure, StepsOut};
pub use raised::{caught, has_sqlstate, message, rethrow, while_running};
pub use relation::{OpenTable, Relation, Slot, with_relation};
pub use replication_slot::Action;
pub use settings::filter_dialect;
pub use snapshot::{active_snapshot, has_one_snapshot, with_new_snapshot};
pub use spi::{Connection, Rows, Tuple, connect};
pub use subtransaction::{has_room, in_subtransaction};
pub use table_locks::Mode;
pub use trigger::RowUpdate;
pub use types::array::Elements;
pub use types::value::{Array, Bag, Text, Value};
pub use types::{
    CStringOut, Column, JsonArg, JsonOut, JsonbArg, JsonbOut, MessageArg, PlannerRequestArg, PropertiesArg,
    PropertiesOut, RecordArg, RegClass, ShellIn, ShellOut, TextArg, TextArrayArg, TextOut, TriggerRow,
};
pub use varlena::{Varlena, Varlenas};
pub use visit::{Refused, Use};
