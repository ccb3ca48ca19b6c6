//! The check of the objects to which names in the extension's own statements lead.
//!
//! The owner of the database can replace the extension's schema at any moment. Names in a statement that PostgreSQL
//! analyses after that lead to objects of that role, and their code would run with the caller's rights, also in a kept
//! plan that is made again. So PostgreSQL calls a function of this file after it has analysed a statement: one of the
//! extension fails unless it refers only to objects of PostgreSQL, of the extension, and tables of the service.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use pgrx::prelude::*;

use super::catalog::{self, refuse_name};
use super::citus::is_table;
use super::guarded::guarded;
use super::nodes::of_type;
use super::raised::is_own_statement;

#[cfg(not(since_pg19))]
type JumbleState = *mut pg_sys::JumbleState;
#[cfg(since_pg19)]
type JumbleState = *const pg_sys::JumbleState;

type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;

// PostgreSQL's functions, which `pg_sys` lacks for some versions.
unsafe extern "C-unwind" {
    #[cfg_attr(since_pg16, link_name = "query_tree_walker_impl")]
    fn query_tree_walker(query: *mut pg_sys::Query, walker: Walker, context: *mut c_void, flags: c_int) -> bool;
    #[cfg_attr(since_pg16, link_name = "expression_tree_walker_impl")]
    fn expression_tree_walker(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool;
}

const PG_CATALOG: pg_sys::Oid = pg_sys::Oid::from_u32(pg_sys::PG_CATALOG_NAMESPACE);

/// The hook that another library has set.
static NEXT: OnceLock<pg_sys::post_parse_analyze_hook_type> = OnceLock::new();

/// Makes PostgreSQL call this file from now on.
pub fn watch() {
    // SAFETY: the hook is a global of this process, which has one thread.
    unsafe {
        if NEXT.set(pg_sys::post_parse_analyze_hook).is_ok() {
            pg_sys::post_parse_analyze_hook = Some(analysed);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn analysed(state: *mut pg_sys::ParseState, query: *mut pg_sys::Query, jumble: JumbleState) {
    // SAFETY: PostgreSQL calls this with the state of its parser and the query. The text is NULL or a C string.
    unsafe {
        let text = (*state).p_sourcetext;
        if !text.is_null() && is_own_statement(CStr::from_ptr(text)) {
            check(query.cast());
        }
        if let Some(Some(next)) = NEXT.get() {
            next(state, query, jumble);
        }
    }
}

/// The objects to which a query refers.
#[derive(Default)]
struct References {
    relations: Vec<pg_sys::Oid>,
    functions: Vec<pg_sys::Oid>,
}

/// Raises 55000 if a query refers to a function or a relation of others.
///
/// # Safety
/// It must be a query as PostgreSQL's analysis makes it.
unsafe fn check(query: *mut pg_sys::Node) {
    let mut references = References::default();
    // SAFETY: the caller's promise. The function takes this context.
    unsafe { collect(query, (&raw mut references).cast()) };
    if let Some(&function) = references.functions.iter().find(|&&oid| !is_known_function(oid)) {
        // SAFETY: the functions take any OID, and return NULL or C strings.
        unsafe { refuse(pg_sys::get_func_namespace(function), pg_sys::get_func_name(function)) };
    }
    if let Some(&relation) = references.relations.iter().find(|&&oid| !is_known_relation(oid)) {
        // SAFETY: as above.
        unsafe { refuse(pg_sys::get_rel_namespace(relation), pg_sys::get_rel_name(relation)) };
    }
}

/// # Safety
/// The name must be NULL, if the object has been dropped, or a C string.
unsafe fn refuse(schema: pg_sys::Oid, name: *const c_char) {
    // SAFETY: the caller's promise. The function takes any OID, and returns NULL or a C string.
    unsafe {
        let text = |name: *const c_char| if name.is_null() { c"?" } else { CStr::from_ptr(name) };
        refuse_name(text(pg_sys::get_namespace_name(schema)), text(name))
    }
}

/// Returns whether a statement of the extension may call a function. Only superusers can put something into `pg_catalog`.
fn is_known_function(oid: pg_sys::Oid) -> bool {
    // SAFETY: the query has just found the function.
    oid.to_u32() < pg_sys::FirstUnpinnedObjectId
        || catalog::is_own_function(oid)
        || unsafe { pg_sys::get_func_namespace(oid) } == PG_CATALOG
}

/// Returns whether a statement of the extension may read or write a relation.
fn is_known_relation(oid: pg_sys::Oid) -> bool {
    // SAFETY: the query has locked the relation.
    oid.to_u32() < pg_sys::FirstUnpinnedObjectId
        || is_table(oid)
        || catalog::is_own_relation(oid)
        || unsafe { pg_sys::get_rel_namespace(oid) } == PG_CATALOG
}

/// Collects the objects to which a node and those under it refer.
///
/// # Safety
/// It must be a node of a query, and the context must be [`References`].
#[pg_guard]
unsafe extern "C-unwind" fn collect(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: the caller's promise. A node has the type of its tag. PostgreSQL's functions pass it the nodes below.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else {
            return false;
        };
        match tag {
            pg_sys::NodeTag::T_Query => {
                let query = node.cast::<pg_sys::Query>();
                // EXPLAIN has the query that it explains.
                let explained = of_type::<pg_sys::ExplainStmt>((*query).utilityStmt, pg_sys::NodeTag::T_ExplainStmt);
                if let Some(explain) = explained {
                    collect(explain.query, context);
                }
                let flags = pg_sys::QTW_EXAMINE_RTES_BEFORE as c_int;
                guarded(|| query_tree_walker(query, collect, context, flags))
            }
            pg_sys::NodeTag::T_RangeTblEntry => {
                let entry = &*node.cast::<pg_sys::RangeTblEntry>();
                if entry.rtekind == pg_sys::RTEKind::RTE_RELATION {
                    (*context.cast::<References>()).relations.push(entry.relid);
                }
                // PostgreSQL goes on with the parts of an entry by itself.
                false
            }
            _ => {
                pg_sys::check_functions_in_node(node, Some(collect_function), context);
                guarded(|| expression_tree_walker(node, collect, context))
            }
        }
    }
}

/// # Safety
/// The context must be [`References`].
#[pg_guard]
unsafe extern "C-unwind" fn collect_function(function: pg_sys::Oid, context: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*context.cast::<References>()).functions.push(function) };
    false
}
