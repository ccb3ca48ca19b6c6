//! Statements, prepared once per backend and table and kept.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::rc::Rc;

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::prelude::*;

use crate::catalog;
use crate::scan::Shape;
use crate::tables::Table;

/// How many tables' statements a backend keeps.
const TABLES_KEPT: usize = 128;

/// What to do with one table. Each has one text per table, the same every time, and each has one plan, whatever the
/// values are: a statement that names its keys has nothing to gain from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    /// `$1` PartitionKey, `$2` RowKey, `$3` clock, `$4` properties.
    Insert,
    /// An insert that raises 23505 where the one above does nothing.
    InsertOrRaise,
    InsertOrReplace,
    InsertOrMerge,
    Replace,
    Merge,
    /// As above, `$5` the Timestamp that the entity must have.
    ReplaceVersion,
    MergeVersion,
    /// `$1` PartitionKey, `$2` RowKey.
    Delete,
    Get,
    GetTimestamp,
    /// As above, `$3` the Timestamp that the entity must have.
    DeleteVersion,
    /// `$1` PartitionKey, `$2` RowKeys in order.
    GetMany,
    /// Locks the entities that exist, in key order, and returns them.
    LockMany,
    /// Which of the entities exist by now, and in which version.
    LookMany,
    DeleteMany,
    /// `$1` PartitionKey, `$2` RowKeys in order, `$3` clock, `$4` their properties.
    InsertMany,
    InsertOrReplaceMany,
    InsertOrMergeMany,
    ReplaceMany,
    /// The entities of one key range, in key order, as [`Shape`] says.
    Scan(Shape),
}

/// The entity of `$1` and `$2`.
const POINT: &str = "t.partition_key OPERATOR(pg_catalog.=) $1 AND t.row_key OPERATOR(pg_catalog.=) $2";
pub const ENTITY: &str = "t.partition_key, t.row_key, t.\"timestamp\", t.properties";
const RETURNING: &str = "RETURNING t.\"timestamp\"";
/// The entities of `$1` and `$2`, an array.
const POINTS: &str = "t.partition_key OPERATOR(pg_catalog.=) $1 AND t.row_key OPERATOR(pg_catalog.=) ANY ($2)";
/// The rows of `$2` and `$4`, two arrays.
const GIVEN: &str = "ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($4))";
const RETURNING_MANY: &str = "RETURNING t.row_key, t.\"timestamp\"";

