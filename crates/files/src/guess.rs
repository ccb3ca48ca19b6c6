//! The type of a column, guessed from values without a type.

use table_service_model::Ticks;
use table_service_model::edm::{EdmType, Value, parse_boolean, parse_double, parse_guid};

/// The types that all values so far can have. A value has a type only if its text comes back letter by letter: `007` is no integer, and
/// `1.10` no Double.
#[derive(Debug, Clone)]
pub struct Guess {
    any: bool,
    /// The first one that is left is the column's.
    fitting: Vec<EdmType>,
}

impl Default for Guess {
    fn default() -> Guess {
        use EdmType::{Boolean, DateTime, Double, Guid, Int32, Int64};
        Guess {
            any: false,
            fitting: vec![Boolean, Int32, Int64, Double, DateTime, Guid],
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
        self.fitting.retain(|edm| {
            let value = match edm {
                EdmType::Boolean => parse_boolean(text).map(Value::Boolean),
                EdmType::Int32 => text.parse().ok().map(Value::Int32),
                EdmType::Int64 => text.parse().ok().map(Value::Int64),
                // Infinity may be meant as a text.
                EdmType::Double => parse_double(text).filter(|value| value.is_finite()).map(Value::Double),
                EdmType::DateTime => Ticks::parse_datetime(text).ok().map(Value::DateTime),
                EdmType::Guid => parse_guid(text).map(Value::Guid),
                EdmType::String | EdmType::Binary => None,
            };
            value.is_some_and(|value| value.text() == text)
        });
    }

    /// The type of all values; `None` if it can be none but String.
    pub fn edm_type(&self) -> Option<EdmType> {
        self.fitting.first().copied().filter(|_| self.any)
    }
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
            (&["true", "", "false"][..], Some(EdmType::Boolean)),
            (&["true", "False"], None),
            (&["1", "-2147483648"], Some(EdmType::Int32)),
            (&["1", "2147483648"], Some(EdmType::Int64)),
            (&["1.0", "2.5", "-1E-07", "1E+15"], Some(EdmType::Double)),
            (&["1.10"], None),
            (&["12E5"], None),
            (&["1e-7"], None),
            (&["1", "2.5"], None),
            (&["NaN"], None),
            (
                &["2020-01-01T00:00:00Z", "2025-09-22T09:45:35.2743359Z"],
                Some(EdmType::DateTime),
            ),
            (&["a455c812-1f7a-4f5c-9c3b-0123456789ab"], Some(EdmType::Guid)),
            (&["A455C812-1F7A-4F5C-9C3B-0123456789AB"], None),
            (&["2020-01-01T00:00:00.50Z"], None),
            (&["007"], None),
            (&["+1"], None),
            (&["-0"], None),
            (&["-0.0"], Some(EdmType::Double)),
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
