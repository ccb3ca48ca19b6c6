//! Scans of key ranges: statements of a few fixed shapes, whose rows go to a sink one by one, in key order.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::entity::Entity;
use table_service_model::filter::{Bound, Columns, Filter, KeyRange, Plan, Predicate};
use table_service_model::projection::Projection;
use table_service_model::{Properties, Ticks};

use crate::arguments::Keys;
use crate::deadline;
use crate::direct::{self, Direct, Purpose};
use crate::residual;
use crate::spi::{Connection, ENTITY};
use crate::tables::Table;
use crate::types::{TextArg, varlena, varlena_bytes};
use crate::unguarded;

/// The text of a scan, up to the values of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    range: RangeShape,
    residual: Residual,
    /// All rows of the table are read whatever the plan, so that it may be any.
    any_plan: bool,
}

/// A key range without its keys. Its parameters are the partition if that is one, then the lower bound's, then the upper
/// bound's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RangeShape {
    Point,
    /// Rows of one partition.
    Rows {
        lower: End,
        upper: End,
    },
    /// Rows of several partitions.
    Partitions {
        lower: End,
        upper: End,
    },
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Open,
    /// A bound on the PartitionKey alone.
    Partition {
        inclusive: bool,
    },
    /// A bound on both keys, or on the RowKey in one partition.
    Row {
        inclusive: bool,
    },
}

/// What is tested on every row. The compiled filter is the last parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Residual {
    None,
    /// A filter that looks at properties only, which saves the other columns.
    Properties,
    Entity,
}

impl End {
    fn of(bound: &Option<Bound>, one_partition: bool) -> End {
        match bound {
            None => End::Open,
            Some(Bound { row_key: None, .. }) if one_partition => End::Open,
            Some(Bound {
                row_key: None,
                inclusive,
                ..
            }) => End::Partition { inclusive: *inclusive },
            Some(Bound { inclusive, .. }) => End::Row { inclusive: *inclusive },
        }
    }

    fn parameters(self, one_partition: bool) -> usize {
        match self {
            End::Open => 0,
            End::Partition { .. } => 1,
            End::Row { .. } => 2 - usize::from(one_partition),
        }
    }
}

impl RangeShape {
    const TABLE: RangeShape = RangeShape::Partitions {
        lower: End::Open,
        upper: End::Open,
    };

    fn of(range: &KeyRange) -> RangeShape {
        if range.point().is_some() {
            return RangeShape::Point;
        }
        let one_partition = range.partition().is_some();
        let (lower, upper) = (
            End::of(&range.lower, one_partition),
            End::of(&range.upper, one_partition),
        );
        if one_partition {
            RangeShape::Rows { lower, upper }
        } else {
            RangeShape::Partitions { lower, upper }
        }
    }

    fn parameters(self) -> usize {
        match self {
            RangeShape::Point => 2,
            RangeShape::Rows { lower, upper } => 1 + lower.parameters(true) + upper.parameters(true),
            RangeShape::Partitions { lower, upper } => lower.parameters(false) + upper.parameters(false),
        }
    }

    /// The conditions on the columns of `alias`, with the given texts for the parameters.
    fn conditions(self, alias: &str, parameters: &[String]) -> Vec<String> {
        let (pk, rk) = (format!("{alias}partition_key"), format!("{alias}row_key"));
        let compare =
            |left: &str, operator: &str, right: &str| format!("{left} OPERATOR(pg_catalog.{operator}) {right}");
        let mut rest = parameters.iter().map(String::as_str);
        let mut next = || rest.next().unwrap_or_default().to_owned();
        let mut conditions = Vec::new();
        let (lower, upper) = match self {
            RangeShape::Point => {
                conditions.push(compare(&pk, "=", &next()));
                conditions.push(compare(&rk, "=", &next()));
                return conditions;
            }
            RangeShape::Rows { lower, upper } => {
                conditions.push(compare(&pk, "=", &next()));
                (lower, upper)
            }
            RangeShape::Partitions { lower, upper } => (lower, upper),
        };
        let one_partition = matches!(self, RangeShape::Rows { .. });
        for (end, including, excluding) in [(lower, ">=", ">"), (upper, "<=", "<")] {
            match end {
                End::Open => {}
                End::Partition { inclusive } => {
                    conditions.push(compare(&pk, if inclusive { including } else { excluding }, &next()));
                }
                End::Row { inclusive } => {
                    let operator = if inclusive { including } else { excluding };
                    if one_partition {
                        conditions.push(compare(&rk, operator, &next()));
                    } else {
                        // The first condition is implied; a foreign table or another engine may know only that.
                        let (partition, row) = (next(), next());
                        conditions.push(compare(&pk, including, &partition));
                        conditions.push(compare(
                            &format!("ROW({pk}, {rk})"),
                            operator,
                            &format!("ROW({partition}, {row})"),
                        ));
                    }
                }
            }
        }
        conditions
    }

    fn select(self, table: &str, conditions: &[String]) -> String {
        let filtered = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let order = match self {
            RangeShape::Point => "",
            RangeShape::Rows { .. } => " ORDER BY t.row_key",
            RangeShape::Partitions { .. } => " ORDER BY t.partition_key, t.row_key",
        };
        format!("SELECT {ENTITY} FROM {table} AS t{filtered}{order}")
    }
}

