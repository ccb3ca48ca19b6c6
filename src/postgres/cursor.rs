//! Cursors: reads that return their rows in parts, and more than once.

use std::ffi::{CStr, CString, c_long};
use std::ops::ControlFlow;

use pgrx::prelude::*;

use super::guc::with_utf8_client;
use super::raised::while_running;
use super::spi::{Connection, Tuple, c_string, parameters, rows};
use super::types::value::Value;

/// How many rows come at once. Each may have a bag of 1 MiB, and so may the one before it.
const PART: c_long = 50;

/// Plans a read with its values, and opens a portal that runs it. An error closes the portal.
pub fn open_portal(sql: &CStr, values: &[Value<'_>], options: u32) -> pg_sys::Portal {
    let options = pg_sys::SPIParseOpenOptions {
        params: parameters(values),
        cursorOptions: options as i32,
        read_only: true,
    };
    // SAFETY: the text is a C string. The parameters have the types that the text is parsed with. Both live longer than
    // the call, and the portal has copies.
    let open = || unsafe { pg_sys::SPI_cursor_parse_open(std::ptr::null(), sql.as_ptr(), &options) };
    while_running(sql, open)
}

/// The rows of a read. PostgreSQL keeps them on disk if they are many.
pub struct Cursor<'c> {
    portal: pg_sys::Portal,
    sql: CString,
    connection: &'c Connection,
}

impl<'c> Cursor<'c> {
    /// Opens a cursor for a read. Nothing runs before the first row is fetched.
    pub fn open(connection: &'c Connection, sql: &str, values: &[Value<'_>]) -> Cursor<'c> {
        connection.ready();
        let sql = c_string(sql);
        Cursor {
            portal: open_portal(&sql, values, pg_sys::CURSOR_OPT_SCROLL),
            sql,
            connection,
        }
    }

    /// Passes the rows to `f`, from the first one on, until `f` breaks. A row lives no longer than the call of `f`.
    pub fn for_each(&self, mut f: impl FnMut(Tuple<'_>) -> ControlFlow<()>) {
        self.connection.ready();
        // SAFETY: the portal is open, and it can go back. Each part is freed after its last use.
        unsafe {
            pg_sys::SPI_scroll_cursor_move(self.portal, pg_sys::FetchDirection::FETCH_ABSOLUTE, 0);
            loop {
                let fetch = || pg_sys::SPI_cursor_fetch(self.portal, true, PART);
                while_running(&self.sql, || with_utf8_client(fetch));
                let table = pg_sys::SPI_tuptable;
                let part = rows(0);
                let flow = part.iter().try_for_each(&mut f);
                let is_last = part.iter().len() == 0;
                pg_sys::SPI_freetuptable(table);
                if is_last || flow.is_break() {
                    return;
                }
                pgrx::check_for_interrupts!();
            }
        }
    }

    /// Closes the cursor. An error also closes it.
    pub fn close(self) {
        // SAFETY: the portal is open.
        unsafe { pg_sys::SPI_cursor_close(self.portal) };
    }
}
