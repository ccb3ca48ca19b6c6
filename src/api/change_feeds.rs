//! Change feeds: the changes of entities, in the order of commits.

use pgrx::prelude::*;
use table_service_model::change_feed::{Change, FeedName, MARK_BYTES, PREFIX, slot_prefix};
use table_service_model::{Error, Lsn, Properties};

use super::results::{ChangeFeeds, Changes, FeedRows};
use crate::engine::change_feed::{self as engine, ChangeFeed};
use crate::postgres::{Array, Bag, Call, Text, TextArg, TextArrayArg, Value, catalog, connect, raising};
use crate::storage::arguments::{self, prevent_if_read_only, required};
use crate::storage::result_set::ResultSet;
use crate::storage::row::broken_entity;

/// Creates a change feed of tables, and returns its first position. Without `table_names` it is a feed of all tables that there
/// are. With `old_images` changes have the properties as they were, too.
///
/// Raises `ResourceAlreadyExists` if there is such a feed, unless `if_not_exists`, and `InvalidInput` if that has not what is asked for.
/// The caller must have REPLICATION, own the tables and may create in the database.
#[pg_extern]
fn create_change_feed(
    feed_name: Option<TextArg<'_>>,
    table_names: default!(Option<TextArrayArg<'_>>, "NULL"),
    old_images: default!(Option<bool>, "false"),
    if_not_exists: default!(Option<bool>, "false"),
) -> String {
    raising(|| {
        let feed = checked(feed_name)?;
        let names = table_names.as_ref().map(table_names_of).transpose()?;
        let old_images = required("old_images", old_images)?;
        let if_not_exists = required("if_not_exists", if_not_exists)?;
        prevent_if_read_only(c"create_change_feed()");
        engine::require_one_server()?;
        let position = ChangeFeed::create(feed, names.as_deref(), old_images, if_not_exists)?;
        Ok(position.to_string())
    })
}

/// Drops a change feed when the transaction commits, and returns whether there was one.
///
/// Raises `ResourceNotFound` if there is none, unless `if_exists`, and PostgreSQL's error 55006 while another session reads it.
#[pg_extern]
fn drop_change_feed(feed_name: Option<TextArg<'_>>, if_exists: default!(Option<bool>, "false")) -> bool {
    raising(|| {
        let feed = checked(feed_name)?;
        let if_exists = required("if_exists", if_exists)?;
        prevent_if_read_only(c"drop_change_feed()");
        let feed = ChangeFeed::find(feed)?;
        if feed.is_absent() {
            return if if_exists { Ok(false) } else { Err(feed.not_found()) };
        }
        feed.drop().map(|()| true)
    })
}

/// Returns the change feeds of the database: their tables, whether a session reads them now, how much of PostgreSQL's log they
/// retain, and the position up to which they are confirmed.
#[pg_extern(stable, parallel_restricted)]
fn query_change_feeds(call: Call<'_>) -> ChangeFeeds {
    const SQL: &str = "\
        SELECT COALESCE(p.feed, s.feed), p.pubname, COALESCE(s.active, false), s.wal_status, \
            CASE WHEN s.wal_status OPERATOR(pg_catalog.=) 'lost' THEN 0 ELSE pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, s.restart_lsn)::pg_catalog.int8 END, s.confirmed_flush_lsn::pg_catalog.text \
        FROM (SELECT p.pubname::pg_catalog.text AS pubname, \
                pg_catalog.substr(p.pubname::pg_catalog.text, pg_catalog.length($1) OPERATOR(pg_catalog.+) 1) AS feed \
            FROM pg_catalog.pg_publication AS p \
            WHERE pg_catalog.starts_with(p.pubname::pg_catalog.text, $1) \
            AND pg_catalog.lower(p.pubname::pg_catalog.text COLLATE pg_catalog.\"C\") OPERATOR(pg_catalog.=) p.pubname::pg_catalog.text) AS p \
        FULL JOIN (SELECT s.*, \
                pg_catalog.substr(s.slot_name::pg_catalog.text, pg_catalog.length($2) OPERATOR(pg_catalog.+) 1) AS feed \
            FROM pg_catalog.pg_replication_slots AS s \
            WHERE pg_catalog.starts_with(s.slot_name::pg_catalog.text, $2)) AS s \
            ON p.feed OPERATOR(pg_catalog.=) s.feed \
        ORDER BY COALESCE(p.feed, s.feed) COLLATE pg_catalog.\"C\"";
    const TABLES: &str = "\
        SELECT t.tablename::pg_catalog.text \
        FROM pg_catalog.pg_publication_tables AS t \
        WHERE t.pubname::pg_catalog.text OPERATOR(pg_catalog.=) $1 \
        AND t.schemaname::pg_catalog.text OPERATOR(pg_catalog.=) $2 \
        ORDER BY pg_catalog.lower(t.tablename::pg_catalog.text COLLATE pg_catalog.\"C\")";
    let slots = slot_prefix(catalog::database().to_u32());
    let (publications, slots, schema) = (Text::new(PREFIX), Text::new(&slots), Text::new(catalog::DATA_SCHEMA));
    connect(|spi| {
        let rows = spi.read_catalogs(SQL, &[publications.value(), slots.value()]);
        let mut result = ResultSet::open(call);
        for row in rows.iter() {
            let Some(feed) = row.text(1).filter(|feed| FeedName::parse(feed.get()).is_ok()) else {
                continue;
            };
            let tables = row.text(2).map(|publication| {
                let rows = spi.read_catalogs(TABLES, &[Value::text(publication), schema.value()]);
                let names: Vec<&str> = rows.iter().filter_map(|row| row.text(1)).map(TextArg::get).collect();
                Array::of_texts(names.into_iter())
            });
            // In the form of query_changes, which is not PostgreSQL's from 19 on.
            let position = row.text(6).and_then(|text| Lsn::parse(text.get()).ok());
            let position = position.map(|position| Text::new(&position.to_string()));
            result.push([
                Some(Value::text(feed)),
                tables.as_ref().map(Array::value),
                row.boolean(3).map(Value::boolean),
                row.text(4).map(Value::text),
                row.int8(5).map(Value::int8),
                position.as_ref().map(Text::value),
            ]);
        }
    });
    ChangeFeeds
}

/// Returns the changes that are not confirmed, in the order of commits. A page has `top` changes and ends with a transaction, so it
/// may have more. Changes of a table that cannot be read are a row of the kind `gap`, and those of other tables go on.
///
/// Raises `ResourceNotFound` (42704) if there is no such feed or its slot is gone, and PostgreSQL's errors 55006 while another
/// session reads the feed and 55000 if it has lost changes.
#[pg_extern]
fn query_changes(feed_name: Option<TextArg<'_>>, top: default!(Option<i64>, "1000"), call: Call<'_>) -> Changes {
    raising(|| {
        read(
            feed_name,
            top,
            false,
            call,
            |[
                position,
                committed,
                kind,
                _,
                table,
                keys @ ..,
                timestamp,
                properties,
                old,
            ]| {
                let [partition_key, row_key] = keys;
                [
                    position,
                    committed,
                    table,
                    kind,
                    partition_key,
                    row_key,
                    timestamp,
                    properties,
                    old,
                ]
            },
        )
    });
    Changes
}

/// Returns what `query_changes` returns, with the OIDs of the tables, and beside it the definitions of the tables of the service and the marks
/// of the feed: rows of the kinds `create`, `rename`, `drop` and `mark`. They count for `top`.
///
/// Raises the errors of `query_changes`.
#[pg_extern]
fn query_feed(feed_name: Option<TextArg<'_>>, top: default!(Option<i64>, "1000"), call: Call<'_>) -> FeedRows {
    raising(|| read(feed_name, top, true, call, |row| row));
    FeedRows
}

/// Puts the rows of a page into the result of a function. `arrange` puts the columns of `query_feed` into its order.
///
/// # Errors
/// Those of `query_changes`.
fn read<const N: usize>(
    feed_name: Option<TextArg<'_>>,
    top: Option<i64>,
    with_notes: bool,
    call: Call<'_>,
    arrange: impl for<'v> Fn([Option<Value<'v>>; 10]) -> [Option<Value<'v>>; N],
) -> Result<(), Error> {
    let feed = checked(feed_name)?;
    let top = required("top", arguments::top(top)?)?;
    engine::require_one_server()?;
    let feed = ChangeFeed::find(feed)?;
    let mut result = ResultSet::open(call);
    feed.read(top, with_notes, &mut |position, committed, change| {
        let text = |text: &str| Text::new(text);
        let bag = |bag: &[u8]| Bag::new(Properties::of_known_format(bag).unwrap_or_else(|| broken(&change)));
        let (position, kind) = (text(&position.to_string()), text(change.kind.as_str()));
        let relation = change.table.map(|(oid, _)| Value::oid(pg_sys::Oid::from(oid)));
        let table = change.table.map(|(_, name)| text(name));
        let (partition_key, row_key) = (change.partition_key.map(text), change.row_key.map(text));
        let of_kind = change.kind.properties();
        let properties = match &of_kind {
            Some(properties) => Some(Bag::new(properties.as_properties())),
            None => change.properties.map(bag),
        };
        let old_properties = change.old_properties.map(bag);
        result.push(arrange([
            Some(position.value()),
            Some(Value::timestamptz(committed)),
            Some(kind.value()),
            relation,
            table.as_ref().map(Text::value),
            partition_key.as_ref().map(Text::value),
            row_key.as_ref().map(Text::value),
            change.timestamp.map(Value::timestamptz),
            properties.as_ref().map(Bag::value),
            old_properties.as_ref().map(Bag::value),
        ]));
    })
}

