//! One operation of a batch, from its parts.

use std::borrow::Cow;

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::patch::{CompiledPatch, Members};
use crate::key::ROW_KEY;
use crate::{Dialect, Entity, Error, IfMatch, Properties, PropertiesBuf, entity};

/// The action of an operation. Its name in the SQL API and in JSON is that of the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
    Patch,
}

impl Action {
    /// Every action.
    pub const ALL: &[Action] = Action::VARIANTS;

    /// Returns the name in the SQL API and in JSON, e.g. `insert_or_replace`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(super) fn from_name(name: &str) -> Option<Action> {
        name.parse().ok()
    }

    /// Returns whether an operation has `if_match`, which names the version that the entity must have.
    pub const fn is_conditional(self) -> bool {
        matches!(self, Action::Replace | Action::Merge | Action::Delete | Action::Patch)
    }
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    pub action: Action,
    pub row_key: Cow<'a, str>,
    /// The bytes of a bag; empty for a delete, and for a patch that sets nothing.
    pub(super) bag: Cow<'a, [u8]>,
    /// `Any` for inserts and upserts.
    pub if_match: IfMatch,
    pub(super) patch: Option<Box<CompiledPatch>>,
    /// How many bytes of text the arguments of a patch came in.
    pub(super) packed_bytes: usize,
}

impl<'a> Operation<'a> {
    /// Makes an operation from its parts in SQL; `None` is NULL. For a patch, `action` is the result of
    /// [`PatchArguments::pack`](super::PatchArguments::pack), and `dialect` is that of its condition.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown action, for `if_match` where it has no meaning or is missing, and for missing
    /// properties; `PropertiesNeedValue` for a missing RowKey; the errors of patches and of their conditions.
    pub fn new(
        action: Option<&str>,
        row_key: Option<&'a str>,
        properties: Option<Properties<'a>>,
        if_match: Option<&str>,
        dialect: Dialect,
    ) -> Result<Operation<'a>, Error> {
        let action = action.ok_or_else(|| Error::null_argument("operation"))?;
        let (action, patch, packed_bytes) = match Members::unpack(action) {
            Some(arguments) => (
                Action::Patch,
                Some(Box::new(arguments?.compile(dialect)?)),
                action.len(),
            ),
            None => {
                let action = Action::from_name(action).ok_or_else(|| unknown_operation(action))?;
                (action, None, 0)
            }
        };
        let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
        let bag = match (action, properties) {
            (Action::Delete, _) | (Action::Patch, None) => &[][..],
            (_, Some(properties)) => properties.as_bytes(),
            (_, None) => return Err(Error::null_argument("properties")),
        };
        Operation {
            action,
            row_key: Cow::Borrowed(row_key),
            bag: Cow::Borrowed(bag),
            if_match: condition(action, if_match)?,
            patch,
            packed_bytes,
        }
        .checked()
    }

    /// Returns the operation, if it is no patch that contradicts itself.
    pub(super) fn checked(self) -> Result<Operation<'a>, Error> {
        if let Some(patch) = &self.patch {
            patch.patch(self.set())?;
        }
        Ok(self)
    }

    /// Returns the properties that a patch sets.
    fn set(&self) -> Option<Properties<'_>> {
        (!self.bag.is_empty()).then(|| self.properties())
    }

    /// Returns whether the entity may be missing: then it is inserted. An `if_match` other than `*` needs an entity.
    pub fn may_insert(&self) -> bool {
        match &self.patch {
            Some(patch) => patch.create_missing && self.if_match == IfMatch::Any,
            None => !self.action.is_conditional(),
        }
    }

    /// Returns the properties that an entity has after an operation that is no delete. The limits of merged properties
    /// are checked.
    ///
    /// # Errors
    /// `UpdateConditionNotSatisfied` if a patch has a condition that the entity does not meet; the errors of patches and of
    /// the limits.
    pub fn changed(&self, stored: &Entity<'_>) -> Result<PropertiesBuf, Error> {
        match (self.action, &self.patch) {
            (_, Some(patch)) => patch.patch(self.set())?.apply_to(stored),
            (Action::Merge | Action::InsertOrMerge, _) => {
                let merged = stored.properties.merge(self.properties())?;
                let partition_key = stored.partition_key.unwrap_or_default();
                entity::check_size(partition_key, &self.row_key, merged.as_properties())?;
                Ok(merged)
            }
            _ => Ok(self.properties().to_buf()),
        }
    }

    /// Returns the properties that the operation has.
    pub fn properties(&self) -> Properties<'_> {
        Properties::from_stored(&self.bag)
    }
}

/// Returns the condition that `if_match` states for an action.
///
/// # Errors
/// `InvalidInput` for a condition where none has a meaning, for none where one is needed, and for a malformed ETag.
pub(super) fn condition(action: Action, if_match: Option<&str>) -> Result<IfMatch, Error> {
    match if_match {
        Some(_) if !action.is_conditional() => Err(Error::argument(format!(
            "if_match has no meaning for {}",
            action.name()
        ))),
        Some(tag) => IfMatch::parse(tag),
        None if action.is_conditional() => Err(Error::argument(format!(
            "{} needs if_match: an ETag, or * for any version",
            action.name()
        ))),
        None => Ok(IfMatch::Any),
    }
}

pub(super) fn unknown_operation(name: &str) -> Error {
    Error::argument(format!(
        "\"{}\" is no operation; there are {}",
        Error::quoted(name),
        Action::ALL
            .iter()
            .map(|action| action.name())
            .collect::<Vec<_>>()
            .join(", ")
    ))
}
