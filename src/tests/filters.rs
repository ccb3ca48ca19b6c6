//! The filters of queries, and the access classes of queries.

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::tests::support::{assert_refused, assert_rows, run, table};

    /// Three employees. Ken has no Email.
    fn staff() {
        table("Staff");
        run(r#"SELECT execute_batch('Staff', 'Marketing',
                 batch_insert('1', '{"Name": "Don", "Age": 34, "Email": "don@contoso.com", "Active": true}'),
                 batch_insert('2', '{"Name": "Jun", "Age": 47, "Email": "jun@contoso.com", "Active": false}'))"#);
        run(
            r#"SELECT insert_entity('Staff', 'Sales', '3', '{"Name": "Ken", "Age": 23, "Rate": 0.5, "Id@odata.type": "Edm.Int64", "Id": "5",
                 "Since@odata.type": "Edm.DateTime", "Since": "2008-07-10T00:00:00Z",
                 "Code@odata.type": "Edm.Guid", "Code": "a455c812-1f7a-4f5c-9c3b-0123456789ab",
                 "Photo@odata.type": "Edm.Binary", "Photo": "AAEC"}')"#,
        );
    }

    /// Asserts which RowKeys a filter finds.
    #[track_caller]
    fn finds(filter: &str, row_keys: &[&str]) {
        assert_rows(
            &format!("SELECT row_key FROM query_entities('Staff', $${filter}$$)"),
            row_keys,
        );
    }

    #[track_caller]
    fn refuses(filter: &str, sqlstate: &str, message: &str) {
        assert_refused(
            &format!("SELECT row_key FROM query_entities('Staff', $${filter}$$)"),
            sqlstate,
            message,
        );
    }

    #[pg_test]
    fn filters_select_by_keys() {
        staff();
        finds("", &["1", "2", "3"]);
        finds("PartitionKey eq 'Marketing' and RowKey eq '2'", &["2"]);
        finds("PartitionKey eq 'Marketing'", &["1", "2"]);
        finds("PartitionKey gt 'Marketing'", &["3"]);
        finds("RowKey ge '2'", &["2", "3"]);
    }

    #[pg_test]
    fn filters_compare_by_six_operators() {
        staff();
        finds("Age eq 34", &["1"]);
        finds("Age ne 34", &["2", "3"]);
        finds("Age gt 34", &["2"]);
        finds("Age ge 34", &["1", "2"]);
        finds("Age lt 34", &["3"]);
        finds("Age le 34", &["1", "3"]);
    }

    #[pg_test]
    fn filters_combine_by_and_or_not_and_parentheses() {
        staff();
        finds("Age gt 30 and Age lt 40", &["1"]);
        finds("Name eq 'Don' or Name eq 'Ken'", &["1", "3"]);
        finds("not (Age gt 30)", &["3"]);
        finds("Name eq 'Ken' or Age gt 30 and Age lt 40", &["1", "3"]);
        finds("(Name eq 'Ken' or Age gt 30) and Age lt 40", &["1", "3"]);
    }

    #[pg_test]
    fn filters_have_literals_of_each_type() {
        staff();
        finds("Id eq 5L", &["3"]);
        finds("Since lt datetime'2010-01-01T00:00:00Z'", &["3"]);
        finds("Code eq guid'a455c812-1f7a-4f5c-9c3b-0123456789ab'", &["3"]);
        finds("Photo eq X'000102'", &["3"]);
        finds("Active eq true", &["1"]);
        finds("Active", &["1"]);
        finds("Name eq 'Ken'", &["3"]);
        finds("Rate lt 1.5", &["3"]);
    }

    #[pg_test]
    fn an_absent_property_passes_no_comparison() {
        staff();
        finds("Email ne 'don@contoso.com'", &["2"]);
        finds("not (Email eq 'don@contoso.com')", &["2", "3"]);
    }

    #[pg_test]
    fn parameters_give_values_to_a_filter() {
        staff();
        assert_rows(
            r#"SELECT row_key FROM query_entities('Staff', 'Name eq @name', parameters => '{"name": "Jun"}')"#,
            &["2"],
        );
        refuses(
            "Name eq @name",
            "22023",
            "InvalidInput: One of the request inputs is not valid.",
        );
    }

    #[pg_test]
    fn a_filter_that_cannot_be_read_is_refused_with_the_position() {
        staff();
        refuses(
            "aaa bbb ccc",
            "22023",
            "InvalidInput: Syntax error at position 7 in 'aaa bbb ccc'.",
        );
    }

    #[pg_test]
    fn functions_belong_to_the_extended_dialect() {
        staff();
        let refused = "NotImplemented: The requested operation is not implemented on the specified resource.";
        refuses("startswith(Name, 'K')", "0A000", refused);
        refuses("Name eq Email", "0A000", refused);
        run("SET LOCAL table_service.filter_dialect = 'extended'");
        finds("startswith(Name, 'K')", &["3"]);
        finds("Name in ('Don', 'Jun')", &["1", "2"]);
        finds("Email eq null", &["3"]);
    }

    #[pg_test]
    fn a_query_tells_what_it_reads() {
        staff();
        for (filter, access) in [
            ("PartitionKey eq 'Sales' and RowKey eq '3'", "point query"),
            ("PartitionKey eq 'Sales' and Age gt 30", "row range scan"),
            ("PartitionKey ge 'Sales'", "partition range scan"),
            ("Age gt 30", "table scan"),
        ] {
            assert_rows(
                &format!("SELECT access FROM explain_query('Staff', $${filter}$$)"),
                &[access],
            );
        }
    }

    #[pg_test]
    fn a_filter_is_a_condition_of_sql_too() {
        staff();
        assert_rows(
            "SELECT s.partition_key, count(*) FROM table_service_data.\"Staff\" AS s WHERE matches(s, 'Age gt 30') GROUP BY 1",
            &["Marketing|2"],
        );
    }
}
