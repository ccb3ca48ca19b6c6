//! The queries of an archive to a database, and to the feed that it is archived by.

use table_service_archive::Moment;
use table_service_model::Lsn;
use tokio_postgres::error::SqlState;

use crate::failure::Failure;

use super::changes::ChangeFeed;
use super::connect::{Connection, SqlError, row, rows};
use super::rows::Micros;
use super::source::SqlSource;
use super::visit::{Access, Known};

/// How long writers wait behind the lock of a base before it is given back, so that a writer that stays does not stop the others.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

const MARK: &str = "SELECT table_service.mark_change_feed($1::pg_catalog.text, $2::pg_catalog.text)";

/// The state of the feed.
#[derive(Debug, PartialEq, Eq)]
pub enum FeedStatus {
    None,
    /// Its slot or its publication is gone, or it has lost changes.
    Lost(String),
    /// Everything behind this position can be read.
    Kept(Lsn),
}

/// The database's state at a moment.
pub struct Probe {
    /// The identity of the database and its server; empty if the server does not tell.
    pub server: String,
    /// Up to where the log is written.
    pub written: Lsn,
    pub clock: Moment,
    pub feed: FeedStatus,
}

/// A table at a position of the feed.
pub struct Frozen {
    /// It reads all entities as they are there.
    pub source: SqlSource,
    pub name: String,
    pub position: Lsn,
    pub clock: Moment,
}

/// The outcome of an attempt to freeze a table.
pub enum Freeze {
    Done(Box<Frozen>),
    /// Others have used the table for too long.
    Busy,
    /// There is no such table.
    Gone,
    /// It cannot be read, which is a matter of this table.
    Refused(Failure),
}

impl ChangeFeed {
    /// Looks at the server's clock and log and at the feed.
    pub async fn probe(&self) -> Result<Probe, Failure> {
        const NOW: &str = "SELECT pg_catalog.pg_current_wal_flush_lsn()::text, pg_catalog.clock_timestamp(), \
                           pg_catalog.concat_ws('/', s.system_identifier, d.oid) FROM pg_catalog.pg_control_system() AS s, \
                           pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()";
        const FEED: &str = "SELECT wal_status, \"position\", table_names IS NULL FROM table_service.query_change_feeds() WHERE feed_name = lower($1::text)";
        let work = async |client: &Connection| {
            if !client.has_functions_of_0_5 {
                return Err(SqlError::ForEver(
                    "an archive needs version 0.5.0 of the extension: ALTER EXTENSION table_service UPDATE".to_owned(),
                ));
            }
            let now = row(client, NOW, &[]).await?;
            let feed = match rows(client, FEED, &[&self.name], 1).await?.first() {
                None => FeedStatus::None,
                Some(found) if found.try_get(2)? => FeedStatus::Lost("the publication of the feed is gone".to_owned()),
                Some(found) => match (found.try_get::<_, Option<&str>>(0)?, found.try_get::<_, Option<&str>>(1)?) {
                    (Some("lost"), _) => FeedStatus::Lost(
                        "the feed was not read for so long that the server has removed its log (max_slot_wal_keep_size)"
                            .to_owned(),
                    ),
                    (Some(_), Some(position)) => FeedStatus::Kept(lsn(position)?),
                    _ => FeedStatus::Lost("the replication slot of the feed is gone".to_owned()),
                },
            };
            Ok(Probe {
                written: lsn(now.try_get(0)?)?,
                clock: Moment(now.try_get::<_, Micros>(1)?.0),
                server: now.try_get(2)?,
                feed,
            })
        };
        self.database.again(|| self.database.on_kept(work)).await
    }

    /// Makes the missing parts of the feed. Each table is added when it is [frozen](ChangeFeed::freeze), so that none stops the others.
    pub async fn prepare(&self) -> Result<(), Failure> {
        const IS_THERE: &str =
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_publication AS p WHERE p.pubname::text = $1::text)";
        const CREATE: &str =
            "SELECT table_service.create_change_feed($1::pg_catalog.text, NULL::pg_catalog.text[], false, true)";
        let publication = self.publication().map_err(|error| self.database.failure(&error))?;
        let publication = publication.as_str();
        let prepare = || async move {
            let client = self.database.connect().await?;
            if !row(&client, IS_THERE, &[&publication]).await?.try_get::<_, bool>(0)? {
                let create = format!("CREATE PUBLICATION \"{publication}\" WITH (publish_via_partition_root = true)");
                client.batch_execute(&create).await?;
            }
            match row(&client, CREATE, &[&self.name]).await {
                // Others write, and PostgreSQL makes no slot meanwhile. The text names them.
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    Err(SqlError::ForEver(error.text()))
                }
                made => made.map(drop),
            }
        };
        self.database.again(prepare).await
    }

    /// Writes a mark for the reader of the feed. Returns a position before which no reader needs anything but the mark.
    pub async fn mark(&self, mark: &str) -> Result<Lsn, Failure> {
        let work = async |client: &Connection| lsn(row(client, MARK, &[&self.name, &mark]).await?.try_get(0)?);
        self.database.again(|| self.database.on_kept(work)).await
    }

    /// Adds a table to the feed if it is not in it, and returns it as it is at a position: the feed has all changes
    /// behind that, and the entities are as they were there. The feed gives the mark next: a reader of the mark reads
    /// the log that has this base. Writers of the table wait for a moment.
    pub async fn freeze(&self, oid: u32, mark: &str) -> Result<Freeze, Failure> {
        let freeze = || async {
            match self.try_freeze(oid, mark).await {
                Ok(Some(frozen)) => Ok(Freeze::Done(Box::new(frozen))),
                Ok(None) => Ok(Freeze::Gone),
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(Freeze::Busy),
                Err(error) if !error.is_passing() => Ok(Freeze::Refused(self.database.failure(&error))),
                Err(error) => Err(error),
            }
        };
        self.database.again(freeze).await
    }

    async fn try_freeze(&self, oid: u32, mark: &str) -> Result<Option<Frozen>, SqlError> {
        const WHERE: &str = "SELECT pg_catalog.pg_current_wal_insert_lsn()::text, pg_catalog.clock_timestamp(), \
                             (SELECT c.relname::text FROM pg_catalog.pg_class AS c WHERE c.oid = $1::text::regclass)";
        let client = self.database.connect().await?;
        let Some(relation) = self.database.known_relation(&client, Known::ByOid(oid)).await? else {
            return Ok(None);
        };
        client.batch_execute("BEGIN").await?;
        client.batch_execute(LOCK_TIMEOUT).await?;
        let name = self.database.visit(&client, &relation, Access::ReadAlone).await?;
        self.publish(&client, name).await?;
        // All writers of the table have committed and their writes can be seen, and nobody writes to it now. So this
        // snapshot has the changes that committed before the position, and the feed has those that commit behind it.
        let source = SqlSource::of_everything(self.database.clone(), oid, None).await?;
        let place = row(&client, WHERE, &[&name]).await?;
        let frozen = Frozen {
            source,
            position: lsn(place.try_get(0)?)?,
            clock: Moment(place.try_get::<_, Micros>(1)?.0),
            name: place.try_get(2)?,
        };
        client.batch_execute("SET LOCAL synchronous_commit = local").await?;
        row(&client, MARK, &[&self.name, &mark]).await?;
        client.batch_execute("COMMIT").await?;
        Ok(Some(frozen))
    }
}

/// A position in the log, from its text.
fn lsn(text: &str) -> Result<Lsn, SqlError> {
    Lsn::parse(text).map_err(|_| SqlError::ForEver("the server sends no position".to_owned()))
}
