//! Change feeds. A feed is a publication and a logical replication slot: there is no second catalog, and nothing is written twice.
//!
//! PostgreSQL makes a slot only in a transaction that has not written yet, so a new feed's slot comes first and its
//! publication second. `pgoutput` looks a publication up as it was when a change was written, and before PostgreSQL 18
//! it fails if there was none. So a new slot begins where its transaction commits. The tables are locked against writes
//! until then: no change of them is before that position and not yet visible.

use std::time::Duration;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use table_service_model::change_feed::{Change, FeedName, Note};
use table_service_model::{Error, Lsn};

use super::feed_messages::Messages;
use crate::postgres::privileges::require_owner;
use crate::postgres::raised::rethrow_with;
use crate::postgres::replication_slot::{is_standby, may_write};
use crate::postgres::table_locks::{lock_all, waiting_at_most};
use crate::postgres::{
    Action, Connection, Mode, Text, Value, catalog, caught, citus, connect, has_sqlstate, notes, replication_slot,
    rethrow, run_on_new_rows,
};
use crate::storage::property_index::qualified_name;
use crate::storage::table::{Table, not_found};

/// How far a slot may fall behind, in bytes of the log, before a read that finds nothing moves it: one segment of the usual size.
const IDLE_BYTES: u64 = 16 * 1024 * 1024;

/// How long the creation of a feed of all tables waits for others, which may use tables that do not concern the caller.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(10);

/// The existing parts of a feed.
pub struct ChangeFeed {
    name: String,
    publication: Option<Publication>,
    slot: Option<Slot>,
    /// How far the log is written.
    written: Lsn,
}

/// The publication with a feed's name. Any role that may create objects in the database may have made it.
struct Publication {
    name: String,
    owner: pg_sys::Oid,
    owner_name: String,
    /// Whether the caller has the rights of its owner.
    is_of_caller: bool,
    /// The reason why it leaves changes of its tables out.
    lack: Option<String>,
}

impl Publication {
    /// Returns whether its owner could have made the feed. A role with REPLICATION can lose changes of every feed: it
    /// may move every slot. Without this check, other roles would decide the content of a feed.
    fn is_of_feed(&self) -> bool {
        replication_slot::may_be_used_by(self.owner)
    }

    /// Checks that it belongs to a feed, and has all changes of its tables.
    ///
    /// # Errors
    /// `AuthorizationFailure` if its owner lacks REPLICATION, and `InvalidInput` if it leaves changes out.
    fn check(&self) -> Result<(), Error> {
        let publication = self.name.clone();
        if !self.is_of_feed() {
            let owner = self.owner_name.clone();
            return Err(Error::ChangeFeedPublicationOfOthers { publication, owner });
        }
        match self.lack.clone() {
            Some(what) => Err(Error::ChangeFeedPublicationInPart { publication, what }),
            None => Ok(()),
        }
    }

    /// Checks that it has these tables, with old images if they are wanted. Without `tables` it checks its own tables.
    ///
    /// # Errors
    /// `InvalidInput`; `TableNotFound` and the errors of names.
    fn require(&self, tables: Option<&[&str]>, old_images: bool) -> Result<(), Error> {
        const SQL: &str = "SELECT t.relid::pg_catalog.regclass FROM pg_catalog.pg_get_publication_tables($1) AS t";
        let name = Text::new(&self.name);
        let published = connect(|spi| Table::all_in_catalog(&spi.read_catalogs(SQL, &[name.value()])));
        if let Some(names) = tables {
            let is_missing = |table: &&Table| published.iter().all(|published| published.oid() != table.oid());
            if let Some(missing) = named_tables(names)?.iter().find(is_missing) {
                return Err(Error::ChangeFeedLacksTable {
                    publication: self.name.clone(),
                    table: missing.name().name().to_owned(),
                });
            }
        }
        match old_images {
            true => published.iter().try_for_each(require_images),
            false => Ok(()),
        }
    }
}

struct Slot {
    name: String,
    confirmed: Lsn,
    is_lost: bool,
    /// Whether it gives prepared transactions before they commit, and no more when they do.
    is_two_phase: bool,
}

