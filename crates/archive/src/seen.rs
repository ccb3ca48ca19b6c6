//! Definitions of tables, as visits saw them: no feed tells when they change.

use crate::definition::Definition;
use crate::law::Point;
use crate::manifest::{Defined, Manifest, Table, Until};

/// How many definitions of a table are kept, and how many bytes those of all tables may take.
const MOST_DEFINITIONS: usize = 100;
const LARGEST_DEFINITIONS: usize = 16 << 20;

impl Table {
    /// Its definition at a point, and whether a visit had seen it by then: before the first visit, nobody knows.
    pub fn definition_at(&self, point: &Point) -> Option<(&Definition, bool)> {
        let seen = self.definitions.iter().rfind(|defined| point.is_after(defined.from));
        let defined = seen.or(self.definitions.first())?;
        Some((&defined.definition, seen.is_some()))
    }
}

impl Manifest {
    /// Notes the present definitions of tables, by their OIDs. Returns the names of tables for which there is no room.
    pub fn define_as_seen(&mut self, seen: Vec<(u32, Definition)>) -> Vec<String> {
        let (from, floor) = (self.reached(), self.floor);
        let definitions = self.tables.iter().flat_map(|table| &table.definitions);
        let mut bytes: usize = definitions.map(|defined| defined.definition.weight()).sum();
        let mut left = Vec::new();
        for (oid, definition) in seen {
            let Some(table) = self.living_mut().find(|table| table.oid == oid) else {
                continue;
            };
            let is_same = table
                .definitions
                .last()
                .is_some_and(|last| last.definition == definition);
            bytes += definition.weight();
            if bytes > LARGEST_DEFINITIONS || !definition.is_small() {
                left.push(table.name().to_owned());
            } else if !is_same {
                table.definitions.push(Defined { from, definition });
            }
            // Definitions that no moment needs, and those over the limit.
            let is_older = |until: Until| (until.epoch, until.moment) <= (floor.epoch, floor.moment);
            while table.definitions.len() > MOST_DEFINITIONS
                || table.definitions.get(1).is_some_and(|next| is_older(next.from))
            {
                table.definitions.remove(0);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::definition::MOST_INDEXES;
    use crate::manifest::Moment;
    use crate::manifest::tests::{manifest, until};

    fn indexed(properties: usize) -> Definition {
        Definition {
            policies: Some(Value::Array(Vec::new())),
            indexes: (0..properties).map(|number| format!("P{number}")).collect(),
            expiry: Vec::new(),
        }
    }

    #[test]
    fn a_definition_is_known_from_when_it_was_seen() {
        let mut manifest = manifest();
        let mut see = |moment: i64, properties| {
            let epoch = manifest.epochs.last_mut().unwrap();
            (epoch.through, epoch.reached) = (table_service_model::Lsn(moment.unsigned_abs() / 10), Moment(moment));
            manifest.define_as_seen(vec![(7, indexed(properties)), (8, indexed(1))])
        };
        assert!(see(2000, 1).is_empty() && see(2500, 1).is_empty() && see(3000, 2).is_empty());
        assert_eq!(see(3500, MOST_INDEXES + 1), ["Orders"], "it is too much");
        let table = &manifest.tables[0];
        assert_eq!(table.definitions.len(), 2);
        let at = |position, moment| {
            let point = Point {
                epoch: 1,
                before: table_service_model::Lsn(position),
                at: Some(Moment(moment)),
            };
            let (definition, was_seen) = table.definition_at(&point).unwrap();
            (definition.indexes.len(), was_seen)
        };
        assert_eq!(at(150, 1500), (1, false));
        assert_eq!(at(201, 2000), (1, true));
        assert_eq!(at(300, 2999), (1, true));
        assert_eq!(at(301, 3000), (2, true));

        // Definitions that no moment needs are removed, and there is a limit for the rest.
        manifest.floor = until(300, 3000);
        for properties in 0..3 * MOST_DEFINITIONS {
            manifest.define_as_seen(vec![(7, indexed(properties % 7))]);
        }
        assert_eq!(manifest.tables[0].definitions.len(), MOST_DEFINITIONS);
        assert_eq!(
            Manifest::read(manifest.to_lines().unwrap().as_slice()).unwrap(),
            manifest
        );
        manifest.tables[0].definitions[0].definition = indexed(MOST_INDEXES + 1);
        assert!(manifest.to_lines().is_err());
    }
}
