//! Notes in PostgreSQL's log, for example about relations.

use pgrx::prelude::*;
use table_service_model::Lsn;
use table_service_model::change_feed::{NOTE_PREFIX, Notary, Note};

use super::spi::c_string;

/// Returns the notary that writes and reads the notes of this server. The secret is the one that initdb has made for
/// log-ins of roles that do not exist: it is in `pg_control`, standbys have the same, and no SQL function shows it.
pub fn notary() -> Notary {
    const BYTES: usize = pg_sys::MOCK_AUTH_NONCE_LEN as usize;
    // SAFETY: the function returns the address of that many bytes in shared memory. Nobody changes them.
    Notary::new(unsafe { &*pg_sys::GetMockAuthenticationNonce().cast::<[u8; BYTES]>() })
}

/// Writes a note. It counts if this transaction commits. Returns its end in the log.
pub fn write(note: &Note<'_>) -> Lsn {
    let prefix = c_string(NOTE_PREFIX);
    // SAFETY: a transaction is running, which may write. The prefix is a C string, and the message has that many bytes.
    unsafe {
        let transaction = pg_sys::GetTopTransactionId().into_inner();
        let message = notary().write(transaction, note);
        let (bytes, is_transactional) = (message.as_ptr().cast(), true);
        #[cfg(not(since_pg17))]
        let end = pg_sys::LogLogicalMessage(prefix.as_ptr(), bytes, message.len(), is_transactional);
        #[cfg(since_pg17)]
        let end = pg_sys::LogLogicalMessage(prefix.as_ptr(), bytes, message.len(), is_transactional, false);
        // Decoding sorts the changes of a transaction and its subtransactions by the beginnings of records, but
        // messages by their ends, where the next record begins. So a record separates a note from the next change.
        pg_sys::XLogBeginInsert();
        pg_sys::XLogInsert(pg_sys::RmgrIds::RM_XLOG_ID as pg_sys::RmgrId, pg_sys::XLOG_NOOP as u8);
        Lsn(end)
    }
}

/// Returns whether this transaction holds a lock on a relation, so that nobody else renames, moves or drops it before the transaction ends.
pub fn is_locked(relation: pg_sys::Oid) -> bool {
    let any = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the function takes any OID, and reads the locks of this process.
    unsafe { pg_sys::CheckRelationOidLockedByMe(relation, any, true) }
}
