//! The Rust program of `docs/guide/drivers.md`. (`cargo xtask drivers` runs those in other languages.)

use system_tests::Database;

include!("employees.rs");

#[test]
fn the_page_shows_the_program_that_runs_here() {
    let page = std::fs::read_to_string(docs_tests::project().join("docs/guide/drivers.md")).unwrap();
    assert!(page.contains(&format!("```rust\n{}```", include_str!("employees.rs"))));
}

#[test]
fn it_runs() {
    let database = Database::new();
    let session = database.session("set-up");
    session.run(&format!(
        "ALTER DATABASE {} SET search_path = \"$user\", public, table_service",
        database.name()
    ));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut settings = tokio_postgres::Config::new();
        settings
            .host_path(database.cluster().host())
            .port(database.cluster().port())
            .dbname(database.name())
            .user("postgres");
        let (client, connection) = settings.connect(tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        employees(&client).await.unwrap();
        drop(client);
        let _ = connection.await;
    });
    session.run("SET search_path = table_service");
    let stored = session.text("SELECT json_agg(properties->>'Age' ORDER BY row_key) FROM query_entities('Employees')");
    assert_eq!(stored, "[\"36\", null]");
}
