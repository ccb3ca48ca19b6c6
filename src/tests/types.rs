//! The eight types of properties.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, table};

    const OF_EACH_TYPE: &str = r#"{
        "Binary": "AAEC/w==", "Binary@odata.type": "Edm.Binary",
        "Boolean": true,
        "DateTime": "2008-07-10T00:00:00.1234567Z", "DateTime@odata.type": "Edm.DateTime",
        "Double": 1.5,
        "Guid": "A455C812-1F7A-4F5C-9C3B-0123456789AB", "Guid@odata.type": "Edm.Guid",
        "Int32": 34,
        "Int64": "9223372036854775807", "Int64@odata.type": "Edm.Int64",
        "String": "Don"}"#;

    #[pg_test]
    fn each_of_the_eight_types_comes_back() {
        table("Types");
        insert("Types", "r", OF_EACH_TYPE);
        assert_rows(
            "SELECT p.* FROM get_entity('Types', 'p', 'r') AS e, each_property(e.properties) AS p",
            &[
                "Binary|Edm.Binary|AAEC/w==",
                "Boolean|Edm.Boolean|true",
                "DateTime|Edm.DateTime|2008-07-10T00:00:00.1234567Z",
                "Double|Edm.Double|1.5",
                "Guid|Edm.Guid|a455c812-1f7a-4f5c-9c3b-0123456789ab",
                "Int32|Edm.Int32|34",
                "Int64|Edm.Int64|9223372036854775807",
                "String|Edm.String|Don",
            ],
        );
    }

    #[pg_test]
    fn numbers_of_json_have_the_narrowest_type() {
        assert_rows(
            r#"SELECT name, type FROM each_property('{"A": 34, "B": 2147483648, "C": 3.0}')"#,
            &["A|Edm.Int32", "B|Edm.Int64", "C|Edm.Double"],
        );
    }

    #[pg_test]
    fn a_property_is_read_as_a_value_of_postgresql() {
        assert_rows(
            r#"SELECT get_int32(p, 'Age') + 1, get_string(p, 'Name'), get_int32(p, 'Name'), p ->> 'Age'
               FROM (SELECT '{"Age": 34, "Name": "Don"}'::properties) AS of (p)"#,
            &["35|Don|NULL|34"],
        );
    }

    #[pg_test]
    fn a_property_without_a_value_is_none() {
        assert_rows(
            r#"SELECT '{"Age": null, "Name": "Don"}'::properties"#,
            &[r#"{"Name":"Don"}"#],
        );
    }

    #[pg_test]
    fn a_value_fits_its_type() {
        let wrong = "InvalidInput: An error occurred while processing this request.";
        for bag in [
            r#"{"Age": "x", "Age@odata.type": "Edm.Int64"}"#,
            r#"{"Id": "x", "Id@odata.type": "Edm.Guid"}"#,
            r#"{"Nested": {"no": 1}}"#,
            r#"{"List": [1]}"#,
        ] {
            assert_refused(&format!("SELECT '{bag}'::properties"), "22023", wrong);
        }
        assert_refused("SELECT '{'::properties", "22P02", wrong);
        assert_refused(
            r#"SELECT '{"no name": 1}'::properties"#,
            "22023",
            "PropertyNameInvalid: The property name is invalid.",
        );
    }
}
