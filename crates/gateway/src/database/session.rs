//! The database as one request uses it: calls, deadline, retries.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use postgres_types::Json;
use serde_json::value::RawValue;
use table_service_model::batch::Action;
use table_service_model::error::Retry;
use table_service_model::{Code, Error, PropertiesBuf, table_name};
use tokio::sync::oneshot::error::RecvError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::{Diagnosis, column};
use super::grouped_calls::{PointRead, PointWrite, is_small};
use super::groups::{Begin, GroupedCall, Groups, LeadPermit, PATIENCE, Turn, Waiting};
use super::node::Lease;
use super::nodes::{Database, Endpoint};
use super::statements::{Effect, Nodes, Statement};
use super::types::{BagParameter, BatchOperation, Parameters};
use crate::failure::Failure;

/// Most retries of a statement.
const RETRIES: u32 = 3;
/// The time that a request to the secondary endpoint waits for the primary, which knows the latest policies.
const PRIMARY_TIME: Duration = Duration::from_secs(1);
/// The pause before the first retry. It doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The minor version of the extension, 0.x, that has the functions for groups.
const VERSION: u32 = 6;

/// The result of a sweep of a table.
pub struct Swept {
    pub deleted: u64,
    /// Whether there was more than the sweep might delete.
    pub more: bool,
    /// Everything that expired before this moment was removed; `None` if that is not known.
    pub oldest: Option<SystemTime>,
    /// Why the table cannot be swept.
    pub reason: Option<String>,
}

/// A change feed of a database.
pub struct ChangeFeed {
    pub name: String,
    /// The part of the log that it keeps.
    pub retained_bytes: i64,
    /// Whether its reader has to begin again: the feed has lost changes, or its slot is gone.
    pub is_lost: bool,
}

/// A call that was executed.
enum Executed<C: GroupedCall> {
    InGroup(C::Value),
    Alone(Vec<Row>),
}

/// The database of an account, for one request with its deadline.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    database: &'a Database,
    deadline: Instant,
    endpoint: Endpoint,
    /// The node that has the partition of the call.
    owner: Option<usize>,
    /// Whether only the first node is asked.
    is_at_first: bool,
    /// The relation that the table of each call must be.
    held: Option<u32>,
}

impl<'a> Session<'a> {
    /// For a request to the primary endpoint, or for work without a request.
    pub fn new(database: &'a Database, deadline: Instant) -> Session<'a> {
        Session::at(Endpoint::Primary, database, deadline)
    }

    /// For a request to one of the account's endpoints.
    pub fn at(endpoint: Endpoint, database: &'a Database, deadline: Instant) -> Session<'a> {
        Session {
            database,
            deadline,
            endpoint,
            owner: None,
            is_at_first: false,
            held: None,
        }
    }

    /// For calls that an access policy of this relation permits. The first node is asked, because the OID is that of no other node.
    pub fn holding(self, relation: Option<u32>) -> Session<'a> {
        Session {
            is_at_first: relation.is_some(),
            held: relation,
            ..self
        }
    }

    /// For calls on one partition, which go to the node that has it.
    ///
    /// # Errors
    /// Those of [`check_table_name`].
    fn of_partition(&self, table: &str, partition_key: &str) -> Result<Session<'a>, Failure> {
        check_table_name(table)?;
        let owner = self.database.owner(table, partition_key);
        Ok(Session { owner, ..*self })
    }

    /// Runs a statement and returns its rows when PostgreSQL has confirmed that its transaction is complete.
    ///
    /// A statement is retried if PostgreSQL has certainly rolled it back, and a read also if its connection broke. A
    /// write over a broken connection is not retried, because it may have been committed.
    ///
    /// # Errors
    /// Those of the SQL API; `ServerBusy` when the database cannot be reached or has no connection free,
    /// `OperationTimedOut` after the deadline.
    pub async fn rows(&self, statement: Statement, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        self.retried(statement, |session| async move {
            session.attempt(statement, parameters).await
        })
        .await
    }

