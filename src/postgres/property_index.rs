//! The property indexes of a table: ordinary indexes on `table_service.property_index_key(…)`. There is no catalog of
//! them but `pg_index`.

use std::ffi::{CStr, c_char, c_int};
use std::rc::Rc;

use pgrx::prelude::*;

use super::catalog::{self, PropertyIndex};
use super::types::TextArg;

/// Returns the property indexes of a table that the caller has locked.
///
/// For a table with no index but its primary key this looks up nothing.
pub fn of_table(table: pg_sys::Oid) -> Rc<[PropertyIndex]> {
    // SAFETY: the caller holds a lock on the table, so it can be opened without one. `RelationGetIndexList` makes the
    // list of the relation cache's entry and returns a copy, which is freed.
    unsafe {
        let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(table, no_lock);
        if !(*relation).rd_indexvalid {
            pg_sys::list_free(pg_sys::RelationGetIndexList(relation));
        }
        let has_several = (*relation).rd_indexlist.as_ref().is_some_and(|list| list.length > 1);
        let indexes = if has_several {
            catalog::property_indexes(table, || look_up(relation))
        } else {
            Rc::new([])
        };
        pg_sys::table_close(relation, no_lock);
        indexes
    }
}

/// # Safety
/// The relation must be open.
unsafe fn look_up(relation: pg_sys::Relation) -> Vec<PropertyIndex> {
    // SAFETY: the relation is open, and the list is a list of OIDs, which is freed after its last use.
    unsafe {
        let list = pg_sys::RelationGetIndexList(relation);
        let oids: Vec<pg_sys::Oid> = match list.as_ref() {
            None => Vec::new(),
            Some(list) => (0..usize::try_from(list.length).unwrap_or_default())
                .map(|number| (*list.elements.add(number)).oid_value)
                .collect(),
        };
        pg_sys::list_free(list);
        oids.into_iter().filter_map(of_index).collect()
    }
}

/// Returns what an index finds, if it is a property index: a btree on one expression, with the usual order of `bytea`,
/// without a predicate.
pub fn of_index(index: pg_sys::Oid) -> Option<PropertyIndex> {
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
        let is_simple = row.indnkeyatts == 1
            && row.indkey.values.as_slice(1) == [0]
            && !row.indisexclusion
            && attribute(pg_sys::Anum_pg_index_indpred).is_none();
        let expression = attribute(pg_sys::Anum_pg_index_indexprs)
            .and_then(|datum| TextArg::from_datum(datum, false))
            .filter(|_| is_simple);
        let classes = attribute(pg_sys::Anum_pg_index_indclass).map(|datum| {
            let classes = datum.cast_mut_ptr::<pg_sys::oidvector>();
            (*classes).values.as_slice(1)[0]
        });
        let is_valid = row.indisvalid && row.indisready && row.indislive;
        let is_plain = !row.indisunique && row.indnatts == 1;
        let is_alive = row.indislive;
        let property = expression
            .filter(|_| is_alive && classes.is_some_and(|class| class == bytea_order()))
            .and_then(|expression| property_of(expression.get()));
        pg_sys::ReleaseSysCache(tuple);
        property.map(|property| PropertyIndex {
            oid: index,
            property: property.into(),
            is_valid,
            is_plain,
        })
    }
}

/// Returns the default operator class of `bytea` for btrees.
fn bytea_order() -> pg_sys::Oid {
    // SAFETY: a transaction is running, and the function takes any OIDs.
    unsafe { pg_sys::GetDefaultOpClass(pg_sys::BYTEAOID, pg_sys::BTREE_AM_OID) }
}

fn is_btree(index: pg_sys::Oid) -> bool {
    // SAFETY: a transaction is running. A non-NULL tuple of RELOID is a row of `pg_class`.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as c_int, pg_sys::Datum::from(index));
        if tuple.is_null() {
            return false;
        }
        let method = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relam;
        pg_sys::ReleaseSysCache(tuple);
        method == pg_sys::BTREE_AM_OID
    }
}

/// Returns the property in an index's stored expressions, if they are one call of `property_index_key` with the columns
/// of the table and a constant.
fn property_of(expressions: &str) -> Option<String> {
    let text = std::ffi::CString::new(expressions).ok()?;
    // SAFETY: the text is that of a node tree in a catalog: a list of expressions.
    unsafe {
        let list = pg_sys::stringToNode(text.as_ptr()).cast::<pg_sys::List>();
        let list = list.as_ref().filter(|list| list.length == 1)?;
        property_in((*list.elements).ptr_value.cast())
    }
}

/// Returns the property in an expression, if it is a call of `property_index_key` with the columns of a table and a
/// constant.
///
/// # Safety
/// The node must be NULL or a valid expression.
pub unsafe fn property_in(node: *mut pg_sys::Node) -> Option<String> {
    // SAFETY: a node is what its tag says. The arguments of a function call are a list of expressions. A constant that
    // is not NULL has a datum of its type.
    unsafe {
        let call = of_type::<pg_sys::FuncExpr>(node, pg_sys::NodeTag::T_FuncExpr)?;
        let function = catalog::known().index_function;
        if function == pg_sys::InvalidOid || call.funcid != function || call.inputcollid != pg_sys::C_COLLATION_OID {
            return None;
        }
        let arguments = call.args.as_ref().filter(|arguments| arguments.length == 4)?;
        let argument = |number: usize| (*arguments.elements.add(number)).ptr_value.cast::<pg_sys::Node>();
        for (number, column) in [(0, 1), (1, 2), (2, 4)] {
            let var = of_type::<pg_sys::Var>(argument(number), pg_sys::NodeTag::T_Var)?;
            if var.varattno != column || var.varlevelsup != 0 {
                return None;
            }
        }
        let constant = of_type::<pg_sys::Const>(argument(3), pg_sys::NodeTag::T_Const)?;
        if constant.constisnull || constant.consttype != pg_sys::TEXTOID {
            return None;
        }
        TextArg::from_datum(constant.constvalue, false).map(|property| property.get().to_owned())
    }
}

/// Returns a node as the type that its tag stands for.
///
/// # Safety
/// The node must be NULL or valid, and `T` must be the type for `tag`.
pub unsafe fn of_type<'n, T>(node: *mut pg_sys::Node, tag: pg_sys::NodeTag) -> Option<&'n T> {
    // SAFETY: the caller promises a valid node, and that the type fits the tag.
    unsafe { node.as_ref().filter(|node| node.type_ == tag).map(|_| &*node.cast::<T>()) }
}

/// Returns whether a relation is a partitioned table.
pub fn is_partitioned(relation: pg_sys::Oid) -> bool {
    // SAFETY: the function takes any OID.
    unsafe { pg_sys::get_rel_relkind(relation) == pg_sys::RELKIND_PARTITIONED_TABLE as c_char }
}

/// Returns the name of a relation with its schema, quoted for SQL.
pub fn qualified_name(relation: pg_sys::Oid) -> Option<String> {
    // SAFETY: the functions take any OID. They return NULL or a palloc'ed C string.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        let schema = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation));
        if name.is_null() || schema.is_null() {
            return None;
        }
        let quoted = pg_sys::quote_qualified_identifier(schema, name);
        CStr::from_ptr(quoted).to_str().ok().map(str::to_owned)
    }
}