/// Raises the error for a row with an invalid bag.
fn broken(change: &Change<'_>) -> ! {
    broken_entity(
        change.partition_key.unwrap_or_default(),
        change.row_key.unwrap_or_default(),
        "had bytes in its column properties that are not a property bag of a known format",
    )
}

/// Writes a mark into PostgreSQL's log, and returns its position. If the transaction commits, `query_feed` gives the mark to the readers of this
/// feed, and to no others.
///
/// Raises `InvalidInput` for a mark that is empty or has more than 256 bytes, `AuthorizationFailure` for a role without REPLICATION, and the
/// errors of `query_changes`.
#[pg_extern]
fn mark_change_feed(feed_name: Option<TextArg<'_>>, mark: Option<TextArg<'_>>) -> String {
    raising(|| {
        let feed = checked(feed_name)?;
        let mark = required("mark", mark)?.get();
        if !(1..=MARK_BYTES).contains(&mark.len()) {
            return Err(Error::argument(format!("A mark has 1 to {MARK_BYTES} bytes")));
        }
        prevent_if_read_only(c"mark_change_feed()");
        engine::require_one_server()?;
        Ok(ChangeFeed::find(feed)?.mark(mark)?.to_string())
    })
}

/// Confirms all changes of a feed up to a position, when the transaction commits: they do not come again. Their part of
/// PostgreSQL's log can go.
///
/// Raises `InvalidInput` for a text that is no position, or one that the server's log has not reached, and the errors of
/// `query_changes`.
#[pg_extern]
fn confirm_changes(feed_name: Option<TextArg<'_>>, position: Option<TextArg<'_>>) {
    raising(|| {
        let feed = checked(feed_name)?;
        let position = Lsn::parse(required("position", position)?.get())?;
        prevent_if_read_only(c"confirm_changes()");
        engine::require_one_server()?;
        ChangeFeed::find(feed)?.confirm(position)
    });
}

/// Returns the name of a feed.
fn checked(feed_name: Option<TextArg<'_>>) -> Result<FeedName<'_>, Error> {
    FeedName::parse(required("feed_name", feed_name)?.get())
}

/// Returns the names of a feed's tables.
fn table_names_of<'a>(names: &TextArrayArg<'a>) -> Result<Vec<&'a str>, Error> {
    let names = names.iter().map(|name| name.map(TextArg::get));
    let names: Option<Vec<&str>> = names.collect();
    match names {
        Some(names) if !names.is_empty() => Ok(names),
        _ => Err(Error::argument(
            "table_names has at least one name and no NULL; without it, the change feed is of all tables",
        )),
    }
}
