//! Patches: an entity is changed depending on its stored properties, in one call.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, table};

    fn stock() {
        table("Stock");
        insert("Stock", "r", r#"{"Count": 5, "Old": true}"#);
    }

    #[pg_test]
    fn a_patch_sets_adds_and_removes() {
        stock();
        assert_rows(
            r#"SELECT properties FROM patch_entity('Stock', 'p', 'r', '{"State": "open"}', increment => '{"Count": -1}', remove => '{Old}')"#,
            &[r#"{"Count":4,"State":"open"}"#],
        );
    }

    #[pg_test]
    fn a_patch_depends_on_what_is_stored() {
        stock();
        let take = r#"SELECT properties -> 'Count' FROM patch_entity('Stock', 'p', 'r', increment => '{"Count": -3}', condition => 'Count ge 3')"#;
        assert_rows(take, &["2"]);
        assert_refused(
            take,
            "40002",
            "UpdateConditionNotSatisfied: The update condition specified in the request was not satisfied.",
        );
    }

    #[pg_test]
    fn a_patch_makes_a_missing_entity_if_that_is_wanted() {
        stock();
        let count = "SELECT properties FROM patch_entity('Stock', 'p', 'new', increment => '{\"Count\": 1}'";
        assert_refused(
            &format!("{count})"),
            "P0002",
            "ResourceNotFound: The specified resource does not exist.",
        );
        assert_rows(&format!("{count}, create_missing => true)"), &[r#"{"Count":1}"#]);
        assert_rows(&format!("{count}, create_missing => true)"), &[r#"{"Count":2}"#]);
    }

    #[pg_test]
    fn a_sum_fits_its_type() {
        stock();
        assert_refused(
            r#"SELECT patch_entity('Stock', 'p', 'r', increment => '{"Count": 2147483647}')"#,
            "22003",
            "OutOfRangeInput: The 'Count' parameter of value '5 + 2147483647' is out of range.",
        );
    }
}
