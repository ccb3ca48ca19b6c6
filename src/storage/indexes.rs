//! The indexes of a table that the extension knows: ordinary indexes on `table_service.property_index_key(…)` and on
//! `table_service.expires_at(…)`. Their only catalog is `pg_index`.

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use pgrx::prelude::*;
use table_service_model::Expiry;

use super::columns::ColumnNumbers;
use super::known::{self, ExpiryIndex, Indexes, PropertyIndex};
use crate::postgres::{TextArg, catalog, elements, of_type, with_relation};

/// Returns the indexes of a table that the caller has locked.
pub fn of_table(table: pg_sys::Oid) -> Indexes {
    known::indexes(table, || look_up(table), Indexes::clone)
}

/// Returns the property indexes of a table that the caller has locked.
pub fn property_indexes(table: pg_sys::Oid) -> Rc<[PropertyIndex]> {
    known::indexes(table, || look_up(table), |indexes| indexes.properties.clone())
}

/// Returns the expiries of a table that the caller has locked.
pub fn expiries(table: pg_sys::Oid) -> Arc<[Expiry]> {
    known::indexes(table, || look_up(table), |indexes| indexes.in_force.clone())
}

fn look_up(table: pg_sys::Oid) -> Indexes {
    let (mut properties, mut expiries) = (Vec::new(), Vec::new());
    for index in with_relation(table, |relation| relation.indexes()) {
        match of_index(index) {
            Some(KnownIndex::Property(index)) => properties.push(index),
            Some(KnownIndex::Expiry(index)) => expiries.push(index),
            None => {}
        }
    }
    Indexes::new(properties, expiries)
}

/// An index that the extension knows.
pub enum KnownIndex {
    Property(PropertyIndex),
    Expiry(ExpiryIndex),
}

/// Returns the definition of an index, if it is a property index or an expiry index: a btree on one expression, with
/// the usual order of its type. A property index has all entities; an expiry index has those that expire.
pub fn of_index(index: pg_sys::Oid) -> Option<KnownIndex> {
    if !is_btree(index) {
        return None;
    }
    // SAFETY: a non-NULL tuple of INDEXRELID is a row of `pg_index`. Its fields are read before it is released. The
    // array of columns has `indnatts` elements.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(index));
        if tuple.is_null() {
            return None;
        }
        let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_index>();
        let attribute = |number: u32| {
            let mut is_null = true;
            let datum = pg_sys::SysCacheGetAttr(cache, tuple, number as pg_sys::AttrNumber, &mut is_null);
            (!is_null).then_some(datum)
        };
        let node = |number: u32| {
            attribute(number)
                .and_then(|datum| TextArg::from_datum(datum, false))
                .and_then(|text| std::ffi::CString::new(text.get()).ok())
                // The text is that of a node tree in a catalog.
                .map(|text| pg_sys::stringToNode(text.as_ptr()).cast::<pg_sys::Node>())
        };
        let is_simple = row.indnkeyatts == 1 && row.indkey.values.as_slice(1) == [0] && !row.indisexclusion;
        let classes = attribute(pg_sys::Anum_pg_index_indclass).map(|datum| {
            let classes = datum.cast_mut_ptr::<pg_sys::oidvector>();
            (*classes).values.as_slice(1)[0]
        });
        let is_valid = row.indisvalid && row.indisready && row.indislive;
        let is_plain = !row.indisunique && row.indnatts == 1;
        let known = classes.filter(|_| is_simple && row.indislive).and_then(|class| {
            let columns = ColumnNumbers::of(row.indrelid)?;
            let list = node(pg_sys::Anum_pg_index_indexprs)?.cast::<pg_sys::List>();
            let list = list.as_ref().filter(|list| list.length == 1)?;
            let expression = (*list.elements).ptr_value.cast();
            match node(pg_sys::Anum_pg_index_indpred) {
                None if class == usual_order(pg_sys::BYTEAOID) => {
                    let property = property_in(columns, expression)?.into();
                    Some(KnownIndex::Property(PropertyIndex {
                        oid: index,
                        property,
                        is_valid,
                        is_plain,
                    }))
                }
                Some(predicate) if class == usual_order(pg_sys::TIMESTAMPTZOID) => {
                    let expiry = expiry_in(columns, expression)?;
                    is_not_null(columns, predicate, &expiry).then_some(KnownIndex::Expiry(ExpiryIndex {
                        oid: index,
                        expiry,
                        is_valid,
                        is_plain,
                    }))
                }
                _ => None,
            }
        });
        pg_sys::ReleaseSysCache(tuple);
        known
    }
}

/// Returns the default operator class of a type for btrees.
fn usual_order(of_type: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a transaction is running, and the function takes any OIDs.
    unsafe { pg_sys::GetDefaultOpClass(of_type, pg_sys::BTREE_AM_OID) }
}

fn is_btree(index: pg_sys::Oid) -> bool {
    catalog::row_of(index, |class: &pg_sys::FormData_pg_class| class.relam) == Some(pg_sys::BTREE_AM_OID)
}