/// The keys of a range in the order of its shape's parameters.
fn keys(range: &KeyRange) -> Vec<&str> {
    if let Some((partition_key, row_key)) = range.point() {
        return vec![partition_key, row_key];
    }
    let partition = range.partition();
    let mut keys: Vec<&str> = partition.into_iter().collect();
    for bound in [&range.lower, &range.upper].into_iter().flatten() {
        if partition.is_none() {
            keys.push(&bound.partition_key);
        }
        keys.extend(bound.row_key.as_deref());
    }
    keys
}

/// The conditions of a range with its keys as literals, for SQL that users see. No condition for the whole table.
pub fn range_to_sql(range: &KeyRange, alias: &str) -> Vec<String> {
    let literals: Vec<String> = keys(range).into_iter().map(pgrx::spi::quote_literal).collect();
    RangeShape::of(range).conditions(alias, &literals)
}

/// The scan of a range with its keys as literals.
pub fn scan_to_sql(range: &KeyRange, table: &str, residual: Option<&str>) -> String {
    let shape = RangeShape::of(range);
    let mut conditions = range_to_sql(range, "t.");
    conditions.extend(residual.map(str::to_owned));
    shape.select(table, &conditions)
}

impl Shape {
    pub fn any_plan(self) -> bool {
        self.any_plan
    }

    /// The types of the statement's parameters: keys, then the compiled filter.
    pub fn parameter_types(self) -> Vec<pg_sys::Oid> {
        let mut types = vec![pg_sys::TEXTOID; self.range.parameters()];
        if self.residual != Residual::None {
            types.push(pg_sys::BYTEAOID);
        }
        types
    }

    /// The text of the statement; `table` is a qualified and quoted name.
    pub fn sql(self, table: &str) -> String {
        let parameters: Vec<String> = (1..=self.parameter_types().len()).map(|n| format!("${n}")).collect();
        let mut conditions = self.range.conditions("t.", &parameters);
        let filter = parameters.last().map_or("", String::as_str);
        match self.residual {
            Residual::None => {}
            Residual::Properties => conditions.push(format!("table_service.scan_passes(t.properties, {filter})")),
            Residual::Entity => conditions.push(format!("table_service.scan_passes({ENTITY}, {filter})")),
        }
        self.range.select(table, &conditions)
    }
}

/// One row of a scan. By-reference values live until the sink returns.
pub struct Row {
    /// Where it is, with its four columns.
    pub slot: *mut pg_sys::TupleTableSlot,
    pub partition_key: pg_sys::Datum,
    pub row_key: pg_sys::Datum,
    pub timestamp: pg_sys::Datum,
    pub properties: pg_sys::Datum,
}

impl Row {
    /// The row in a slot.
    ///
    /// # Safety
    /// It has the four columns of an entity, none of them NULL.
    pub unsafe fn of(slot: *mut pg_sys::TupleTableSlot) -> Row {
        // SAFETY: as promised; for columns that there are it raises nothing.
        unsafe {
            if (*slot).tts_nvalid < 4 {
                unguarded::slot_getsomeattrs_int(slot, 4);
            }
            let values = (*slot).tts_values;
            Row {
                slot,
                partition_key: *values,
                row_key: *values.add(1),
                timestamp: *values.add(2),
                properties: *values.add(3),
            }
        }
    }

    pub fn partition_key(&self) -> &str {
        text(&self.partition_key)
    }

    pub fn row_key(&self) -> &str {
        text(&self.row_key)
    }

    /// Microseconds since 2000-01-01.
    pub fn timestamp(&self) -> i64 {
        self.timestamp.value() as i64
    }

    /// The bag, as it is stored.
    pub fn properties(&self) -> Properties<'_> {
        // SAFETY: the column is a bag and not NULL.
        Properties::from_stored(unsafe { varlena_bytes(self.properties) }.1)
    }

    pub fn entity(&self) -> Entity<'_> {
        Entity {
            partition_key: Some(self.partition_key()),
            row_key: Some(self.row_key()),
            timestamp: Ticks::from_postgres_micros(self.timestamp()),
            properties: self.properties(),
        }
    }

    /// The properties to return.
    pub fn projected(&self, projection: &Projection) -> pg_sys::Datum {
        match projection {
            Projection::All => self.properties,
            _ => varlena(projection.apply(self.properties()).as_bytes()),
        }
    }
}

fn text(datum: &pg_sys::Datum) -> &str {
    // SAFETY: a key column, which is text and not NULL.
    unsafe { TextArg::from_datum(*datum, false).map_or("", TextArg::get) }
}

/// Where the rows of a scan go.
pub trait Sink {
    /// Takes a row; whether it wants more.
    fn row(&mut self, row: &Row) -> bool;
}

/// How much of a result is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    All,
    /// The first rows, until the sink wants no more.
    First,
}

