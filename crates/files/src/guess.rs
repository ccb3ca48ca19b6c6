//! The type of a column whose values have none.

use table_service_model::Ticks;
use table_service_model::edm::{EdmType, parse_boolean, parse_double, parse_guid};

/// The largest integer up to which a Double holds all of them.
const EXACT: u64 = 1 << 53;

/// The types that all values so far can have. A value has a type only if nothing of its text is lost by it: `007` is no
/// integer.
#[derive(Debug, Clone)]
pub struct Guess {
    any: bool,
    boolean: bool,
    int32: bool,
    int64: bool,
    double: bool,
    datetime: bool,
    guid: bool,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess {
            any: false,
            boolean: true,
            int32: true,
            int64: true,
            double: true,
            datetime: true,
            guid: true,
        }
    }
}

impl Guess {
    /// Notes one more value. An empty text is none.
    pub fn see(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.any = true;
        let integer = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
        self.boolean &= parse_boolean(text).is_some();
        self.int32 &= integer.is_some_and(|value| i32::try_from(value).is_ok());
        self.int64 &= integer.is_some();
        self.double &= match integer {
            Some(value) => value.unsigned_abs() <= EXACT,
            None => is_decimal(text) && parse_double(text).is_some(),
        };
        // A date alone may be meant as a text.
        let has_time = text.as_bytes().get(10) == Some(&b'T');
        self.datetime &= has_time && Ticks::parse_datetime(text).is_ok();
        self.guid &= parse_guid(text).is_some();
    }

    /// The type of all values; `None` if it can be none but String.
    pub fn edm_type(&self) -> Option<EdmType> {
        let types = [
            (self.boolean, EdmType::Boolean),
            (self.int32, EdmType::Int32),
            (self.int64, EdmType::Int64),
            (self.double, EdmType::Double),
            (self.datetime, EdmType::DateTime),
            (self.guid, EdmType::Guid),
        ];
        let mut fitting = types.into_iter().filter(|(fits, _)| *fits).map(|(_, edm)| edm);
        if self.any { fitting.next() } else { None }
    }
}

/// Digits without a zero in front of them, with a fraction or an exponent.
fn is_decimal(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits == 1 || digits > 1 && !text.starts_with('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(values: &[&str]) -> Option<EdmType> {
        let mut guess = Guess::default();
        values.iter().for_each(|value| guess.see(value));
        guess.edm_type()
    }

    #[test]
    fn a_column_has_a_type_if_all_its_values_have() {
        for (values, edm) in [
            (&["true", "", "False"][..], Some(EdmType::Boolean)),
            (&["1", "-2147483648"], Some(EdmType::Int32)),
            (&["1", "2147483648"], Some(EdmType::Int64)),
            (&["1", "2.50", "-1e-7"], Some(EdmType::Double)),
            (&["2.5", "9007199254740993"], None),
            (
                &["2020-01-01T00:00:00Z", "2025-09-22T09:45:35.2743359Z"],
                Some(EdmType::DateTime),
            ),
            (&["a455c812-1f7a-4f5c-9c3b-0123456789ab"], Some(EdmType::Guid)),
            (&["007"], None),
            (&["+1"], None),
            (&["-0"], Some(EdmType::Double)),
            (&["00.5"], None),
            (&["2020-01-01"], None),
            (&["1", "x"], None),
            (&["1", "true"], None),
            (&["", ""], None),
        ] {
            assert_eq!(guess(values), edm, "{values:?}");
        }
    }
}
