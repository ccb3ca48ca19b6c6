//! Calls of functions in FROM, and the queries by which the planner replaces them.
//!
//! PostgreSQL 19 and later ask the support function of a function for such a query. The query consists of OIDs, so no
//! name in it can resolve to an object of another user.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::planner::{Expression, Implied, TableRow, constant, ends_early, list};
#[cfg(since_pg19)]
use super::planner::{KEYS, all_of, comparison};
use crate::postgres::privileges::may_call;
use crate::postgres::{PlannerRequestArg, PropertiesArg, TextArg, catalog, elements, of_type};
#[cfg(since_pg19)]
use table_service_model::filter::Operator;

/// A call in FROM. The planner asks for the query that replaces it.
pub struct CallInFrom<'p> {
    root: *mut pg_sys::PlannerInfo,
    arguments: Vec<*mut pg_sys::Node>,
    request: PhantomData<&'p ()>,
}

/// Which entities of a table a query selects.
#[cfg_attr(
    not(since_pg19),
    expect(dead_code, reason = "no PostgreSQL before 19 asks for a query")
)]
pub struct Selection {
    /// All of these hold.
    pub conditions: Vec<Expression>,
    /// Whether they come in key order.
    pub is_ordered: bool,
    /// How many at most.
    pub top: Option<i64>,
}

