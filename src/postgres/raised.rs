//! Errors of PostgreSQL on their way through Rust.
//!
//! pgrx turns an error into a panic at the call that raised it. The panic carries only some of the error's fields, and
//! only those SQLSTATEs that PostgreSQL knows. At the end of the SQL function pgrx has PostgreSQL raise its current
//! error once more. But that names statements of the extension, and it is gone if it was caught on its way. So the
//! error is kept here, whole, when pgrx copies it, and raised again from here. The panic carries the number of the kept
//! error instead of the line in PostgreSQL's source.
//!
//! `build.rs` lets the linker direct all calls of `CopyErrorData`, `pg_re_throw` and `errfinish` in this library, which are pgrx's,
//! to the functions of this file. (Not in the test's own program, which has no PostgreSQL to link with.)

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, PanicHookInfo};

use pgrx::pg_sys::elog::PgLogLevel;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport, ErrorReportWithLevel};
use pgrx::prelude::*;

use super::out_of_memory::replaced::{copy_error, make_fit, out_of_memory};
use super::reserve;

/// Replaces the source file in a panic with a kept error.
const MARK: &CStr = c"an error that is kept";

/// How many errors are kept: as many as are on their way at once, and some more. One is, and one that was caught while
/// its subtransaction is rolled back.
const KEPT: usize = 8;

unsafe extern "C-unwind" {
    fn __real_errfinish(file: *const c_char, line: c_int, function: *const c_char);
    fn __real_pg_re_throw() -> !;
    fn FlushErrorState();
    fn ReThrowError(error: *mut pg_sys::ErrorData) -> !;
}

/// An error, with its texts.
struct Kept {
    number: c_int,
    /// Its pointers are to the texts and the hint.
    error: pg_sys::ErrorData,
    _texts: Vec<u8>,
    hint: Option<CString>,
}

/// Not thread-local: the room for such values is small (`thread_local.c`).
static ERRORS: Errors = Errors(RefCell::new([const { None }; KEPT]));

struct Errors(RefCell<[Option<Kept>; KEPT]>);

// SAFETY: a server process has one thread.
unsafe impl Sync for Errors {}

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
    /// The number of PostgreSQL's current error, if that is kept.
    static CURRENT: Cell<Option<c_int>> = const { Cell::new(None) };
    static RUNNING: Cell<*const Running<'static>> = const { Cell::new(std::ptr::null()) };
}

/// Copies PostgreSQL's error for pgrx, and keeps it.
///
/// # Safety
/// As PostgreSQL's function: an error must have been caught.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, non_snake_case))]
unsafe extern "C-unwind" fn __wrap_CopyErrorData() -> *mut pg_sys::ErrorData {
    let copy = copy_error();
    CURRENT.set(None);
    if copy != out_of_memory() {
        // SAFETY: the texts of a copy are C strings or NULL.
        unsafe {
            if let Some(number) = reserve::aside(|| keep(&*copy)) {
                (*copy).filename = MARK.as_ptr();
                (*copy).lineno = number;
                CURRENT.set(Some(number));
            }
            make_fit(copy);
        }
    }
    copy
}

/// Raises PostgreSQL's current error once more: as it was kept.
///
/// # Safety
/// As PostgreSQL's function: an error must have been caught.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C-unwind" fn __wrap_pg_re_throw() -> ! {
    // SAFETY: an error was caught. Nothing needs dropping when it leaves this.
    unsafe {
        if let Some(number) = CURRENT.get() {
            raise_kept(number);
        }
        __real_pg_re_throw()
    }
}

/// Raises a kept error, if it is still there.
///
/// # Safety
/// Nothing in the frames up to PostgreSQL may need dropping. PostgreSQL's current errors are discarded.
unsafe fn raise_kept(number: c_int) {
    if let Some(mut error) = find(number, |kept| kept.error) {
        // SAFETY: the caller's promise. The kept error stays where it is until PostgreSQL has copied it.
        unsafe {
            FlushErrorState();
            ReThrowError(&mut error);
        }
    }
}

