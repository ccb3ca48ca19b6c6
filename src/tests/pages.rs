//! Pages of a query, and work on all entities that a filter selects.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, rows, run, table};

    /// Entities 1 to 5 with that number.
    fn five() {
        table("Numbers");
        run(
            "SELECT insert_entity('Numbers', 'p', i::text, jsonb_build_object('N', i)) FROM generate_series(1, 5) AS i",
        );
    }

    /// Returns the RowKeys of all pages of a filter: those of a page in one text.
    fn pages(filter: &str, top: u32) -> Vec<String> {
        let (mut pages, mut token) = (Vec::new(), "NULL".to_owned());
        loop {
            let page = rows(&format!(
                "SELECT string_agg(row_key, ' ' ORDER BY row_key), quote_nullable(max(continuation_token))
                 FROM query_page('Numbers', $${filter}$$, top => {top}, continuation_token => {token})"
            ));
            let (keys, next) = page[0].split_once('|').unwrap();
            pages.push(keys.to_owned());
            if next == "NULL" {
                return pages;
            }
            token = next.to_owned();
        }
    }

    #[pg_test]
    fn tokens_lead_through_all_pages_to_the_end() {
        five();
        assert_eq!(pages("", 2), ["1 2", "3 4", "5"]);
        assert_eq!(pages("N ge 2 and N ne 4", 2), ["2 3", "5"]);
        assert_eq!(pages("", 1000), ["1 2 3 4 5"]);
    }

    #[pg_test]
    fn a_token_leads_on_after_the_table_has_changed() {
        five();
        assert_rows(
            "WITH page AS MATERIALIZED (SELECT max(continuation_token) AS token FROM query_page('Numbers', top => 2)),
               gone AS MATERIALIZED (SELECT delete_entity('Numbers', 'p', '2', '*'), token FROM page)
             SELECT p.row_key FROM gone, query_page('Numbers', continuation_token => gone.token) AS p",
            &["3", "4", "5"],
        );
    }

    #[pg_test]
    fn a_page_has_at_most_1000_entities_and_a_token_is_one_of_a_page() {
        five();
        let refused = "InvalidInput: One of the request inputs is not valid.";
        assert_refused(
            "SELECT row_key FROM query_page('Numbers', top => 1001)",
            "22023",
            refused,
        );
        assert_refused(
            "SELECT row_key FROM query_page('Numbers', continuation_token => 'another')",
            "22023",
            refused,
        );
    }

    #[pg_test]
    fn a_page_is_given_as_json_too() {
        five();
        assert_rows(
            "SELECT p -> 'value' -> 0 ->> 'RowKey', p ->> 'continuationToken' IS NULL
             FROM query_page_json('Numbers', 'N eq 3', metadata => 'none') AS p",
            &["3|t"],
        );
    }

    #[pg_test]
    fn what_a_filter_selects_is_counted_changed_and_deleted() {
        five();
        assert_rows("SELECT count_entities('Numbers', 'N gt 2')", &["3"]);
        assert_rows(
            r#"SELECT update_entities('Numbers', 'N gt 3', '{"Large": true}')"#,
            &["2"],
        );
        assert_rows("SELECT row_key FROM query_entities('Numbers', 'Large')", &["4", "5"]);
        assert_rows("SELECT delete_entities('Numbers', 'N lt 3')", &["2"]);
        assert_rows("SELECT count_entities('Numbers')", &["3"]);
        assert_refused(
            "SELECT delete_entities('Numbers', '')",
            "22023",
            "InvalidInput: One of the request inputs is not valid.",
        );
    }
}
