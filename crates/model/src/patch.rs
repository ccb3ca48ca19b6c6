//! Changes of an entity that depend on the properties that it has: some are set, some are added to, some are removed.

use std::borrow::Cow;

use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::{Entity, Error, Predicate, Properties, PropertiesBuf, PropertiesBuilder, Value, entity, property_name};

/// A change of an entity's properties. Properties that it does not name stay as they are.
///
/// ```
/// use table_service_model::json::parse_properties;
/// use table_service_model::patch::Patch;
///
/// let (set, add) = (parse_properties(r#"{"State": "sold"}"#)?, parse_properties(r#"{"Sold": 1}"#)?);
/// let patch = Patch::new(Some(set.as_properties()), Some(add.as_properties()), Some(vec![Some("Reserved")]))?;
/// let stored = parse_properties(r#"{"Reserved": true, "Sold": 41}"#)?;
/// let changed = patch.apply("p", "r", stored.as_properties())?;
/// assert_eq!(changed, parse_properties(r#"{"Sold": 42, "State": "sold"}"#)?);
/// # Ok::<_, table_service_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Patch<'a> {
    set: Option<Properties<'a>>,
    increment: Option<Properties<'a>>,
    remove: Vec<&'a str>,
    condition: Option<&'a Predicate>,
}

impl<'a> Patch<'a> {
    /// Returns a patch that sets `set`, adds the numbers of `increment`, and removes the properties with the names in
    /// `remove`.
    ///
    /// # Errors
    /// `InvalidInput` if nothing is given, for a name that is in two of the three or is that of a system property, for a NULL
    /// in `remove`, and for an increment that is not a number. The errors of property names.
    pub fn new(
        set: Option<Properties<'a>>,
        increment: Option<Properties<'a>>,
        remove: Option<Vec<Option<&'a str>>>,
    ) -> Result<Patch<'a>, Error> {
        if set.is_none() && increment.is_none() && remove.is_none() {
            return Err(Error::argument("Nothing is given that changes an entity"));
        }
        let remove: Option<Vec<&str>> = remove.unwrap_or_default().into_iter().collect();
        let Some(remove) = remove else {
            return Err(Error::argument("remove must not contain NULL"));
        };
        for name in &remove {
            property_name::check(name)?;
        }
        for (name, value) in increment.iter().flat_map(|bag| bag.iter()) {
            if !matches!(value, Value::Int32(_) | Value::Int64(_) | Value::Double(_)) {
                return Err(Error::argument(format!(
                    "increment has the property \"{}\", which is not an Int32, an Int64 or a Double",
                    Error::quoted(name)
                )));
            }
        }
        let names = |bag: Option<Properties<'a>>| bag.into_iter().flat_map(Properties::iter).map(|(name, _)| name);
        for name in names(set).chain(names(increment)).chain(remove.iter().copied()) {
            if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name) {
                return Err(Error::argument(format!(
                    "{name} is a system property, which cannot be changed"
                )));
            }
        }
        let is_removed = |name: &&str| remove.contains(name);
        let twice = names(increment)
            .find(|name| set.is_some_and(|set| set.contains(name)) || is_removed(name))
            .or_else(|| names(set).find(is_removed));
        if let Some(name) = twice {
            return Err(Error::argument(format!(
                "The property \"{}\" is given twice, to be changed in different ways",
                Error::quoted(name)
            )));
        }
        Ok(Patch {
            set,
            increment,
            remove,
            condition: None,
        })
    }

    /// Returns the same patch, but only of entities that pass a filter. It does nothing to others.
    pub fn only_if(self, condition: Option<&'a Predicate>) -> Patch<'a> {
        Patch { condition, ..self }
    }

    /// Returns the properties of an entity after the patch, if it passes the filter of [`Patch::only_if`]. An entity that
    /// does not exist yet has keys, no properties and no Timestamp.
    ///
    /// # Errors
    /// `UpdateConditionNotSatisfied` if it does not pass; the errors of [`Patch::apply`].
    pub fn apply_to(&self, stored: &Entity<'_>) -> Result<PropertiesBuf, Error> {
        if let Some(condition) = self.condition.filter(|condition| !condition.matches(stored)) {
            return Err(refused(condition, stored));
        }
        let [partition_key, row_key] = [stored.partition_key, stored.row_key].map(Option::unwrap_or_default);
        self.apply(partition_key, row_key, stored.properties)
    }

    /// Returns the properties of the entity with these keys after the patch, whatever its condition is.
    ///
    /// # Errors
    /// `OutOfRangeInput` for a sum that its type does not have, `InvalidInput` for an increment of another type than the
    /// stored property, and the errors of the limits.
    pub fn apply(&self, partition_key: &str, row_key: &str, stored: Properties<'_>) -> Result<PropertiesBuf, Error> {
        let kept = (!self.remove.is_empty()).then(|| stored.without(&self.remove));
        let mut changed = kept.as_ref().map_or(stored, PropertiesBuf::as_properties);
        let sums = self.increment.map(|increment| sums(increment, stored)).transpose()?;
        let summed;
        if let Some(sums) = &sums {
            summed = changed.merge(sums.as_properties())?;
            changed = summed.as_properties();
        }
        let changed = match self.set {
            Some(set) => changed.merge(set)?,
            None => changed.to_buf(),
        };
        entity::check_size(partition_key, row_key, changed.as_properties())?;
        Ok(changed)
    }
}