impl<'p> CallInFrom<'p> {
    /// Reads a request to the support function of a function. Returns `None` if it asks for something else.
    pub fn of(request: &'p PlannerRequestArg<'_>) -> Option<CallInFrom<'p>> {
        let (root, call) = in_from(request)?;
        Some(CallInFrom {
            root,
            // SAFETY: the arguments of a call are a list of expressions.
            arguments: unsafe { elements(call.args) },
            request: PhantomData,
        })
    }

    /// Returns an argument that is a constant of this type: `Some(None)` for NULL, and `None` for any other expression.
    fn constant<T: FromDatum>(&self, number: usize, of_type_oid: pg_sys::Oid) -> Option<Option<T>> {
        let argument = *self.arguments.get(number)?;
        // SAFETY: a node has the type of its tag. The type is that of the constant, which lives as long as the request.
        unsafe {
            let constant = of_type::<pg_sys::Const>(argument, pg_sys::NodeTag::T_Const)?;
            (constant.consttype == of_type_oid).then(|| T::from_datum(constant.constvalue, constant.constisnull))
        }
    }

    /// Returns a text, as [`CallInFrom::constant`] does.
    pub fn text(&self, number: usize) -> Option<Option<TextArg<'p>>> {
        self.constant(number, pg_sys::TEXTOID)
    }

    /// Returns a bigint, as [`CallInFrom::constant`] does.
    pub fn int8(&self, number: usize) -> Option<Option<i64>> {
        self.constant(number, pg_sys::INT8OID)
    }

    /// Returns a bag, as [`CallInFrom::constant`] does.
    pub fn properties(&self, number: usize) -> Option<Option<PropertiesArg<'p>>> {
        self.constant(number, catalog::properties_type())
    }

    /// Returns whether a statement may show the order of the call's rows: the call is the only item of its FROM, and
    /// the statement does not sort by the key. The rows of a join have no order, and an order there would keep the
    /// planner from choosing how to join. `is_partition` says that the RowKeys alone are the key.
    pub fn order_shows(&self, is_partition: bool) -> bool {
        // SAFETY: the planner's query is a valid tree, and its FROM is a tree of these nodes.
        unsafe {
            let statement = &*(*self.root).parse;
            only_item(statement.jointree.cast()).is_some_and(|item| !sorts_by_key(statement, item, is_partition))
        }
    }

    /// Discards the plan, in which the call stays, when the table changes: a query may be able to read the table then.
    pub fn stays_while(&self, table: pg_sys::Oid) {
        // SAFETY: the planner's query has the data that all levels of a statement share, and the list is in its memory.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo((*self.root).planner_cxt);
            let shared = (*self.root).glob;
            (*shared).relationOids = pg_sys::lappend_oid((*shared).relationOids, table);
            pg_sys::MemoryContextSwitchTo(caller);
        }
    }

    /// Returns the row of a table that a query reads.
    pub fn row(&self, table: pg_sys::Oid) -> Option<TableRow<'p>> {
        // SAFETY: the function makes a variable for the whole row of the first relation of a query.
        let row = unsafe { &*pg_sys::makeVar(1, 0, pg_sys::get_rel_type_id(table), -1, pg_sys::InvalidOid, 0) };
        TableRow::new(row, table)
    }

    /// Returns the condition that a row passes a filter of the extended dialect. `implied` says which conditions are
    /// beside it. Returns `None` if the caller may not call the function.
    pub fn passes(&self, row: &TableRow<'_>, filter: &str, implied: Implied) -> Option<Expression> {
        let [partition_key, row_key, timestamp, properties] = row.all_columns();
        let filter = constant(pg_sys::TEXTOID, pg_sys::DEFAULT_COLLATION_OID, filter.as_bytes());
        // SAFETY: it is a constant.
        unsafe { (*filter.0.cast::<pg_sys::Const>()).location = implied.location() };
        let arguments = [partition_key, row_key, timestamp, properties, filter];
        function(catalog::own_objects().filter_function, &arguments)
    }

    /// Returns whether the statement may end before it has all rows that the call returns.
    pub fn ends_early(&self) -> bool {
        // SAFETY: it is the planner's query.
        unsafe { ends_early(self.root) }
    }

    /// Returns whether the FROM of the call has other items.
    pub fn is_joined(&self) -> bool {
        // SAFETY: the planner's query is a valid tree.
        unsafe { only_item((*(*self.root).parse).jointree.cast()).is_none() }
    }

    /// Returns whether the statement takes fewer rows than the call returns: it has a LIMIT or a condition.
    pub fn is_narrowed(&self) -> bool {
        // SAFETY: the planner's query is a valid tree. A node has the type of its tag.
        unsafe {
            let statement = &*(*self.root).parse;
            let from = &*statement.jointree;
            // EXISTS or IN may have become a join.
            let is_item =
                |node: &*mut _| of_type::<pg_sys::RangeTblRef>(*node, pg_sys::NodeTag::T_RangeTblRef).is_some();
            let has_condition = !from.quals.is_null() || !elements(from.fromlist).iter().all(is_item);
            has_condition || !statement.limitCount.is_null() || !statement.limitOffset.is_null()
        }
    }

    /// Returns whether the statement returns other rows than the call, or another order.
    pub fn is_changed(&self) -> bool {
        // SAFETY: the planner's query is a valid tree.
        let statement = unsafe { &*(*self.root).parse };
        makes_other_rows(statement) || !statement.sortClause.is_null()
    }

    /// Answers with a query that selects entities of a locked table. The plan is for the caller's role alone.
    pub fn answer(&self, table: pg_sys::Oid, selection: &Selection) -> Option<pg_sys::Datum> {
        // SAFETY: the planner's query has the data that all levels of a statement share.
        unsafe { (*(*self.root).glob).dependsOnRole = true };
        select(table, selection)
    }
}

/// Returns the planner's query and the call that a request asks about, if it asks for the query of a call in FROM.
#[cfg(since_pg19)]
fn in_from<'p>(request: &'p PlannerRequestArg<'_>) -> Option<(*mut pg_sys::PlannerInfo, &'p pg_sys::FuncExpr)> {
    use pg_sys::NodeTag::{T_FuncExpr, T_SupportRequestInlineInFrom};
    // SAFETY: PostgreSQL sends requests to a support function, which are nodes. A node has the type of its tag.
    unsafe {
        let request = of_type::<pg_sys::SupportRequestInlineInFrom>(request.node, T_SupportRequestInlineInFrom)?;
        let call = of_type::<pg_sys::FuncExpr>((*request.rtfunc).funcexpr, T_FuncExpr)?;
        (!request.root.is_null()).then_some((request.root, call))
    }
}

