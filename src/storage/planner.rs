//! The planner's requests about the function `matches`, and the expressions that answer them.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::filter::{Key, Operator};

use super::columns::ColumnNumbers;
use super::indexes::property_in;
use crate::postgres::btree::strategy;
use crate::postgres::{PlannerRequestArg, PropertiesArg, TextArg, catalog, elements, of_type, varlena};

/// A request to simplify a call of `matches` with a filter that is known when the query is planned.
pub struct SimplifyRequest<'p> {
    call: *mut pg_sys::FuncExpr,
    pub filter: TextArg<'p>,
    pub parameters: Option<PropertiesArg<'p>>,
    /// `None` if the entity is not the row of a table.
    pub on_row: Option<MatchesCall<'p>>,
    /// Whether the call is certainly in the query's text, and not in an expression of an index.
    pub is_in_text: bool,
}

/// The row of a table in an expression.
pub struct TableRow<'p> {
    row: &'p pg_sys::Var,
    columns: ColumnNumbers,
}

/// A call of `matches` on the row of a table.
pub struct MatchesCall<'p> {
    pub row: TableRow<'p>,
    /// The table. The planner has locked it.
    pub table: pg_sys::Oid,
    /// Whether its query may end before it has all rows that pass.
    pub ends_early: bool,
}

/// The conditions that a call already has because its filter implies them.
///
/// The filter's location in the query's text says it. Otherwise the planner, which may simplify a call again, would add
/// conditions without end. Nothing else uses negative locations except -1, which means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Implied {
    /// Conditions on keys.
    pub keys: bool,
    /// Conditions on entries of property indexes.
    pub entries: bool,
}

impl Implied {
    pub(super) fn location(self) -> c_int {
        -16 - c_int::from(self.keys) - 2 * c_int::from(self.entries)
    }

    fn at(location: c_int) -> Option<Implied> {
        [(true, false), (false, true), (true, true)]
            .map(|(keys, entries)| Implied { keys, entries })
            .into_iter()
            .find(|implied| implied.location() == location)
    }
}

/// A condition of the planner.
#[derive(Clone, Copy)]
pub struct Expression(pub(super) *mut pg_sys::Expr);

/// A request of the planner about a call of `matches`.
pub enum Request<'p> {
    /// To simplify it. The answer may have the conditions that it implies.
    Simplify(SimplifyRequest<'p>),
    /// To estimate which part of the entities passes.
    Selectivity(SelectivityRequest<'p>),
    /// To estimate how long a call takes.
    Cost(CostRequest<'p>),
}

/// A request to estimate how long a call takes.
pub struct CostRequest<'p>(&'p mut pg_sys::SupportRequestCost);

/// Estimates which part of the entities has entries with `lower <= entry < upper` in the index on a property: takes the property
/// and the bounds.
pub type Estimate<'e> = &'e dyn Fn(&str, [&[u8]; 2]) -> Option<f64>;

/// A request to estimate which part of the entities passes a filter.
pub struct SelectivityRequest<'p> {
    request: &'p mut pg_sys::SupportRequestSelectivity,
    row: Option<&'p pg_sys::Var>,
    pub filter: TextArg<'p>,
    pub parameters: Option<PropertiesArg<'p>>,
    /// The table of the entity.
    pub table: Option<pg_sys::Oid>,
    /// Whether the call is one of `entity_passes`, which takes the columns of the entity.
    pub are_columns: bool,
    /// Which conditions the call has. Their selectivity is estimated separately.
    pub has: Implied,
}