/// Checks that the tables of the service are on this server alone.
///
/// # Errors
/// `NotImplemented`.
pub fn require_one_server() -> Result<(), Error> {
    if citus::is_enabled() || citus::is_worker() {
        return Err(not_of_cluster());
    }
    Ok(())
}

fn not_of_cluster() -> Error {
    Error::NotImplemented {
        reason: "The changes of a distributed table are in the logs of several servers. Change feeds are for tables of one server"
            .to_owned(),
    }
}

impl ChangeFeed {
    /// Looks a feed up. All parts of it may be missing. A slot that this transaction has dropped is missing. The
    /// publication of that name may belong to another role.
    ///
    /// # Errors
    /// `InvalidInput` if another kind of slot has the name of its slot.
    pub fn find(name: FeedName<'_>) -> Result<ChangeFeed, Error> {
        const SQL: &str = "SELECT p.pubowner::pg_catalog.int8, pg_catalog.pg_get_userbyid(p.pubowner)::pg_catalog.text, pg_catalog.pg_has_role(p.pubowner, 'USAGE'), CASE WHEN NOT (p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate) THEN 'does not publish all of insert, update, delete and truncate' WHEN NOT p.pubviaroot THEN 'publishes parts of tables under names of their own (publish_via_partition_root)' ELSE (SELECT pg_catalog.format('has a row filter of the table %I', pg_catalog.min(c.relname::pg_catalog.text)) FROM pg_catalog.pg_publication_rel AS r JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) r.prrelid WHERE r.prpubid OPERATOR(pg_catalog.=) p.oid AND r.prqual IS NOT NULL HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0) END, s.slot_name::pg_catalog.text, s.confirmed_flush_lsn::pg_catalog.text, s.wal_status OPERATOR(pg_catalog.=) 'lost', s.slot_type OPERATOR(pg_catalog.=) 'logical' AND s.plugin OPERATOR(pg_catalog.=) 'pgoutput' AND s.datoid OPERATOR(pg_catalog.=) $3, s.two_phase, CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_flush_lsn() END::pg_catalog.text FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_publication AS p ON p.pubname::pg_catalog.text OPERATOR(pg_catalog.=) $1 LEFT JOIN pg_catalog.pg_replication_slots AS s ON s.slot_name::pg_catalog.text OPERATOR(pg_catalog.=) $2";
        let publication = name.publication();
        let database = catalog::database();
        let slot = Text::new(&name.slot(database.to_u32()));
        connect(|spi| {
            let named = Text::new(&publication);
            let values = [named.value(), slot.value(), Value::oid(database)];
            let rows = spi.read_catalogs(SQL, &values);
            let row = rows.first();
            let text = |column| row?.text(column).map(|text| text.get().to_owned());
            let is = |column| row.and_then(|row| row.boolean(column)) == Some(true);
            let position = |column| {
                let position = text(column).and_then(|text| Lsn::parse(&text).ok());
                position.unwrap_or(Lsn(0))
            };
            if let Some(slot) = text(5).filter(|_| !is(8)) {
                return Err(Error::ChangeFeedSlotOfOthers { slot });
            }
            let owner = row.and_then(|row| u32::try_from(row.int8(1)?).ok());
            Ok(ChangeFeed {
                name: name.get().to_owned(),
                publication: owner.map(|owner| Publication {
                    name: publication.clone(),
                    owner: pg_sys::Oid::from(owner),
                    owner_name: text(2).unwrap_or_default(),
                    is_of_caller: is(3),
                    lack: text(4),
                }),
                slot: text(5)
                    .filter(|name| !replication_slot::is_dropped(name))
                    .map(|name| Slot {
                        name,
                        confirmed: position(6),
                        is_lost: is(7),
                        is_two_phase: is(9),
                    }),
                written: position(10),
            })
        })
    }

    /// Returns whether there is neither a publication nor a slot.
    pub fn is_absent(&self) -> bool {
        self.publication.is_none() && self.slot.is_none()
    }

    /// Returns the error that there is no such feed.
    pub fn not_found(&self) -> Error {
        let feed = self.name.clone();
        Error::ChangeFeedNotFound { feed }
    }