/// No PostgreSQL before 19 asks.
#[cfg(not(since_pg19))]
fn in_from<'p>(_: &'p PlannerRequestArg<'_>) -> Option<(*mut pg_sys::PlannerInfo, &'p pg_sys::FuncExpr)> {
    None
}

/// Returns the call of a function of the extension that returns a Boolean. `None` if the caller may not call it.
fn function(function: pg_sys::Oid, arguments: &[Expression]) -> Option<Expression> {
    // A database with an older version of the extension may lack the function.
    let may_be_called = function != pg_sys::InvalidOid && may_call(function);
    // SAFETY: the arguments are expressions of the function's types.
    may_be_called.then(|| unsafe {
        let call = pg_sys::makeFuncExpr(
            function,
            pg_sys::BOOLOID,
            list(arguments),
            pg_sys::InvalidOid,
            pg_sys::DEFAULT_COLLATION_OID,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        );
        Expression(call.cast())
    })
}

/// Returns the number of the only item of a FROM. An item that the planner has made of an EXISTS or IN does not count.
///
/// # Safety
/// The node must be a valid part of a query's join tree.
unsafe fn only_item(node: *mut pg_sys::Node) -> Option<i32> {
    use pg_sys::JoinType::{JOIN_ANTI, JOIN_SEMI};
    use pg_sys::NodeTag::{T_FromExpr, T_JoinExpr, T_RangeTblRef};
    // SAFETY: a node has the type of its tag, and the parts of a join tree are valid.
    unsafe {
        if let Some(from) = of_type::<pg_sys::FromExpr>(node, T_FromExpr) {
            return match elements(from.fromlist).as_slice() {
                [only] => only_item(*only),
                _ => None,
            };
        }
        if let Some(join) = of_type::<pg_sys::JoinExpr>(node, T_JoinExpr) {
            let is_condition = join.rtindex == 0 && matches!(join.jointype, JOIN_SEMI | JOIN_ANTI);
            return is_condition.then(|| only_item(join.larg)).flatten();
        }
        of_type::<pg_sys::RangeTblRef>(node, T_RangeTblRef).map(|item| item.rtindex)
    }
}

/// Returns whether a statement returns other rows than those of its FROM.
fn makes_other_rows(statement: &pg_sys::Query) -> bool {
    let lists = [statement.groupClause, statement.groupingSets, statement.distinctClause];
    let has_functions = statement.hasAggs || statement.hasWindowFuncs || statement.hasTargetSRFs;
    has_functions || lists.iter().any(|list| !list.is_null())
}

/// Returns whether a statement returns the rows of an item of its FROM sorted by their key, so that nothing else gives them an order.
///
/// # Safety
/// The statement must be a valid query.
unsafe fn sorts_by_key(statement: &pg_sys::Query, item: i32, is_partition: bool) -> bool {
    // SAFETY: a node has the type of its tag. A sort clause is a list of references to elements of the target list.
    unsafe {
        let targets = elements::<pg_sys::TargetEntry>(statement.targetList);
        let sorted = elements::<pg_sys::SortGroupClause>(statement.sortClause);
        let sorts_by = |column: i16| {
            let is_column = |target: &pg_sys::TargetEntry| {
                of_type::<pg_sys::Var>(target.expr.cast(), pg_sys::NodeTag::T_Var).is_some_and(|it| {
                    it.varno as i64 == i64::from(item) && it.varattno == column && it.varlevelsup == 0
                })
            };
            sorted.iter().any(|sort| {
                let mut targets = targets.iter().map(|&target| &*target);
                targets.any(|target| target.ressortgroupref == (**sort).tleSortGroupRef && is_column(target))
            })
        };
        !makes_other_rows(statement) && sorts_by(2) && (is_partition || sorts_by(1))
    }
}

