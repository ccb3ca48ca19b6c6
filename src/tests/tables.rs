//! Tables: their names, their list, and their form in PostgreSQL.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, insert, run, table};

    #[pg_test]
    fn a_table_is_created_and_found_in_any_case() {
        assert_rows(
            "SELECT create_table('Employees')",
            &["table_service_data.\"Employees\""],
        );
        insert("EMPLOYEES", "r", "{}");
        assert_rows("SELECT row_key FROM query_entities('employees')", &["r"]);
    }

    #[pg_test]
    fn a_table_is_created_once() {
        table("Employees");
        assert_refused(
            "SELECT create_table('EMPLOYEES')",
            "42P07",
            "TableAlreadyExists: The table specified already exists.",
        );
        assert_rows(
            "SELECT create_table('employees', if_not_exists => true)",
            &["table_service_data.\"Employees\""],
        );
    }

    #[pg_test]
    fn a_name_of_a_table_has_3_to_63_letters_and_digits() {
        let characters = "InvalidResourceName: The specifed resource name contains invalid characters.";
        let length = "OutOfRangeInput: The specified resource name length is not within the permissible limits.";
        assert_refused("SELECT create_table('no-table')", "42602", characters);
        assert_refused("SELECT create_table('1st')", "42602", characters);
        assert_refused("SELECT create_table('ab')", "42602", length);
        assert_refused("SELECT create_table(repeat('a', 64))", "42602", length);
    }

    #[pg_test]
    fn a_deleted_table_is_gone() {
        table("Employees");
        assert_rows("SELECT delete_table('Employees')", &["t"]);
        assert_rows("SELECT delete_table('Employees', if_exists => true)", &["f"]);
        assert_refused(
            "SELECT delete_table('Employees')",
            "42P01",
            "ResourceNotFound: The specified resource does not exist.",
        );
        assert_refused(
            "SELECT insert_entity('Employees', 'p', 'r', '{}')",
            "42P01",
            "TableNotFound: The table specified does not exist.",
        );
    }

    #[pg_test]
    fn tables_are_listed_by_name_page_by_page() {
        run("SELECT create_table('List' || i) FROM generate_series(1, 3) AS i");
        let listed = "query_tables('TableName ge ''List1'' and TableName le ''List3'''";
        assert_rows(
            &format!("SELECT table_name FROM {listed})"),
            &["List1", "List2", "List3"],
        );
        assert_rows(
            &format!(
                "SELECT next.table_name FROM {listed}, top => 2) AS page,
                   LATERAL {listed}, continuation_token => page.continuation_token) AS next
                 WHERE page.continuation_token IS NOT NULL"
            ),
            &["List3"],
        );
    }

    #[pg_test]
    fn a_table_is_an_ordinary_table_that_keeps_the_rules() {
        table("Employees");
        run(
            "INSERT INTO table_service_data.\"Employees\" (partition_key, row_key, properties) VALUES ('p', 'r', '{\"Age\": 34}')",
        );
        assert_rows(
            "SELECT properties ->> 'Age' FROM get_entity('Employees', 'p', 'r')",
            &["34"],
        );
        assert_refused(
            "UPDATE table_service_data.\"Employees\" SET row_key = 'a/b'",
            "22003",
            "OutOfRangeInput: The 'RowKey' parameter of value 'a/b' is out of range.",
        );
    }
}
