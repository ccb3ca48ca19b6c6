//! Open statements. Their rows are fetched one by one.
//!
//! The code asks the executor for each row, as the executor's own loop does. A fetch through a portal would begin and
//! end a run for each row, which takes longer than most rows.

use std::any::Any;
use std::marker::PhantomData;
use std::rc::Rc;

use pgrx::prelude::*;

use super::plan::{KeptPlan, only_statement};
use super::row::{Row, is_entity};
use crate::postgres::guarded::guarded;
use crate::postgres::guc::with_sendable_values;
use crate::postgres::relation::is_empty;
use crate::postgres::{Connection, RowMemory, while_running};

/// A statement that returns entities, and is open until this is dropped.
pub struct Fetch<'f> {
    source: Source,
    query: *mut pg_sys::QueryDesc,
    top: *mut pg_sys::PlanState,
    state: *mut pg_sys::EState,
    resources: pg_sys::ResourceOwner,
    memory: RowMemory,
    /// How many rows were fetched. `None` before the first one is.
    rows: Option<u64>,
    /// The slot with the last row. NULL if there is none.
    slot: *mut pg_sys::TupleTableSlot,
    /// The owner of the parameters' values, if it is not the caller.
    _values: Option<Box<dyn Any>>,
    /// Whether workers may run parts of it.
    is_parallel: bool,
    connection: PhantomData<&'f Connection>,
}

/// Where a statement comes from.
enum Source {
    /// A plan for all values. The statement also needs its text. An error closes the statement with its resources.
    Kept {
        _plan: Rc<KeptPlan>,
        cached: *mut pg_sys::CachedPlan,
    },
    /// A plan for its values.
    Portal(pg_sys::Portal),
}

