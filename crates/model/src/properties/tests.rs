use super::bag::{Entry, FORMAT_NARROW, FORMAT_WIDE};
use super::stored::{contribution, decode, tag};
use super::*;
use crate::json::parse_properties;
use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::{Code, EdmType, Error, Ticks, Value, limits};

fn build<'a>(entries: impl IntoIterator<Item = (impl AsRef<str>, Value<'a>)>) -> Result<PropertiesBuf, Error> {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in entries {
        builder.push(name.as_ref().to_owned().into(), value)?;
    }
    builder.finish()
}

/// Bytes as no builder writes them.
fn forge(entries: &[(&[u8], u8, &[u8])], size: usize) -> Vec<u8> {
    let entries: Vec<_> = entries
        .iter()
        .map(|&(name, tag, value)| Entry { name, tag, value })
        .collect();
    PropertiesBuf::assemble(entries.into_iter(), size).as_bytes().to_vec()
}

/// Code and SQLSTATE, or nothing where nothing is refused.
fn refusal<T>(result: Result<T, Error>) -> Option<(Code, &'static str)> {
    result.err().map(|error| (error.code(), error.sqlstate()))
}

fn names(bag: Properties<'_>) -> Vec<&str> {
    bag.iter().map(|(name, _)| name).collect()
}

fn numbered(count: usize) -> impl Iterator<Item = (String, Value<'static>)> {
    (0..count).map(|i| (format!("P{i:03}"), Value::Int32(i as i32)))
}

/// One property of every type, the texts with characters of one to four bytes.
fn every_type() -> PropertiesBuf {
    build([
        ("S", Value::String("aé日😀")),
        ("I", Value::Int32(-1)),
        ("L", Value::Int64(i64::MIN)),
        ("D", Value::Double(-0.0)),
        ("N", Value::Double(f64::NAN)),
        ("B", Value::Boolean(true)),
        ("T", Value::DateTime(Ticks::DATETIME_MIN)),
        ("G", Value::Guid([0xAB; 16])),
        ("X", Value::Binary(&[0, 255])),
        ("été", Value::String("")),
    ])
    .unwrap()
}

#[test]
fn the_format_is_what_the_module_says() {
    let bag = build([("b", Value::String("é😀")), ("Aé", Value::Int32(258))]).unwrap();
    let size = (8 + 2 * 2 + 4u8) + (8 + 2 + 3 * 2 + 4);
    let mut expected = vec![0x01, 2, size, 0, 0, 0, 2, 1];
    expected.extend([3, 0, 4, 0, 4, 0, 10, 0]);
    expected.extend("Aéb".bytes());
    expected.extend([2, 1, 0, 0]);
    expected.extend("é😀".bytes());
    assert_eq!(bag.as_bytes(), expected);
    assert_eq!(bag.as_properties().size(), usize::from(size));
}

#[test]
fn the_empty_bag_has_nothing() {
    let bag = PropertiesBuf::empty();
    assert_eq!(bag, PropertiesBuilder::new().finish().unwrap());
    assert_eq!(bag, parse_properties("{}").unwrap());
    let bag = bag.as_properties();
    assert!(bag.is_empty() && !bag.contains("") && bag.get("A").is_none() && bag.iter().next().is_none());
    assert_eq!((bag.len(), bag.size(), bag.as_bytes().len()), (0, 0, 6));
}

#[test]
fn looks_up_every_property_and_no_other() {
    for count in [1, 2, 3, 252] {
        let bag = build(numbered(count)).unwrap();
        let bag = bag.as_properties();
        assert_eq!(bag.len(), count);
        for (name, value) in numbered(count) {
            assert_eq!(bag.get(&name), Some(value));
            assert_eq!(bag.type_of(&name), Some(EdmType::Int32));
            assert!(bag.contains(&name));
            for other in [&name[..3], &name.to_lowercase(), &format!("{name}0"), ""] {
                assert!(!bag.contains(other) && bag.get(other).is_none() && bag.type_of(other).is_none());
            }
        }
    }
}

#[test]
fn reads_every_type_back() {
    let bag = every_type();
    for (name, edm, text) in [
        ("B", EdmType::Boolean, "true"),
        ("D", EdmType::Double, "-0.0"),
        ("G", EdmType::Guid, "abababab-abab-abab-abab-abababababab"),
        ("I", EdmType::Int32, "-1"),
        ("L", EdmType::Int64, "-9223372036854775808"),
        ("N", EdmType::Double, "NaN"),
        ("S", EdmType::String, "aé日😀"),
        ("T", EdmType::DateTime, "1601-01-01T00:00:00Z"),
        ("X", EdmType::Binary, "AP8="),
        ("été", EdmType::String, ""),
    ] {
        let value = bag.as_properties().get(name).unwrap();
        assert_eq!((value.edm_type(), value.text().as_str()), (edm, text), "{name}");
    }
}