    /// Returns the publication and the slot.
    ///
    /// # Errors
    /// `ResourceNotFound` (42704) if one is missing; `InvalidInput` if the slot gives changes that may be rolled back;
    /// the errors of [`Publication::check`].
    fn parts(&self) -> Result<(&Publication, &Slot), Error> {
        let feed = self.name.clone();
        if let Some(publication) = &self.publication {
            publication.check()?;
        }
        match (&self.publication, &self.slot) {
            (Some(_), Some(slot)) if slot.is_two_phase => Err(Error::ChangeFeedSlotOfTwoPhases { feed }),
            (Some(publication), Some(slot)) => Ok((publication, slot)),
            (Some(_), None) if is_standby() => Err(Error::ChangeFeedOfPrimary { feed }),
            (Some(_), None) => Err(Error::ChangeFeedSlotNotFound { feed }),
            (None, Some(_)) => Err(Error::ChangeFeedPublicationNotFound { feed }),
            (None, None) => Err(self.not_found()),
        }
    }

    /// Makes the missing parts of the feed, and returns its first position. Without `tables` the feed has all existing
    /// tables, or those of its publication.
    ///
    /// # Errors
    /// `ResourceAlreadyExists` if its publication exists, unless `if_not_exists`; `TableNotFound` and errors of table
    /// names; `ResourceNotFound` if the slot exists without its publication; `InvalidInput` for a table whose replica
    /// identity lacks the keys, and if the publication differs; the errors of [`Publication::check`].
    pub fn create(
        name: FeedName<'_>,
        tables: Option<&[&str]>,
        old_images: bool,
        if_not_exists: bool,
    ) -> Result<Lsn, Error> {
        let feed = ChangeFeed::find(name)?;
        match feed.parts() {
            Ok((publication, slot)) if if_not_exists => {
                publication.require(tables, old_images)?;
                return Ok(slot.confirmed);
            }
            Ok(_) => return Err(Error::ChangeFeedExists { feed: feed.name }),
            // The role that made the publication has chosen its tables.
            Err(Error::ChangeFeedSlotNotFound { .. }) if !if_not_exists => {
                return Err(Error::ChangeFeedPublicationExists { feed: feed.name });
            }
            Err(Error::ChangeFeedSlotNotFound { .. } | Error::ChangeFeedNotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let slot = name.slot(catalog::database().to_u32());
        let make_slot = |from_commit| {
            with_hints(&feed.name, || {
                if replication_slot::is_dropped(&slot) {
                    raise_dropped(&slot);
                }
                replication_slot::make(&slot, from_commit);
            });
            let made = ChangeFeed::find(name).ok().and_then(|feed| feed.slot);
            made.map_or(Lsn(0), |slot| slot.confirmed)
        };
        if let Some(publication) = &feed.publication {
            publication.require(tables, old_images)?;
            return Ok(make_slot(false));
        }
        let limit = tables.is_none().then_some(WAIT_FOR_OTHERS);
        let tables = match tables {
            Some(names) => named_tables(names)?,
            None => all_tables(),
        };
        if tables.iter().any(Table::is_distributed) {
            return Err(not_of_cluster());
        }
        with_hints(&feed.name, || {
            tables.iter().for_each(|table| require_owner(table.oid()))
        });
        // With old images the tables get another replica identity.
        if !old_images {
            tables.iter().try_for_each(require_keys)?;
        }
        waiting_at_most(limit, || {
            let position = make_slot(true);
            with_hints(&feed.name, || publish(&name.publication(), &tables, old_images))?;
            Ok(position)
        })
    }

    /// Drops the existing parts of the feed, when the transaction commits. A publication of that name that belongs to
    /// no feed stays. It does not keep the caller from dropping the slot.
    ///
    /// # Errors
    /// `AuthorizationFailure` for a role without REPLICATION.
    pub fn drop(&self) -> Result<(), Error> {
        if let Some(slot) = &self.slot {
            require_replication("drops")?;
            // Another session may have dropped it meanwhile.
            if replication_slot::exists(&slot.name) {
                with_hints(&self.name, || replication_slot::require_free(&slot.name));
            }
            replication_slot::at_commit(&slot.name, Action::Dropped);
        }
        let Some(publication) = &self.publication else {
            return Ok(());
        };
        if self.slot.is_some() && !publication.is_of_caller && !publication.is_of_feed() {
            pgrx::warning!(
                "the publication {} stays: it belongs to the role \"{}\", and is none of a change feed",
                publication.name,
                publication.owner_name
            );
            return Ok(());
        }
        run_on_new_rows(&format!("DROP PUBLICATION {}", quote_identifier(&publication.name)))
            .unwrap_or_else(|error| rethrow(error));
        Ok(())
    }

    /// Confirms all transactions up to a position, when this transaction commits. Transactions that are confirmed
    /// already stay so.
    ///
    /// # Errors
    /// `ResourceNotFound` if a part of the feed is missing; `InvalidInput` for a position that the log has not reached;
    /// `AuthorizationFailure` for a role without REPLICATION.
    pub fn confirm(&self, position: Lsn) -> Result<(), Error> {
        let (_, slot) = self.parts()?;
        require_replication("confirms")?;
        if position > self.written {
            return Err(Error::argument(format!(
                "The log of this server has not reached the position {position}. If the server was restored, create the change feed again and copy the tables"
            )));
        }
        with_hints(&self.name, || {
            if slot.is_lost {
                raise_lost(&slot.name);
            }
            replication_slot::require_free(&slot.name);
        });
        if position > slot.confirmed {
            replication_slot::at_commit(&slot.name, Action::Confirmed(position));
        }
        Ok(())
    }

    /// Writes a mark, which counts if this transaction commits. Returns its end in the log.
    ///
    /// # Errors
    /// `ResourceNotFound` if a part of the feed is missing; `AuthorizationFailure` for a role without REPLICATION.
    pub fn mark(&self, text: &str) -> Result<Lsn, Error> {
        let (_, slot) = self.parts()?;
        require_replication("marks")?;
        if slot.is_lost {
            with_hints(&self.name, || raise_lost(&slot.name));
        }
        let feed = &slot.name;
        Ok(notes::write(&Note::Mark { feed, text }))
    }

    /// Reads the changes that are not confirmed, in the order of commits, with definitions and marks if `with_notes`. A page has at least `top` changes, if there are as many,
    /// and ends with a transaction. Each change goes to `sink` with the position of its transaction's end, and with the moment of
    /// the commit, in microseconds since 2000-01-01.
    ///
    /// # Errors
    /// Those of [`ChangeFeed::parts`], and `InternalError` for messages that cannot be read.
    pub fn read(&self, top: u64, with_notes: bool, sink: &mut dyn FnMut(Lsn, i64, Change<'_>)) -> Result<(), Error> {
        let (publication, slot) = self.parts()?;
        if top == 0 {
            return Ok(());
        }
        let from = replication_slot::confirmed(&slot.name)
            .unwrap_or(slot.confirmed)
            .max(slot.confirmed);
        // Others get PostgreSQL's error, which says that they may not decode.
        if replication_slot::may_use() && !is_standby() {
            replication_slot::flush_log();
        }
        let is_idle = with_hints(&self.name, || {
            connect(|spi| {
                let messages = Messages::of(&slot.name, &publication.name, with_notes);
                messages.read(spi, top, from, sink)
            })
        })?;
        // Nothing of the feed is before this position. Without this, the log of other tables' changes would be kept for ever.
        if is_idle && self.written.0.saturating_sub(from.0) >= IDLE_BYTES && may_write() {
            replication_slot::at_commit(&slot.name, Action::Passed(self.written));
        }
        Ok(())
    }
}

/// Returns the tables with these names, each once, in the order of their names.
///
/// # Errors
/// `TableNotFound`, `AmbiguousTableName`, and the errors of names.
fn named_tables(names: &[&str]) -> Result<Vec<Table>, Error> {
    let mut tables = Vec::new();
    for name in names {
        table_service_model::table_name::check_form(name)?;
        tables.push(Table::find(name)?.ok_or_else(|| not_found(Error::TableNotFound, name))?);
    }
    tables.sort_by(|a, b| a.name().name().cmp(b.name().name()));
    tables.dedup_by_key(|table| table.oid());
    Ok(tables)
}

/// Returns the tables of the service that PostgreSQL logs, without the parts of partitioned ones, in the order of their names.
fn all_tables() -> Vec<Table> {
    const SQL: &str = "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class AS c WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}') AND c.relpersistence OPERATOR(pg_catalog.=) 'p' AND NOT c.relispartition ORDER BY c.relname";
    connect(|spi| Table::all_in_catalog(&spi.read_catalogs(SQL, &[Value::oid(catalog::data_schema())])))
}

/// Locks the tables against writes, and makes their publication.
///
/// # Errors
/// `InvalidInput` if one has got another name meanwhile.
fn publish(publication: &str, tables: &[Table], old_images: bool) -> Result<(), Error> {
    let mut statement = format!("CREATE PUBLICATION {}", quote_identifier(publication));
    let names: Vec<String> = tables.iter().map(|table| table.name().to_string()).collect();
    if !names.is_empty() {
        statement.push_str(&format!(" FOR TABLE {}", names.join(", ")));
    }
    statement.push_str(" WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)");
    let mode = if old_images {
        Mode::AccessExclusive
    } else {
        Mode::ShareRowExclusive
    };
    lock_all(names, mode);
    // From now on the names lead to the locked tables. These may differ from the tables that were found by the names.
    let is_other = |table: &&Table| {
        let now = Table::in_catalog(table.oid());
        now.is_none_or(|now| now.name().name() != table.name().name())
    };
    if let Some(table) = tables.iter().find(is_other) {
        return Err(Error::argument(format!(
            "The table \"{}\" got another name meanwhile, or is gone: call create_change_feed again",
            table.name().name()
        )));
    }
    connect(|spi| {
        spi.run_definition(&statement);
        if old_images {
            for part in tables.iter().flat_map(|table| parts(spi, table)) {
                spi.run_definition(&format!("ALTER TABLE {part} REPLICA IDENTITY FULL"));
            }
        }
    });
    Ok(())
}

/// Returns a table and, if it is partitioned, its parts. Each has a replica identity of its own.
fn parts(spi: &Connection, table: &Table) -> Vec<String> {
    const SQL: &str = "SELECT p.relid FROM pg_catalog.pg_partition_tree($1::pg_catalog.regclass) AS p UNION ALL SELECT $1::pg_catalog.regclass WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_partition_tree($1::pg_catalog.regclass))";
    let rows = spi.read_catalogs(SQL, &[Value::regclass(table.oid())]);
    let parts = rows.iter().filter_map(|row| row.relation(1)).filter_map(qualified_name);
    parts.collect()
}

/// Checks that updates and deletes of a table, and of its parts, identify their entities.
///
/// # Errors
/// `InvalidInput`.
fn require_keys(table: &Table) -> Result<(), Error> {
    const LACKS_KEYS: &str = "c.relreplident OPERATOR(pg_catalog.<>) 'f' AND NOT EXISTS (SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisvalid AND i.indimmediate AND (c.relreplident OPERATOR(pg_catalog.=) 'd' AND i.indisprimary OR c.relreplident OPERATOR(pg_catalog.=) 'i' AND i.indisreplident) AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) ANY (i.indkey) AND a.attname OPERATOR(pg_catalog.=) ANY ('{partition_key,row_key}'::pg_catalog.name[])) OPERATOR(pg_catalog.=) 2)";
    match part_where(table, LACKS_KEYS) {
        Some(table) => Err(Error::ChangeFeedNeedsKeys { table }),
        None => Ok(()),
    }
}

/// Checks that updates and deletes of a table, and of its parts, have the old entity.
///
/// # Errors
/// `InvalidInput`.
fn require_images(table: &Table) -> Result<(), Error> {
    match part_where(table, "c.relreplident OPERATOR(pg_catalog.<>) 'f'") {
        Some(table) => Err(Error::ChangeFeedLacksImages { table }),
        None => Ok(()),
    }
}

/// Returns the first of a table and its parts that has rows of its own and meets a condition on its row `c` of `pg_class`.
fn part_where(table: &Table, condition: &str) -> Option<String> {
    let sql = format!(
        "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT p.relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree($1::pg_catalog.regclass) AS p) OPERATOR(pg_catalog.||) $1::pg_catalog.oid) AND c.relkind OPERATOR(pg_catalog.=) 'r' AND {condition} ORDER BY c.relname LIMIT 1"
    );
    connect(|spi| {
        let rows = spi.read_catalogs(&sql, &[Value::regclass(table.oid())]);
        rows.first().and_then(|row| row.relation(1)).and_then(qualified_name)
    })
}

/// # Errors
/// `AuthorizationFailure`.
fn require_replication(verb: &str) -> Result<(), Error> {
    if replication_slot::may_use() {
        return Ok(());
    }
    Err(Error::NotAuthorized {
        reason: format!("Only a role with REPLICATION {verb} change feeds: ALTER ROLE ... REPLICATION"),
    })
}

/// Raises PostgreSQL's error for a slot that has lost its part of the log.
fn raise_lost(slot: &str) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("can no longer get changes from replication slot \"{slot}\"")
    );
}

/// Raises PostgreSQL's error for a slot that cannot be made in this transaction: the transaction has dropped it, so it
/// exists until the commit.
fn raise_dropped(slot: &str) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("cannot create replication slot \"{slot}\" in the transaction that drops it")
    );
}

