//! Every source with every target: nothing is lost and nothing changes.

use raw_http::{ACCOUNT, KEY};
use system_tests::random::rounds;

use crate::entities::lines;
use crate::program::{End, Service, connection_string, ends_with, file, quietly, succeeds, text, verifying};

const FORMATS: &[&str] = &["jsonl", "jsonl.zst", "csv", "csv.zst", "azcopy", "azcopy.zst"];

/// Copies a table on and on through these ends, and compares the last with the first.
fn chain(seed: u64, count: usize, kinds: &[&'static str]) {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(seed, count));
    let mut ends: Vec<End> = Vec::new();
    let (mut from, mut from_format) = (text(&begin).to_owned(), None);
    let with_timestamps = !kinds.contains(&"rest");
    for kind in kinds {
        let end = End::of(kind);
        let to = end.argument();
        // A format for the source and the target alike would be wrong here: files are found by their endings.
        let mut arguments = vec!["--from", &from, "--to", &to, "--quiet"];
        if let Some(format) = end.format() {
            arguments.extend(["--format", format]);
            if let Some(format) = from_format
                && format != end.format().unwrap()
            {
                panic!("two directories of different formats follow each other");
            }
            if from_format.is_none() && from.ends_with(".jsonl") && format != "jsonl" {
                panic!("the first end is a database");
            }
        }
        succeeds(&arguments);
        from_format = end.format();
        from = to;
        ends.push(end);
        let first = text(&begin).to_owned();
        let mut verify = vec!["verify", "--from", &first, "--to", &from, "--quiet", "--table", "Nasty"];
        if with_timestamps {
            verify.push("--timestamps");
        }
        let said = succeeds(&verify);
        assert!(said.contains(&format!("equal, {count} entities")), "{said}");
    }
}

#[test]
fn databases_and_files_of_every_format() {
    for seed in 0..rounds(1) {
        for format in FORMATS {
            chain(seed, 300, &["sql", format, "sql"]);
        }
    }
}

#[test]
fn gateways_and_files_of_every_format() {
    for seed in 0..rounds(1) {
        for format in FORMATS {
            chain(seed + 1000, 150, &["rest", format, "rest"]);
        }
    }
}

#[test]
fn gateways_and_databases() {
    for seed in 0..rounds(1) {
        chain(seed + 2000, 300, &["sql", "rest", "rest", "sql", "sql"]);
    }
}

#[test]
fn standard_input_and_output_are_files() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(7, 200));
    for format in ["jsonl", "csv", "azcopy", "jsonl.zst"] {
        let sql = End::of("sql");
        succeeds(&quietly(text(&begin), &sql.argument(), &[]));
        let mut out = crate::program::command(&quietly(&sql.argument(), "-", &["--format", format]));
        let out = out.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        let back = End::of("sql");
        let mut command = crate::program::command(&quietly(
            "-",
            &back.argument(),
            &["--table", "Nasty", "--format", format],
        ));
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &out.stdout).unwrap();
        assert!(child.wait().unwrap().success());
        succeeds(&verifying(text(&begin), &back.argument(), &["--timestamps"]));
    }
}

#[test]
fn all_tables_are_copied_with_their_policies() {
    let source = End::of("sql");
    let End::Sql(database) = &source else { unreachable!() };
    let policies = r#"[{"Id":"readers","Expiry":"2099-01-01T00:00:00.0000000Z","Permission":"r"}]"#;
    let session = database.session("source");
    session.run("SELECT table_service.create_table('Empty'), table_service.create_table('Orders')");
    session.run("SELECT table_service.insert_entity('Orders', 'p', 'r', '{\"A\": 1}')");
    session.run(&format!(
        "SELECT table_service.set_access_policies('Orders', '{policies}')"
    ));
    session.run(
        r#"SELECT table_service.set_service_properties('{"Cors": [{"AllowedOrigins": ["http://a"], "AllowedMethods": ["GET"], "MaxAgeInSeconds": 5}]}')"#,
    );
    let (gateway, files, back) = (End::of("rest"), End::of("jsonl"), End::of("sql"));
    for (from, to) in [(&source, &gateway), (&gateway, &files), (&files, &back)] {
        succeeds(&quietly(&from.argument(), &to.argument(), &["--with-policies"]));
    }
    let End::Sql(database) = &back else { unreachable!() };
    let session = database.session("target");
    let value = |statement: &str| session.run(statement)[0][0].clone().unwrap();
    assert_eq!(
        value("SELECT string_agg(table_name, ' ') FROM table_service.query_tables()"),
        "Empty Orders"
    );
    assert_eq!(value("SELECT table_service.get_access_policies('Orders')"), policies);
    assert_eq!(value("SELECT table_service.get_access_policies('Empty')"), "[]");
    assert!(value("SELECT table_service.get_service_properties()").contains("http://a"));
}

#[test]
fn what_has_expired_is_gone_for_a_copy_too() {
    let source = End::of("sql");
    let End::Sql(database) = &source else { unreachable!() };
    let session = database.session("source");
    session.run(
        r#"SET search_path = public, table_service; SELECT create_table('Sessions');
        SELECT set_expiry('Sessions', 'Until', '1 hour');
        SELECT insert_entity('Sessions', 'p', 'dead', '{"Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}');
        SELECT insert_entity('Sessions', 'p', 'live', '{}'), insert_entity('Sessions', 'p', 'never', '{"Until": 0}')"#,
    );
    assert_eq!(
        session.text("SELECT count(*) FROM table_service_data.\"Sessions\""),
        "3"
    );
    let (files, target, gateway) = (End::of("jsonl"), End::of("sql"), End::of("rest"));
    for to in [&files, &target, &gateway] {
        let said = succeeds(&quietly(&source.argument(), &to.argument(), &[]));
        assert!(said.contains("Sessions: 2 read, 2 written"), "{said}");
        succeeds(&verifying(&source.argument(), &to.argument(), &[]));
    }
}

#[test]
fn a_table_is_copied_with_its_shared_access_signature() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(7, 300));
    let (End::Gateway(old), End::Gateway(new)) = (End::of("rest"), End::of("rest")) else {
        unreachable!()
    };
    succeeds(&quietly(text(&begin), &connection_string(old.gateway.address), &[]));
    // A signature of one table cannot create it.
    new.database
        .session("owner")
        .run("SELECT table_service.create_table('Nasty')");
    let endpoint = |service: &Service, permissions: &str| {
        let signature = service.database.session("owner").text(&format!(
            "SELECT table_service.generate_sas('{ACCOUNT}', '{KEY}', 'Nasty', permissions => '{permissions}', expiry => now() + interval '1 hour')"
        ));
        format!("http://{}/{ACCOUNT}/Nasty?{signature}", service.gateway.address)
    };
    let (from, to) = (endpoint(&old, "r"), endpoint(&new, "raud"));
    succeeds(&quietly(&from, &to, &[]));
    let said = succeeds(&verifying(&from, &to, &[]));
    assert!(said.contains("equal, 300 entities"), "{said}");

    let said = ends_with(1, &quietly(&from, &endpoint(&new, "r"), &["--on-conflict", "replace"]));
    assert!(
        said.contains("AuthorizationPermissionMismatch") && !said.contains("sig="),
        "{said}"
    );
}