#[test]
fn properties_are_in_ordinal_order() {
    let bag = build(["b", "B", "_", "é", "a", "Z10", "Z2", "日"].map(|name| (name, Value::Boolean(true)))).unwrap();
    assert_eq!(names(bag.as_properties()), ["B", "Z10", "Z2", "_", "a", "b", "é", "日"]);
}

#[test]
fn equal_bags_are_equal_bytes_whatever_the_order() {
    let mut entries = [
        ("a", Value::Int32(1)),
        ("b", Value::String("x")),
        ("c", Value::Double(f64::NAN)),
        ("d", Value::Binary(b"")),
    ];
    let expected = build(entries).unwrap();
    for _ in 0..entries.len() {
        entries.rotate_left(1);
        assert_eq!(build(entries).unwrap(), expected);
        entries.swap(0, 1);
        assert_eq!(build(entries).unwrap(), expected);
    }
    let other_nan = f64::from_bits(0xFFF8_0000_0000_0001);
    assert_eq!(
        build([("N", Value::Double(other_nan))]).unwrap(),
        build([("N", Value::Double(f64::NAN))]).unwrap()
    );
    assert_ne!(
        build([("Z", Value::Double(-0.0))]).unwrap(),
        build([("Z", Value::Double(0.0))]).unwrap()
    );
}

#[test]
fn offsets_are_narrow_up_to_65535_bytes_of_names_and_of_values() {
    let blob = [7; 65536];
    for (bytes, format) in [(65535, FORMAT_NARROW), (65536, FORMAT_WIDE)] {
        let halves = [&blob[..40000], &blob[..bytes - 40000]];
        let values = build([("a", Value::Binary(halves[0])), ("b", Value::Binary(halves[1]))]).unwrap();
        // 86 names of 757 bytes and one of the rest.
        let name =
            |i: usize, bytes: usize| format!("n{i:03}{}{}", "日".repeat((bytes - 4) / 3), &"aa"[..(bytes - 4) % 3]);
        let mut long: Vec<_> = (0..86).map(|i| name(i, 757)).collect();
        long.push(name(86, bytes - 86 * 757));
        let names = build(long.iter().map(|name| (name, Value::Boolean(false)))).unwrap();
        for bag in [values, names] {
            assert_eq!(bag.as_bytes()[0], format, "{bytes}");
            assert_eq!(Properties::validate(bag.as_bytes()), Ok(bag.as_properties()));
            assert_eq!(build(bag.as_properties().iter()), Ok(bag));
        }
        assert_eq!(
            build(long.iter().map(|name| (name, Value::Boolean(false))))
                .unwrap()
                .as_properties()
                .iter()
                .map(|(name, _)| name.len())
                .sum::<usize>(),
            bytes
        );
    }
}

#[test]
fn widening_and_narrowing_follow_the_contents() {
    let blob = [7; 40000];
    let [a, b] = ["a", "b"].map(|name| build([(name, Value::Binary(&blob))]).unwrap());
    let both = a.as_properties().merge(b.as_properties()).unwrap();
    let formats = [&a, &both, &both.as_properties().without(&["b"])].map(|bag| bag.as_bytes()[0]);
    assert_eq!(formats, [FORMAT_NARROW, FORMAT_WIDE, FORMAT_NARROW]);
    assert_eq!(both.as_properties().project(&["b"]), b);
}

#[test]
fn every_limit_of_a_property_holds_at_its_edge() {
    let too_large = Some((Code::PropertyValueTooLarge, "54000"));
    let push = |name: &str, value: Value<'_>| refusal(build([(name, value)]));
    for (character, units) in [("a", 1), ("é", 1), ("日", 1), ("😀", 2)] {
        let text = character.repeat(32768 / units);
        assert_eq!(push("S", Value::String(&text)), None, "{character}");
        assert_eq!(push("S", Value::String(&format!("{text}a"))), too_large, "{character}");
    }
    let blob = [0; 65537];
    assert_eq!(push("X", Value::Binary(&blob[..65536])), None);
    assert_eq!(push("X", Value::Binary(&blob)), too_large);
    for character in ["a", "é", "日"] {
        assert_eq!(push(&character.repeat(255), Value::Boolean(true)), None, "{character}");
        let name = character.repeat(256);
        let too_long = Some((Code::PropertyNameTooLong, "54000"));
        assert_eq!(push(&name, Value::Boolean(true)), too_long, "{character}");
        assert_eq!(refusal(PropertiesBuilder::new().absent(name.into())), too_long);
    }
    let datetime = |ticks| push("T", Value::DateTime(Ticks::new(ticks).unwrap()));
    assert_eq!(datetime(Ticks::DATETIME_MIN.get()), None);
    assert_eq!(datetime(Ticks::MAX.get()), None);
    assert_eq!(
        datetime(Ticks::DATETIME_MIN.get() - 1),
        Some((Code::OutOfRangeInput, "22003"))
    );
    assert_eq!(push("S", Value::String("a\0")), Some((Code::InvalidInput, "22023")));
    assert_eq!(
        push("1", Value::Boolean(true)),
        Some((Code::PropertyNameInvalid, "22023"))
    );
}