impl Statement {
    /// `table` is a qualified and quoted name. The clock is a parameter and every function in an UPDATE is IMMUTABLE, so
    /// that the same text runs on a distributed table.
    fn sql(self, table: &str) -> String {
        let insert_into = format!("INSERT INTO {table} AS t (partition_key, row_key, \"timestamp\", properties)");
        let insert = format!("{insert_into} VALUES ($1, $2, $3, $4)");
        let insert_many = format!(
            "{insert_into} SELECT $1, given.row_key, $3, given.properties FROM {GIVEN} WITH ORDINALITY AS given(row_key, properties, position) ORDER BY given.position"
        );
        let on_conflict = "ON CONFLICT (partition_key, row_key) DO UPDATE SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", excluded.\"timestamp\"), properties";
        let update = format!(
            "UPDATE {table} AS t SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", $3), properties"
        );
        let merged = "t.properties OPERATOR(table_service.||)";
        let version = |n| format!("t.\"timestamp\" OPERATOR(pg_catalog.=) ${n}");
        match self {
            Statement::Scan(shape) => shape.sql(table),
            Statement::Insert => format!("{insert} ON CONFLICT DO NOTHING"),
            Statement::InsertOrRaise => insert,
            Statement::InsertOrReplace => format!("{insert} {on_conflict} = excluded.properties {RETURNING}"),
            Statement::InsertOrMerge => format!("{insert} {on_conflict} = {merged} excluded.properties {RETURNING}"),
            Statement::Replace => format!("{update} = $4 WHERE {POINT} {RETURNING}"),
            Statement::Merge => format!("{update} = {merged} $4 WHERE {POINT} {RETURNING}"),
            Statement::ReplaceVersion => format!("{update} = $4 WHERE {POINT} AND {} {RETURNING}", version(5)),
            Statement::MergeVersion => format!("{update} = {merged} $4 WHERE {POINT} AND {} {RETURNING}", version(5)),
            Statement::Delete => format!("DELETE FROM {table} AS t WHERE {POINT}"),
            Statement::DeleteVersion => format!("DELETE FROM {table} AS t WHERE {POINT} AND {}", version(3)),
            Statement::Get => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINT}"),
            Statement::GetTimestamp => format!("SELECT t.\"timestamp\" FROM {table} AS t WHERE {POINT}"),
            Statement::GetMany => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key"),
            Statement::LockMany => {
                format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key FOR UPDATE")
            }
            Statement::LookMany => format!("SELECT t.row_key, t.\"timestamp\" FROM {table} AS t WHERE {POINTS}"),
            Statement::DeleteMany => format!("DELETE FROM {table} AS t WHERE {POINTS} RETURNING t.row_key"),
            Statement::InsertMany => format!("{insert_many} ON CONFLICT DO NOTHING {RETURNING_MANY}"),
            Statement::InsertOrReplaceMany => {
                format!("{insert_many} {on_conflict} = excluded.properties {RETURNING_MANY}")
            }
            // A merge beyond the limits is left out instead of raising, so that the batch can tell which it was.
            Statement::InsertOrMergeMany => format!(
                "{insert_many} {on_conflict} = {merged} excluded.properties WHERE table_service.merge_fits(t.partition_key, t.row_key, t.properties, excluded.properties) {RETURNING_MANY}"
            ),
            // Not a join: with few rows in the statistics the planner would read the whole partition for it.
            Statement::ReplaceMany => {
                format!("{update} = ($4)[pg_catalog.array_position($2, t.row_key)] WHERE {POINTS} {RETURNING_MANY}")
            }
        }
    }

    fn parameter_types(self, properties: pg_sys::Oid) -> Vec<pg_sys::Oid> {
        let (text, timestamp) = (pg_sys::TEXTOID, pg_sys::TIMESTAMPTZOID);
        match self {
            Statement::Insert
            | Statement::InsertOrRaise
            | Statement::InsertOrReplace
            | Statement::InsertOrMerge
            | Statement::Replace
            | Statement::Merge => vec![text, text, timestamp, properties],
            Statement::ReplaceVersion | Statement::MergeVersion => vec![text, text, timestamp, properties, timestamp],
            Statement::Delete | Statement::Get | Statement::GetTimestamp => vec![text, text],
            Statement::DeleteVersion => vec![text, text, timestamp],
            Statement::Scan(shape) => shape.parameter_types(),
            Statement::GetMany | Statement::LockMany | Statement::LookMany | Statement::DeleteMany => {
                vec![text, pg_sys::TEXTARRAYOID]
            }
            Statement::InsertMany
            | Statement::InsertOrReplaceMany
            | Statement::InsertOrMergeMany
            | Statement::ReplaceMany => {
                // SAFETY: a syscache look-up.
                let properties_array = unsafe { pg_sys::get_array_type(properties) };
                vec![text, pg_sys::TEXTARRAYOID, timestamp, properties_array]
            }
        }
    }

    /// Whether PostgreSQL may plan it as it sees fit. Everything else names its keys, or stops early.
    fn any_plan(self) -> bool {
        matches!(self, Statement::Scan(shape) if shape.any_plan())
    }

    /// A read sees the caller's snapshot; everything else, and the second look of a write, takes a new one.
    fn is_read(self) -> bool {
        matches!(self, Statement::Get | Statement::GetMany | Statement::Scan(_))
    }
}

/// A plan that SPI keeps until it is dropped.
struct KeptPlan {
    plan: NonNull<pg_sys::_SPI_plan>,
    /// Whether PostgreSQL chooses freely how to do it.
    any_plan: bool,
}

impl Drop for KeptPlan {
    fn drop(&mut self) {
        // SAFETY: the plan was kept, and nobody executes it: execution holds a reference of its own.
        unsafe { pg_sys::SPI_freeplan(self.plan.as_ptr()) };
    }
}

impl KeptPlan {
    /// Plans the statement if it has no valid plan. The table is locked, so nothing invalidates the plan before it runs.
    fn make_ready(&self) {
        if self.generic_plan().is_none() {
            // SAFETY: a kept plan of one statement; the reference that this takes is given back.
            let make = || unsafe {
                let planned = pg_sys::SPI_plan_get_cached_plan(self.plan.as_ptr());
                if !planned.is_null() {
                    pg_sys::ReleaseCachedPlan(planned, pg_sys::CurrentResourceOwner);
                }
            };
            if self.any_plan { make() } else { planning_for_keys(make) }
        }
    }

