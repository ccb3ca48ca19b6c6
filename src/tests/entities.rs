//! One entity: how it is inserted, read, changed and deleted, and on which conditions.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, run, table, value};

    const MISSING: &str = "ResourceNotFound: The specified resource does not exist.";
    const CHANGED: &str =
        "UpdateConditionNotSatisfied: The update condition specified in the request was not satisfied.";

    /// The entity of a test, as it is stored.
    const READ: &str = "SELECT properties FROM get_entity('Employees', 'p', 'r')";

    /// Creates the table with one entity. Returns its ETag.
    fn one(properties: &str) -> String {
        table("Employees");
        insert("Employees", "r", properties)
    }

    #[pg_test]
    fn an_inserted_entity_is_read_by_its_keys() {
        one(r#"{"FirstName": "Don", "Age": 34}"#);
        assert_rows(READ, &[r#"{"Age":34,"FirstName":"Don"}"#]);
        assert_rows("SELECT row_key FROM get_entity('Employees', 'p', 'R')", &[]);
    }

    #[pg_test]
    fn an_entity_is_inserted_once() {
        one("{}");
        assert_refused(
            "SELECT insert_entity('Employees', 'p', 'r', '{}')",
            "23505",
            "EntityAlreadyExists: The specified entity already exists.",
        );
    }

    #[pg_test]
    fn a_merge_keeps_the_other_properties() {
        one(r#"{"FirstName": "Don", "Age": 34}"#);
        run(r#"SELECT merge_entity('Employees', 'p', 'r', '{"Age": 35}', if_match => '*')"#);
        assert_rows(READ, &[r#"{"Age":35,"FirstName":"Don"}"#]);
    }

    #[pg_test]
    fn a_replace_removes_the_other_properties() {
        one(r#"{"FirstName": "Don", "Age": 34}"#);
        run(r#"SELECT replace_entity('Employees', 'p', 'r', '{"Age": 35}', if_match => '*')"#);
        assert_rows(READ, &[r#"{"Age":35}"#]);
    }

    #[pg_test]
    fn only_an_entity_that_exists_is_merged_replaced_or_deleted() {
        table("Employees");
        for statement in [
            "merge_entity('Employees', 'p', 'r', '{}', '*')",
            "replace_entity('Employees', 'p', 'r', '{}', '*')",
            "delete_entity('Employees', 'p', 'r', '*')",
        ] {
            assert_refused(&format!("SELECT {statement}"), "P0002", MISSING);
        }
    }

    #[pg_test]
    fn an_upsert_inserts_what_is_missing() {
        table("Employees");
        run(r#"SELECT insert_or_merge_entity('Employees', 'p', 'a', '{"Age": 1}')"#);
        run(r#"SELECT insert_or_replace_entity('Employees', 'p', 'b', '{"Age": 2}')"#);
        assert_rows(
            "SELECT row_key, properties FROM query_entities('Employees')",
            &[r#"a|{"Age":1}"#, r#"b|{"Age":2}"#],
        );
    }

    #[pg_test]
    fn an_upsert_merges_or_replaces_what_exists() {
        one(r#"{"FirstName": "Don"}"#);
        run(r#"SELECT insert_or_merge_entity('Employees', 'p', 'r', '{"Age": 34}')"#);
        assert_rows(READ, &[r#"{"Age":34,"FirstName":"Don"}"#]);
        run(r#"SELECT insert_or_replace_entity('Employees', 'p', 'r', '{"Age": 35}')"#);
        assert_rows(READ, &[r#"{"Age":35}"#]);
    }

    #[pg_test]
    fn a_deleted_entity_is_gone() {
        one("{}");
        assert_rows("SELECT delete_entity('Employees', 'p', 'r', '*')", &["t"]);
        assert_rows(READ, &[]);
        assert_refused("SELECT delete_entity('Employees', 'p', 'r', '*')", "P0002", MISSING);
        assert_rows(
            "SELECT delete_entity('Employees', 'p', 'r', '*', if_exists => true)",
            &["f"],
        );
    }

    #[pg_test]
    fn every_write_gives_a_new_etag() {
        let inserted = one("{}");
        let merged = value("SELECT merge_entity('Employees', 'p', 'r', '{}', '*')");
        assert_ne!(inserted, merged);
        assert!(merged.starts_with("W/\"datetime'20"), "{merged}");
        assert_rows("SELECT etag(e) FROM get_entity('Employees', 'p', 'r') AS e", &[&merged]);
    }

    #[pg_test]
    fn a_conditional_write_needs_the_version_that_was_read() {
        let read = one("{}").replace('\'', "''");
        run(&format!(
            r#"SELECT merge_entity('Employees', 'p', 'r', '{{"Age": 35}}', if_match => '{read}')"#
        ));
        for statement in [
            "merge_entity('Employees', 'p', 'r', '{}',",
            "replace_entity('Employees', 'p', 'r', '{}',",
            "delete_entity('Employees', 'p', 'r',",
        ] {
            assert_refused(&format!("SELECT {statement} '{read}')"), "40002", CHANGED);
        }
        assert_rows(READ, &[r#"{"Age":35}"#]);
    }

    #[pg_test]
    fn a_condition_is_an_etag_or_a_star() {
        one("{}");
        assert_refused(
            "SELECT merge_entity('Employees', 'p', 'r', '{}', if_match => 'abc')",
            "22023",
            "InvalidInput: The etag value 'abc' specified in one of the request headers is not valid. \
             Please make sure only one etag value is specified and is valid.",
        );
    }

    #[pg_test]
    fn keys_are_given_and_have_no_slash() {
        table("Employees");
        assert_refused(
            "SELECT insert_entity('Employees', 'p', 'a/b', '{}')",
            "22003",
            "OutOfRangeInput: The 'RowKey' parameter of value 'a/b' is out of range.",
        );
        assert_refused(
            "SELECT insert_entity('Employees', NULL, 'r', '{}')",
            "23502",
            "PropertiesNeedValue: The values are not specified for all properties in the entity.",
        );
        // An empty key is a key.
        assert_rows("SELECT insert_entity('Employees', '', '', '{}') IS NOT NULL", &["t"]);
    }

    #[pg_test]
    fn an_entity_has_252_properties_and_1_mib() {
        table("Employees");
        assert_refused(
            "SELECT insert_entity('Employees', 'p', 'r', (SELECT jsonb_object_agg('P' || i, i) FROM generate_series(1, 253) AS i))",
            "54000",
            "TooManyProperties: The entity contains more properties than allowed. Each entity can include up to 252 \
             properties to store data. Each entity also has 3 system properties.",
        );
        assert_refused(
            "SELECT insert_entity('Employees', 'p', 'r', (SELECT jsonb_object_agg('P' || i, repeat('x', 32000)) FROM generate_series(1, 17) AS i))",
            "54000",
            "EntityTooLarge: The entity is larger than the maximum allowed size (1MB).",
        );
    }

    #[pg_test]
    fn a_projection_reads_some_properties() {
        one(r#"{"FirstName": "Don", "Age": 34}"#);
        assert_rows(
            "SELECT row_key, properties FROM get_entity('Employees', 'p', 'r', projection => 'Age,Email')",
            &[r#"r|{"Age":34}"#],
        );
    }

    #[pg_test]
    fn many_entities_are_read_in_the_order_of_their_keys() {
        table("Employees");
        run("SELECT insert_entity('Employees', 'p', k, '{}') FROM unnest(ARRAY['b', 'a', 'c']) AS k");
        assert_rows(
            "SELECT row_key FROM get_entities('Employees', 'p', ARRAY['c', 'none', 'a'])",
            &["a", "c"],
        );
    }
}
