//! The operations of a batch together.

use std::borrow::Cow;
use std::collections::HashSet;

use super::operation::{Action, Operation};
use crate::key::{self, ROW_KEY};
use crate::{Error, entity, limits};

/// The operations of one entity group transaction, checked as far as that goes without data.
#[derive(Debug)]
pub struct Batch<'a>(Vec<Operation<'a>>);

impl<'a> Batch<'a> {
    /// Makes a batch of operations. An operation that could not be made is an error at its index.
    ///
    /// # Errors
    /// `InvalidInput` for more than 100 operations, before anything else; then the error of the operation with the lowest
    /// index; `RequestBodyTooLarge` for more than 4 MiB; `InvalidInput` for no operation.
    ///
    /// ```
    /// use table_service_model::batch::{Batch, Operation};
    /// use table_service_model::filter::Dialect;
    ///
    /// let delete = |row_key| Operation::new(Some("delete"), Some(row_key), None, Some("*"), Dialect::Service);
    /// assert!(Batch::new("Sales", [delete("1"), delete("2")].into_iter()).is_ok());
    /// let twice = Batch::new("Sales", [delete("1"), delete("1")].into_iter()).unwrap_err();
    /// assert!(twice.report().starts_with("InvalidDuplicateRow: 1:"), "{}", twice.report());
    /// ```
    pub fn new(
        partition_key: &str,
        operations: impl ExactSizeIterator<Item = Result<Operation<'a>, Error>>,
    ) -> Result<Batch<'a>, Error> {
        if operations.len() > limits::BATCH_OPERATIONS {
            return Err(Error::TooManyOperations);
        }
        let mut collected = Collector {
            operations: Vec::with_capacity(operations.len()),
            row_keys: HashSet::with_capacity(operations.len()),
        };
        for operation in operations {
            collected.push(operation)?;
        }
        let bytes = collected
            .operations
            .iter()
            .map(|operation| {
                partition_key.len() + operation.row_key.len() + operation.bag.len() + operation.packed_bytes
            })
            .sum::<usize>();
        if bytes > limits::BATCH_BYTES {
            return Err(Error::BatchTooLarge);
        }
        collected.finish()
    }

    /// Checks the limits of keys and entities. A merge or a patch must be checked again together with the stored entity.
    ///
    /// # Errors
    /// `PropertyValueTooLarge` for keys of an insert or upsert, `EntityTooLarge`.
    pub fn check_limits(&self, partition_key: &str) -> Result<(), Error> {
        for (index, operation) in self.0.iter().enumerate() {
            let checked = if operation.may_insert() && !key::within_limits(partition_key, &operation.row_key) {
                Err(Error::KeyTooLong)
            } else if operation.action == Action::Delete {
                Ok(())
            } else {
                entity::check_size(partition_key, &operation.row_key, operation.properties())
            };
            checked.map_err(|error| error.at(index))?;
        }
        Ok(())
    }

    /// Returns the operations in their order.
    pub fn operations(&self) -> &[Operation<'a>] {
        &self.0
    }
}

/// Collects operations in their order, so that the first wrong one is reported.
#[derive(Default)]
pub(super) struct Collector<'a> {
    pub(super) operations: Vec<Operation<'a>>,
    row_keys: HashSet<Cow<'a, str>>,
}

impl<'a> Collector<'a> {
    /// Adds an operation. It is an error, with its index, if it is wrong or an operation before it has its row.
    pub(super) fn push(&mut self, operation: Result<Operation<'a>, Error>) -> Result<(), Error> {
        let checked = operation.and_then(|operation| {
            key::check_characters(ROW_KEY, &operation.row_key)?;
            if !self.row_keys.insert(operation.row_key.clone()) {
                return Err(Error::DuplicateRow);
            }
            Ok(operation)
        });
        self.operations
            .push(checked.map_err(|error| error.at(self.operations.len()))?);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Batch<'a>, Error> {
        if self.operations.is_empty() {
            return Err(Error::argument("A batch has at least one operation"));
        }
        Ok(Batch(self.operations))
    }
}
