//! One operation of a batch, from its parts.

use std::borrow::Cow;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::error::Error;
use crate::etag::IfMatch;
use crate::key::ROW_KEY;
use crate::properties::Properties;

/// What an operation does. Its name in the SQL API and in JSON is that of the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
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

    /// Returns whether the entity must exist, in the version that `if_match` names.
    pub const fn is_conditional(self) -> bool {
        matches!(self, Action::Replace | Action::Merge | Action::Delete)
    }
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    pub action: Action,
    pub row_key: Cow<'a, str>,
    /// The bytes of a bag; empty for a delete.
    pub(super) bag: Cow<'a, [u8]>,
    /// `Any` for inserts and upserts.
    pub if_match: IfMatch,
}

impl<'a> Operation<'a> {
    /// Makes an operation from its parts as SQL has them; `None` is NULL.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown action, for `if_match` where it has no meaning or is missing, and for missing
    /// properties; `PropertiesNeedValue` for a missing RowKey.
    pub fn new(
        action: Option<&str>,
        row_key: Option<&'a str>,
        properties: Option<Properties<'a>>,
        if_match: Option<&str>,
    ) -> Result<Operation<'a>, Error> {
        let action = action.ok_or_else(|| Error::null_argument("operation"))?;
        let action = Action::from_name(action).ok_or_else(|| unknown_operation(action))?;
        let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
        let bag = match (action, properties) {
            (Action::Delete, _) => &[][..],
            (_, Some(properties)) => properties.as_bytes(),
            (_, None) => return Err(Error::null_argument("properties")),
        };
        Ok(Operation {
            action,
            row_key: Cow::Borrowed(row_key),
            bag: Cow::Borrowed(bag),
            if_match: condition(action, if_match)?,
        })
    }

    pub fn properties(&self) -> Properties<'_> {
        Properties::from_stored(&self.bag)
    }
}

/// The condition that `if_match` states for an action.
///
/// # Errors
/// `InvalidInput` for a condition where none has a meaning, for none where one is needed, and for a malformed ETag.
pub(super) fn condition(action: Action, if_match: Option<&str>) -> Result<IfMatch, Error> {
    match if_match {
        Some(_) if !action.is_conditional() => Err(Error::ArgumentInvalid {
            reason: format!("if_match has no meaning for {}", action.name()),
        }),
        Some(tag) => IfMatch::parse(tag),
        None if action.is_conditional() => Err(Error::ArgumentInvalid {
            reason: format!("{} needs if_match: an ETag, or * for any version", action.name()),
        }),
        None => Ok(IfMatch::Any),
    }
}

pub(super) fn unknown_operation(name: &str) -> Error {
    Error::ArgumentInvalid {
        reason: format!(
            "\"{}\" is no operation; there are {}",
            Error::quoted(name),
            Action::ALL
                .iter()
                .map(|action| action.name())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}