impl<'p> Request<'p> {
    /// Reads a request to the support function of `matches`. Returns `None` if there is no answer to it.
    pub fn of(request: &'p PlannerRequestArg<'_>) -> Option<Request<'p>> {
        use pg_sys::NodeTag::{T_SupportRequestCost, T_SupportRequestSelectivity, T_SupportRequestSimplify};
        let request = request.node;
        // SAFETY: PostgreSQL sends requests to a support function, which are nodes. A node has the type of its tag, and
        // the planner lets its request be changed. The call of a request has its arguments, and the constants live as
        // long as the expression.
        unsafe {
            if let Some(simplify) = of_type::<pg_sys::SupportRequestSimplify>(request, T_SupportRequestSimplify) {
                let arguments = Arguments::of((*simplify.fcall).args, simplify.root)?;
                // Without a query, PostgreSQL simplifies an expression of an index, which stays as it is. From
                // PostgreSQL 19 on it also does so with a query, when it gathers the tables of the query's text.
                let root = simplify.root.as_ref()?;
                if arguments.are_columns || arguments.has.is_some() {
                    return None;
                }
                let on_row = arguments.row.and_then(|(table, row)| {
                    Some(MatchesCall {
                        row: TableRow::new(row, table)?,
                        table,
                        ends_early: ends_early(simplify.root),
                    })
                });
                return Some(Request::Simplify(SimplifyRequest {
                    call: simplify.fcall,
                    filter: arguments.filter,
                    parameters: arguments.parameters,
                    on_row,
                    is_in_text: root.simple_rel_array.is_null(),
                }));
            }
            if of_type::<pg_sys::SupportRequestCost>(request, T_SupportRequestCost).is_some() {
                return Some(Request::Cost(CostRequest(&mut *request.cast())));
            }
            of_type::<pg_sys::SupportRequestSelectivity>(request, T_SupportRequestSelectivity)?;
            let request = &mut *request.cast::<pg_sys::SupportRequestSelectivity>();
            let arguments = Arguments::of(request.args, request.root)?;
            let (table, row) = arguments.row.unzip();
            Some(Request::Selectivity(SelectivityRequest {
                request,
                row,
                filter: arguments.filter,
                parameters: arguments.parameters,
                table,
                are_columns: arguments.are_columns,
                has: arguments.has.unwrap_or_default(),
            }))
        }
    }
}

impl SelectivityRequest<'_> {
    /// Gives the planner the estimates that it cannot make for the conditions that the call implies. These follow the
    /// call, so they are estimated after it.
    ///
    /// - Which part of the entities has entries with `lower <= entry < upper`. The planner itself uses only about seven
    ///   bytes of a `bytea`. Entries of one value differ after them, so it would expect none.
    /// - `are_keys_in_entries` says that all these entities have the keys. The planner takes both as independent.
    pub fn estimate_conditions(&self, estimate: Estimate<'_>, are_keys_in_entries: bool) {
        let (Some(row), Some(table)) = (self.row, self.table) else {
            return;
        };
        // SAFETY: the request has the planner's query, or NULL. Its relations have numbers below the size of their array, which
        // may still be empty, and those of the query's text have a list of conditions.
        unsafe {
            let Some(root) = self.request.root.as_ref() else { return };
            let relations = usize::try_from(root.simple_rel_array_size).unwrap_or_default();
            let number = usize::try_from(row.varno as i64)
                .ok()
                .filter(|&number| number < relations);
            let relation = number.and_then(|number| (*root.simple_rel_array.add(number)).as_ref());
            if let (Some(relation), Some(columns)) = (relation, ColumnNumbers::of(table)) {
                let conditions = elements(relation.baserestrictinfo);
                estimate_pairs(self.request.root, columns, &conditions, estimate);
                if are_keys_in_entries {
                    for condition in conditions {
                        set_if_on_keys(condition, columns, 1.0);
                    }
                }
            }
        }
    }

    /// Answers with a part between 0 and 1.
    pub fn answer(self, selectivity: f64) -> pg_sys::Datum {
        self.request.selectivity = selectivity.clamp(0.0, 1.0);
        pg_sys::Datum::from(std::ptr::from_mut(self.request))
    }
}

impl CostRequest<'_> {
    /// Answers with the cost of this many of PostgreSQL's operators for each call.
    pub fn answer(self, operators: f64) -> pg_sys::Datum {
        self.0.startup = 0.0;
        // SAFETY: the setting is a global of this process, which has one thread.
        self.0.per_tuple = operators * unsafe { pg_sys::cpu_operator_cost };
        pg_sys::Datum::from(std::ptr::from_mut(self.0))
    }
}

/// The arguments of a call of `matches`, or of `entity_passes`, with a filter that is known when the query is planned.
struct Arguments<'p> {
    /// The entity, if it is the row of a table: the table and its variable, or one of its columns.
    row: Option<(pg_sys::Oid, &'p pg_sys::Var)>,
    are_columns: bool,
    filter: TextArg<'p>,
    parameters: Option<PropertiesArg<'p>>,
    has: Option<Implied>,
}