/// Makes the query that selects entities of a table, as PostgreSQL's parser would.
///
/// The conditions form a security barrier: a condition beside the call is tested only on rows that the function
/// returns. On other rows it might raise an error or reveal them. Only harmless ones (comparisons of keys) come first.
#[cfg(since_pg19)]
fn select(table: pg_sys::Oid, selection: &Selection) -> Option<pg_sys::Datum> {
    const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;
    let text = (pg_sys::TEXTOID, pg_sys::C_COLLATION_OID);
    let columns = [
        (c"partition_key", text),
        (c"row_key", text),
        (c"timestamp", (pg_sys::TIMESTAMPTZOID, pg_sys::InvalidOid)),
        (c"properties", (catalog::properties_type(), pg_sys::InvalidOid)),
    ];
    // SAFETY: the caller has locked the table and looked at it: it has these columns, and no others. The nodes get all their fields. The
    // lists are of pointers to nodes.
    unsafe {
        let relation = pg_sys::table_open(table, NO_LOCK);
        let state = pg_sys::make_parsestate(std::ptr::null_mut());
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let item = pg_sys::addRangeTableEntryForRelation(state, relation, lock, std::ptr::null_mut(), true, true);
        pg_sys::table_close(relation, NO_LOCK);
        let (entry, rights) = ((*item).p_rte, (*item).p_perminfo);
        if !selection.conditions.is_empty() {
            (*entry).securityQuals = list(&[all_of(&selection.conditions)]);
        }
        let query = PgBox::<pg_sys::Query>::alloc_node(pg_sys::NodeTag::T_Query).into_pg();
        (*query).commandType = pg_sys::CmdType::CMD_SELECT;
        (*query).canSetTag = true;
        (*query).rtable = (*state).p_rtable;
        (*query).rteperminfos = (*state).p_rteperminfos;
        for (number, (name, (of_type, collation))) in (1..).zip(columns) {
            let column = pg_sys::makeVar(1, number, of_type, -1, collation, 0);
            let name = pg_sys::pstrdup(name.as_ptr());
            let target = pg_sys::makeTargetEntry(column.cast(), number, name, false);
            (*query).targetList = pg_sys::lappend((*query).targetList, target.cast());
            let selected = i32::from(number) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            (*rights).selectedCols = pg_sys::bms_add_member((*rights).selectedCols, selected);
            if selection.is_ordered && number <= 2 {
                (*target).ressortgroupref = number as pg_sys::Index;
                let (family, of_type, _) = KEYS;
                let order = PgBox::<pg_sys::SortGroupClause>::alloc_node(pg_sys::NodeTag::T_SortGroupClause).into_pg();
                (*order).tleSortGroupRef = number as pg_sys::Index;
                (*order).eqop = comparison(Operator::Eq, family, of_type);
                (*order).sortop = comparison(Operator::Lt, family, of_type);
                (*order).hashable = true;
                (*query).sortClause = pg_sys::lappend((*query).sortClause, order.cast());
            }
        }
        let from = PgBox::<pg_sys::RangeTblRef>::alloc_node(pg_sys::NodeTag::T_RangeTblRef).into_pg();
        (*from).rtindex = 1;
        let from = pg_sys::lappend(std::ptr::null_mut(), from.cast());
        (*query).jointree = pg_sys::makeFromExpr(from, std::ptr::null_mut());
        if let Some(top) = selection.top {
            let (size, by_value) = (size_of::<i64>() as i32, true);
            let no_collation = pg_sys::InvalidOid;
            let top = pg_sys::makeConst(pg_sys::INT8OID, -1, no_collation, size, top.into(), false, by_value);
            (*query).limitCount = top.cast();
        }
        (*query).stmt_location = -1;
        pg_sys::free_parsestate(state);
        Some(pg_sys::Datum::from(query))
    }
}

/// No PostgreSQL before 19 asks.
#[cfg(not(since_pg19))]
fn select(_: pg_sys::Oid, _: &Selection) -> Option<pg_sys::Datum> {
    None
}
