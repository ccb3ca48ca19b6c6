//! Entities of every type, with nasty keys and values.

use std::collections::BTreeSet;

use system_tests::random::Random;

/// Keys that need care in URLs, filters, SQL, JSON or CSV.
const KEYS: &[&str] = &[
    "",
    " ",
    "a",
    "A",
    "O'Brien",
    "''",
    "%",
    "%27",
    "a+b@c*$!&,:;=()[]{}",
    "\"quoted\"",
    "comma,\"and\" more",
    "-1",
    "=1+1",
    "é",
    "e\u{301}",
    "日本語",
    "😀",
    "\u{a0}",
    "\u{feff}bom",
    "\u{ffee}",
    "\u{10ffff}",
    "null",
    "\u{202e}right to left",
    "~tilde",
    " leading and trailing ",
    "a very long key of many words, which goes on and on and on until it ends",
];

const STRINGS: &[&str] = &[
    "",
    " ",
    "null",
    "line\nbreak\r\nand\ttab",
    "\"quotes\" and \\backslash\\",
    "\u{1}\u{1f}\u{7f}\u{85}\u{2028}",
    "</script>",
    "2020-01-01T00:00:00Z",
    "123",
    "true",
    "😀 é 日本 \u{10ffff}",
    "a,b;c",
];

const DOUBLES: &[&str] = &[
    "0.0",
    "-0.0",
    "1.0",
    "-1.5",
    "0.1",
    "1e300",
    "-1e-300",
    "5e-324",
    "1.7976931348623157e308",
    "123456789012345680.0",
    "\"NaN\"",
    "\"Infinity\"",
    "\"-Infinity\"",
];

const INT64S: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "2147483648",
    "9007199254740993",
];
const INT32S: &[&str] = &["0", "-1", "2147483647", "-2147483648"];
const TIMES: &[&str] = &[
    "1601-01-01T00:00:00Z",
    "1969-12-31T23:59:59.9999999Z",
    "2000-02-29T12:00:00.0000001Z",
    "2026-11-22T15:00:00.1234567Z",
    "9999-12-31T23:59:59.9999999Z",
];
const GUIDS: &[&str] = &[
    "00000000-0000-0000-0000-000000000000",
    "a455c812-1f7a-4f5c-9c3b-0123456789ab",
];
const BINARIES: &[&str] = &["", "AA==", "AAECAwQFBgcICQoLDA0ODw==", "//79/Pv6+fg="];
const NAMES: &[&str] = &[
    "A", "a", "Name", "name_1", "_", "été", "名前", "Zz9", "Type", "odata", "X1", "X2", "X3",
];

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    let text: &&'a str = random.pick(from);
    text
}

/// So many entities as lines of JSON, each with another key.
pub fn lines(seed: u64, count: usize) -> String {
    let mut random = Random::new(seed);
    let mut seen = BTreeSet::new();
    let mut lines = String::new();
    let quote = |text: &str| serde_json::to_string(text).unwrap();
    while seen.len() < count {
        let key = |random: &mut Random| {
            let base = *random.pick(KEYS);
            if random.chance(60) {
                format!("{base}{}", random.below(100_000))
            } else {
                base.to_owned()
            }
        };
        let keys = (key(&mut random), key(&mut random));
        if !seen.insert(keys.clone()) {
            continue;
        }
        let mut line = format!("{{\"PartitionKey\":{},\"RowKey\":{}", quote(&keys.0), quote(&keys.1));
        line.push_str(&format!(
            ",\"Timestamp\":\"2024-0{}-01T00:00:0{}.{:06}Z\"",
            1 + random.below(9),
            random.below(10),
            random.below(999_999)
        ));
        for name in NAMES {
            if random.chance(50) {
                continue;
            }
            let annotated = |edm: &str, value: &str| format!(",\"{name}@odata.type\":\"{edm}\",\"{name}\":{value}");
            let string = |value: &str| format!("\"{value}\"");
            line.push_str(&match random.below(9) {
                0 | 1 => format!(",\"{name}\":{}", quote(pick(&mut random, STRINGS))),
                2 => format!(",\"{name}\":{}", pick(&mut random, INT32S)),
                3 => format!(",\"{name}\":{}", random.chance(50)),
                4 => annotated("Edm.Double", pick(&mut random, DOUBLES)),
                5 => annotated("Edm.Int64", &string(pick(&mut random, INT64S))),
                6 => annotated("Edm.DateTime", &string(pick(&mut random, TIMES))),
                7 => annotated("Edm.Guid", &string(pick(&mut random, GUIDS))),
                _ => annotated("Edm.Binary", &string(pick(&mut random, BINARIES))),
            });
        }
        line.push_str("}\n");
        lines.push_str(&line);
    }
    lines
}
