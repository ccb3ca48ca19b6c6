//! Work on all entities that a filter selects: count, delete and update them, at once or in steps.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::datum::Interval;
use pgrx::prelude::*;
use table_service_model::filter::Plan;
use table_service_model::token::Operation;
use table_service_model::{ContinuationToken, Dialect, Error, Patch};

use super::filters::parse;
use super::results::{DeletedStep, UpdatedStep};
use crate::engine::bulk::{self, Bulk, Step};
use crate::postgres::{
    Call, Done, OrRaise, Procedure, PropertiesArg, StepsOut, Text, TextArg, TextArrayArg, Value, connect, raising,
    settings,
};
use crate::storage::arguments::{self, prevent_if_read_only, required};
use crate::storage::result_set::ResultSet;
use crate::storage::table::{Table, TableLock};

/// Returns how many entities pass a filter; every entity passes the filter NULL. `parameters` has the values of `@name` in
/// the filter.
#[pg_extern(stable, parallel_restricted)]
fn count_entities(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> i64 {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        let plan = Plan::new(parse(filter, parameters)?);
        let table = Table::open(table_name, TableLock::Read)?;
        Ok(bulk::count(&table, &plan))
    })
}

/// Deletes the entities that pass a filter, the first `top` of them in key order, and returns how many it has deleted.
///
/// Raises `InvalidInput` if the filter is NULL or blank.
#[pg_extern]
fn delete_entities(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    top: default!(Option<i64>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> i64 {
    Work::new(c"delete_entities()", table_name, filter, Given::Delete, parameters).at_once(top)
}

/// Sets the given properties of the entities that pass a filter and removes those whose names are in `remove`, of the first
/// `top` of them in key order. Keeps their other properties, and returns how many entities it has changed.
///
/// Raises `InvalidInput` if the filter is NULL or blank, and the errors of the limits.
#[pg_extern]
fn update_entities(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    remove: default!(Option<TextArrayArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> i64 {
    let change = Given::Update { properties, remove };
    Work::new(c"update_entities()", table_name, filter, change, parameters).at_once(top)
}

/// Deletes the first entities that pass a filter, in key order from a token on: at most `top`, for at most
/// `table_service.page_time_limit`. Returns how many it has deleted, and the token of the next step; without a token all is
/// done.
#[pg_extern]
fn delete_entities_step(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    top: default!(Option<i64>, "1000"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> DeletedStep {
    let work = Work::new(c"delete_entities_step()", table_name, filter, Given::Delete, parameters);
    work.one_step(top, continuation_token, call);
    DeletedStep
}

/// Changes the first entities that pass a filter as `update_entities` does, in key order from a token on: at most `top`, for
/// at most `table_service.page_time_limit`. Returns how many it has changed, and the token of the next step; without a token
/// all is done.
#[allow(clippy::too_many_arguments)]
#[pg_extern]
fn update_entities_step(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    remove: default!(Option<TextArrayArg<'_>>, "NULL"),
    top: default!(Option<i64>, "1000"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> UpdatedStep {
    let change = Given::Update { properties, remove };
    let work = Work::new(c"update_entities_step()", table_name, filter, change, parameters);
    work.one_step(top, continuation_token, call);
    UpdatedStep
}

/// Deletes the entities that pass a filter in steps, and commits after each.
#[allow(clippy::too_many_arguments)]
#[pg_extern(sql = "
CREATE PROCEDURE table_service.delete_entities_in_steps(
    table_name text, filter text, step bigint DEFAULT 1000, pause interval DEFAULT '0', parameters table_service.properties DEFAULT NULL,
    INOUT deleted bigint DEFAULT 0, INOUT continuation_token text DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn delete_entities_in_steps(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    step: Option<i64>,
    pause: Option<Interval>,
    parameters: Option<PropertiesArg<'_>>,
    deleted: Option<i64>,
    continuation_token: Option<TextArg<'_>>,
    call: Call<'_>,
) -> StepsOut {
    let procedure = Procedure::new(call, "delete_entities_in_steps()", "deleted").or_raise();
    let work = Work::new(
        c"delete_entities_in_steps()",
        table_name,
        filter,
        Given::Delete,
        parameters,
    );
    work.in_steps(procedure, (step, pause), deleted, continuation_token)
}

/// Changes the entities that pass a filter as `update_entities` does, in steps, and commits after each.
#[allow(clippy::too_many_arguments)]
#[pg_extern(sql = "
CREATE PROCEDURE table_service.update_entities_in_steps(
    table_name text, filter text, properties table_service.properties, remove text[] DEFAULT NULL, step bigint DEFAULT 1000,
    pause interval DEFAULT '0', parameters table_service.properties DEFAULT NULL,
    INOUT updated bigint DEFAULT 0, INOUT continuation_token text DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn update_entities_in_steps(
    table_name: Option<TextArg<'_>>,
    filter: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    remove: Option<TextArrayArg<'_>>,
    step: Option<i64>,
    pause: Option<Interval>,
    parameters: Option<PropertiesArg<'_>>,
    updated: Option<i64>,
    continuation_token: Option<TextArg<'_>>,
    call: Call<'_>,
) -> StepsOut {
    let procedure = Procedure::new(call, "update_entities_in_steps()", "changed").or_raise();
    let change = Given::Update { properties, remove };
    let work = Work::new(c"update_entities_in_steps()", table_name, filter, change, parameters);
    work.in_steps(procedure, (step, pause), updated, continuation_token)
}

/// Removes all entities of a table, by TRUNCATE. Policies, rights and indexes stay.
#[pg_extern]
fn clear_table(table_name: Option<TextArg<'_>>) {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        prevent_if_read_only(c"clear_table()");
        let table = Table::open_to_truncate(table_name)?;
        connect(|spi| spi.run_definition(&format!("TRUNCATE {}", table.name())));
        Ok(())
    });
}

/// The arguments that say which entities are changed, and how, checked.
struct Work<'a> {
    function: &'static CStr,
    table_name: &'a str,
    filter: Option<TextArg<'a>>,
    change: Given<'a>,
    parameters: Option<PropertiesArg<'a>>,
    plan: Plan,
    /// `None` means a delete.
    patch: Option<Patch<'a>>,
}

/// How they are changed.
enum Given<'a> {
    Delete,
    Update {
        properties: Option<PropertiesArg<'a>>,
        remove: Option<TextArrayArg<'a>>,
    },
}

impl<'a> Work<'a> {
    fn new(
        function: &'static CStr,
        table_name: Option<TextArg<'a>>,
        filter: Option<TextArg<'a>>,
        change: Given<'a>,
        parameters: Option<PropertiesArg<'a>>,
    ) -> Work<'a> {
        raising(|| {
            let table_name = required("table_name", table_name)?.get();
            if filter.is_none_or(|filter| filter.get().trim().is_empty()) {
                return Err(Error::argument(
                    "filter must not be NULL or blank. All entities pass the filter 'true', and clear_table() empties a table",
                ));
            }
            let patch = match &change {
                Given::Delete => None,
                Given::Update { properties, remove } => {
                    let properties = properties.map(|properties| properties.get());
                    Some(Patch::new(properties, None, arguments::names(remove.as_ref()))?)
                }
            };
            let plan = Plan::new(parse(filter, parameters)?);
            Ok(Work {
                function,
                table_name,
                filter,
                change,
                parameters,
                plan,
                patch,
            })
        })
    }

    /// Returns the operation that the tokens of steps continue.
    fn operation(&self, table: &Table) -> Operation {
        let text = |text: Option<TextArg<'a>>| text.map(|text| text.get().as_bytes());
        let bag = |bag: Option<PropertiesArg<'a>>| bag.map(|bag| bag.get().as_bytes());
        let oid = u32::from(table.oid()).to_le_bytes();
        let (kind, properties, remove): (&[u8], _, _) = match &self.change {
            Given::Delete => (b"delete", None, None),
            Given::Update { properties, remove } => (b"update", *properties, remove.as_ref()),
        };
        let removed = remove.into_iter().flat_map(TextArrayArg::iter).map(text);
        // The service's dialect is left out: it is that of all tokens of earlier versions.
        let dialect = match settings::filter_dialect() {
            Dialect::Service => None,
            Dialect::Extended => Some(Some(b"extended".as_slice())),
        };
        let parts = [
            Some(kind),
            Some(oid.as_slice()),
            text(self.filter),
            bag(self.parameters),
            bag(properties),
            remove.map(|_| b"remove".as_slice()),
        ];
        Operation::new(dialect.into_iter().chain(parts).chain(removed))
    }

    fn at_once(&self, top: Option<i64>) -> i64 {
        let changed = raising(|| {
            let top = arguments::top(top)?;
            let table = self.open()?;
            let bulk = self.bulk(&table);
            match top {
                None => bulk.run(),
                Some(top) => Ok(bulk.step(None, top, Duration::MAX)?.changed),
            }
        });
        i64::try_from(changed).unwrap_or(i64::MAX)
    }

    /// Does one step, and returns its result as a row.
    fn one_step(&self, top: Option<i64>, token: Option<TextArg<'_>>, call: Call<'_>) {
        let done = raising(|| self.step(arguments::top(top)?.unwrap_or(STEP), token.map(TextArg::get)));
        let token = done.next.as_deref().map(Text::new);
        let count = i64::try_from(done.count).unwrap_or(i64::MAX);
        ResultSet::open(call).push([Some(Value::int8(count)), token.as_ref().map(Text::value)]);
    }

    fn step(&self, top: u64, token: Option<&str>) -> Result<Done, Error> {
        let table = self.open()?;
        let operation = self.operation(&table);
        let start = token
            .map(|token| ContinuationToken::parse_step(token, operation))
            .transpose()?;
        let bulk = self.bulk(&table);
        let Step { changed, next } = bulk.step(start, top, settings::page_time_limit())?;
        let next = next.map(|(partition_key, row_key)| {
            ContinuationToken::Step {
                operation,
                partition_key,
                row_key,
            }
            .encode()
        });
        Ok(Done { count: changed, next })
    }

    fn in_steps(
        &self,
        procedure: Procedure<'_>,
        (step, pause): (Option<i64>, Option<Interval>),
        count: Option<i64>,
        token: Option<TextArg<'_>>,
    ) -> StepsOut {
        let (step, pause, count) = raising(|| {
            let step = u64::try_from(required("step", step)?).ok().filter(|&step| step > 0);
            let step = step.ok_or_else(|| Error::argument("step must be above 0"))?;
            let pause = u64::try_from(required("pause", pause)?.as_micros());
            let pause = pause.map_err(|_| Error::argument("pause must not be negative, nor above 500,000 years"))?;
            let count = u64::try_from(count.unwrap_or_default());
            let count = count.map_err(|_| Error::argument("The number of entities so far must not be negative"))?;
            if let Some(token) = token.map(TextArg::get) {
                let table = procedure.before(count, token, || self.open());
                ContinuationToken::parse_step(token, self.operation(&table))?;
            }
            Ok((step, Duration::from_micros(pause), count))
        });
        procedure.run(count, token.map(|token| token.get().to_owned()), pause, |token| {
            self.step(step, token)
        })
    }

    fn open(&self) -> Result<Table, Error> {
        prevent_if_read_only(self.function);
        Table::open(self.table_name, TableLock::Write)
    }

    fn bulk<'b>(&'b self, table: &'b Table) -> Bulk<'b> {
        Bulk {
            table,
            plan: &self.plan,
            patch: self.patch.as_ref(),
        }
    }
}

/// How many entities a step changes by default.
const STEP: u64 = 1000;