impl<'p> Arguments<'p> {
    /// # Safety
    /// The list must be the arguments of a call of `matches` or `entity_passes`, and `root` the planner's query, or NULL.
    unsafe fn of(arguments: *mut pg_sys::List, root: *mut pg_sys::PlannerInfo) -> Option<Arguments<'p>> {
        // SAFETY: a node has the type of its tag. The arguments of a call are a list of expressions, three for
        // `matches` and five for `entity_passes`. The constants live as long as the expression.
        unsafe {
            let constant = |node| of_type::<pg_sys::Const>(node, pg_sys::NodeTag::T_Const);
            let (row, filter, parameters, are_columns) = match *elements::<pg_sys::Node>(arguments).as_slice() {
                [entity, filter, parameters] => {
                    (row(entity, root), constant(filter)?, Some(constant(parameters)?), false)
                }
                [column, _, _, _, filter] => (column_of_row(column, root), constant(filter)?, None, true),
                _ => return None,
            };
            Some(Arguments {
                row,
                are_columns,
                filter: TextArg::from_datum(filter.constvalue, filter.constisnull)?,
                parameters: parameters.and_then(|it| PropertiesArg::from_datum(it.constvalue, it.constisnull)),
                has: Implied::at(filter.location),
            })
        }
    }
}

/// Sets the estimates of pairs of conditions on entries.
///
/// # Safety
/// The nodes must be those of a list of conditions, or of a part of one of its conditions, in the planner's query `root`.
unsafe fn estimate_pairs(
    root: *mut pg_sys::PlannerInfo,
    columns: ColumnNumbers,
    conditions: &[*mut pg_sys::Node],
    estimate: Estimate<'_>,
) {
    use pg_sys::NodeTag::{T_BoolExpr, T_RestrictInfo};
    // SAFETY: a node has the type of its tag. The planner wraps each condition, and the parts of a disjunction, but not
    // the conjunctions in it. Its wrappers may be changed.
    unsafe {
        for (number, &node) in conditions.iter().enumerate() {
            if let Some(conjunction) = of_type::<pg_sys::BoolExpr>(node, T_BoolExpr) {
                estimate_pairs(root, columns, &elements(conjunction.args), estimate);
                continue;
            }
            let Some(condition) = of_type::<pg_sys::RestrictInfo>(node, T_RestrictInfo) else {
                continue;
            };
            if let Some(disjunction) = of_type::<pg_sys::BoolExpr>(condition.orclause.cast(), T_BoolExpr) {
                estimate_pairs(root, columns, &elements(disjunction.args), estimate);
                continue;
            }
            let next = conditions.get(number + 1).copied().unwrap_or(std::ptr::null_mut());
            let Some(other) = of_type::<pg_sys::RestrictInfo>(next, T_RestrictInfo) else {
                continue;
            };
            let (Some((entry, lower)), Some((same, upper))) = (
                entry_and_bound(condition.clause, pg_sys::F_BYTEAGE),
                entry_and_bound(other.clause, pg_sys::F_BYTEALT),
            ) else {
                continue;
            };
            if !pg_sys::equal(entry.cast(), same.cast()) {
                continue;
            }
            let Some(part) = property_in(columns, entry).and_then(|property| estimate(&property, [lower, upper]))
            else {
                continue;
            };
            let (inner, is_null) = (pg_sys::JoinType::JOIN_INNER, pg_sys::NullTestType::IS_NULL);
            let nulls = pg_sys::nulltestsel(root, is_null, entry, 0, inner, std::ptr::null_mut());
            // The planner adds the two, subtracts one, and adds the NULLs, which both leave out.
            for (node, estimate) in [(node, 1.0 - nulls), (next, part)] {
                (*node.cast::<pg_sys::RestrictInfo>()).norm_selec = estimate;
            }
        }
    }
}

/// Sets the estimate of a condition if it compares a key with a constant, and is not in the query's text.
///
/// # Safety
/// The node must be a condition of the planner's query.
unsafe fn set_if_on_keys(condition: *mut pg_sys::Node, columns: ColumnNumbers, estimate: f64) {
    use pg_sys::NodeTag::{T_Const, T_OpExpr, T_RestrictInfo, T_Var};
    // SAFETY: a node has the type of its tag. The planner's wrapper of a condition may be changed.
    unsafe {
        let is_on_keys = || {
            let info = of_type::<pg_sys::RestrictInfo>(condition, T_RestrictInfo)?;
            let comparison = of_type::<pg_sys::OpExpr>(info.clause.cast(), T_OpExpr).filter(|it| it.location == -1)?;
            let [key, value]: [*mut pg_sys::Node; 2] = elements(comparison.args).try_into().ok()?;
            of_type::<pg_sys::Const>(value, T_Const)?;
            let key = of_type::<pg_sys::Var>(key, T_Var)?;
            Some([columns.partition_key, columns.row_key].contains(&key.varattno))
        };
        if is_on_keys() == Some(true) {
            (*condition.cast::<pg_sys::RestrictInfo>()).norm_selec = estimate;
        }
    }
}