/// Reads the entities of a plan in key order into a sink, all under the caller's snapshot. Ends when the sink wants no
/// more.
pub fn scan(spi: &Connection, table: &Table, plan: &Plan, ranges: &[KeyRange], extent: Extent, sink: &mut dyn Sink) {
    let mut scan = Scan {
        spi,
        table,
        extent,
        test: plan.residual.as_ref().map(Test::new),
        receiver: Receiver::new(sink),
    };
    let has_points = ranges.iter().any(|range| range.point().is_some());
    let read = if has_points {
        direct::with(table, Purpose::Get, |direct| {
            scan.ranges(ranges, Some(direct));
            Some(())
        })
    } else {
        None
    };
    if read.is_none() {
        scan.ranges(ranges, None);
    }
}

/// What is tested on every row of a scan.
struct Test {
    residual: Residual,
    /// The parameter of the statements.
    bytes: pg_sys::Datum,
    _lent: residual::Guard,
}

impl Test {
    fn new(filter: &Filter) -> Test {
        let predicate = Predicate::new(filter);
        let only_properties = Columns {
            properties: true,
            ..Columns::default()
        };
        let residual = if predicate.columns() == only_properties {
            Residual::Properties
        } else {
            Residual::Entity
        };
        let bytes = varlena(&predicate.to_bytes());
        Test {
            residual,
            bytes,
            _lent: residual::lend(bytes, predicate),
        }
    }
}

struct Scan<'a> {
    spi: &'a Connection,
    table: &'a Table,
    extent: Extent,
    test: Option<Test>,
    receiver: Receiver<'a>,
}

impl Scan<'_> {
    fn ranges(&mut self, ranges: &[KeyRange], direct: Option<&Direct>) {
        for range in ranges {
            match (direct, range.point()) {
                (Some(direct), Some((partition_key, row_key))) => self.point(direct, partition_key, row_key),
                _ => self.range(range),
            }
            if self.receiver.ended {
                break;
            }
        }
    }

    fn point(&mut self, direct: &Direct, partition_key: &str, row_key: &str) {
        deadline::next_scan(self.test.is_some());
        if let Some(slot) = direct.get(Keys::of(partition_key, row_key)) {
            // SAFETY: a row of a table of the service.
            unsafe {
                let row = Row::of(slot);
                if self.test.is_none() || residual::passes(&row) {
                    self.receiver.take(&row);
                }
            }
        }
    }

    fn range(&mut self, range: &KeyRange) {
        let range_shape = RangeShape::of(range);
        let shape = Shape {
            range: range_shape,
            residual: self.test.as_ref().map_or(Residual::None, |test| test.residual),
            any_plan: self.extent == Extent::All && range_shape == RangeShape::TABLE,
        };
        let mut arguments: Vec<pg_sys::Datum> = keys(range).into_iter().map(|key| varlena(key.as_bytes())).collect();
        arguments.extend(self.test.as_ref().map(|test| test.bytes));
        deadline::next_scan(self.test.is_some() && self.spi.is_ordered(shape, self.table));
        // SAFETY: the receiver outlives the statement.
        unsafe {
            self.spi
                .scan(shape, self.table, &arguments, (&raw mut self.receiver).cast());
        }
    }
}

/// A sink as PostgreSQL's executor knows it.
#[repr(C)]
struct Receiver<'s> {
    callbacks: pg_sys::DestReceiver,
    sink: &'s mut dyn Sink,
    /// What a sink allocates for a row goes with the row.
    row_context: pg_sys::MemoryContext,
    ended: bool,
}

impl<'s> Receiver<'s> {
    fn new(sink: &'s mut dyn Sink) -> Receiver<'s> {
        Receiver {
            callbacks: pg_sys::DestReceiver {
                receiveSlot: Some(receive),
                rStartup: Some(start_up),
                rShutdown: Some(shut_down),
                rDestroy: Some(shut_down),
                mydest: pg_sys::CommandDest::DestTuplestore,
            },
            sink,
            // SAFETY: a child of the connection's context, which takes it along when the connection ends.
            row_context: unsafe {
                pg_sys::AllocSetContextCreateExtended(
                    pg_sys::CurrentMemoryContext,
                    c"table_service row".as_ptr(),
                    pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                )
            },
            ended: false,
        }
    }

    fn take(&mut self, row: &Row) {
        // SAFETY: set by hand what MemoryContextSwitchTo sets: this runs for every row.
        unsafe {
            let caller = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.row_context;
            self.ended = !self.sink.row(row);
            pg_sys::CurrentMemoryContext = caller;
            if !(*self.row_context).isReset {
                pg_sys::MemoryContextReset(self.row_context);
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn start_up(
    _receiver: *mut pg_sys::DestReceiver,
    _operation: c_int,
    _row_type: pg_sys::TupleDesc,
) {
}

#[pg_guard]
unsafe extern "C-unwind" fn shut_down(_receiver: *mut pg_sys::DestReceiver) {}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, receiver: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: the executor calls with the receiver that it was given, which is the first part of ours, and with a row of
    // the four columns that every scan selects.
    unsafe {
        let receiver = &mut *receiver.cast::<Receiver<'_>>();
        receiver.take(&Row::of(slot));
        !receiver.ended
    }
}
