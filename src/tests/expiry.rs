//! Entities that expire.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, run, table};

    /// A table of entities that expire at the moment in their property `Until`: one has expired, one has not.
    fn sessions() {
        table("Sessions");
        run("SELECT set_expiry('Sessions', 'Until')");
        for (row_key, until) in [("past", "2020-01-01T00:00:00Z"), ("future", "2999-01-01T00:00:00Z")] {
            let bag = format!(r#"{{"Until": "{until}", "Until@odata.type": "Edm.DateTime"}}"#);
            insert("Sessions", row_key, &bag);
        }
    }

    #[pg_test]
    fn an_entity_is_gone_at_its_moment() {
        sessions();
        assert_rows("SELECT row_key FROM query_entities('Sessions')", &["future"]);
        assert_rows("SELECT row_key FROM get_entity('Sessions', 'p', 'past')", &[]);
        assert_refused(
            "SELECT merge_entity('Sessions', 'p', 'past', '{}', '*')",
            "P0002",
            "ResourceNotFound: The specified resource does not exist.",
        );
        // Its keys are free.
        assert_rows(
            "SELECT insert_entity('Sessions', 'p', 'past', '{}') IS NOT NULL",
            &["t"],
        );
    }

    #[pg_test]
    fn a_sweep_removes_what_has_expired() {
        sessions();
        assert_rows("SELECT count(*) FROM table_service_data.\"Sessions\"", &["2"]);
        assert_rows(
            "SELECT table_name, deleted, more FROM expire_entities('Sessions')",
            &["Sessions|1|f"],
        );
        assert_rows("SELECT count(*) FROM table_service_data.\"Sessions\"", &["1"]);
    }

    #[pg_test]
    fn a_table_has_one_expiry() {
        sessions();
        assert_refused(
            "SELECT set_expiry('Sessions', time_to_live => '1 hour')",
            "42P07",
            "ResourceAlreadyExists: The specified resource already exists.",
        );
        assert_rows("SELECT drop_expiry('Sessions')", &["t"]);
        // The expired entity is not there again.
        assert_rows("SELECT row_key FROM query_entities('Sessions')", &["future"]);
    }
}
