//! The order of a batch: its operations by key, in runs of neighbours that share a statement.

use std::collections::HashMap;

use table_service_model::batch::{Action, Operation};

use crate::storage::statement::UpdateMode;

/// The kinds of statement that a run of neighbouring operations can share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Run {
    Insert,
    /// An insert in place of an expired entity, which is removed first.
    InsertOverExpired,
    Upsert(UpdateMode),
    /// Operations on entities that exist: they are locked, and their new properties are made from the stored ones.
    Existing,
    /// Operations that insert entities that do not exist.
    New,
}

/// The findings of an attempt before its first lock: the RowKeys of stored entities that operations may insert, and
/// whether these have expired. They decide the order of the locks. The entities under the locks decide the writes.
pub type Looked = HashMap<String, bool>;

/// One operation and its index in the batch.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    pub index: usize,
    pub operation: &'a Operation<'a>,
}

impl<'a> Step<'a> {
    /// Returns the RowKey of the entity.
    pub fn row_key(&self) -> &'a str {
        &self.operation.row_key
    }

    /// Returns whether a look at the stored entity decides which run this belongs to. `expires` says whether entities
    /// may expire: the stored one may have expired.
    pub fn needs_look(&self, expires: bool) -> bool {
        self.operation.may_insert() && (expires || self.operation.action.is_conditional())
    }

    fn run(&self, looked: &Looked, expires: bool) -> Run {
        let looked = looked.get(self.row_key());
        match self.operation.action {
            Action::Insert if looked == Some(&true) => Run::InsertOverExpired,
            Action::Insert => Run::Insert,
            Action::InsertOrReplace if !expires => Run::Upsert(UpdateMode::Replace),
            Action::InsertOrMerge if !expires => Run::Upsert(UpdateMode::Merge),
            _ if self.operation.may_insert() && looked.is_none() => Run::New,
            _ => Run::Existing,
        }
    }
}

/// Returns the operations in key order.
pub fn by_key<'a>(operations: &'a [Operation<'a>]) -> Vec<Step<'a>> {
    let mut steps: Vec<_> = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| Step { index, operation })
        .collect();
    steps.sort_unstable_by_key(Step::row_key);
    steps
}

/// Returns the runs of operations that are in order.
pub fn runs<'a>(steps: &[Step<'a>], looked: &Looked, expires: bool) -> Vec<(Run, Vec<Step<'a>>)> {
    let mut runs: Vec<(Run, Vec<Step<'a>>)> = Vec::new();
    for step in steps {
        let run = step.run(looked, expires);
        match runs.last_mut() {
            Some((last, steps)) if *last == run && run != Run::InsertOverExpired => steps.push(*step),
            _ => runs.push((run, vec![*step])),
        }
    }
    runs
}
