//! Statements that are rare and not kept prepared: those of the explorer.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row};

use super::error::Diagnosis;
use super::manager::Refusal;
use super::node::Node;
use super::types::Parameters;
use crate::failure::Failure;

/// Runs a statement on a node, without retries.
///
/// # Errors
/// No connection, or no answer in time. The error inside is PostgreSQL's.
pub async fn query_text(
    node: &Arc<Node>,
    sql: &str,
    parameters: Parameters<'_>,
    is_read_only: bool,
    deadline: Instant,
) -> Result<Result<Vec<Row>, Error>, Failure> {
    let mut lease = node.connection().await.map_err(|refusal| match refusal {
        Refusal::Busy => Failure::busy("All connections of the explorer are in use"),
        Refusal::Away(problem) | Refusal::Unfit(problem) => {
            Failure::busy(format!("The database cannot be reached: {problem}"))
        }
    })?;
    let result = {
        let call = pin!(lease.connection().query_text(sql, parameters, is_read_only));
        timeout_at(deadline, call).await
    };
    match result {
        Ok(answer) => {
            if answer.as_ref().is_err_and(|error| Diagnosis::of(error).connection_lost) {
                lease.discard();
            }
            Ok(answer)
        }
        Err(_) => {
            Box::pin(lease.cancel()).await;
            lease.discard();
            Err(Failure::timed_out("The database does not answer"))
        }
    }
}