    /// The plan that executing the statement will use, if there is a valid one.
    fn generic_plan(&self) -> Option<&pg_sys::CachedPlan> {
        // SAFETY: a kept plan has one source for its one statement, and its plan lives as long as the source.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan.as_ptr());
            if sources.is_null() || (*sources).length != 1 {
                return None;
            }
            let source = (*(*sources).elements).ptr_value.cast::<pg_sys::CachedPlanSource>();
            let plan = (*source).gplan.as_ref()?;
            ((*source).is_valid && plan.is_valid).then_some(plan)
        }
    }

    /// Whether the plan begins with this kind of node.
    fn begins_with(&self, node: pg_sys::NodeTag) -> bool {
        // SAFETY: the plan of one statement is a list of one PlannedStmt.
        self.generic_plan().is_some_and(|plan| unsafe {
            let statements = plan.stmt_list;
            if statements.is_null() || (*statements).length != 1 {
                return false;
            }
            let statement = (*(*statements).elements).ptr_value.cast::<pg_sys::PlannedStmt>();
            (*(*statement).planTree).type_ == node
        })
    }
}

/// Runs `f`, which plans a statement, without the plans that are right for the table as it is now and wrong for what it
/// may grow to before anybody plans again. All our statements name their keys; the primary key is never much worse.
fn planning_for_keys<R>(f: impl FnOnce() -> R) -> R {
    with_settings(
        &[
            (c"enable_indexscan", c"on"),
            (c"enable_seqscan", c"off"),
            (c"enable_bitmapscan", c"off"),
            (c"enable_sort", c"off"),
            (c"enable_hashjoin", c"off"),
            (c"enable_mergejoin", c"off"),
            (c"max_parallel_workers_per_gather", c"0"),
        ],
        f,
    )
}

/// Runs `f`, which executes a kept statement, so that it uses the plan that is kept, whatever the session prefers.
fn with_kept_plans<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a setting of PostgreSQL, which only this thread changes.
    let mode = unsafe { pg_sys::plan_cache_mode };
    if mode == pg_sys::PlanCacheMode::PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN as i32 {
        with_settings(&[(c"plan_cache_mode", c"auto")], f)
    } else {
        f()
    }
}

/// Runs `f` with other values of settings that anybody may set.
fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    // SAFETY: the settings are undone at the end of the nesting level, and by PostgreSQL when an error passes through.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = f();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

#[derive(Default)]
struct TablePlans {
    last_used: u64,
    plans: HashMap<Statement, Rc<KeptPlan>>,
}

/// By the stored name of the table: a plan finds its table by name, so after a rename the OID would mislead.
#[derive(Default)]
struct Plans {
    properties_type: pg_sys::Oid,
    uses: u64,
    tables: HashMap<String, TablePlans>,
}

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::default();
}

/// For tests: how many tables have kept statements.
#[cfg(any(test, feature = "pg_test"))]
pub fn tables_kept() -> usize {
    PLANS.with_borrow(|plans| plans.tables.len())
}

/// The rows of a statement, valid until the connection it ran in ends.
pub struct Rows {
    pub processed: u64,
    table: *mut pg_sys::SPITupleTable,
}

impl Rows {
    pub fn tuples(&self) -> &[pg_sys::HeapTuple] {
        if self.table.is_null() {
            return &[];
        }
        // SAFETY: SPI filled the table with this many tuples, and the connection is still open.
        unsafe {
            let count = usize::try_from((*self.table).numvals).unwrap_or_default();
            std::slice::from_raw_parts((*self.table).vals, count)
        }
    }

    /// A column of a row, counted from 1.
    pub fn value(&self, tuple: pg_sys::HeapTuple, column: i32) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        // SAFETY: the tuple is one of this table's, whose descriptor it has.
        let datum = unsafe { pg_sys::SPI_getbinval(tuple, (*self.table).tupdesc, column, &mut is_null) };
        (!is_null).then_some(datum)
    }

    /// The first column of the first row as `timestamptz`.
    pub fn timestamp(&self) -> Option<i64> {
        let first = *self.tuples().first()?;
        self.value(first, 1).map(|datum| datum.value() as i64)
    }
}

/// An open SPI connection. When an error passes through, PostgreSQL closes it.
pub struct Connection(());

/// Runs `f` with a connection, which ends when `f` returns. What `f` allocates through PostgreSQL goes with it.
pub fn connect<R>(f: impl FnOnce(&Connection) -> R) -> R {
    // SAFETY: SPI_connect and SPI_finish enclose `f`.
    unsafe {
        pg_sys::SPI_connect();
        let result = f(&Connection(()));
        pg_sys::SPI_finish();
        result
    }
}

/// [`connect`] for statements on tables with policies: they apply, and are no error, whatever the session prefers.
pub fn with_row_security<R>(f: impl FnOnce(&Connection) -> R) -> R {
    with_settings(&[(c"row_security", c"on")], || connect(f))
}

