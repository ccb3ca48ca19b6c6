//! An entity as a whole: its size and its checks.

use crate::text::utf16_len;
use crate::{Error, Properties, Ticks, key, limits};

/// One entity, borrowed. A stored entity has both keys and a Timestamp; one that a query puts together may lack them.
#[derive(Debug, Clone, Copy)]
pub struct Entity<'a> {
    pub partition_key: Option<&'a str>,
    pub row_key: Option<&'a str>,
    pub timestamp: Option<Ticks>,
    pub properties: Properties<'a>,
}

impl<'a> Entity<'a> {
    /// Returns an entity that does not exist, as a patch that may insert it sees it: it has its keys and nothing else.
    pub fn missing(partition_key: &'a str, row_key: &'a str) -> Entity<'a> {
        Entity {
            partition_key: Some(partition_key),
            row_key: Some(row_key),
            timestamp: None,
            properties: Properties::from_stored(&[]),
        }
    }
}

/// Returns the size of an entity in bytes of the formula of semantics 1.5.
///
/// ```
/// use table_service_model::entity::size;
/// use table_service_model::json::parse_properties;
///
/// // 4, 2 for each of 10 units of the keys, 8, and 2 for each unit of the name "Age", and 4 for the Int32
/// let properties = parse_properties(r#"{"Age": 34}"#)?;
/// assert_eq!(size("Sales", "00010", properties.as_properties()), 4 + 20 + 8 + 6 + 4);
/// # Ok::<(), table_service_model::Error>(())
/// ```
pub fn size(partition_key: &str, row_key: &str, properties: Properties<'_>) -> usize {
    let keys = utf16_len(partition_key.as_bytes()) + utf16_len(row_key.as_bytes());
    limits::ENTITY_BASE_BYTES + keys * 2 + properties.size()
}

/// Refuses an entity that is larger than the service stores.
///
/// # Errors
/// `EntityTooLarge`.
pub fn check_size(partition_key: &str, row_key: &str, properties: Properties<'_>) -> Result<(), Error> {
    if size(partition_key, row_key, properties) > limits::ENTITY_BYTES {
        return Err(Error::EntityTooLarge);
    }
    Ok(())
}

/// Checks all that holds for a stored entity, in the service's order: characters of the keys, then the Timestamp, then
/// the limits. `timestamp` is `None` when it is outside 0001..=9999.
///
/// # Errors
/// `OutOfRangeInput` for key characters and a Timestamp outside 1601..=9998, `PropertyValueTooLarge` for keys beyond
/// their limits, `EntityTooLarge`.
pub fn check(
    partition_key: &str,
    row_key: &str,
    timestamp: Option<Ticks>,
    properties: Properties<'_>,
) -> Result<(), Error> {
    key::check_characters_of_both(partition_key, row_key)?;
    match timestamp {
        // The year 9999 is left free, so that there is always a next Timestamp.
        Some(ticks) if ticks.is_datetime() && ticks < TIMESTAMP_END => {}
        Some(ticks) => return Err(ticks.out_of_range(key::TIMESTAMP)),
        None => return Err(Error::out_of_range(key::TIMESTAMP, "infinity")),
    }
    if !key::within_limits(partition_key, row_key) {
        return Err(Error::KeyTooLong);
    }
    check_size(partition_key, row_key, properties)
}

/// 9999-01-01T00:00:00Z.
const TIMESTAMP_END: Ticks = match Ticks::new(3_155_063_616_000_000_000) {
    Some(ticks) => ticks,
    None => Ticks::MAX,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_properties;
    use crate::{Code, PropertiesBuf};

    fn code(pk: &str, rk: &str, timestamp: Option<Ticks>, bag: &PropertiesBuf) -> Option<Code> {
        check(pk, rk, timestamp, bag.as_properties()).err().map(|e| e.code())
    }

    #[test]
    fn the_size_is_the_services_formula() {
        let bag = parse_properties(
            r#"{"S":"héé😀", "I":1, "L@odata.type":"Edm.Int64", "L":"1", "D":1.5, "B":true,
                "T@odata.type":"Edm.DateTime", "T":"2020-01-01T00:00:00Z",
                "G@odata.type":"Edm.Guid", "G":"a455c812-1f7a-4f5c-9c3b-0123456789ab",
                "X@odata.type":"Edm.Binary", "X":"AAEC"}"#,
        )
        .unwrap();
        let values = (5 * 2 + 4) + 4 + 8 + 8 + 1 + 8 + 16 + (3 + 4);
        assert_eq!(size("p", "r😀", bag.as_properties()), 4 + 4 * 2 + 8 * (8 + 2) + values);
    }

    #[test]
    fn a_timestamp_is_finite_and_in_range() {
        let bag = PropertiesBuf::empty();
        let at = |text| Ticks::parse(text);
        assert_eq!(code("p", "r", at("1601-01-01"), &bag), None);
        assert_eq!(code("p", "r", at("9998-12-31T23:59:59.9999999Z"), &bag), None);
        for timestamp in [at("1600-12-31T23:59:59Z"), at("9999-01-01"), None] {
            assert_eq!(code("p", "r", timestamp, &bag), Some(Code::OutOfRangeInput));
        }
    }

    #[test]
    fn an_entity_ends_at_one_mebibyte() {
        // 32 properties of 65,536 bytes as UTF-16 each would be too much already; fill up with binaries.
        let mut builder = crate::PropertiesBuilder::new();
        let blob = vec![7u8; 65536];
        for i in 0..15 {
            builder
                .push(format!("b{i:02}").into(), crate::Value::Binary(&blob))
                .unwrap();
        }
        let used = 4 + 2 * 2 + 15 * (8 + 6 + 65536 + 4);
        let rest = limits::ENTITY_BYTES - used - (8 + 2 + 4);
        let mut fits = crate::PropertiesBuilder::new();
        let mut exceeds = crate::PropertiesBuilder::new();
        for target in [&mut fits, &mut exceeds] {
            for i in 0..15 {
                target
                    .push(format!("b{i:02}").into(), crate::Value::Binary(&blob))
                    .unwrap();
            }
        }
        fits.push("z".into(), crate::Value::Binary(&blob[..rest])).unwrap();
        exceeds
            .push("z".into(), crate::Value::Binary(&blob[..rest + 1]))
            .unwrap();
        let now = Ticks::parse("2026-01-01");
        assert_eq!(code("p", "r", now, &fits.finish().unwrap()), None);
        assert_eq!(
            code("p", "r", now, &exceeds.finish().unwrap()),
            Some(Code::EntityTooLarge)
        );
    }
}
