//! The query string of a URL.

/// The decoded parameters, in order.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string. `+` is a space.
    pub fn parse(text: &str) -> Query {
        Query(
            form_urlencoded::parse(text.as_bytes())
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// Returns the first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// Returns all parameters with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("$filter=a+eq%20'1%2B1'&$top=5&$top=6&comp=acl&empty=");
        assert_eq!(query.get("$filter"), Some("a eq '1+1'"));
        assert_eq!(query.get("$top"), Some("5"));
        assert_eq!(query.get("empty"), Some(""));
        assert_eq!(query.get("Comp"), None);
    }
}