/// Returns both sides of a comparison by this function with a constant `bytea`.
///
/// # Safety
/// The node must be an expression.
unsafe fn entry_and_bound<'p>(comparison: *mut pg_sys::Expr, function: u32) -> Option<(*mut pg_sys::Node, &'p [u8])> {
    // SAFETY: a node has the type of its tag. A constant of the type bytea that is not NULL has a datum of this type.
    unsafe {
        let comparison = of_type::<pg_sys::OpExpr>(comparison.cast(), pg_sys::NodeTag::T_OpExpr)?;
        if comparison.opfuncid != pg_sys::Oid::from(function) {
            return None;
        }
        let [entry, bound]: [*mut pg_sys::Node; 2] = elements(comparison.args).try_into().ok()?;
        let bound = of_type::<pg_sys::Const>(bound, pg_sys::NodeTag::T_Const)?;
        (!bound.constisnull).then(|| (entry, varlena::bytes(bound.constvalue)))
    }
}

/// Returns whether a query may end before it has all rows that meet its conditions: it has a LIMIT, and neither sorts nor
/// groups them.
///
/// # Safety
/// `root` must be the planner's query, or NULL.
pub(super) unsafe fn ends_early(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the planner's query is a valid tree.
    unsafe { root.as_ref().map(|root| &*root.parse) }.is_some_and(|query| {
        let takes_all = query.hasAggs || query.hasWindowFuncs;
        let lists = [
            query.sortClause,
            query.groupClause,
            query.distinctClause,
            query.groupingSets,
        ];
        !query.limitCount.is_null() && !takes_all && lists.iter().all(|list| list.is_null())
    })
}

/// Returns the table and the variable of an entity that is the row of a table.
///
/// # Safety
/// The node must be an expression of the planner's query, which may be NULL.
unsafe fn row<'p>(node: *mut pg_sys::Node, root: *mut pg_sys::PlannerInfo) -> Option<(pg_sys::Oid, &'p pg_sys::Var)> {
    // SAFETY: a node has the type of its tag. The rest is the caller's promise.
    unsafe {
        // The row of a table of the service becomes an entity by this conversion.
        let entity = of_type::<pg_sys::ConvertRowtypeExpr>(node, pg_sys::NodeTag::T_ConvertRowtypeExpr)?;
        column_of_row(entity.arg.cast(), root).filter(|(_, row)| row.varattno == 0)
    }
}

/// Returns the table and the variable of a column of a table, or of its whole row.
///
/// # Safety
/// As for [`row`].
unsafe fn column_of_row<'p>(
    node: *mut pg_sys::Node,
    root: *mut pg_sys::PlannerInfo,
) -> Option<(pg_sys::Oid, &'p pg_sys::Var)> {
    // SAFETY: a node has the type of its tag. The planner's query has a range table, in which the variables of its
    // expressions count from 1.
    unsafe {
        let root = root.as_ref()?;
        let column = of_type::<pg_sys::Var>(node, pg_sys::NodeTag::T_Var).filter(|column| column.varlevelsup == 0)?;
        let tables = (*root.parse).rtable.as_ref()?;
        let number = usize::try_from(column.varno as i64 - 1).ok()?;
        if number >= usize::try_from(tables.length).ok()? {
            return None;
        }
        let entry = (*tables.elements.add(number)).ptr_value.cast::<pg_sys::RangeTblEntry>();
        ((*entry).rtekind == pg_sys::RTEKind::RTE_RELATION).then(|| ((*entry).relid, column))
    }
}