/// Returns the sums of the increments and the stored values. A property that is not stored counts as 0.
fn sums(increment: Properties<'_>, stored: Properties<'_>) -> Result<PropertiesBuf, Error> {
    let mut sums = PropertiesBuilder::with_capacity(increment.len());
    for (name, by) in increment.iter() {
        let stored = stored.get(name).unwrap_or(match by {
            Value::Int32(_) => Value::Int32(0),
            Value::Int64(_) => Value::Int64(0),
            _ => Value::Double(0.0),
        });
        let sum = match (stored, by) {
            (Value::Int32(stored), Value::Int32(by)) => stored.checked_add(by).map(Value::Int32),
            (Value::Int64(stored), Value::Int32(by)) => stored.checked_add(by.into()).map(Value::Int64),
            (Value::Int64(stored), Value::Int64(by)) => stored.checked_add(by).map(Value::Int64),
            (Value::Double(stored), Value::Int32(by)) => sum(stored, by.into()).map(Value::Double),
            (Value::Double(stored), Value::Double(by)) => sum(stored, by).map(Value::Double),
            _ => {
                return Err(Error::argument(format!(
                    "The property \"{}\" has the type {}, and its increment the type {}",
                    Error::quoted(name),
                    stored.edm_type().name(),
                    by.edm_type().name()
                )));
            }
        };
        let sum = sum.ok_or_else(|| Error::out_of_range(name, &format!("{} + {}", stored.text(), by.text())))?;
        sums.push(Cow::Borrowed(name), sum)?;
    }
    sums.finish()
}

/// Returns the sum, unless it is infinite or no number although `stored` is.
fn sum(stored: f64, by: f64) -> Option<f64> {
    let sum = stored + by;
    let becomes_infinite = sum.is_infinite() && stored.is_finite();
    let becomes_nan = sum.is_nan() && !stored.is_nan();
    (!becomes_infinite && !becomes_nan).then_some(sum)
}