impl Connection {
    /// Runs a kept statement on `table`. `arguments` are those that [`Statement`] documents, in order.
    pub fn run<const N: usize>(&self, statement: Statement, table: &Table, mut arguments: [pg_sys::Datum; N]) -> Rows {
        let plan = self.plan(statement, table);
        plan.make_ready();
        // SAFETY: the plan was prepared for these parameters, none of which is NULL.
        rows(with_kept_plans(|| unsafe {
            pg_sys::SPI_execute_plan(
                plan.plan.as_ptr(),
                arguments.as_mut_ptr(),
                std::ptr::null(),
                statement.is_read(),
                0,
            )
        }))
    }

    /// Runs a scan, whose rows go to `receiver` one by one. `arguments` are those of the shape, in order.
    ///
    /// # Safety
    /// `receiver` is a valid receiver that outlives the call.
    pub unsafe fn scan(
        &self,
        shape: Shape,
        table: &Table,
        arguments: &[pg_sys::Datum],
        receiver: *mut pg_sys::DestReceiver,
    ) {
        let plan = self.plan(Statement::Scan(shape), table);
        plan.make_ready();
        // SAFETY: the parameters that the plan was prepared for, none of which is NULL.
        unsafe {
            let parameters = pg_sys::makeParamList(arguments.len() as i32);
            let slots = (*parameters).params.as_mut_slice(arguments.len());
            let types = shape.parameter_types();
            for ((slot, &value), type_oid) in slots.iter_mut().zip(arguments).zip(types) {
                slot.value = value;
                slot.isnull = false;
                slot.pflags = pg_sys::PARAM_FLAG_CONST as u16;
                slot.ptype = type_oid;
            }
            let options = pg_sys::SPIExecuteOptions {
                params: parameters,
                read_only: true,
                dest: receiver,
                ..Default::default()
            };
            let result = with_kept_plans(|| pg_sys::SPI_execute_plan_extended(plan.plan.as_ptr(), &options));
            if result < 0 {
                failed(result);
            }
        }
    }

    /// Whether a scan reads in key order as it goes, row by row: then the row that has just been tested is the next to
    /// arrive, and a page can be cut there.
    pub fn is_ordered(&self, shape: Shape, table: &Table) -> bool {
        let plan = self.plan(Statement::Scan(shape), table);
        plan.make_ready();
        plan.begins_with(pg_sys::NodeTag::T_IndexScan)
    }

    /// Whether the plan of a statement begins with this kind of node.
    pub fn is_planned_as(&self, statement: Statement, table: &Table, node: pg_sys::NodeTag) -> bool {
        let plan = self.plan(statement, table);
        plan.make_ready();
        plan.begins_with(node)
    }

    /// Runs a statement once. It has no parameters: only for definitions, whose names are quoted.
    pub fn run_definition(&self, sql: &str) {
        let sql = c_string(sql);
        // SAFETY: a valid statement text.
        rows(unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) });
    }

    /// Runs a read once, with parameters.
    pub fn read<const N: usize>(&self, sql: &str, types: [pg_sys::Oid; N], arguments: [pg_sys::Datum; N]) -> Rows {
        self.execute(sql, types, arguments, true)
    }

    /// Runs a write once, with parameters.
    pub fn write<const N: usize>(&self, sql: &str, types: [pg_sys::Oid; N], arguments: [pg_sys::Datum; N]) {
        self.execute(sql, types, arguments, false);
    }

    fn execute<const N: usize>(
        &self,
        sql: &str,
        mut types: [pg_sys::Oid; N],
        mut arguments: [pg_sys::Datum; N],
        is_read: bool,
    ) -> Rows {
        let sql = c_string(sql);
        // SAFETY: as many types as arguments, none of which is NULL.
        rows(unsafe {
            pg_sys::SPI_execute_with_args(
                sql.as_ptr(),
                N as i32,
                types.as_mut_ptr(),
                arguments.as_mut_ptr(),
                std::ptr::null(),
                is_read,
                0,
            )
        })
    }

    /// The plan that PostgreSQL makes for a scan that names its keys as literals.
    pub fn explain(&self, sql: &str) -> String {
        let mut lines = Vec::new();
        planning_for_keys(|| {
            let sql = c_string(&format!("EXPLAIN (COSTS OFF) {sql}"));
            // SAFETY: a valid statement text. EXPLAIN is a command, which SPI does not run as a read, although it is one.
            let rows = rows(unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) });
            for &tuple in rows.tuples() {
                // SAFETY: the result of EXPLAIN is one column of type text.
                let line = rows
                    .value(tuple, 1)
                    .and_then(|line| unsafe { String::from_datum(line, false) });
                lines.extend(line);
            }
        });
        lines.join("\n")
    }

    fn plan(&self, statement: Statement, table: &Table) -> Rc<KeptPlan> {
        let properties_type = catalog::properties_type();
        let kept = PLANS.with_borrow_mut(|plans| {
            if plans.properties_type != properties_type {
                // The extension was dropped and created again: parameters have another type.
                plans.tables.clear();
                plans.properties_type = properties_type;
            }
            plans.uses += 1;
            let uses = plans.uses;
            let table = plans.tables.get_mut(table.name())?;
            table.last_used = uses;
            table.plans.get(&statement).cloned()
        });
        if let Some(plan) = kept {
            return plan;
        }
        let plan = Rc::new(prepare(statement, table, properties_type));
        PLANS.with_borrow_mut(|plans| {
            if plans.tables.len() >= TABLES_KEPT && !plans.tables.contains_key(table.name()) {
                let oldest = plans.tables.iter().min_by_key(|(_, plans)| plans.last_used);
                if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                    plans.tables.remove(&name);
                }
            }
            let last_used = plans.uses;
            let kept = plans.tables.entry(table.name().to_owned()).or_default();
            kept.last_used = last_used;
            kept.plans.insert(statement, plan.clone());
        });
        plan
    }
}