impl SimplifyRequest<'_> {
    /// Returns the call and conditions that it implies.
    pub fn and(&self, conditions: &[Expression], implied: Implied) -> pg_sys::Datum {
        let call = self.copy(|filter| {
            // SAFETY: the copy of a constant is a constant.
            unsafe { (*filter).location = implied.location() };
            filter.cast()
        });
        let mut all = vec![call];
        all.extend_from_slice(conditions);
        pg_sys::Datum::from(combined(pg_sys::BoolExprType::AND_EXPR, &all).0)
    }

    /// Returns the call in a form that does the same and that the planner finds equal to no other call.
    pub fn unlike_others(&self) -> pg_sys::Datum {
        let call = self.copy(|filter| {
            let (collation, form) = (
                pg_sys::DEFAULT_COLLATION_OID,
                pg_sys::CoercionForm::COERCE_IMPLICIT_CAST,
            );
            // SAFETY: a constant is an expression, here of the type text.
            unsafe { pg_sys::makeRelabelType(filter.cast(), pg_sys::TEXTOID, -1, collation, form).cast() }
        });
        pg_sys::Datum::from(call.0)
    }

    /// Returns a copy of the call with a changed filter.
    fn copy(&self, change: impl Fn(*mut pg_sys::Const) -> *mut pg_sys::Node) -> Expression {
        // SAFETY: the call is that of the request, which is copied with its arguments. `Arguments` has found that the
        // second one is a constant.
        let call = unsafe {
            let call = &*self.call;
            let arguments = pg_sys::copyObjectImpl(call.args.cast()).cast::<pg_sys::List>();
            let filter = (*arguments).elements.add(1);
            (*filter).ptr_value = change((*filter).ptr_value.cast()).cast();
            pg_sys::makeFuncExpr(
                call.funcid,
                call.funcresulttype,
                arguments,
                call.funccollid,
                call.inputcollid,
                call.funcformat,
            )
        };
        Expression(call.cast())
    }
}