#[test]
fn a_bag_has_252_properties() {
    assert_eq!(refusal(build(numbered(252))), None);
    assert_eq!(refusal(build(numbered(253))), Some((Code::TooManyProperties, "54000")));
    let mut builder = PropertiesBuilder::new();
    for (name, value) in numbered(252) {
        builder.push(name.into(), value).unwrap();
    }
    builder.absent("Q".into()).unwrap();
    assert_eq!(builder.finish().unwrap().as_properties().len(), 252);
}

#[test]
fn a_property_is_given_once_with_or_without_a_value() {
    for has_value in [[true, true], [true, false], [false, true], [false, false]] {
        let mut builder = PropertiesBuilder::new();
        builder.push("B".into(), Value::Int32(0)).unwrap();
        for has_value in has_value {
            if has_value {
                builder.push("A".into(), Value::Int32(1)).unwrap();
            } else {
                builder.absent("A".into()).unwrap();
            }
        }
        let error = builder.finish().unwrap_err();
        assert_eq!(error.sqlstate(), "22023");
        assert_eq!(error, Error::DuplicateProperty { name: "A".to_owned() });
    }
}

#[test]
fn a_duplicate_counts_before_the_limits() {
    // The front end of the service finds it, the back end counts (semantics 0.2).
    let twice = numbered(252).chain(numbered(1));
    assert_eq!(
        build(twice),
        Err(Error::DuplicateProperty {
            name: "P000".to_owned()
        })
    );
}

#[test]
fn the_system_properties_are_ignored() {
    for name in [PARTITION_KEY, ROW_KEY, TIMESTAMP] {
        let mut builder = PropertiesBuilder::new();
        builder.absent(name.into()).unwrap();
        builder.push(name.into(), Value::Int32(1)).unwrap();
        builder.push(name.to_lowercase().into(), Value::Int32(2)).unwrap();
        let bag = builder.finish().unwrap();
        assert_eq!(names(bag.as_properties()), [name.to_lowercase()]);
        assert!(Properties::validate(bag.as_bytes()).is_ok());
    }
}

/// Returns a bag that contributes `size` bytes to an entity, its names beginning with `prefix`.
fn bag_of_size(prefix: &str, size: usize) -> PropertiesBuf {
    let blob = [7; 65536];
    let overhead = 8 + 2 * (prefix.len() + 2) + 4;
    let mut left = size;
    let mut entries = Vec::new();
    while left > 0 {
        let mut length = (left - overhead).min(blob.len());
        if (1..=overhead).contains(&(left - overhead - length)) {
            // Leave room for one more.
            length -= overhead;
        }
        entries.push((format!("{prefix}{:02}", entries.len()), Value::Binary(&blob[..length])));
        left -= overhead + length;
    }
    let bag = build(entries).unwrap();
    assert_eq!(bag.as_properties().size(), size);
    bag
}

const LARGEST: usize = limits::ENTITY_BYTES - limits::ENTITY_BASE_BYTES;

#[test]
fn properties_end_where_the_largest_entity_ends() {
    let largest = bag_of_size("P", LARGEST);
    assert!(Properties::validate(largest.as_bytes()).is_ok());
    let too_large = Some((Code::EntityTooLarge, "54000"));
    // One byte more in one value: the last is not full.
    let mut grown: Vec<_> = largest.as_properties().iter().collect();
    let longer = [7; 65536];
    let Some((_, Value::Binary(last))) = grown.pop() else {
        panic!("a Binary comes last")
    };
    grown.push(("P99", Value::Binary(&longer[..last.len() + 1])));
    assert_eq!(refusal(build(grown.iter().copied())), too_large);
    let entries: Vec<_> = grown
        .iter()
        .map(|&(name, value)| {
            let Value::Binary(bytes) = value else { unreachable!() };
            (name.as_bytes(), tag(EdmType::Binary), bytes)
        })
        .collect();
    assert_eq!(refusal(Properties::validate(&forge(&entries, LARGEST + 1))), too_large);
}

