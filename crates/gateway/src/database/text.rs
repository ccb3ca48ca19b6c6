//! Statements that are rare and not kept prepared: those of the explorer.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::error::Diagnosis;
use super::manager::Refusal;
use super::node::Node;
use super::types::Parameters;
use crate::failure::Failure;

/// Why there are no rows.
#[derive(Debug)]
pub enum QueryError {
    /// There is no connection, or no answer in time.
    Failure(Failure),
    Postgres(tokio_postgres::Error),
}

/// Runs a statement on a node, without retries.
///
/// # Errors
/// See [`QueryError`].
pub async fn query_text(
    node: &Arc<Node>,
    sql: &str,
    parameters: Parameters<'_>,
    is_read_only: bool,
    deadline: Instant,
) -> Result<Vec<Row>, QueryError> {
    let mut lease = match node.connection().await {
        Ok(lease) => lease,
        Err(Refusal::Busy) => {
            let busy = Failure::busy("All connections of the explorer are in use");
            return Err(QueryError::Failure(busy));
        }
        Err(Refusal::Away(problem) | Refusal::Unfit(problem)) => {
            let away = Failure::busy(format!("The database cannot be reached: {problem}"));
            return Err(QueryError::Failure(away));
        }
    };
    let result = {
        let call = pin!(lease.connection().query_text(sql, parameters, is_read_only));
        timeout_at(deadline, call).await
    };
    match result {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => {
            if Diagnosis::of(&error).connection_lost {
                lease.discard();
            }
            Err(QueryError::Postgres(error))
        }
        Err(_) => {
            Box::pin(lease.cancel()).await;
            lease.discard();
            Err(QueryError::Failure(Failure::timed_out("The database does not answer")))
        }
    }
}

/// An error of the connection as one of the service.
pub fn failure(error: &tokio_postgres::Error) -> Failure {
    Diagnosis::of(error).failure
}
