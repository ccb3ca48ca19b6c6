//! Subscripts of bags, `properties['Age']`: the functions that PostgreSQL calls to parse and to evaluate them.

use pgrx::prelude::*;
use table_service_model::{Error, json};

use super::error::raise;
use super::nodes::elements;
use super::types::{JsonbOut, PropertiesArg, TextArg};

static ROUTINES: pg_sys::SubscriptRoutines = pg_sys::SubscriptRoutines {
    transform: Some(transform),
    exec_setup: Some(set_up),
    fetch_strict: true,
    fetch_leakproof: false,
    store_leakproof: false,
};

/// Returns the result of the subscripting function of the type.
pub fn routines() -> pgrx::Internal {
    pgrx::Internal::from(Some(pg_sys::Datum::from(&raw const ROUTINES)))
}

/// Parses the subscripts: one text, the name of a property. The result is the same as that of `->`.
#[pg_guard]
unsafe extern "C-unwind" fn transform(
    reference: *mut pg_sys::SubscriptingRef,
    indirection: *mut pg_sys::List,
    state: *mut pg_sys::ParseState,
    is_slice: bool,
    is_assignment: bool,
) {
    if is_assignment {
        raise(Error::NotImplemented {
            reason: "A value that is assigned to a subscript would have no type. Write SET properties = properties || '{\"Age\": 35}', or call merge_entity".to_owned(),
        });
    }
    // SAFETY: the parser calls this with a new reference, a list of subscripts and its own state. A subscript that is no slice
    // has an expression.
    unsafe {
        let [subscript] = elements::<pg_sys::A_Indices>(indirection)[..] else {
            raise(Error::argument(
                "There is one subscript, because properties hold no objects and arrays. Read JSON that is stored as a String with ((properties ->> 'Address')::jsonb)['City']",
            ));
        };
        let name = if is_slice {
            std::ptr::null_mut()
        } else {
            let expression = pg_sys::transformExpr(state, (*subscript).uidx, (*state).p_expr_kind);
            pg_sys::coerce_to_target_type(
                state,
                expression,
                pg_sys::exprType(expression),
                pg_sys::TEXTOID,
                -1,
                pg_sys::CoercionContext::COERCION_IMPLICIT,
                pg_sys::CoercionForm::COERCE_IMPLICIT_CAST,
                -1,
            )
        };
        if name.is_null() {
            raise(Error::argument(
                "The subscript is the name of a property, as in properties['Age']",
            ));
        }
        (*reference).refupperindexpr = pg_sys::lappend(std::ptr::null_mut(), name.cast());
        (*reference).reflowerindexpr = std::ptr::null_mut();
        (*reference).refrestype = pg_sys::JSONBOID;
        (*reference).reftypmod = -1;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn set_up(
    _reference: *const pg_sys::SubscriptingRef,
    _state: *mut pg_sys::SubscriptingRefState,
    methods: *mut pg_sys::SubscriptExecSteps,
) {
    // SAFETY: the executor calls this with methods that are to be set.
    unsafe {
        (*methods).sbs_check_subscripts = Some(check);
        (*methods).sbs_fetch = Some(fetch);
    }
}

/// Returns whether the subscript is a name. If it is NULL, so is the result.
#[pg_guard]
unsafe extern "C-unwind" fn check(
    _state: *mut pg_sys::ExprState,
    step: *mut pg_sys::ExprEvalStep,
    _context: *mut pg_sys::ExprContext,
) -> bool {
    // SAFETY: the executor calls this with a step of this kind. Its one subscript is evaluated.
    unsafe {
        let subscript = (*step).d.sbsref_subscript.state;
        let is_null = *(*subscript).upperindexnull;
        if is_null {
            *(*step).resnull = true;
        }
        !is_null
    }
}

/// Replaces the bag by the value of the property.
#[pg_guard]
unsafe extern "C-unwind" fn fetch(
    _state: *mut pg_sys::ExprState,
    step: *mut pg_sys::ExprEvalStep,
    _context: *mut pg_sys::ExprContext,
) {
    // SAFETY: the executor calls this with a step of this kind, a bag that is not NULL and, after `check`, a text. Both live
    // longer than the call.
    unsafe {
        let subscript = (*step).d.sbsref.state;
        let bag = PropertiesArg::from_datum(*(*step).resvalue, false);
        let name = TextArg::from_datum(*(*subscript).upperindex, false);
        let value = bag.zip(name).and_then(|(bag, name)| bag.get().get(name.get()));
        match value {
            Some(value) => *(*step).resvalue = JsonbOut(json::value_to_json(value)).into_datum(),
            None => *(*step).resnull = true,
        }
    }
}