#[test]
fn a_merge_is_held_to_the_limits_of_its_result() {
    let merge = |a: &PropertiesBuf, b: &PropertiesBuf| a.as_properties().merge(b.as_properties());
    let half = bag_of_size("A", LARGEST / 2);
    let (fits, exceeds) = [0, 1].map(|more| bag_of_size("B", LARGEST - LARGEST / 2 + more)).into();
    assert_eq!(merge(&half, &fits).unwrap().as_properties().size(), LARGEST);
    assert_eq!(refusal(merge(&half, &exceeds)), Some((Code::EntityTooLarge, "54000")));
    let largest = bag_of_size("A", LARGEST);
    assert_eq!(merge(&largest, &largest), Ok(largest), "replaces and does not add");

    let full = build(numbered(252)).unwrap();
    assert_eq!(merge(&full, &build(numbered(1)).unwrap()).as_ref(), Ok(&full));
    assert_eq!(
        refusal(merge(&full, &build([("Q", Value::Boolean(true))]).unwrap())),
        Some((Code::TooManyProperties, "54000"))
    );
}

#[test]
fn a_bag_includes_what_a_merge_leaves_as_it_is() {
    let all = every_type();
    let all = all.as_properties();
    assert!(all.includes(all) && all.includes(PropertiesBuf::empty().as_properties()));
    for (name, _) in all.iter() {
        let one = all.project(&[name]);
        assert!(all.includes(one.as_properties()), "{name}");
        assert!(
            !all.without(&[name]).as_properties().includes(one.as_properties()),
            "{name}"
        );
        for other in [Value::Int32(1), Value::Int64(1), Value::Double(1.0), Value::String("1")] {
            let other = build([(name, other)]).unwrap();
            let is_unchanged = all.merge(other.as_properties()).unwrap().as_properties() == all;
            assert_eq!(all.includes(other.as_properties()), is_unchanged, "{name}");
        }
    }
}

#[test]
fn without_and_project_take_names_that_may_be_absent_or_repeated() {
    let bag = build(numbered(4)).unwrap();
    let bag = bag.as_properties();
    let some = ["P003", "absent", "P001", "P001", ""];
    assert_eq!(names(bag.project(&some).as_properties()), ["P001", "P003"]);
    assert_eq!(names(bag.without(&some).as_properties()), ["P000", "P002"]);
    for (result, expected) in [
        (bag.without(&[]), bag.to_buf()),
        (bag.project::<&str>(&[]), PropertiesBuf::empty()),
        (bag.without(&names(bag)), PropertiesBuf::empty()),
        (bag.project(&names(bag)), bag.to_buf()),
    ] {
        assert_eq!(result, expected);
    }
}

#[test]
fn validate_refuses_every_truncation_and_extension() {
    let bag = every_type();
    for end in 0..bag.as_bytes().len() {
        let result = Properties::validate(&bag.as_bytes()[..end]);
        assert_eq!(refusal(result), Some((Code::InvalidInput, "22P03")), "{end}");
    }
    let longer = [bag.as_bytes(), &[0]].concat();
    assert_eq!(
        refusal(Properties::validate(&longer)),
        Some((Code::InvalidInput, "22P03"))
    );
}

#[test]
fn validate_accepts_a_changed_byte_only_where_it_makes_another_canonical_bag() {
    let bag = every_type();
    let mut bytes = bag.as_bytes().to_vec();
    let mut accepted = 0;
    for at in 0..bytes.len() {
        for change in 1..=255 {
            bytes[at] ^= change;
            if let Ok(changed) = Properties::validate(&bytes) {
                accepted += 1;
                assert_eq!(build(changed.iter()).unwrap().as_bytes(), bytes, "{at}: {change}");
            }
            // Unchecked bytes may read as anything, but reading them is safe.
            let unchecked = Properties::from_stored(&bytes);
            let read: Vec<_> = unchecked.iter().map(|(name, _)| unchecked.get(name)).collect();
            assert_eq!(read.len(), unchecked.len());
            bytes[at] ^= change;
        }
    }
    assert!(accepted > 1000, "names and values can change, {accepted}");
}