/// Returns the property in an expression, if it is a call of `property_index_key` with these columns of a table and a
/// constant.
///
/// # Safety
/// The node must be NULL or a valid expression.
pub unsafe fn property_in(columns: ColumnNumbers, node: *mut pg_sys::Node) -> Option<String> {
    let function = catalog::own_objects().index_function;
    let columns = [columns.partition_key, columns.row_key, columns.properties];
    // SAFETY: the caller's promise. A constant that is not NULL has a datum of its type.
    unsafe {
        let (call, [.., property]) = call_on(node, function, &columns)?;
        let property = constant(property, pg_sys::TEXTOID)?.filter(|_| call.inputcollid == pg_sys::C_COLLATION_OID)?;
        TextArg::from_datum(property, false).map(|property| property.get().to_owned())
    }
}

/// Returns a call of a function of the extension, and its four arguments, if the first ones are these columns of a table.
///
/// # Safety
/// The node must be NULL or a valid expression.
unsafe fn call_on<'n>(
    node: *mut pg_sys::Node,
    function: pg_sys::Oid,
    columns: &[i16],
) -> Option<(&'n pg_sys::FuncExpr, [*mut pg_sys::Node; 4])> {
    // SAFETY: a node has the type of its tag. The arguments of a function call are a list of expressions.
    unsafe {
        let call = of_type::<pg_sys::FuncExpr>(node, pg_sys::NodeTag::T_FuncExpr)?;
        let arguments: [*mut pg_sys::Node; 4] = elements(call.args).try_into().ok()?;
        let is_column = |(&argument, &column): (&*mut pg_sys::Node, &i16)| {
            of_type::<pg_sys::Var>(argument, pg_sys::NodeTag::T_Var)
                .is_some_and(|var| var.varattno == column && var.varlevelsup == 0)
        };
        let is_call = function != pg_sys::InvalidOid && call.funcid == function;
        (is_call && arguments.iter().zip(columns).all(is_column)).then_some((call, arguments))
    }
}

/// Returns the expiry in an expression, if it is a call of `expires_at` with these columns of a table and constants.
///
/// # Safety
/// The node must be NULL or a valid expression.
unsafe fn expiry_in(columns: ColumnNumbers, node: *mut pg_sys::Node) -> Option<Expiry> {
    let function = catalog::own_objects().expiry_function;
    // SAFETY: as in `property_in`.
    unsafe {
        let (_, [.., property, seconds]) = call_on(node, function, &[columns.timestamp, columns.properties])?;
        let property = match constant(property, pg_sys::TEXTOID)? {
            None => None,
            Some(datum) => Some(TextArg::from_datum(datum, false)?),
        };
        let seconds = seconds_in(seconds)?;
        // Arguments that `set_expiry` refuses are no expiry.
        Expiry::new(property.map(TextArg::get), seconds).ok()
    }
}

/// Returns the number of seconds in an expression: a constant, or one of a smaller integer type that PostgreSQL casts. The inner `None`
/// is NULL. Nothing is evaluated: a role that may create an index could put any function there.
///
/// # Safety
/// The node must be NULL or a valid expression.
unsafe fn seconds_in(node: *mut pg_sys::Node) -> Option<Option<i64>> {
    // SAFETY: as in `property_in`. A datum of an integer type has its value.
    unsafe {
        let Some(cast) = of_type::<pg_sys::FuncExpr>(node, pg_sys::NodeTag::T_FuncExpr) else {
            return Some(constant(node, pg_sys::INT8OID)?.map(|datum| datum.value() as i64));
        };
        let arguments = cast.args.as_ref().filter(|arguments| arguments.length == 1)?;
        let number = (*arguments.elements).ptr_value.cast();
        match cast.funcid.to_u32() {
            pg_sys::F_INT8_INT4 => Some(constant(number, pg_sys::INT4OID)?.map(|datum| (datum.value() as i32).into())),
            pg_sys::F_INT8_INT2 => Some(constant(number, pg_sys::INT2OID)?.map(|datum| (datum.value() as i16).into())),
            _ => None,
        }
    }
}

/// Returns the value of a constant of a type. The inner `None` is NULL.
///
/// # Safety
/// The node must be NULL or a valid expression.
unsafe fn constant(node: *mut pg_sys::Node, of: pg_sys::Oid) -> Option<Option<pg_sys::Datum>> {
    // SAFETY: a node has the type of its tag.
    let constant = unsafe { of_type::<pg_sys::Const>(node, pg_sys::NodeTag::T_Const) }?;
    (constant.consttype == of).then(|| (!constant.constisnull).then_some(constant.constvalue))
}

/// Returns whether a predicate says that an expression with this expiry is not NULL.
///
/// # Safety
/// The node must be NULL or a valid expression.
unsafe fn is_not_null(columns: ColumnNumbers, predicate: *mut pg_sys::Node, expiry: &Expiry) -> bool {
    // SAFETY: a node has the type of its tag.
    unsafe {
        of_type::<pg_sys::NullTest>(predicate, pg_sys::NodeTag::T_NullTest).is_some_and(|test| {
            test.nulltesttype == pg_sys::NullTestType::IS_NOT_NULL
                && expiry_in(columns, test.arg.cast()).as_ref() == Some(expiry)
        })
    }
}