impl Fetch<'_> {
    /// Opens a statement by a plan for all values.
    ///
    /// # Safety
    /// The parameters must be those of the plan. They must be valid, and the connection open, as long as this lives.
    pub(super) unsafe fn by_plan<'f>(
        plan: Rc<KeptPlan>,
        parameters: pg_sys::ParamListInfo,
        is_read: bool,
    ) -> Fetch<'f> {
        // SAFETY: the caller's promise. The calls are those of PostgreSQL's SPI: a write, and a look-up that belongs to
        // it, see all earlier writes. The statement refers to the plan, which is released when the statement is closed.
        unsafe {
            let cached = while_running(&plan.text, || pg_sys::SPI_plan_get_cached_plan(plan.as_ptr()));
            let Some(statement) = cached.as_ref().and_then(|cached| only_statement(cached.stmt_list)) else {
                refuse();
            };
            if is_read {
                pg_sys::PushActiveSnapshot(pg_sys::GetActiveSnapshot());
            } else {
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            }
            let query = pg_sys::CreateQueryDesc(
                statement,
                plan.text.as_ptr(),
                pg_sys::GetActiveSnapshot(),
                std::ptr::null_mut(),
                pg_sys::None_Receiver,
                parameters,
                std::ptr::null_mut(),
                0,
            );
            // Citus may write the values down here.
            with_sendable_values(|| pg_sys::ExecutorStart(query, 0));
            Fetch::new(
                Source::Kept { _plan: plan, cached },
                query,
                pg_sys::CurrentResourceOwner,
            )
        }
    }

    /// Runs the statement of a portal.
    ///
    /// # Safety
    /// It must be an open portal of a SELECT that has not run, and the connection must be open as long as this lives.
    pub(super) unsafe fn by_portal<'f>(portal: pg_sys::Portal) -> Fetch<'f> {
        // SAFETY: the caller's promise. PostgreSQL runs a portal in the same way.
        unsafe {
            // Code of users that runs meanwhile, for example in a policy, can neither close nor move an active portal.
            pg_sys::MarkPortalActive(portal);
            (*portal).visible = false;
            let query = (*portal).queryDesc;
            pg_sys::PushActiveSnapshot((*query).snapshot);
            Fetch::new(Source::Portal(portal), query, (*portal).resowner)
        }
    }

    /// # Safety
    /// The statement must be open.
    unsafe fn new<'f>(source: Source, query: *mut pg_sys::QueryDesc, resources: pg_sys::ResourceOwner) -> Fetch<'f> {
        // SAFETY: the caller's promise.
        unsafe {
            if !is_entity((*query).tupDesc) {
                refuse();
            }
            Fetch {
                source,
                query,
                top: (*query).planstate,
                state: (*query).estate,
                resources,
                memory: RowMemory::new(),
                rows: None,
                slot: std::ptr::null_mut(),
                _values: None,
                is_parallel: false,
                connection: PhantomData,
            }
        }
    }

    /// Lets workers run parts of the plan, if it has such parts. Call it before the first row is fetched, and write nothing until the
    /// statement is closed.
    pub fn permit_workers(&mut self) {
        // SAFETY: the statement is open.
        unsafe {
            self.is_parallel = (*(*self.query).plannedstmt).parallelModeNeeded;
            if self.is_parallel {
                (*self.state).es_use_parallel_mode = true;
                pg_sys::EnterParallelMode();
            }
        }
    }

    /// Keeps the owner of the parameters' values as long as the statement is open.
    pub(super) fn keep(mut self, values: impl Any) -> Self {
        self._values = Some(Box::new(values));
        self
    }

    /// Fetches the next row. Returns false after the last one. Memory that PostgreSQL allocates from now on is freed
    /// when the row after it is fetched.
    pub fn next(&mut self) -> bool {
        self.slot = match self.rows {
            Some(_) => self.next_slot(),
            None => self.first_slot(),
        };
        !self.slot.is_null()
    }

    /// Returns the row that was fetched last.
    ///
    /// Raises an internal error if there is none.
    pub fn row(&self) -> Row<'_> {
        if self.slot.is_null() {
            refuse();
        }
        // SAFETY: the slot has a row, and `new` has checked its columns. It keeps the row until the next one is fetched, which
        // needs `&mut self` and so ends the row's borrow.
        unsafe { Row::of(self.slot) }
    }

    /// Fetches the next row and returns it.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        self.next().then(|| self.row())
    }

    /// Returns the slot with the next row, or NULL after the last one. It does the same as PostgreSQL's own loop.
    #[inline(always)]
    fn next_slot(&mut self) -> *mut pg_sys::TupleTableSlot {
        let top = self.top;
        // SAFETY: the statement is open, so its parts are valid or NULL. The memory and the resources are globals of this process,
        // which has one thread.
        unsafe {
            self.memory.clear();
            if let Some(row) = (*self.state).es_per_tuple_exprcontext.as_ref() {
                pg_sys::MemoryContextReset(row.ecxt_per_tuple_memory);
            }
            let Some(run) = (*top).ExecProcNode else { refuse() };
            let resources = pg_sys::CurrentResourceOwner;
            pg_sys::CurrentResourceOwner = self.resources;
            pg_sys::CurrentMemoryContext = (*self.state).es_query_cxt;
            let slot = guarded(|| run(top));
            pg_sys::CurrentResourceOwner = resources;
            self.memory.resume();
            if slot.is_null() || is_empty(slot) {
                return std::ptr::null_mut();
            }
            self.rows = self.rows.map(|rows| rows + 1);
            match (*self.state).es_junkFilter {
                none if none.is_null() => slot,
                filter => pg_sys::ExecFilterJunk(filter, slot),
            }
        }
    }

    /// Runs `f` with the memory and the resources of the statement.
    fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: as in `next_slot`.
        unsafe {
            let (memory, resources) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
            pg_sys::CurrentMemoryContext = (*self.state).es_query_cxt;
            pg_sys::CurrentResourceOwner = self.resources;
            let result = f();
            pg_sys::CurrentResourceOwner = resources;
            pg_sys::CurrentMemoryContext = memory;
            result
        }
    }

    /// Does the same as `next_slot`, for the first row. Citus has all rows before it returns the first one, and sends
    /// the values to other servers for that.
    #[cold]
    fn first_slot(&mut self) -> *mut pg_sys::TupleTableSlot {
        with_sendable_values(|| {
            self.begin();
            self.next_slot()
        })
    }

    /// Begins the run. Libraries that watch statements see it, though it fetches nothing yet: Citus prepares its own then.
    fn begin(&mut self) {
        let direction = pg_sys::ScanDirection::NoMovementScanDirection;
        // SAFETY: the statement is open.
        self.within(|| unsafe {
            #[cfg(not(since_pg18))]
            pg_sys::ExecutorRun(self.query, direction, 0, false);
            #[cfg(since_pg18)]
            pg_sys::ExecutorRun(self.query, direction, 0);
        });
        self.memory.enter();
        self.rows = Some(0);
        self.measure(None);
    }

    /// Starts PostgreSQL's measurement of the run, or stops it after this many rows, if a library has asked for it.
    fn measure(&self, rows: Option<u64>) {
        // SAFETY: the statement is open. The measurement is NULL if no library has asked for it.
        unsafe {
            #[cfg(not(since_pg19))]
            match ((*self.query).totaltime, rows) {
                (total, _) if total.is_null() => {}
                (total, None) => pg_sys::InstrStartNode(total),
                (total, Some(rows)) => pg_sys::InstrStopNode(total, rows as f64),
            }
            #[cfg(since_pg19)]
            match ((*self.query).query_instr, rows) {
                (total, _) if total.is_null() => {}
                (total, None) => pg_sys::InstrStart(total),
                (total, Some(_)) => pg_sys::InstrStop(total),
            }
        }
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.memory.leave();
        // SAFETY: no error has passed, so everything that was opened is still open.
        unsafe {
            if self.is_parallel {
                self.within(|| pg_sys::ExecShutdownNode(self.top));
                pg_sys::ExitParallelMode();
            }
            if let Some(rows) = self.rows {
                (*self.state).es_processed = rows;
                #[cfg(since_pg16)]
                {
                    (*self.state).es_total_processed = rows;
                }
                self.measure(Some(rows));
            }
            match self.source {
                Source::Kept { cached, .. } => {
                    let parameters = (*self.query).params;
                    pg_sys::ExecutorFinish(self.query);
                    pg_sys::ExecutorEnd(self.query);
                    pg_sys::FreeQueryDesc(self.query);
                    if !parameters.is_null() {
                        pg_sys::pfree(parameters.cast());
                    }
                    pg_sys::ReleaseCachedPlan(cached, self.resources);
                }
                Source::Portal(portal) => {
                    (*portal).status = pg_sys::PortalStatus::PORTAL_READY;
                    pg_sys::SPI_cursor_close(portal);
                }
            }
            pg_sys::PopActiveSnapshot();
        }
    }
}

fn refuse() -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        "a statement that reads entities must be one that returns their columns"
    );
}