/// Finishes an error that pgrx reports. If it was kept, and caught on its way ([`rethrow`]), it is raised unchanged.
///
/// # Safety
/// As PostgreSQL's function: an error must have been started.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C-unwind" fn __wrap_errfinish(file: *const c_char, line: c_int, function: *const c_char) {
    // SAFETY: the file is NULL or a C string. Nothing needs dropping when an error leaves this. This discards the error that
    // pgrx has begun, and the errors of which it is made.
    unsafe {
        let name = (!file.is_null()).then(|| CStr::from_ptr(file));
        if name == Some(MARK) {
            raise_kept(line);
        }
        match panic_location() {
            Some((place, line)) if name == Some(UNKNOWN) => __real_errfinish(place, line, function),
            _ => __real_errfinish(file, line, function),
        }
    }
}

/// Keeps a copy of an error and returns its number; `None` if there is no memory.
fn keep(error: &pg_sys::ErrorData) -> Option<c_int> {
    let mut copy = *error;
    // SAFETY: it is NULL or a C string.
    if !copy.internalquery.is_null() && is_own_statement(unsafe { CStr::from_ptr(copy.internalquery) }) {
        copy.internalquery = std::ptr::null_mut();
        copy.internalpos = 0;
    }
    let fields: [*mut *const c_char; 16] = [
        &raw mut copy.filename,
        &raw mut copy.funcname,
        &raw mut copy.domain,
        &raw mut copy.context_domain,
        &raw mut copy.message_id,
        (&raw mut copy.message).cast(),
        (&raw mut copy.detail).cast(),
        (&raw mut copy.detail_log).cast(),
        (&raw mut copy.hint).cast(),
        (&raw mut copy.backtrace).cast(),
        (&raw mut copy.schema_name).cast(),
        (&raw mut copy.table_name).cast(),
        (&raw mut copy.column_name).cast(),
        (&raw mut copy.datatype_name).cast(),
        (&raw mut copy.constraint_name).cast(),
        (&raw mut copy.internalquery).cast(),
    ];
    // SAFETY: each field is NULL or a C string, and belongs to `copy`.
    let text = |field: &*mut *const c_char| unsafe { (!(**field).is_null()).then(|| CStr::from_ptr(**field)) };
    // SAFETY: as above.
    let context = (!copy.context.is_null()).then(|| unsafe { CStr::from_ptr(copy.context) });
    let bytes: usize = fields
        .iter()
        .filter_map(text)
        .chain(context)
        .map(|text| text.count_bytes() + 1)
        .sum();
    let mut texts: Vec<u8> = Vec::new();
    texts.try_reserve_exact(bytes).ok()?;
    for field in &fields {
        let Some(text) = text(field) else { continue };
        // SAFETY: the texts have room for all fields, so they do not move. The field belongs to `copy`.
        unsafe { **field = texts.as_ptr().add(texts.len()).cast() };
        texts.extend_from_slice(text.to_bytes_with_nul());
    }
    if let Some(context) = context {
        let start = texts.len();
        texts.extend_from_slice(context.to_bytes());
        remove_own_statements(&mut texts, start);
        copy.context = if texts.len() == start {
            std::ptr::null_mut()
        } else {
            // SAFETY: the context begins within the texts, which do not move.
            unsafe { texts.as_mut_ptr().add(start).cast() }
        };
        texts.push(0);
    }
    let number = LAST.get().checked_add(1).unwrap_or(1);
    LAST.set(number);
    *ERRORS.0.borrow_mut().get_mut(slot(number))? = Some(Kept {
        number,
        error: copy,
        _texts: texts,
        hint: None,
    });
    Some(number)
}

fn slot(number: c_int) -> usize {
    usize::try_from(number).unwrap_or_default() % KEPT
}

fn find<R>(number: c_int, read: impl FnOnce(&Kept) -> R) -> Option<R> {
    let errors = ERRORS.0.borrow();
    let kept = errors.get(slot(number))?.as_ref()?;
    (kept.number == number).then(|| read(kept))
}

/// A statement of the extension that SPI runs, and those around it.
struct Running<'a> {
    sql: &'a CStr,
    outer: *const Running<'static>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.outer);
    }
}

/// Runs `f`, in which SPI prepares or runs a statement.
///
/// SPI adds the statement's text to each error: as a line of its CONTEXT, or with the position in it as an internal
/// query. Both are removed: an error of a trigger has the same CONTEXT as in a statement of the user.
pub fn while_running<R>(sql: &CStr, f: impl FnOnce() -> R) -> R {
    let running = Running {
        sql,
        outer: RUNNING.get(),
    };
    RUNNING.set((&raw const running).cast());
    let result = f();
    drop(running);
    result
}