impl<'p> TableRow<'p> {
    /// Makes the row of a table from the variable of the row. Returns `None` if the table lacks a column of an entity.
    pub(super) fn new(row: &'p pg_sys::Var, table: pg_sys::Oid) -> Option<TableRow<'p>> {
        let columns = ColumnNumbers::of(table)?;
        Some(TableRow { row, columns })
    }

    /// Returns a column of the primary key.
    fn key(&self, key: Key) -> Expression {
        let column = match key {
            Key::Partition => self.columns.partition_key,
            Key::Row => self.columns.row_key,
        };
        self.column(column, pg_sys::TEXTOID, pg_sys::C_COLLATION_OID)
    }

    /// Returns the columns of an entity.
    pub(super) fn all_columns(&self) -> [Expression; 4] {
        [
            self.key(Key::Partition),
            self.key(Key::Row),
            self.column(self.columns.timestamp, pg_sys::TIMESTAMPTZOID, pg_sys::InvalidOid),
            self.column(self.columns.properties, catalog::properties_type(), pg_sys::InvalidOid),
        ]
    }

    /// Returns a condition on a column of the primary key.
    pub fn compare_key(&self, key: Key, operator: Operator, value: &str) -> Expression {
        let value = constant(pg_sys::TEXTOID, pg_sys::C_COLLATION_OID, value.as_bytes());
        compare(self.key(key), operator, value, KEYS)
    }

    /// Returns a condition on the entry in the index on a property.
    pub fn compare_entry(&self, property: &str, operator: Operator, value: &[u8]) -> Expression {
        let own = catalog::own_objects();
        let properties = catalog::properties_type();
        let arguments = [
            self.column(self.columns.partition_key, pg_sys::TEXTOID, pg_sys::C_COLLATION_OID),
            self.column(self.columns.row_key, pg_sys::TEXTOID, pg_sys::C_COLLATION_OID),
            self.column(self.columns.properties, properties, pg_sys::InvalidOid),
            constant(pg_sys::TEXTOID, pg_sys::DEFAULT_COLLATION_OID, property.as_bytes()),
        ];
        // SAFETY: the arguments are expressions of the function's types. The call is that of an index's expression: the
        // planner finds the index by comparing both.
        let entry = unsafe {
            pg_sys::makeFuncExpr(
                own.index_function,
                pg_sys::BYTEAOID,
                list(&arguments),
                pg_sys::InvalidOid,
                pg_sys::C_COLLATION_OID,
                pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
            )
        };
        compare(
            Expression(entry.cast()),
            operator,
            constant(pg_sys::BYTEAOID, pg_sys::InvalidOid, value),
            (pg_sys::BYTEA_BTREE_FAM_OID, pg_sys::BYTEAOID, pg_sys::InvalidOid),
        )
    }

    /// Returns a column of the row.
    fn column(&self, number: i16, of_type: pg_sys::Oid, collation: pg_sys::Oid) -> Expression {
        // SAFETY: the copy of a variable is a variable. A table of the service has this column.
        unsafe {
            let column = pg_sys::copyObjectImpl(std::ptr::from_ref(self.row).cast()).cast::<pg_sys::Var>();
            (*column).varattno = number;
            (*column).vartype = of_type;
            (*column).vartypmod = -1;
            (*column).varcollid = collation;
            if (*column).varnosyn > 0 {
                (*column).varattnosyn = number;
            }
            Expression(column.cast())
        }
    }
}

/// Returns the answer of a support function. NULL means that there is none.
pub fn answer(answer: Option<pg_sys::Datum>) -> pgrx::Internal {
    pgrx::Internal::from(Some(answer.unwrap_or(pg_sys::Datum::null())))
}

/// Returns the conjunction of conditions. There must be one at least.
pub fn all_of(conditions: &[Expression]) -> Expression {
    combined(pg_sys::BoolExprType::AND_EXPR, conditions)
}

/// Returns the disjunction of conditions. There must be one at least.
pub fn any_of(conditions: &[Expression]) -> Expression {
    combined(pg_sys::BoolExprType::OR_EXPR, conditions)
}

/// The planner takes a conjunction apart once: it must not contain another one. The same goes for disjunctions.
fn combined(operator: pg_sys::BoolExprType::Type, conditions: &[Expression]) -> Expression {
    if let [only] = conditions {
        return *only;
    }
    let mut parts = std::ptr::null_mut();
    for condition in conditions {
        // SAFETY: a node has the type of its tag. The arguments of a Boolean expression are a list of expressions, and
        // both lists are of pointers.
        unsafe {
            parts = match of_type::<pg_sys::BoolExpr>(condition.0.cast(), pg_sys::NodeTag::T_BoolExpr) {
                Some(nested) if nested.boolop == operator => pg_sys::list_concat(parts, nested.args),
                _ => pg_sys::lappend(parts, condition.0.cast()),
            };
        }
    }
    // SAFETY: the list is one of expressions.
    Expression(unsafe { pg_sys::makeBoolExpr(operator, parts, -1) })
}

pub(super) fn list(expressions: &[Expression]) -> *mut pg_sys::List {
    // SAFETY: the list is one of pointers.
    expressions
        .iter()
        .fold(std::ptr::null_mut(), |list, expression| unsafe {
            pg_sys::lappend(list, expression.0.cast())
        })
}

/// How keys are compared: the operator family, the type and the collation.
pub(super) const KEYS: (pg_sys::Oid, pg_sys::Oid, pg_sys::Oid) =
    (pg_sys::TEXT_BTREE_FAM_OID, pg_sys::TEXTOID, pg_sys::C_COLLATION_OID);

/// Returns the operator of a family that compares two values of a type.
pub(super) fn comparison(operator: Operator, family: pg_sys::Oid, of_type: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: the function looks up a catalog, which needs a transaction, and a statement is planned in one.
    unsafe { pg_sys::get_opfamily_member(family, of_type, of_type, strategy(operator) as pg_sys::int16) }
}

/// Compares two expressions of a type.
fn compare(
    left: Expression,
    operator: Operator,
    right: Expression,
    (family, of_type, collation): (pg_sys::Oid, pg_sys::Oid, pg_sys::Oid),
) -> Expression {
    // SAFETY: the family has an operator for each comparison of its type.
    unsafe {
        let condition = pg_sys::make_opclause(
            comparison(operator, family, of_type),
            pg_sys::BOOLOID,
            false,
            left.0,
            right.0,
            pg_sys::InvalidOid,
            collation,
        );
        pg_sys::set_opfuncid(condition.cast());
        Expression(condition)
    }
}

/// Makes a constant of the type text or bytea.
pub(super) fn constant(of_type: pg_sys::Oid, collation: pg_sys::Oid, bytes: &[u8]) -> Expression {
    const ANY_LENGTH: c_int = -1;
    // SAFETY: both types are varlenas, which are not passed by value.
    Expression(unsafe {
        pg_sys::makeConst(of_type, -1, collation, ANY_LENGTH, varlena::palloc(bytes), false, false).cast()
    })
}
