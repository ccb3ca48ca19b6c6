//! Entity group transactions: several writes in one partition, all or none.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, table};

    const STORED: &str = "SELECT row_key, properties FROM query_entities('Employees')";

    /// The table, with the entities `a` and `b`.
    fn two() {
        table("Employees");
        insert("Employees", "a", "{}");
        insert("Employees", "b", "{}");
    }

    #[pg_test]
    fn a_batch_does_all_its_operations() {
        two();
        assert_rows(
            "SELECT index, row_key, etag IS NULL AS deleted FROM execute_batch('Employees', 'p',
               batch_insert('c', '{}'), batch_merge('b', '{\"Age\": 1}', '*'), batch_delete('a'))",
            &["0|c|f", "1|b|f", "2|a|t"],
        );
        assert_rows(STORED, &[r#"b|{"Age":1}"#, "c|{}"]);
    }

    #[pg_test]
    fn a_batch_that_fails_names_the_operation_and_does_nothing() {
        two();
        assert_refused(
            "SELECT execute_batch('Employees', 'p', batch_delete('a'), batch_insert('c', '{}'), batch_insert('b', '{}'))",
            "23505",
            "EntityAlreadyExists: 2:The specified entity already exists.",
        );
        assert_refused(
            "SELECT execute_batch('Employees', 'p', batch_delete('a'), batch_merge('none', '{}', '*'))",
            "P0002",
            "ResourceNotFound: 1:The specified resource does not exist.",
        );
        assert_rows(STORED, &["a|{}", "b|{}"]);
    }

    #[pg_test]
    fn a_batch_checks_the_version_of_each_entity() {
        two();
        assert_refused(
            "SELECT execute_batch('Employees', 'p', batch_delete('a'),
               batch_replace('b', '{}', if_match => 'W/\"datetime''2020-01-01T00%3A00%3A00Z''\"'))",
            "40002",
            "UpdateConditionNotSatisfied: 1:The update condition specified in the request was not satisfied.",
        );
    }

    #[pg_test]
    fn a_batch_has_an_entity_once_and_at_most_100_operations() {
        two();
        assert_refused(
            "SELECT execute_batch('Employees', 'p', batch_merge('a', '{}', '*'), batch_delete('a'))",
            "22023",
            "InvalidDuplicateRow: 1:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
        );
        assert_refused(
            "SELECT execute_batch('Employees', 'p', VARIADIC (SELECT array_agg(batch_insert('n' || i, '{}')) FROM generate_series(1, 101) AS i))",
            "54000",
            "InvalidInput: 99:The batch request operation exceeds the maximum 100 changes per change set.",
        );
    }

    #[pg_test]
    fn a_batch_is_given_as_json_too() {
        two();
        assert_rows(
            r#"SELECT index, row_key FROM execute_batch_json('Employees', 'p',
                 '[{"insert": {"RowKey": "c", "Age": 1}}, {"delete": {"RowKey": "a"}, "if_match": "*"}]')"#,
            &["0|c", "1|a"],
        );
        assert_rows(STORED, &["b|{}", r#"c|{"Age":1}"#]);
    }
}
