//! A table's definition: its access policies, its property indexes and its expiry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many indexes a definition has at most.
pub const MOST_INDEXES: usize = 1000;

/// When the entities of a table expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// How long they live, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

/// A table's definition: its access policies, its property indexes and its expiry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Its access policies, as `set_access_policies` takes them; `None` if the role of the archive does not see them.
    pub policies: Option<Value>,
    /// The properties that have an index.
    pub indexes: Vec<String>,
    pub expiry: Vec<Expiry>,
}

impl Definition {
    /// The access policies, if there are any.
    pub fn some_policies(&self) -> Option<&Value> {
        let is_list = |policies: &&Value| policies.as_array().is_some_and(|list| !list.is_empty());
        self.policies.as_ref().filter(is_list)
    }

    /// Returns whether an archive may have it.
    pub fn is_small(&self) -> bool {
        self.indexes.len() + self.expiry.len() <= MOST_INDEXES
    }

    /// The bytes that it takes in a manifest.
    pub fn weight(&self) -> usize {
        serde_json::to_string(self).map_or(0, |text| text.len() + 100)
    }
}