/// Returns whether this is the text of a statement that runs.
pub fn is_own_statement(sql: &CStr) -> bool {
    let mut next = RUNNING.get();
    // SAFETY: a pointer that is not NULL is to a value in the frame of a `while_running` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.sql == sql {
            return true;
        }
        next = running.outer;
    }
    false
}

/// Removes the lines that SPI added for statements that run from a context, which begins at `start` and goes on to the
/// end.
fn remove_own_statements(texts: &mut Vec<u8>, start: usize) {
    let mut next = RUNNING.get();
    // SAFETY: a pointer that is not NULL is to a value in the frame of a `while_running` that has not returned.
    while let Some(running) = unsafe { next.as_ref() } {
        remove_statement(texts, start, running.sql.to_bytes());
        next = running.outer;
    }
}

/// Removes the first entry that ends with a quoted statement. An entry is a line, except for the line breaks in the
/// statement. The text before the statement depends on the language of messages.
fn remove_statement(texts: &mut Vec<u8>, start: usize, sql: &[u8]) {
    let mut from = start;
    while let Some(rest) = texts.get(from..) {
        let Some(found) = rest.windows(sql.len().max(1)).position(|part| part == sql) else {
            return;
        };
        let (sql_begin, sql_end) = (from + found, from + found + sql.len());
        from = sql_end;
        let is_quoted =
            texts.get(sql_end) == Some(&b'"') && texts.get(start..sql_begin).is_some_and(|text| text.ends_with(b"\""));
        if !is_quoted {
            continue;
        }
        let end = sql_end + 1;
        let before = texts.get(start..sql_begin).unwrap_or_default();
        let begin = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(start, |at| start + at + 1);
        match texts.get(end) {
            // With the line break after it, or, in the last line, before it.
            Some(b'\n') => {
                texts.drain(begin..=end);
                return;
            }
            None => {
                texts.truncate(begin.saturating_sub(1).max(start));
                return;
            }
            Some(_) => {}
        }
    }
}

/// Runs `f`. Returns an error that it raises, to be raised again or to roll a subtransaction back. Nothing else catches errors.
///
/// A function of PostgreSQL may hold light-weight locks when it raises an error. PostgreSQL gives them back with the
/// roll-back. Code before that would wait for itself, for ever, if it took one. So they are given back here.
pub fn caught<R>(f: impl FnOnce() -> R) -> Result<R, Box<CaughtError>> {
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(f())))
        .catch_others(|error| {
            // SAFETY: no function of this library is called while its process holds such a lock.
            unsafe { pg_sys::LWLockReleaseAll() };
            Err(Box::new(error))
        })
        .execute()
}

/// Returns whether an error that was caught has one of these SQLSTATEs.
pub fn has_sqlstate(error: &CaughtError, codes: &[PgSqlErrorCode]) -> bool {
    let sqlstate = sqlstate(error);
    codes.iter().any(|&code| code as c_int == sqlstate)
}

fn sqlstate(error: &CaughtError) -> c_int {
    let report = report(error);
    // For a code that PostgreSQL does not know, pgrx has XX000.
    kept(report, |kept| kept.error.sqlerrcode).unwrap_or(report.sql_error_code() as c_int)
}

/// Returns whether an error that was caught concerns the session or the server, and not only the statement: no memory
/// or disk, a cancel, a shutdown, damage, and errors that should not be.
pub fn concerns_session(error: &CaughtError) -> bool {
    // PostgreSQL's classes of SQLSTATEs: the lowest bits.
    const CLASS: c_int = (1 << 12) - 1;
    let classes = [
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES,
        PgSqlErrorCode::ERRCODE_OPERATOR_INTERVENTION,
        PgSqlErrorCode::ERRCODE_SYSTEM_ERROR,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
    ];
    let sqlstate = sqlstate(error);
    classes.iter().any(|&class| class as c_int & CLASS == sqlstate & CLASS)
}

/// Returns whether an error that was caught comes from a cancel, by a user or by `statement_timeout`. Code of users can
/// raise an error with the same SQLSTATE.
pub fn is_cancel(error: &CaughtError) -> bool {
    has_sqlstate(error, &[PgSqlErrorCode::ERRCODE_QUERY_CANCELED])
        && kept(report(error), |kept| {
            let function = kept.error.funcname;
            // SAFETY: it is NULL or a C string in the texts of the kept error.
            !function.is_null() && unsafe { CStr::from_ptr(function) } == c"ProcessInterrupts"
        })
        .unwrap_or(true)
}

