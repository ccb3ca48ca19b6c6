//! Change feeds: the changes of entities, in the order of commits.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, run, table};

    /// PostgreSQL makes the slot of a feed in a transaction that has not written yet.
    #[pg_test]
    fn a_feed_is_not_made_in_a_transaction_that_has_written() {
        table("Employees");
        assert_refused(
            "SELECT create_change_feed('staff', '{Employees}')",
            "25001",
            "cannot create logical replication slot in transaction that has performed writes",
        );
    }

    #[pg_test]
    fn a_feed_is_one_of_tables_and_is_found_by_its_name() {
        assert_refused(
            "SELECT create_change_feed('none', '{Nowhere}')",
            "42P01",
            "TableNotFound: The table specified does not exist.",
        );
        assert_refused(
            "SELECT kind FROM query_changes('none')",
            "42704",
            "ResourceNotFound: The specified resource does not exist.",
        );
    }

    /// Its only effect is that the server of the tests runs.
    #[pg_extern]
    fn start() {
        run("SELECT 1");
    }
}

/// A feed has only committed changes, and a `#[pg_test]` never commits. So these tests are clients, and commit.
#[cfg(test)]
mod client {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// Runs a test with a table and its feed, which have the same name. Both are gone afterwards.
    fn with_feed(name: &str, test: impl FnOnce(&mut dyn FnMut(&str) -> Vec<String>)) {
        pgrx_tests::run_test("start", None, crate::pg_test::postgresql_conf_options()).unwrap();
        let (mut client, _) = pgrx_tests::client().unwrap();
        // Returns the rows of a statement, as PostgreSQL writes rows.
        let mut rows = |sql: &str| -> Vec<String> {
            let rows = client.query(&format!("SELECT r::text FROM ({sql}) AS r"), &[]);
            rows.unwrap().iter().map(|row| row.get(0)).collect()
        };
        rows(&format!("SELECT create_table('{name}')"));
        rows(&format!("SELECT create_change_feed('{name}', '{{{name}}}')"));
        let ended = catch_unwind(AssertUnwindSafe(|| test(&mut rows)));
        rows(&format!("SELECT drop_change_feed('{name}')"));
        rows(&format!("SELECT delete_table('{name}')"));
        ended.unwrap_or_else(|panic| resume_unwind(panic));
    }

    #[test]
    fn a_feed_has_every_change_in_the_order_of_commits() {
        with_feed("parcels", |rows| {
            rows("SELECT insert_entity('parcels', 'p', '1', '{\"State\": \"sent\"}')");
            rows("SELECT merge_entity('parcels', 'p', '1', '{\"State\": \"arrived\"}', '*')");
            rows("SELECT delete_entity('parcels', 'p', '1', '*')");
            assert_eq!(
                rows("SELECT kind, row_key, properties ->> 'State' FROM query_changes('parcels')"),
                ["(insert,1,sent)", "(update,1,arrived)", "(delete,1,)"]
            );
        });
    }

    #[test]
    fn what_is_confirmed_does_not_come_again() {
        with_feed("letters", |rows| {
            rows("SELECT insert_entity('letters', 'p', '1', '{}')");
            rows("SELECT insert_entity('letters', 'p', '2', '{}')");
            rows("SELECT confirm_changes('letters', c.\"position\") FROM query_changes('letters', top => 1) AS c");
            assert_eq!(rows("SELECT row_key FROM query_changes('letters')"), ["(2)"]);
        });
    }
}
