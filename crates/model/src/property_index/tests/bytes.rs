//! The format of entries is permanent: these bytes never change.

use super::{bag, entry_of};
use crate::property_index::entry;
use crate::{Ticks, Value, limits};

#[track_caller]
fn assert_entry(value: Value<'_>, expected: &[u8]) {
    let entry = entry_of(value, "Sales", "7");
    let keys = b"Sales\x007";
    assert_eq!(entry, [expected, keys].concat(), "{value:?} is {entry:02X?}");
}

#[test]
fn every_type_has_its_bytes() {
    assert_entry(Value::Boolean(false), &[1, 0]);
    assert_entry(Value::Boolean(true), &[1, 1]);
    let ticks = Ticks::parse("2013-08-22T01:12:06.2608595Z").unwrap();
    assert_entry(Value::DateTime(ticks), b"\x03\x08\xd0\x6c\xeb\xc0\x89\xc4\xd3");
    assert_entry(
        Value::DateTime(Ticks::DATETIME_MIN),
        b"\x03\x07\x01\xce\x17\x22\x77\x00\x00",
    );
    assert_entry(Value::DateTime(Ticks::MAX), b"\x03\x2b\xca\x28\x75\xf4\x37\x3f\xff");
    assert_entry(
        Value::Guid([0xFF, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        b"\x04\xff\x00\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
    );
    assert_entry(Value::Binary(b""), &[5, 0, 0]);
    assert_entry(Value::Binary(&[0, 1, 0xFF]), &[5, 0, 0xFF, 1, 0xFF, 0, 0]);
    assert_entry(Value::String(""), &[6, 0]);
    assert_entry(Value::String("Ab"), b"\x06Ab\0");
    // U+D7FF, U+E000, U+FFFF and U+1F600.
    assert_entry(
        Value::String("\u{d7ff}\u{e000}\u{ffff}\u{1f600}"),
        b"\x06\xed\x9f\xbf\xfe\x80\x80\xff\xbf\xbf\xf0\x9f\x98\x80\0",
    );
}

#[test]
fn numbers_of_all_types_have_the_bytes_of_their_double() {
    let one = b"\x02\xbf\xf0\x00\x00\x00\x00\x00\x00";
    assert_entry(Value::Int32(1), one);
    assert_entry(Value::Int64(1), one);
    assert_entry(Value::Double(1.0), one);
    let zero = b"\x02\x80\x00\x00\x00\x00\x00\x00\x00";
    assert_entry(Value::Int32(0), zero);
    assert_entry(Value::Double(-0.0), zero);
    assert_entry(Value::Double(0.0), zero);
    assert_entry(Value::Int32(-1), b"\x02\x40\x0f\xff\xff\xff\xff\xff\xff");
    assert_entry(Value::Int32(i32::MAX), b"\x02\xc1\xdf\xff\xff\xff\xc0\x00\x00");
    assert_entry(Value::Int64(i64::MAX), b"\x02\xc3\xe0\x00\x00\x00\x00\x00\x00");
    assert_entry(Value::Int64(i64::MIN), b"\x02\x3c\x1f\xff\xff\xff\xff\xff\xff");
    // 2^53 + 1 is rounded to 2^53.
    assert_entry(Value::Int64((1 << 53) + 1), b"\x02\xc3\x40\x00\x00\x00\x00\x00\x00");
    assert_entry(Value::Double(5e-324), b"\x02\x80\x00\x00\x00\x00\x00\x00\x01");
    assert_entry(Value::Double(-5e-324), b"\x02\x7f\xff\xff\xff\xff\xff\xff\xfe");
    assert_entry(
        Value::Double(f64::NEG_INFINITY),
        b"\x02\x00\x0f\xff\xff\xff\xff\xff\xff",
    );
    assert_entry(Value::Double(f64::INFINITY), b"\x02\xff\xf0\x00\x00\x00\x00\x00\x00");
    let nan = b"\x02\xff\xff\xff\xff\xff\xff\xff\xff";
    assert_entry(Value::Double(f64::NAN), nan);
    assert_entry(Value::Double(-f64::NAN), nan);
}

#[test]
fn long_values_are_cut() {
    let text = "a".repeat(511);
    assert_entry(Value::String(&text), &[b"\x06", text.as_bytes(), b"\0"].concat());
    // In the middle of a character: an é has two bytes.
    let cut = [b"\x06", text.as_bytes(), b"\xc3\0"].concat();
    assert_entry(Value::String(&(text.clone() + "é")), &cut);
    assert_entry(Value::String(&(text + "éa")), &cut);
    let zeros = [&[5][..], &[0, 0xFF].repeat(256), &[0, 0]].concat();
    assert_entry(Value::Binary(&[0; 256]), &zeros);
    assert_entry(Value::Binary(&[0; 257]), &zeros);
}

#[test]
fn an_entry_fits_an_index_tuple() {
    // The limit of a btree tuple, less its header and that of the bytea.
    const { assert!(limits::INDEX_ENTRY_BYTES <= 2704 - 8 - 4) };
    let zeros = [0; 256];
    let (long, euro) = ("k".repeat(1024), "€".repeat(446));
    assert_eq!(entry_of(Value::Binary(&zeros), &long, &long).len(), 1 + 512 + 2 + 2049);
    assert_eq!(
        entry_of(Value::Binary(&zeros), &euro, &euro).len(),
        limits::INDEX_ENTRY_BYTES
    );
    let text = "t".repeat(32768);
    assert_eq!(entry_of(Value::String(&text), &long, &long).len(), 1 + 512 + 1 + 2049);
}

#[test]
fn an_entity_without_the_property_has_no_entry() {
    let bag = bag(&[("p", Value::Int32(1))]);
    assert_eq!(entry(bag.as_properties(), "P", "a", "b"), None);
    assert_eq!(entry(bag.as_properties(), "PartitionKey", "a", "b"), None);
}