/// Joins two hints. The hint of a user's trigger may lack its full stop.
fn sentences(hint: &str, more: &str) -> String {
    let stop = if hint.ends_with(char::is_alphanumeric) { "." } else { "" };
    format!("{hint}{stop} {more}")
}

/// Raises an error that was caught once more.
pub fn rethrow(error: Box<CaughtError>) -> ! {
    let again = match *error {
        // For this kind pgrx would let PostgreSQL raise its current error, which may be another one by now.
        CaughtError::PostgresError(report) => CaughtError::ErrorReport(report),
        error => error,
    };
    #[allow(clippy::disallowed_methods)]
    again.rethrow()
}

/// Adds this to the hint of an error that was caught, and raises it again.
pub fn rethrow_with(error: Box<CaughtError>, more: &str) -> ! {
    let report = report(&error);
    let joined = |hint: Option<&str>| hint.map_or_else(|| more.to_owned(), |hint| sentences(hint, more));
    if kept(report, |_| ()).is_some() {
        let slot = slot(c_int::try_from(report.line_number()).unwrap_or_default());
        if let Some(Some(kept)) = ERRORS.0.borrow_mut().get_mut(slot) {
            // SAFETY: it is NULL or a C string of the kept error.
            let hint =
                (!kept.error.hint.is_null()).then(|| unsafe { CStr::from_ptr(kept.error.hint) }.to_string_lossy());
            let hint = CString::new(joined(hint.as_deref())).unwrap_or_default();
            kept.error.hint = hint.as_ptr().cast_mut();
            kept.hint = Some(hint);
        }
        rethrow(error)
    }
    let again = ErrorReport::new(report.sql_error_code(), report.message().to_owned(), "table_service");
    again.set_hint(joined(report.hint())).report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Returns whether an error that was caught has this message, which PostgreSQL may have translated.
pub fn says(error: &CaughtError, message: &str) -> bool {
    let report = report(error);
    report.message() == message
        || kept(report, |kept| {
            let id = kept.error.message_id;
            // SAFETY: it is NULL or a C string in the texts of the kept error.
            !id.is_null() && unsafe { CStr::from_ptr(id) }.to_bytes() == message.as_bytes()
        })
        .unwrap_or_default()
}

/// Returns the message of an error that was caught.
pub fn message(error: &CaughtError) -> &str {
    report(error).message()
}

fn kept<R>(report: &ErrorReportWithLevel, read: impl FnOnce(&Kept) -> R) -> Option<R> {
    if report.file().as_bytes() != MARK.to_bytes() {
        return None;
    }
    find(c_int::try_from(report.line_number()).ok()?, read)
}

fn report(error: &CaughtError) -> &ErrorReportWithLevel {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report,
    }
}

/// The name that pgrx gives to the file of a panic that its hook has not seen.
const UNKNOWN: &CStr = c"<unknown>";

/// How much of the path of a source file is noted.
const PATH: usize = 128;

/// Where the code panicked last. For the server's log.
struct PanicLocation {
    path: [u8; PATH],
    line: c_int,
}

thread_local! {
    static NOTED: ManuallyDrop<RefCell<PanicLocation>> = const { ManuallyDrop::new(RefCell::new(PanicLocation { path: [0; PATH], line: 0 })) };
}

/// Notes the locations of panics instead of pgrx's hook, which also captures a backtrace if the environment has
/// RUST_BACKTRACE, and shows it to users as DETAIL.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let Some(location) = panic.location() else { return };
        NOTED.with(|noted| {
            let Ok(mut noted) = noted.try_borrow_mut() else { return };
            noted.path = [0; PATH];
            // The last byte stays 0.
            for (to, &byte) in noted.path[..PATH - 1].iter_mut().zip(location.file().as_bytes()) {
                *to = byte;
            }
            noted.line = location.line() as c_int;
        });
    }));
}

fn panic_location() -> Option<(*const c_char, c_int)> {
    NOTED.with(|noted| {
        let noted = noted.borrow();
        (noted.line > 0).then_some((noted.path.as_ptr().cast(), noted.line))
    })
}