fn prepare(statement: Statement, table: &Table, properties_type: pg_sys::Oid) -> KeptPlan {
    let sql = c_string(&statement.sql(&table.qualified_name()));
    let mut types = statement.parameter_types(properties_type);
    let any_plan = statement.any_plan();
    let options = if any_plan {
        pg_sys::CURSOR_OPT_PARALLEL_OK
    } else {
        pg_sys::CURSOR_OPT_FAST_PLAN
    };
    // SAFETY: a statement text with as many parameter types as it has parameters.
    unsafe {
        let plan = pg_sys::SPI_prepare_cursor(
            sql.as_ptr(),
            types.len() as i32,
            types.as_mut_ptr(),
            (pg_sys::CURSOR_OPT_GENERIC_PLAN | options) as i32,
        );
        match NonNull::new(plan) {
            Some(plan) => {
                pg_sys::SPI_keepplan(plan.as_ptr());
                KeptPlan { plan, any_plan }
            }
            None => failed(pg_sys::SPI_result),
        }
    }
}

fn rows(result: i32) -> Rows {
    if result < 0 {
        failed(result);
    }
    // SAFETY: SPI sets both when a statement has succeeded.
    unsafe {
        Rows {
            processed: pg_sys::SPI_processed,
            table: pg_sys::SPI_tuptable,
        }
    }
}

/// SPI itself refuses a statement only for a mistake in this file; errors of the statement are raised.
#[allow(unreachable_code)] // ereport! of an ERROR does not return, and does not say so in its type.
fn failed(result: i32) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("SPI refused a statement: code {result}")
    );
    unreachable!()
}

/// Statement texts are made of validated names and constants, which have no NUL.
fn c_string(sql: &str) -> CString {
    CString::new(sql).unwrap_or_default()
}

/// Runs `f` in a subtransaction. When it fails or raises, everything it did is undone, its locks are free, and the
/// failure comes back: the inner one is `f`'s own, the outer one was raised.
pub fn in_subtransaction<R, E>(
    f: impl FnOnce() -> Result<R, E> + std::panic::UnwindSafe,
) -> Result<Result<R, E>, Box<CaughtError>> {
    // SAFETY: the usual frame of an internal subtransaction, as in PL/pgSQL's exception blocks: context and owner are
    // restored on either way out.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null::<c_char>());
        pg_sys::MemoryContextSwitchTo(context);
        let result = PgTryBuilder::new(move || Ok(f()))
            .catch_others(|error| Err(Box::new(error)))
            .catch_rust_panic(|error| Err(Box::new(error)))
            .execute();
        match &result {
            Ok(Ok(_)) => pg_sys::ReleaseCurrentSubTransaction(),
            Ok(Err(_)) | Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// The SQLSTATE of an error that was raised.
pub fn sqlerrcode(error: &CaughtError) -> PgSqlErrorCode {
    report(error).sql_error_code()
}

/// Its message.
pub fn message(error: &CaughtError) -> &str {
    report(error).message()
}

fn report(error: &CaughtError) -> &ErrorReportWithLevel {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report,
    }
}
