//! What tables have beside their entities: no feed tells it, so it is looked at from time to time.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::printable::tell;

use super::kept::{Kept, Run};

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Looks at definitions from time to time.
#[derive(Default)]
pub struct Definitions {
    /// When it was looked at.
    looked: Option<Instant>,
}

impl Definitions {
    /// Looks at it, if it is time for that.
    pub async fn look(&mut self, run: &Run<'_>, kept: &mut Kept) -> Result<(), Failure> {
        if run.is_stopped() || self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let living = kept.manifest.living();
        let known = living.map(|table| (table.oid, table.definitions.last().map(|last| last.definition.clone())));
        let others = run.feed.database.other_definitions(&known.collect()).await?;
        if !others.is_empty() {
            for name in kept.change(|manifest| manifest.define_as_seen(others)) {
                tell(&format!(
                    "table-service-copy: there is no room for the access policies, property indexes and expiry of the table {name}"
                ));
            }
        }
        Ok(())
    }
}
