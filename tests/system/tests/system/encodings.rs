//! Text that is not in the encoding of the database: catalogs that all databases share bring it along.

use system_tests::{Database, Expect};

/// A setting of a role, written in a database with the encoding LATIN1, has bytes that are not UTF-8 in any other.
#[test]
fn text_that_is_not_utf8_is_refused_where_it_comes_in() {
    let latin1 = Database::with("TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'");
    let db = Database::new();
    let role = db.role("foreign");
    latin1
        .session("latin1")
        .run(&format!("ALTER ROLE {role} SET other_encoding.text = 'a\u{e9}b'"));
    db.session("owner").run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {role}; SELECT table_service.create_table('Employees')"
    ));
    let session = db.session_as(&role, "foreign");
    let bad = "current_setting('other_encoding.text')";
    for call in [
        format!("table_service.query_tables({bad})"),
        format!("table_service.query_tables(continuation_token => {bad})"),
        format!("table_service.filter_to_sql('A eq 1', alias => {bad})"),
        format!("table_service.filter_to_sql({bad})"),
        format!("table_service.create_table({bad})"),
        format!("table_service.get_entity({bad}, 'p', 'r')"),
        format!("table_service.get_entity('Employees', {bad}, 'r')"),
        format!("table_service.get_entities('Employees', 'p', ARRAY['r', {bad}])"),
        format!("table_service.query_page('Employees', projection => {bad})"),
        format!("table_service.query_page_json('Employees', metadata => {bad})"),
        format!("table_service.batch_insert({bad}, '{{}}')"),
        format!("table_service.execute_batch_json('Employees', 'p', {bad})"),
        format!("table_service.has_property('{{}}', {bad})"),
        format!("table_service.get_string('{{}}', {bad})"),
        format!("table_service.remove_properties('{{}}', ARRAY[{bad}])"),
        format!("table_service.entity_from_json({bad})"),
        format!("table_service.etag(ROW({bad}, 'r', now(), '{{}}')::table_service.entity)"),
        format!("table_service.matches(ROW('p', 'r', now(), '{{}}')::table_service.entity, {bad})"),
        format!("table_service.from_inverted_ticks({bad})"),
        format!("table_service.generate_sas({bad}, 'a2V5', 'abc', 'r', now())"),
        format!("table_service.to_properties(ROW({bad}))"),
        format!("table_service.entity_is_valid({bad}, 'r', now(), '{{}}')"),
    ] {
        session.sql(&format!("SELECT {call}")).fails_in_postgres("22021");
    }

    // A relation with such a name is nobody's table, and keeps no look-up from its end.
    session.run(&format!(
        "DO $$ BEGIN EXECUTE format('CREATE TABLE table_service_data.%I OF table_service.entity', {bad}); END $$"
    ));
    let other = db.session("other");
    other
        .sql("SELECT table_service.get_entity('Absent', 'p', 'r')")
        .fails_with("42P01", "TableNotFound");
    other.run("SELECT table_service.create_table('Offices')");
    assert_eq!(
        other.text("SELECT string_agg(table_name, ' ') FROM table_service.query_tables()"),
        "Employees Offices"
    );
    other.run("SELECT table_service.delete_table('OFFICES')");
}

/// A database with another encoding than UTF8 cannot have the extension, and the error names the remedy.
#[test]
fn a_database_in_latin1_is_refused() {
    let latin1 = Database::with("TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'");
    let session = latin1.session("latin1");
    let refused = session.sql("CREATE EXTENSION table_service").fails_in_postgres("0A000");
    assert_eq!(refused.message, "table_service needs a database with encoding UTF8");
    assert!(refused.hint.contains("ENCODING 'UTF8'"), "{refused:?}");
}

/// A client may have an encoding that lacks characters of a value. Errors that quote the start of one have no other ones.
#[test]
fn errors_reach_a_client_in_latin1() {
    let db = Database::new();
    let session = db.session("latin1");
    session.run("SELECT table_service.create_table('Employees')");
    session.run("SET client_encoding = 'LATIN1'");
    session
        .sql("SELECT table_service.delete_entity('Employees', repeat('k', 1000), 'r')")
        .fails_with("P0002", "ResourceNotFound");
    session
        .sql("SELECT table_service.query_entities('Employees', 'a eq ' || repeat('b', 5000) || ' c')")
        .fails_with("22023", "InvalidInput");
}
