//! The memory that a request may need. It takes that before its body arrives.
//!
//! It is the sum of all that the request has in memory at the same time: its body, the values in it, the messages to and from the
//! database, and the response. Every part follows from a limit of the service.

use table_service_model::limits::{BATCH_BYTES, ENTITY_JSON_BYTES, ENTITY_ROW_BYTES, PAGE_BYTES};

use crate::request::operation::Operation;
use crate::request::options::top;
use crate::request::query::Query;

const KIB: usize = 1024;
/// Responses without entities: errors, ETags, names.
const SMALL: usize = 64 * KIB;
/// The frame of a list of entities: the context URL with the host and `$select`.
const FRAME: usize = 256 * KIB;
/// An entity in a response. Beside its own JSON there are its links, and `null` for selected properties that it lacks.
pub const ENTITY: usize = ENTITY_JSON_BYTES + 160 * KIB;
/// An entity from the database: the message, and the driver's buffer, which doubles.
const ROW: usize = 2 * ENTITY_ROW_BYTES;
/// The links and headers of a batch's responses, beyond the operations themselves: keys are encoded in them.
const LINKS: usize = 3 * KIB * KIB;

/// The need of a query beside its answer: the part of the page in a message, and one entity that is being printed.
pub const QUERY: usize = ROW + ENTITY + FRAME;

/// Returns the most bytes of the answer of a query that has taken so much memory.
pub const fn answer_of_query(taken: usize) -> usize {
    taken.saturating_sub(QUERY) + FRAME
}

/// The most that one request may need. Every account must have it.
pub const ONE_REQUEST: usize = maximum(write(BATCH_BYTES), maximum(QUERY + ENTITY, read_in_batch()));

// The law of the shares (`shares.rs`) holds only if nothing needs more.
const _: () = assert!(ONE_REQUEST <= 20 * KIB * KIB && PAGE_BYTES + QUERY >= QUERY + ENTITY);

/// Memory that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Without it there can be no answer.
    pub least: usize,
    /// With more than the least, pages get longer.
    pub most: usize,
}

impl Need {
    const fn exactly(amount: usize) -> Need {
        Need {
            least: amount,
            most: amount,
        }
    }

    /// Returns the need of an operation with a body of so many bytes.
    pub fn of(operation: &Operation, query: &Query, body: usize) -> Need {
        match operation {
            Operation::QueryEntities(_) => {
                let top = top(query).ok().flatten().and_then(|top| usize::try_from(top).ok());
                let page = top.map_or(PAGE_BYTES, |top| top.max(1).saturating_mul(ENTITY).min(PAGE_BYTES));
                Need {
                    least: QUERY + ENTITY,
                    most: QUERY + page,
                }
            }
            Operation::GetEntity(_) => Need::exactly(SMALL + ROW + ENTITY),
            Operation::Batch => Need::exactly(maximum(write(body), read_in_batch())),
            // A name and its links have less than 2 KiB.
            Operation::QueryTables => Need::exactly(2 * KIB * KIB),
            _ => Need::exactly(write(body)),
        }
    }

    /// Returns the need of changes in a body of so many bytes: the body, the bags in it, the message to the database
    /// twice, and the response, which repeats the entities.
    pub const fn of_changes(body: usize) -> usize {
        write(body)
    }
}

const fn write(body: usize) -> usize {
    let links = if 8 * body < LINKS { 8 * body } else { LINKS };
    SMALL + 4 * body + links
}

/// Returns the need of a point query in a batch: the response is written once more, as a part.
const fn read_in_batch() -> usize {
    SMALL + ROW + 2 * ENTITY
}

const fn maximum(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::resource::Resource;

    #[test]
    fn no_request_needs_more_than_every_account_has() {
        let entity = "t(PartitionKey='p',RowKey='r')";
        for (method, path, query) in [
            ("GET", "Tables", ""),
            ("GET", "Tables('t')", ""),
            ("POST", "Tables", ""),
            ("DELETE", "Tables('t')", ""),
            ("GET", "t", "comp=acl"),
            ("PUT", "t", "comp=acl"),
            ("GET", "t()", ""),
            ("GET", "t()", "$top=1"),
            ("GET", "t()", "$top=0"),
            ("GET", "t()", "$top=1000"),
            ("GET", "t()", "$top=x"),
            ("GET", entity, ""),
            ("POST", "t", ""),
            ("PUT", entity, ""),
            ("PATCH", entity, ""),
            ("DELETE", entity, ""),
            ("POST", "$batch", ""),
            ("GET", "", "restype=service&comp=properties"),
            ("PUT", "", "restype=service&comp=properties"),
        ] {
            let query = Query::parse(query);
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let operation = Operation::read(&method, Resource::parse(path).unwrap(), &query).unwrap();
            for body in [0, 1, 1000, 300_000, operation.body_limit()] {
                let Need { least, most } = Need::of(&operation, &query, body);
                assert!(least <= ONE_REQUEST && least <= most, "{operation:?}: {least}");
                assert!(most <= QUERY + PAGE_BYTES, "{operation:?}: {most}");
            }
        }
    }
}