/// Returns why an entity does not pass a condition. One without a Timestamp does not exist.
fn refused(condition: &Predicate, stored: &Entity<'_>) -> Error {
    let entity = match stored.timestamp {
        Some(_) => "The entity has",
        None => "The entity does not exist, so it has",
    };
    condition
        .lacking(stored)
        .map_or(Error::UpdateConditionNotSatisfied, |property| {
            Error::PropertyOfConditionMissing {
                entity,
                property: Error::quoted(property),
            }
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::{Dialect, Filter};
    use crate::json::parse_properties;
    use crate::{Code, Ticks};

    /// Returns the properties after a patch, or its error's code.
    fn patched(stored: &str, set: &str, increment: &str, remove: &[&str]) -> Result<PropertiesBuf, Code> {
        let bag = |json: &str| (!json.is_empty()).then(|| parse_properties(json).unwrap());
        let (set, increment) = (bag(set), bag(increment));
        let patch = Patch::new(
            set.as_ref().map(PropertiesBuf::as_properties),
            increment.as_ref().map(PropertiesBuf::as_properties),
            (!remove.is_empty()).then(|| remove.iter().copied().map(Some).collect()),
        );
        let stored = parse_properties(stored).unwrap();
        patch
            .and_then(|patch| patch.apply("p", "r", stored.as_properties()))
            .map_err(|error| error.code())
    }

    fn gives(stored: &str, set: &str, increment: &str, remove: &[&str], expected: &str) {
        let got = patched(stored, set, increment, remove).unwrap();
        assert_eq!(
            got,
            parse_properties(expected).unwrap(),
            "{stored} {set} {increment} {remove:?}"
        );
    }

    const BIG: &str = r#"{"n@odata.type": "Edm.Int64", "n": "9223372036854775807"}"#;
    const LONG: &str = r#"{"n@odata.type": "Edm.Int64", "n": "5"}"#;

    #[test]
    fn properties_are_set_added_to_and_removed() {
        gives(
            r#"{"a": 1, "b": 2}"#,
            r#"{"c": 3}"#,
            r#"{"a": 4}"#,
            &["b"],
            r#"{"a": 5, "c": 3}"#,
        );
        gives(r#"{"a": 1}"#, "", "", &["b"], r#"{"a": 1}"#);
        gives(r#"{"a": 1}"#, "{}", "", &[], r#"{"a": 1}"#);
        gives("{}", "", r#"{"n": -7}"#, &[], r#"{"n": -7}"#);
    }

    #[test]
    fn a_sum_has_the_type_that_is_stored() {
        gives(
            LONG,
            "",
            r#"{"n": 1}"#,
            &[],
            r#"{"n@odata.type": "Edm.Int64", "n": "6"}"#,
        );
        gives(r#"{"n": 0.5}"#, "", r#"{"n": 1}"#, &[], r#"{"n": 1.5}"#);
        for (stored, increment) in [
            (r#"{"n": 1}"#, LONG),
            (LONG, r#"{"n": 0.5}"#),
            (r#"{"n": "1"}"#, r#"{"n": 1}"#),
        ] {
            assert_eq!(patched(stored, "", increment, &[]), Err(Code::InvalidInput), "{stored}");
        }
    }

    #[test]
    fn a_sum_beyond_its_type_is_out_of_range() {
        let infinite = r#"{"n@odata.type": "Edm.Double", "n": "Infinity"}"#;
        let minus = r#"{"n@odata.type": "Edm.Double", "n": "-Infinity"}"#;
        let nan = r#"{"n@odata.type": "Edm.Double", "n": "NaN"}"#;
        for (stored, increment) in [
            (r#"{"n": 2147483647}"#, r#"{"n": 1}"#),
            (r#"{"n": -2147483648}"#, r#"{"n": -1}"#),
            (BIG, r#"{"n": 1}"#),
            (r#"{"n": 1.7e308}"#, r#"{"n": 1.7e308}"#),
            ("{}", infinite),
            ("{}", nan),
            (infinite, minus),
        ] {
            assert_eq!(
                patched(stored, "", increment, &[]),
                Err(Code::OutOfRangeInput),
                "{stored}"
            );
        }
        gives(infinite, "", r#"{"n": 1}"#, &[], infinite);
        gives(nan, "", r#"{"n": 1}"#, &[], nan);
    }

    #[test]
    fn a_patch_says_what_it_does_once() {
        for (set, increment, remove) in [
            ("", "", &[][..]),
            (r#"{"a": 1}"#, r#"{"a": 1}"#, &[]),
            (r#"{"a": 1}"#, "", &["a"]),
            ("", r#"{"a": 1}"#, &["a"]),
            ("", r#"{"a": "x"}"#, &[]),
            ("", "", &["PartitionKey"]),
            ("", "", &["Timestamp"]),
        ] {
            assert_eq!(
                patched("{}", set, increment, remove),
                Err(Code::InvalidInput),
                "{set} {increment} {remove:?}"
            );
        }
        assert_eq!(patched("{}", "", "", &["no name"]), Err(Code::PropertyNameInvalid));
        let of_null = Patch::new(None, None, Some(vec![None])).unwrap_err();
        assert_eq!(of_null.code(), Code::InvalidInput);
    }

    #[test]
    fn a_refusal_names_the_property_whose_absence_is_why() {
        let hint = |condition: &str, timestamp| {
            let condition = Predicate::new(&Filter::parse(condition, None, Dialect::Service).unwrap());
            let stored = parse_properties(r#"{"n": 1}"#).unwrap();
            let entity = Entity {
                timestamp,
                properties: stored.as_properties(),
                ..Entity::missing("p", "r")
            };
            refused(&condition, &entity).hint()
        };
        let stored = Ticks::parse("2026-01-01");
        for (condition, timestamp, start) in [
            ("a lt 5", stored, "The entity has no property \"a\"."),
            ("n eq 2 or a lt 5", stored, "The entity has no property \"a\"."),
            ("n eq 1 and a", stored, "The entity has no property \"a\"."),
            (
                "a lt 5",
                None,
                "The entity does not exist, so it has no property \"a\".",
            ),
        ] {
            let hint = hint(condition, timestamp).unwrap_or_default();
            assert!(hint.starts_with(start), "{condition}: {hint}");
        }
        for condition in [
            "n eq 2",
            "a eq 5 or n eq 2",
            "n eq 2 and a eq 5",
            "Timestamp lt datetime'2000-01-01'",
        ] {
            assert_eq!(hint(condition, stored), None, "{condition}");
        }
    }

    #[test]
    fn a_condition_is_tested_on_what_is_stored() {
        let add = parse_properties(r#"{"n": 1}"#).unwrap();
        let stored = parse_properties(r#"{"n": 1}"#).unwrap();
        let patched = |condition: &str, timestamp, properties| {
            let condition = Predicate::new(&Filter::parse(condition, None, Dialect::Service).unwrap());
            let patch = Patch::new(None, Some(add.as_properties()), None).unwrap();
            let entity = Entity {
                partition_key: Some("p"),
                row_key: Some("r"),
                timestamp,
                properties,
            };
            let patched = patch.only_if(Some(&condition)).apply_to(&entity);
            patched.map_err(|error| error.code())
        };
        let (now, refused) = (Ticks::parse("2026-01-01"), Err(Code::UpdateConditionNotSatisfied));
        let two = Ok(parse_properties(r#"{"n": 2}"#).unwrap());
        for condition in [
            "n eq 1",
            "n lt 2 and PartitionKey eq 'p'",
            "Timestamp gt datetime'2000-01-01T00:00:00Z'",
            "",
        ] {
            assert_eq!(patched(condition, now, stored.as_properties()), two, "{condition}");
        }
        assert_eq!(patched("n eq 2", now, stored.as_properties()), refused);
        // An entity that does not exist yet.
        let nothing = Properties::from_stored(&[]);
        assert_eq!(patched("n eq 0", None, nothing), refused);
        assert_eq!(
            patched("Timestamp gt datetime'2000-01-01T00:00:00Z'", None, nothing),
            refused
        );
        assert_eq!(
            patched("not (n gt 5) and RowKey eq 'r'", None, nothing),
            Ok(add.clone())
        );
    }

    #[test]
    fn what_is_removed_makes_room() {
        let full = |from: usize| {
            let properties: Vec<String> = (from..from + 252).map(|i| format!("\"p{i}\": 1")).collect();
            format!("{{{}}}", properties.join(", "))
        };
        gives(&full(0), r#"{"p252": 1}"#, "", &["p0"], &full(1));
        assert_eq!(patched(&full(0), r#"{"q": 1}"#, "", &[]), Err(Code::TooManyProperties));
    }

    proptest! {
        #[test]
        fn it_is_what_happens_to_each_property(
            stored in prop::collection::btree_map("[a-e]", any::<i32>(), 0..5),
            set in prop::collection::btree_map("[a-e]", any::<i32>(), 0..5),
            add in prop::collection::btree_map("[a-e]", any::<i32>(), 0..5),
            remove in prop::collection::vec("[a-e]", 0..5),
        ) {
            let json = |bag: &std::collections::BTreeMap<String, i32>| serde_json::to_string(bag).unwrap();
            let names: Vec<&str> = remove.iter().map(String::as_str).collect();
            let got = patched(&json(&stored), &json(&set), &json(&add), &names);
            let is_twice = |name: &String| {
                [set.contains_key(name), add.contains_key(name), remove.contains(name)].iter().filter(|is| **is).count() > 1
            };
            let mut expected = Ok(stored.clone());
            if set.keys().chain(add.keys()).any(is_twice) {
                expected = Err(Code::InvalidInput);
            } else if let Ok(bag) = &mut expected {
                bag.retain(|name, _| !remove.contains(name));
                bag.extend(set.clone());
                let sums: Option<Vec<_>> = add
                    .iter()
                    .map(|(name, by)| Some((name.clone(), stored.get(name).unwrap_or(&0).checked_add(*by)?)))
                    .collect();
                match sums {
                    Some(sums) => bag.extend(sums),
                    None => expected = Err(Code::OutOfRangeInput),
                }
            }
            prop_assert_eq!(got, expected.map(|bag| parse_properties(&json(&bag)).unwrap()));
        }
    }
}