/// Runs `f`, which uses a slot. PostgreSQL's errors get hints that say how to proceed with a feed.
fn with_hints<R>(feed: &str, f: impl FnOnce() -> R) -> R {
    caught(f).unwrap_or_else(|error| {
        replication_slot::release_after_failed_read();
        match hint(feed, &error) {
            Some(hint) => rethrow_with(error, &hint),
            None => rethrow(error),
        }
    })
}

fn hint(feed: &str, error: &CaughtError) -> Option<String> {
    let is = |code| has_sqlstate(error, &[code]);
    Some(if is(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE) {
        if is_standby() {
            "This server is a standby. Read the change feed on the primary.".to_owned()
        } else if replication_slot::is_log_logical() {
            format!(
                "The change feed \"{feed}\" has lost changes that were not confirmed in time (max_slot_wal_keep_size). Call drop_change_feed('{feed}') and create_change_feed, then copy the tables again."
            )
        } else {
            "Change feeds need wal_level = logical: ALTER SYSTEM SET wal_level = 'logical', then restart the server."
                .to_owned()
        }
    } else if is(PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED) {
        "Each change feed needs a replication slot: query_change_feeds and pg_replication_slots list those that there are, and drop_change_feed frees one."
            .to_owned()
    } else if is(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE) {
        "A feed of all tables waits 10 seconds for others, one of table_names as long as lock_timeout says. It also waits for transactions that have written, which pg_stat_activity shows (backend_xid). Call create_change_feed again when they have ended, or with the names of other tables."
            .to_owned()
    } else if is(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE) {
        format!(
            "Another session reads the change feed \"{feed}\". A feed has one reader: give each reader a feed of its own."
        )
    } else if is(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE) {
        "A change feed is made and read by a role with REPLICATION (ALTER ROLE ... REPLICATION). To make one, it must own the tables and may create in the database (GRANT CREATE ON DATABASE)."
            .to_owned()
    } else if is(PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION) {
        "Call create_change_feed in a transaction of its own, or before the transaction writes.".to_owned()
    } else if is(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT) && !has_slot(feed) {
        format!(
            "Another session has dropped the change feed \"{feed}\". Call create_change_feed('{feed}'), then copy the tables again."
        )
    } else if is(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT) {
        format!(
            "The change feed \"{feed}\" has changes from before its publication was there, which PostgreSQL cannot read before version 18: of a transaction that was running when the feed was made, or because the publication was renamed. Drop the feed's slot with pg_drop_replication_slot, call create_change_feed('{feed}', if_not_exists => true), then copy the tables again."
        )
    } else {
        return None;
    })
}

fn has_slot(feed: &str) -> bool {
    let slot = |feed: FeedName<'_>| feed.slot(catalog::database().to_u32());
    FeedName::parse(feed).is_ok_and(|feed| replication_slot::exists(&slot(feed)))
}