    /// Reads a page into a sink, as a stream: neither the gateway nor the database has all of it in memory before.
    pub async fn page(&self, page: &Page<'_>, sink: &mut impl PageSink) -> Result<(), Failure> {
        // It may be of one partition.
        let mut session = match page.partition {
            Some(partition_key) => self.of_partition(page.table, partition_key)?,
            None => *self,
        };
        let mut retries = Retries::new();
        loop {
            match Box::pin(session.attempt_page(page, sink)).await {
                Ok(result) => return result,
                Err(diagnosis) if session.doubts(&diagnosis) => session.is_at_first = true,
                Err(diagnosis) => {
                    Box::pin(retries.again(Statement::QueryPage, diagnosis, self.deadline)).await?;
                }
            }
        }
    }

    async fn attempt_page(&self, page: &Page<'_>, sink: &mut impl PageSink) -> Result<Result<(), Failure>, Diagnosis> {
        let mut lease = self.lease(Statement::QueryPage).await?;
        let Page {
            table,
            filter,
            partition: _,
            select,
            top,
            from,
            level,
        } = page;
        // Earlier versions of the extension have rows only.
        let level = level.filter(|_| lease.connection().has_functions_of(3));
        let limit = i64::try_from(sink.begin(level.is_some())).unwrap_or(i64::MAX);
        let (statement, parameters): (_, &[&(dyn ToSql + Sync)]) = match &level {
            Some(level) => (Statement::QueryPageChunks, &[table, filter, top, from, level, &limit]),
            None => (Statement::QueryPage, &[table, filter, select, top, from]),
        };
        let mut taken = Ok(());
        let result = {
            let take = |row| match sink.row(&row) {
                Ok(flow) => flow,
                Err(failure) => {
                    taken = Err(failure);
                    ControlFlow::Break(())
                }
            };
            let superseded = lease.superseded();
            let call = pin!(lease.connection().stream(statement, parameters, self.held, take));
            answer(self.deadline, call, superseded).await
        };
        if let Ok(Ok(ControlFlow::Break(()))) = result {
            // To read the other rows only to drop them takes longer than another connection.
            lease.discard();
            return Ok(taken);
        }
        end(lease, result).await.map(|_| taken)
    }

