//! Which properties a read gives back: `$select` (semantics 6.5).

use std::collections::HashSet;

use crate::limits::{PROJECTION_BYTES, PROJECTION_NAMES, PROPERTY_NAME_UTF16_UNITS};
use crate::text::utf16_len;
use crate::{Error, Properties, PropertiesBuf};

/// Which properties to give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projection {
    All,
    Names(Names),
}

/// The names of a projection, each once. None is longer than a property's name can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Projection {
    /// Reads a comma-separated list of names. Space around names and repeated names are ignored. `*` among the names, or
    /// no name at all, chooses everything. A name that is too long for a property, begins with `odata.` or contains `@`
    /// is ignored. Any other name that no property can have chooses nothing.
    ///
    /// # Errors
    /// `InvalidInput` for more than 255 names, or 256 KiB.
    ///
    /// ```
    /// use table_service_model::projection::Projection;
    ///
    /// let chosen = Projection::parse("FirstName, Email")?;
    /// assert!(chosen.has("Email") && !chosen.has("Age"));
    /// assert_eq!(Projection::parse("Email,*")?, Projection::All);
    /// # Ok::<(), table_service_model::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Projection, Error> {
        if text.len() > PROJECTION_BYTES {
            return Err(Error::argument(format!(
                "A projection has at most {PROJECTION_BYTES} bytes"
            )));
        }
        let (mut seen, mut given) = (HashSet::new(), Vec::new());
        for name in text.split(',').map(str::trim) {
            if name == "*" {
                return Ok(Projection::All);
            }
            if name.is_empty() || !seen.insert(name) {
                continue;
            }
            if seen.len() > PROJECTION_NAMES {
                return Err(Error::argument(format!(
                    "A projection has at most {PROJECTION_NAMES} names"
                )));
            }
            if may_be_a_member(name) {
                given.push(name.to_owned());
            }
        }
        if seen.is_empty() {
            return Ok(Projection::All);
        }
        Ok(Projection::Names(Names(given)))
    }

    /// Returns whether a property of this name is chosen.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Projection::All => true,
            Projection::Names(names) => names.iter().any(|chosen| chosen == name),
        }
    }

    /// Returns the chosen properties of a bag. A bag has neither keys nor Timestamp; [`Projection::has`] tells whether
    /// they are chosen.
    pub fn apply(&self, properties: Properties<'_>) -> PropertiesBuf {
        match self {
            Projection::All => properties.to_buf(),
            Projection::Names(names) => properties.project(&names.0),
        }
    }
}

/// Returns whether a chosen name may become a member of a payload. An entity without the property has `null` under this
/// name, so the name must be short, and must be neither an `odata.*` member nor an annotation.
fn may_be_a_member(name: &str) -> bool {
    utf16_len(name.as_bytes()) <= PROPERTY_NAME_UTF16_UNITS && !name.starts_with("odata.") && !name.contains('@')
}

impl Names {
    /// Returns the names in the order in which they were given first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::json::parse_properties;

    fn names(text: &str) -> Vec<String> {
        match Projection::parse(text).unwrap() {
            Projection::All => panic!("everything"),
            Projection::Names(names) => names.iter().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn nothing_or_a_star_is_everything() {
        for text in ["", " ", "*", " * ", "a,*", ",", " , "] {
            assert_eq!(Projection::parse(text), Ok(Projection::All), "{text:?}");
        }
    }

    #[test]
    fn names_are_trimmed_and_collapse() {
        assert_eq!(names("b, a ,b,\ta\n, A"), ["b", "a", "A"]);
        assert_eq!(names("a,,b,"), ["a", "b"]);
    }

    #[test]
    fn a_name_that_is_no_identifier_names_no_property() {
        let bag = parse_properties(r#"{"Manager": 1, "Rating": 2, "Comments": "x", "ManagerRating": 3}"#).unwrap();
        let projection = Projection::parse("RowKey,Manager Rating,Peer Rating,Comments").unwrap();
        assert_eq!(
            projection.apply(bag.as_properties()),
            parse_properties(r#"{"Comments": "x"}"#).unwrap()
        );
    }

    #[test]
    fn odata_members_and_annotations_are_not_chosen() {
        assert_eq!(names("odata.etag,a@odata.type,a,odata"), ["a", "odata"]);
        assert_eq!(
            names("odata.etag"),
            [""; 0],
            "nothing is chosen, which is not everything"
        );
        let long = "é".repeat(255);
        assert_eq!(names(&format!("{long},{long}e")), [long]);
    }

    #[test]
    fn the_chosen_properties_are_those_of_the_bag() {
        let bag = parse_properties(r#"{"a": 1, "b": "2", "c": true, "A": 1.5}"#).unwrap();
        let chosen = |text| Projection::parse(text).unwrap().apply(bag.as_properties());
        assert_eq!(chosen("*"), bag);
        assert_eq!(chosen("c,a,z"), parse_properties(r#"{"a": 1, "c": true}"#).unwrap());
        assert_eq!(chosen("PartitionKey"), PropertiesBuf::empty());
    }

    #[test]
    fn at_most_255_names() {
        let list = |n: usize| (0..n).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",");
        assert_eq!(names(&list(255)).len(), 255);
        assert_eq!(names(&format!("{0},{0}", list(255))).len(), 255);
        let error = Projection::parse(&list(256)).unwrap_err();
        assert_eq!(error.report(), "InvalidInput: One of the request inputs is not valid.");
        assert_eq!(error.sqlstate(), "22023");
    }

    #[test]
    fn many_names_are_read_or_refused() {
        assert_eq!(names(&"x".repeat(PROJECTION_BYTES)).len(), 0);
        assert_eq!(names(&"x,".repeat(PROJECTION_BYTES / 2)).len(), 1);
        let different: String = (0..10_000).map(|i| format!("{i},")).collect();
        for refused in [different, "x".repeat(PROJECTION_BYTES + 1)] {
            let error = Projection::parse(&refused).unwrap_err();
            assert_eq!(error.code(), Code::InvalidInput);
        }
    }
}