#[test]
fn validate_says_what_is_wrong() {
    const S: u8 = tag(EdmType::String);
    let sizes = |entries: &[(&[u8], u8, &[u8])]| -> usize {
        let name_and_value = |&(name, tag, value)| contribution(name, decode(tag, value));
        entries.iter().map(name_and_value).sum()
    };
    let one = |name: &[u8], tag: u8, value: &[u8]| forge(&[(name, tag, value)], sizes(&[(name, tag, value)]));
    let two = |a: &[u8], b: &[u8]| {
        let entries = [(a, S, &b""[..]), (b, S, &b""[..])];
        forge(&entries, sizes(&entries))
    };
    let tagged = |edm, value: &[u8]| one(b"A", tag(edm), value);
    assert_eq!(refusal(Properties::validate(&two(b"A", b"B"))), None);

    let malformed = (Code::InvalidInput, "22P03");
    let unfit = "A value does not fit its type.";
    for (bytes, hint) in [
        (vec![], "These bytes are no property bag of a known version."),
        (
            vec![2, 0, 0, 0, 0, 0],
            "These bytes are no property bag of a known version.",
        ),
        (
            vec![0x81, 0, 0, 0, 0, 0],
            "The header of the property bag does not fit its contents.",
        ),
        (
            vec![1, 0, 1, 0, 0, 0],
            "The header of the property bag does not fit its contents.",
        ),
        (
            vec![1, 0, 0, 0, 0, 0, 0],
            "The property bag is longer than its properties.",
        ),
        (two(b"B", b"A"), "The property names are not in ascending order."),
        (two(b"A", b"A"), "The property names are not in ascending order."),
        (one(b"A\xFF", S, b""), "A property name is not UTF-8."),
        (
            one(b"PartitionKey", S, b""),
            "PartitionKey, RowKey and Timestamp are no properties of a bag.",
        ),
        (one(b"A", 0, b""), unfit),
        (one(b"A", 9, b""), unfit),
        (tagged(EdmType::String, b"\xC3"), unfit),
        (tagged(EdmType::Int32, &[0; 5]), unfit),
        (tagged(EdmType::Int64, &[0; 4]), unfit),
        (tagged(EdmType::Double, &[0; 4]), unfit),
        (tagged(EdmType::Double, &0x7FF8_0000_0000_0001u64.to_le_bytes()), unfit),
        (tagged(EdmType::Boolean, &[2]), unfit),
        (tagged(EdmType::Boolean, &[]), unfit),
        (tagged(EdmType::DateTime, &(-1i64).to_le_bytes()), unfit),
        (tagged(EdmType::DateTime, &(Ticks::MAX.get() + 1).to_le_bytes()), unfit),
        (tagged(EdmType::Guid, &[0; 15]), unfit),
    ] {
        let error = Properties::validate(&bytes).unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), malformed, "{hint}");
        assert_eq!(error.hint().as_deref(), Some(hint));
    }
}

#[test]
fn validate_holds_bytes_to_the_limits() {
    let many: Vec<_> = (0..=252).map(|i| format!("P{i:03}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_bytes(), 5, &[0u8][..])).collect();
    let one = |name: &str, edm: EdmType, value: &[u8]| {
        let size = contribution(name.as_bytes(), decode(tag(edm), value));
        forge(&[(name.as_bytes(), tag(edm), value)], size)
    };
    for (bytes, refused) in [
        (forge(&many[..252], 252 * (8 + 2 * 4 + 1)), None),
        (
            forge(&many, 253 * (8 + 2 * 4 + 1)),
            Some((Code::TooManyProperties, "54000")),
        ),
        (one("S", EdmType::String, &[b'a'; 32768]), None),
        (
            one("S", EdmType::String, &[b'a'; 32769]),
            Some((Code::PropertyValueTooLarge, "54000")),
        ),
        (one("X", EdmType::Binary, &[0; 65536]), None),
        (
            one("X", EdmType::Binary, &[0; 65537]),
            Some((Code::PropertyValueTooLarge, "54000")),
        ),
        (one(&"a".repeat(255), EdmType::Boolean, &[1]), None),
        (
            one(&"a".repeat(256), EdmType::Boolean, &[1]),
            Some((Code::PropertyNameTooLong, "54000")),
        ),
        (
            one("", EdmType::Boolean, &[1]),
            Some((Code::PropertyNameInvalid, "22023")),
        ),
        (one("S", EdmType::String, b"\0"), Some((Code::InvalidInput, "22023"))),
        (
            one("T", EdmType::DateTime, &[0; 8]),
            Some((Code::OutOfRangeInput, "22003")),
        ),
    ] {
        assert_eq!(refusal(Properties::validate(&bytes)), refused);
    }
}
