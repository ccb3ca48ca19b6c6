//! Property indexes: filters on a property that read only the entities that they find.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, run, table};

    fn staff() {
        table("Staff");
        run(
            "SELECT insert_entity('Staff', 'p', lpad(i::text, 4, '0'), jsonb_build_object('Email', i || '@contoso.com')) FROM generate_series(1, 2000) AS i",
        );
        run("ANALYZE table_service_data.\"Staff\"");
    }

    #[pg_test]
    fn a_property_index_serves_filters_on_its_property() {
        staff();
        let access = "SELECT access FROM explain_query('Staff', $$Email eq '77@contoso.com'$$)";
        assert_rows(access, &["table scan"]);
        assert_rows(
            "SELECT create_property_index('Staff', 'Email')",
            &["table_service_data.\"Staff_Email\""],
        );
        assert_rows(access, &["property index scan"]);
        assert_rows(
            "SELECT row_key FROM query_entities('Staff', $$Email eq '77@contoso.com'$$)",
            &["0077"],
        );
    }

    #[pg_test]
    fn a_property_has_one_index() {
        staff();
        run("SELECT create_property_index('Staff', 'Email')");
        assert_refused(
            "SELECT create_property_index('Staff', 'Email')",
            "42P07",
            "ResourceAlreadyExists: The specified resource already exists.",
        );
        assert_rows(
            "SELECT property, is_valid FROM query_property_indexes('Staff')",
            &["Email|t"],
        );
        assert_rows("SELECT drop_property_index('Staff', 'Email')", &["t"]);
        assert_refused(
            "SELECT drop_property_index('Staff', 'Email')",
            "42704",
            "ResourceNotFound: The specified resource does not exist.",
        );
    }
}