    /// Makes attempts to run a statement, as [`Session::rows`] says.
    async fn retried<T, F: Future<Output = Result<T, Diagnosis>>>(
        &self,
        statement: Statement,
        attempt: impl Fn(Session<'a>) -> F,
    ) -> Result<T, Failure> {
        let (mut session, mut retries) = (*self, Retries::new());
        loop {
            // In boxes, because both are large and would be moved with the futures of all callers.
            match Box::pin(attempt(session)).await {
                Ok(result) => return Ok(result),
                Err(diagnosis) if session.doubts(&diagnosis) => session.is_at_first = true,
                Err(diagnosis) => Box::pin(retries.again(statement, diagnosis, self.deadline)).await?,
            }
        }
    }

    /// Returns whether the first node should be asked in place of another one, which knows no such table. That one may have left its
    /// cluster since it was checked, and clients take this answer of a DELETE for done.
    fn doubts(&self, diagnosis: &Diagnosis) -> bool {
        !self.is_at_first
            && self.endpoint == Endpoint::Primary
            && self.database.has_several_nodes()
            && diagnosis.failure.code == Code::TableNotFound
    }

    async fn attempt(&self, statement: Statement, parameters: Parameters<'_>) -> Result<Vec<Row>, Diagnosis> {
        let lease = self.lease(statement).await?;
        self.run(lease, statement, parameters).await
    }

    /// Reads policies and properties. A request to the secondary endpoint also gets them from the primary, so that a
    /// revocation counts at once. A standby has them if the primary is away or does not answer soon.
    async fn latest_rows(&self, statement: Statement, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        if self.endpoint == Endpoint::Secondary && self.database.secondary().is_some() {
            // Without a standby the endpoint is not served, whatever the primary knows.
            drop(self.lease(statement).await.map_err(|diagnosis| diagnosis.failure)?);
            if !self.database.first.is_away()
                && let Some(rows) = Box::pin(self.latest_of_primary(statement, parameters)).await?
            {
                return Ok(rows);
            }
        }
        self.rows(statement, parameters).await
    }

    /// Runs a statement on the primary. `None` if it cannot be reached, or does not answer soon.
    async fn latest_of_primary(
        &self,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Option<Vec<Row>>, Failure> {
        let limit = self.deadline.min(Instant::now() + PRIMARY_TIME);
        let leasing = self.database.connection_at(Endpoint::Primary, statement.nodes(), None);
        let Ok(Ok(mut lease)) = timeout_at(limit, leasing).await else {
            return Ok(None);
        };
        let result = {
            let call = pin!(lease.connection().query(statement, parameters, None));
            timeout_at(limit, call).await.map_err(|_| NoAnswer::Late)
        };
        if result.is_err() {
            // To cancel it would take as long as it may hang.
            lease.leave_out(format!("it did not answer in {} s", PRIMARY_TIME.as_secs()));
            lease.discard();
            return Ok(None);
        }
        match end(lease, result).await {
            Ok(rows) => Ok(Some(rows)),
            Err(diagnosis) if diagnosis.failure.code.retry() == Retry::WithBackOff => Ok(None),
            Err(diagnosis) => Err(diagnosis.failure),
        }
    }

    async fn lease(&self, statement: Statement) -> Result<Lease, Diagnosis> {
        let nodes = match self.is_at_first {
            true => Nodes::First,
            false => statement.nodes(),
        };
        let leasing = self.database.connection_at(self.endpoint, nodes, self.owner);
        let lease = leasing.await.map_err(Diagnosis::without_connection)?;
        self.count_at_owner(&lease, 1);
        Ok(lease)
    }

    async fn run(
        &self,
        mut lease: Lease,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Diagnosis> {
        let result = {
            let superseded = lease.superseded();
            let call = pin!(lease.connection().query(statement, parameters, self.held));
            answer(self.deadline, call, superseded).await
        };
        end(lease, result).await
    }

    /// Executes a call in one of these groups if many come at once, or else alone, with this statement.
    async fn grouped<C: GroupedCall>(
        &self,
        groups: Option<&Arc<Groups<C>>>,
        table: &str,
        call: impl Fn() -> C,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Executed<C>, Diagnosis> {
        let Some(groups) = groups else {
            return self.attempt(statement, parameters).await.map(Executed::Alone);
        };
        let turn = match groups.begin(table, self.deadline, &call) {
            Begin::Alone => return self.alone(groups, statement, parameters).await,
            Begin::Lead(permit) => Ok(Turn::Lead(permit)),
            Begin::Wait(mut turn, number) => match timeout(PATIENCE, &mut turn).await {
                Ok(turn) => turn,
                Err(_) => match groups.lead(table, number) {
                    Some(permit) => Ok(Turn::Lead(permit)),
                    // A group has it now. It must not be sent again.
                    None => timeout_at(self.deadline, turn).await.map_err(|_| late())?,
                },
            },
        };
        let permit = match turn {
            Ok(Turn::Lead(permit)) => permit,
            turn => return self.outcome(groups, turn, statement, parameters).await,
        };
        let mut lease = self.lease(C::STATEMENT).await?;
        let is_possible = lease.connection().has_functions_of(VERSION);
        groups.note(is_possible);
        let mut others = if is_possible { permit.others() } else { Vec::new() };
        if !lease.is_right() {
            // A standby was judged before the others began: each goes alone, to one that is judged again.
            others.into_iter().for_each(|waiting| waiting.end(None));
            drop(lease);
            return self.alone(groups, statement, parameters).await;
        }
        if others.is_empty() {
            let rows = self.run(lease, statement, parameters).await;
            drop(permit);
            return rows.map(Executed::Alone);
        }
        self.count_at_owner(&lease, others.len());
        // The call that leads a group waits for it as the others do, because its request may end before theirs.
        let turn = permit.join(&mut others, call(), self.deadline);
        tokio::spawn(run_group(lease, permit, table.to_owned(), others));
        let turn = timeout_at(self.deadline, turn).await.map_err(|_| late())?;
        self.outcome(groups, turn, statement, parameters).await
    }

    async fn outcome<C: GroupedCall>(
        &self,
        groups: &Groups<C>,
        turn: Result<Turn<C>, RecvError>,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Executed<C>, Diagnosis> {
        match turn {
            Ok(Turn::Outcome(Some(outcome))) => outcome.map(Executed::InGroup),
            Ok(Turn::Outcome(None)) => self.alone(groups, statement, parameters).await,
            // It may have been executed.
            Ok(Turn::Lead(_)) | Err(_) => Err(Diagnosis::of_lost_connection(Failure::busy(
                "The group of the call has ended",
            ))),
        }
    }

    async fn alone<C: GroupedCall>(
        &self,
        groups: &Groups<C>,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Executed<C>, Diagnosis> {
        let mut lease = self.lease(statement).await?;
        groups.note(lease.connection().has_functions_of(VERSION));
        self.run(lease, statement, parameters).await.map(Executed::Alone)
    }

    /// Counts calls that one of them sends to the node that has their partition.
    fn count_at_owner(&self, lease: &Lease, calls: usize) {
        self.database.count_at_owner(lease.node(), self.owner, calls);
    }

    /// Creates a table.
    pub async fn create_table(&self, name: &str) -> Result<(), Failure> {
        check_table_name(name)?;
        self.rows(Statement::CreateTable, &[&name]).await.map(drop)
    }

    /// Deletes a table with all its entities.
    pub async fn delete_table(&self, name: &str) -> Result<(), Failure> {
        // The service does not check names here (semantics 1.2).
        if check_table_name(name).is_err() {
            return Err(Error::TableToDeleteNotFound.into());
        }
        self.rows(Statement::DeleteTable, &[&name]).await.map(drop)
    }

    /// Names of tables, and the token of the next page.
    pub async fn query_tables(
        &self,
        filter: Option<&str>,
        top: i64,
        token: Option<&str>,
    ) -> Result<(Vec<String>, Option<String>), Failure> {
        let rows = self.rows(Statement::QueryTables, &[&filter, &top, &token]).await?;
        let mut next = None;
        let mut names = Vec::with_capacity(rows.len());
        for row in &rows {
            names.push(column(row, 0)?);
            next = column(row, 1)?;
        }
        Ok((names, next))
    }

    /// Removes entities of a table that have expired, with the rights of its owner: at most `top`, from a moment on or all. The
    /// statement may take `share`. `None` if the role may not, or another session does it.
    ///
    /// # Errors
    /// `OperationTimedOut` when the share is over; the transaction is rolled back then. Otherwise as for [`Session::rows`].
    pub async fn expire_entities(
        &self,
        table: &str,
        top: i64,
        since: Option<SystemTime>,
        share: Duration,
    ) -> Result<Option<Swept>, Failure> {
        let statement = Statement::ExpireEntities;
        let (top, since) = (&top, &since);
        let attempt = |session: Session<'a>| async move {
            let lease = session.lease(statement).await?;
            // The wait for a connection takes nothing of the share.
            let session = Session::new(self.database, Instant::now() + share);
            session.run(lease, statement, &[&table, top, since]).await
        };
        let rows = self.retried(statement, attempt).await?;
        let swept = |row| {
            Ok(Swept {
                deleted: u64::try_from(column::<i64>(row, 0)?).unwrap_or_default(),
                more: column(row, 1)?,
                oldest: column(row, 2)?,
                reason: column(row, 3)?,
            })
        };
        rows.first().map(swept).transpose()
    }

    /// Returns the tables with entities that expire, and the moment when the oldest entity of each expires, if that is
    /// known. An earlier version of the extension has none.
    pub async fn query_expiry(&self) -> Result<Vec<(String, Option<SystemTime>)>, Failure> {
        let rows = self.rows_of_0_3(Statement::QueryExpiry).await?;
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
    }

    /// Returns the change feeds of the database. An earlier version of the extension has none.
    pub async fn query_change_feeds(&self) -> Result<Vec<ChangeFeed>, Failure> {
        let rows = self.rows_of_0_3(Statement::QueryChangeFeeds).await?;
        let feed = |row| {
            let retained_bytes: Option<i64> = column(row, 1)?;
            let status: Option<String> = column(row, 2)?;
            Ok(ChangeFeed {
                name: column(row, 0)?,
                retained_bytes: retained_bytes.unwrap_or_default(),
                is_lost: status.is_none_or(|status| status == "lost"),
            })
        };
        rows.iter().map(feed).collect()
    }

    /// Returns the rows of a statement without parameters; none from a database that lacks the functions of version 0.3.
    async fn rows_of_0_3(&self, statement: Statement) -> Result<Vec<Row>, Failure> {
        let attempt = |session: Session<'a>| async move {
            let mut lease = session.lease(statement).await?;
            if !lease.connection().has_functions_of(3) {
                return Ok(Vec::new());
            }
            session.run(lease, statement, &[]).await
        };
        self.retried(statement, attempt).await
    }

    /// Writes an entity, and returns its ETag.
    pub async fn write_entity(
        &self,
        statement: Statement,
        table: &str,
        keys: [&str; 2],
        properties: &PropertiesBuf,
        if_match: Option<&str>,
    ) -> Result<String, Failure> {
        let bag = BagParameter(properties);
        let [partition_key, row_key] = &keys;
        let parameters: Parameters<'_> = match &if_match {
            Some(tag) => &[&table, partition_key, row_key, &bag, tag],
            None => &[&table, partition_key, row_key, &bag],
        };
        let etag = self
            .write(statement, table, keys, Some(properties), if_match, parameters)
            .await?;
        etag.ok_or_else(no_row)
    }

    /// Deletes an entity with this ETag, or with any.
    pub async fn delete_entity(&self, table: &str, keys: [&str; 2], if_match: &str) -> Result<(), Failure> {
        let [partition_key, row_key] = &keys;
        let parameters: Parameters<'_> = &[&table, partition_key, row_key, &if_match];
        let statement = Statement::DeleteEntity;
        self.write(statement, table, keys, None, Some(if_match), parameters)
            .await
            .map(drop)
    }

    /// Runs one of the statements that write an entity, in a group if many write at once. Returns the ETag.
    async fn write(
        &self,
        statement: Statement,
        table: &str,
        keys: [&str; 2],
        properties: Option<&PropertiesBuf>,
        if_match: Option<&str>,
        parameters: Parameters<'_>,
    ) -> Result<Option<String>, Failure> {
        let session = self.of_partition(table, keys[0])?;
        let is_small = is_small(keys, properties, if_match);
        let action = match statement {
            Statement::InsertEntity => Action::Insert,
            Statement::ReplaceEntity => Action::Replace,
            Statement::MergeEntity => Action::Merge,
            Statement::InsertOrReplaceEntity => Action::InsertOrReplace,
            Statement::InsertOrMergeEntity => Action::InsertOrMerge,
            _ => Action::Delete,
        };
        let call = || PointWrite {
            action,
            keys: keys.map(str::to_owned),
            properties: properties.cloned(),
            if_match: if_match.map(str::to_owned),
        };
        let executed = session
            .retried(statement, |session| async move {
                let groups = session.groups_of_writes().filter(|_| is_small);
                session.grouped(groups, table, call, statement, parameters).await
            })
            .await?;
        match executed {
            Executed::InGroup(etag) => Ok(etag),
            Executed::Alone(_) if action == Action::Delete => Ok(None),
            Executed::Alone(rows) => rows.first().map(|row| column(row, 0)).transpose(),
        }
    }

    fn groups_of_writes(&self) -> Option<&'a Arc<Groups<PointWrite>>> {
        self.database.writes().filter(|_| !self.is_at_first)
    }

    /// Runs the operations of an entity group transaction and returns their ETags.
    pub async fn execute_batch(
        &self,
        table: &str,
        partition_key: &str,
        operations: &[BatchOperation<'_>],
    ) -> Result<Vec<Option<String>>, Failure> {
        let session = self.of_partition(table, partition_key)?;
        let parameters: Parameters<'_> = &[&table, &partition_key, &operations];
        let rows = session.rows(Statement::ExecuteBatch, parameters).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    /// The entity with these keys: [`column`] 0 is its Timestamp, 1 its bag.
    pub async fn get_entity(&self, table: &str, partition_key: &str, row_key: &str) -> Result<Option<Row>, Failure> {
        let session = self.of_partition(table, partition_key)?;
        let (statement, parameters): (_, Parameters<'_>) = (Statement::GetEntity, &[&table, &partition_key, &row_key]);
        let call = || PointRead([partition_key, row_key].map(str::to_owned));
        let is_small = is_small([partition_key, row_key], None, None);
        let executed = session
            .retried(statement, |session| async move {
                let groups =
                    (!session.is_at_first && is_small).then(|| session.database.reads(session.endpoint, session.owner));
                session.grouped(groups, table, call, statement, parameters).await
            })
            .await?;
        Ok(match executed {
            Executed::InGroup(row) => row,
            Executed::Alone(rows) => rows.into_iter().next(),
        })
    }

    /// The version of the entity with these keys: [`column`] 0 is its Timestamp.
    pub async fn get_version(&self, table: &str, partition_key: &str, row_key: &str) -> Result<Option<Row>, Failure> {
        let session = self.of_partition(table, partition_key)?;
        let parameters: Parameters<'_> = &[&table, &partition_key, &row_key];
        let rows = session.rows(Statement::GetVersion, parameters).await?;
        Ok(rows.into_iter().next())
    }

    /// The policies of a table, as JSON, and the OID of that table, which earlier versions of the extension do not say.
    pub async fn get_access_policies(&self, table: &str) -> Result<(String, Option<u32>), Failure> {
        check_table_name(table)?;
        let rows = self.latest_rows(Statement::HoldAccessPolicies, &[&table]).await?;
        let relation = rows.first().filter(|row| row.len() > 1).map(|row| column(row, 1));
        Ok((json(&rows)?, relation.transpose()?))
    }

    /// Replaces the policies of a table.
    pub async fn set_access_policies(&self, table: &str, policies: String) -> Result<(), Failure> {
        check_table_name(table)?;
        let policies = json_parameter(policies)?;
        self.rows(Statement::SetAccessPolicies, &[&table, &policies])
            .await
            .map(drop)
    }

    /// The properties of the service, as JSON.
    pub async fn get_service_properties(&self) -> Result<String, Failure> {
        let rows = self.latest_rows(Statement::GetServiceProperties, &[]).await?;
        json(&rows)
    }

    /// Changes the properties of the service that the JSON has.
    pub async fn set_service_properties(&self, properties: String) -> Result<(), Failure> {
        let properties = json_parameter(properties)?;
        self.rows(Statement::SetServiceProperties, &[&properties])
            .await
            .map(drop)
    }
}

/// The request for a page of entities.
pub struct Page<'p> {
    pub table: &'p str,
    pub filter: Option<&'p str>,
    /// The partition that has all that the filter can find, if it is one.
    pub partition: Option<&'p str>,
    pub select: Option<&'p str>,
    pub top: Option<i64>,
    pub from: Option<&'p str>,
    /// The metadata level, if the database may print the entities.
    pub level: Option<&'p str>,
}

/// Takes the rows of a page.
pub trait PageSink {
    /// Begins, perhaps anew. `in_chunks` says whether the rows are chunks of the page's text, or else entities. Returns how many
    /// bytes the text may have.
    fn begin(&mut self, in_chunks: bool) -> usize;
    /// Takes a row, and says whether it can take another one.
    ///
    /// # Errors
    /// If the row is not as the sink expects it.
    fn row(&mut self, row: &Row) -> Result<ControlFlow<()>, Failure>;
}

/// Waits for the answer of a call, until the deadline or until another server is the primary.
async fn answer<T>(
    deadline: Instant,
    call: impl Future<Output = T>,
    superseded: impl Future<Output = ()>,
) -> Result<T, NoAnswer> {
    tokio::select! {
        biased;
        answer = timeout_at(deadline, call) => answer.map_err(|_| NoAnswer::Late),
        () = superseded => Err(NoAnswer::Superseded),
    }
}

/// Why a statement has no answer.
enum NoAnswer {
    /// Its time is over.
    Late,
    /// Another server is the primary now.
    Superseded,
}

/// Attempts of one statement.
struct Retries {
    pause: Duration,
    count: u32,
    /// When the last attempt began.
    begun: Instant,
}

impl Retries {
    fn new() -> Retries {
        Retries {
            pause: FIRST_PAUSE,
            count: 0,
            begun: Instant::now(),
        }
    }

    /// Waits until the next attempt. There is none if one as long as the last would miss the deadline.
    async fn again(&mut self, statement: Statement, diagnosis: Diagnosis, deadline: Instant) -> Result<(), Failure> {
        let harmless = diagnosis.rolled_back || (diagnosis.connection_lost && statement.effect() == Effect::Reads);
        let worthwhile = diagnosis.failure.code.retry() == Retry::WithBackOff;
        let next = self.pause + self.begun.elapsed();
        if !harmless || !worthwhile || self.count == RETRIES || Instant::now() + next >= deadline {
            return Err(diagnosis.failure);
        }
        tracing::debug!(?statement, failure = ?diagnosis.failure, "sent again");
        tokio::time::sleep(self.pause).await;
        self.count += 1;
        self.pause *= 2;
        self.begun = Instant::now();
        Ok(())
    }
}

/// Returns the result of a statement, or its diagnosis. The connection goes back if it can be used again.
async fn end<T>(mut lease: Lease, result: Result<Result<T, tokio_postgres::Error>, NoAnswer>) -> Result<T, Diagnosis> {
    let mut diagnosis = match result {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => Diagnosis::of(&error),
        Err(NoAnswer::Late) => {
            // The next user of the connection must not wait for it.
            Box::pin(lease.cancel()).await;
            late()
        }
        Err(NoAnswer::Superseded) => {
            Diagnosis::of_lost_connection(Failure::busy("Another server has become the primary"))
        }
    };
    if diagnosis.is_read_only && Box::pin(lease.is_in_recovery()).await {
        // Certainly not executed, and another server may take it.
        diagnosis.rolled_back = true;
        diagnosis.connection_lost = true;
    }
    if lease.node().is_standby() {
        diagnosis.at_a_standby();
    }
    if let Some(problem) = &diagnosis.node_lost {
        lease.leave_out(problem.clone());
    }
    if diagnosis.connection_lost {
        lease.discard();
    }
    Err(diagnosis)
}

/// Executes a group over one connection, and gives each call its outcome. The connection and the permit belong to the
/// group and not to one of its calls, so it ends as it would if a request ended before it.
async fn run_group<C: GroupedCall>(mut lease: Lease, permit: LeadPermit<C>, table: String, group: Vec<Waiting<C>>) {
    let deadline = group
        .iter()
        .map(|waiting| waiting.deadline)
        .max()
        .unwrap_or_else(Instant::now);
    let result = {
        let [first, second] = C::arrays(&group);
        let parameters: [&(dyn ToSql + Sync); 3] = [&table, &*first, &*second];
        let superseded = lease.superseded();
        let call = pin!(lease.connection().query(C::STATEMENT, &parameters, None));
        answer(deadline, call, superseded).await
    };
    let is_undone = matches!(&result, Ok(Err(error)) if Diagnosis::is_undone(error));
    let outcomes = match end(lease, result).await {
        // PostgreSQL has committed.
        Ok(rows) => {
            let outcomes = C::outcomes(rows, group.len());
            permit.ended(outcomes.iter().flatten().count());
            outcomes
        }
        Err(_) if is_undone || C::STATEMENT.effect() == Effect::Reads => {
            permit.ended(0);
            group.iter().map(|_| None).collect()
        }
        Err(diagnosis) => group.iter().map(|_| Some(Err(diagnosis.clone()))).collect(),
    };
    drop(permit);
    for (waiting, outcome) in group.into_iter().zip(outcomes) {
        waiting.end(outcome);
    }
}

/// The diagnosis of a statement that may still be executed when the time of its request is over.
fn late() -> Diagnosis {
    Diagnosis::of_lost_connection(Failure::timed_out("The request's own time limit has passed"))
}

/// Refuses a name that no table can have. It is called where the table would be looked up (semantics 0.2, 1.2).
///
/// # Errors
/// `InvalidResourceName`, `OutOfRangeInput`.
pub fn check_table_name(name: &str) -> Result<(), Error> {
    match table_name::check(name) {
        Err(error @ (Error::TableNameInvalid | Error::TableNameLength)) => Err(error),
        _ => Ok(()),
    }
}

fn json(rows: &[Row]) -> Result<String, Failure> {
    let row = rows.first().ok_or_else(no_row)?;
    column::<Json<&RawValue>>(row, 0).map(|json| json.0.get().to_owned())
}

fn json_parameter(text: String) -> Result<Json<Box<RawValue>>, Failure> {
    let raw = RawValue::from_string(text).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Json(raw))
}

fn no_row() -> Failure {
    Failure::internal("A function of the extension returned no row")
}
