//! Bad input: entities that cannot be copied, files that cannot be read, and texts that must not be shown.

use crate::entities::lines;
use crate::program::{End, command, database_url, ends_with, file, output, quietly, succeeds, text, verifying};

const BAD: &str = r#"{"PartitionKey":"p","RowKey":"1"}
not JSON
{"PartitionKey":"p"}
{"PartitionKey":"p","RowKey":"a/b"}
{"PartitionKey":"p","RowKey":"2","T@odata.type":"Edm.DateTime","T":"1500-01-01T00:00:00Z"}
{"PartitionKey":"p","RowKey":"3","N":{"nested":1}}

{"PartitionKey":"p","RowKey":"4"}
"#;

#[test]
fn bad_lines_go_to_the_rejects_file_with_their_reason() {
    let directory = tempfile::tempdir().unwrap();
    let bad = file(&directory, "Orders.jsonl", BAD);
    let long_key = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{}\"}}\n", "字".repeat(1000));
    let long = file(&directory, "Long.jsonl", &long_key);
    for kind in ["sql", "rest"] {
        let end = End::of(kind);
        let rejects = directory.path().join(format!("rejects.{kind}"));
        let arguments = [
            "--from",
            text(&bad),
            "--to",
            &end.argument(),
            "--quiet",
            "--rejects",
            text(&rejects),
        ];
        let said = ends_with(3, &arguments);
        assert!(said.contains("3 written, 0 skipped, 4 rejected"), "{said}");
        let lines = std::fs::read_to_string(&rejects).unwrap();
        for reason in [
            "record 2",
            "PropertiesNeedValue",
            "OutOfRangeInput",
            "'RowKey' parameter of value 'a/b'",
        ] {
            assert!(lines.contains(reason), "{reason}: {lines}");
        }
        // An entity is flat: a nested value in JSON is a String with that JSON.
        let copied = directory.path().join(format!("copied.{kind}.jsonl"));
        succeeds(&[
            "--from",
            &end.argument(),
            "--table",
            "Orders",
            "--to",
            text(&copied),
            "--quiet",
        ]);
        let copied = std::fs::read_to_string(copied).unwrap();
        assert!(copied.contains(r#""N":"{\"nested\":1}""#), "{copied}");
        let said = ends_with(1, &quietly(text(&bad), &end.argument(), &["--on-conflict", "skip"]));
        assert!(said.contains("record 2") && said.contains("--rejects FILE"), "{said}");
        // A key that the Table service can have, and this target cannot.
        let said = ends_with(1, &quietly(text(&long), &end.argument(), &[]));
        assert!(said.contains("PropertyValueTooLarge"), "{said}");
    }
}

#[test]
fn constraints_of_a_database_reject_single_entities() {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for key in 0..500 {
        lines.push_str(&format!(
            "{{\"PartitionKey\":\"p\",\"RowKey\":\"{key}\",\"V\":{key}}}\n"
        ));
    }
    let begin = file(&directory, "Orders.jsonl", &lines);
    let rejects = directory.path().join("rejects");
    let end = End::of("sql");
    let End::Sql(database) = &end else { unreachable!() };
    let session = database.session("owner");
    session.run("SELECT table_service.create_table('Orders')");
    session.run(
        "ALTER TABLE table_service_data.\"Orders\" ADD CHECK (table_service.get_int32(properties, 'V') % 100 <> 7)",
    );
    let said = ends_with(
        3,
        &quietly(text(&begin), &end.argument(), &["--rejects", text(&rejects)]),
    );
    assert!(said.contains("495 written, 0 skipped, 5 rejected"), "{said}");
    assert_eq!(
        session.text("SELECT count(*) FROM table_service_data.\"Orders\""),
        "495"
    );
}

#[test]
fn a_table_with_policies_is_a_target_and_what_takes_no_writes_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let from = file(&directory, "Nasty.jsonl", &lines(3, 30));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    let session = database.session("owner");
    let role = database.role("writer");
    let table = "table_service_data.\"Nasty\"";
    session.run(&format!(
        "SELECT table_service.create_table('Nasty'); GRANT SELECT, INSERT, UPDATE ON {table} TO {role};
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON {table} TO {role} USING (true)"
    ));
    let to = database_url(&database).replace("postgres@", &format!("{role}@"));
    succeeds(&quietly(text(&from), &to, &[]));
    succeeds(&verifying(text(&from), &to, &["--row-security"]));

    session.run(&format!(
        "ALTER TABLE {table} DISABLE ROW LEVEL SECURITY; REVOKE INSERT ON {table} FROM {role}"
    ));
    let said = ends_with(1, &quietly(text(&from), &to, &["--on-conflict", "replace"]));
    assert!(said.contains("permission denied for table Nasty"), "{said}");
    session.run(&format!("ALTER ROLE {role} SET default_transaction_read_only = on"));
    let said = ends_with(1, &quietly(text(&from), &to, &["--on-conflict", "replace"]));
    assert!(said.contains("in a read-only transaction"), "{said}");
}

#[test]
fn wrong_arguments_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", "");
    let begin = text(&begin);
    for (arguments, says) in [
        (&["--to", "x"][..], "--from SOURCE is missing"),
        (&["--from", begin], "--to TARGET is missing"),
        (
            &["--from", "env:NOT_SET_ANYWHERE", "--to", "x"],
            "NOT_SET_ANYWHERE is not set",
        ),
        (&["--from", "AccountName=mycompany", "--to", "x"], "AccountKey"),
        (
            &["--from", "https://a.table.core.windows.net", "--to", "x"],
            "shared access signature",
        ),
        (&["--from", "-", "--to", "x"], "name it with --table"),
        (
            &["--from", begin, "--to", "-", "--on-conflict", "merge"],
            "written anew",
        ),
        (&["--from", begin, "--to", "-", "--json"], "standard output"),
        (&["--from", begin, "--to", "x", "--since", "yesterday"], "--since"),
        (&["--from", begin, "--to", "x", "--follow", "nan"], "0 or more"),
        (
            &["--quiet", "count", "--from", begin],
            "'count' cannot be used with '--quiet'",
        ),
        (&["--from", begin, "--to", "x", "--follow", "-1"], "0 or more"),
    ] {
        let said = ends_with(2, arguments);
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    let said = ends_with(1, &["--from", "/nowhere/at-all", "--to", "x"]);
    assert!(said.contains("/nowhere/at-all"), "{said}");
    let help = String::from_utf8(output(&["--help"]).stdout).unwrap();
    assert!(
        help.contains("--on-conflict") && help.contains("verify") && !help.contains("AccountKey="),
        "{help}"
    );
}

#[test]
fn secrets_come_from_the_environment_or_a_file_and_are_never_shown() {
    let end = End::of("rest");
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let secret = file(&directory, "secret", &end.argument());
    let from_file = format!("@{}", text(&secret));
    let said = succeeds(&["--from", text(&begin), "--to", &from_file]);
    assert!(!said.contains("every user"), "{said}");
    let named = command(&["verify", "--from", text(&begin), "--to", "env:OUR_TARGET"])
        .env("OUR_TARGET", end.argument())
        .output()
        .unwrap();
    assert!(named.status.success(), "{named:?}");
    let of_its_own = command(&["verify", "--from", text(&begin)])
        .env("TABLE_SERVICE_COPY_TO", end.argument())
        .output()
        .unwrap();
    assert!(of_its_own.status.success(), "{of_its_own:?}");
    let said = succeeds(&["verify", "--from", text(&begin), "--to", &end.argument()]);
    assert!(said.contains("every user of this machine can read"), "{said}");
    assert!(!said.contains(raw_http::KEY), "{said}");
}

/// Forms in which keys, signatures and passwords are mistyped. None is recognised, and no part of the secret is shown.
#[test]
fn nothing_of_a_mistyped_secret_is_shown() {
    const SECRET: &str = "Qb8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let forms = [
        "\"DefaultEndpointsProtocol=https;AccountName=mycompany;AccountKey=SECRET\"",
        "'AccountName=mycompany;AccountKey=SECRET'",
        "`AccountName=mycompany;AccountKey=SECRET`",
        "CLOUD=\"AccountName=mycompany;AccountKey=SECRET\"",
        "export CLOUD='AccountName=mycompany;AccountKey=SECRET'",
        "connection string: AccountName=mycompany;AccountKey=SECRET",
        "AccountName:mycompany;AccountKey:SECRET",
        "AccountName=mycompany,AccountKey=SECRET",
        "AccountName=mycompany AccountKey=SECRET",
        "AccountName=mycompany;AccountKey=%SECRET",
        "AccountKey=SECRET",
        "SECRET",
        "/SECRET",
        "./SECRET",
        "SECRET.csv",
        "postgres//role:SECRET@localhost/db",
        "postgresql:role:SECRET@localhost/db",
        "postgre://role:SECRET@localhost/db",
        "\"postgresql://role:SECRET@localhost/db\"",
        "DATABASE_URL=postgresql://role:SECRET@localhost/db",
        "postgresql://role:at@SECRET@localhost/db",
        "postgresql://role:SECRET@localhost:port/db",
        "postgresql://role@localhost/db?passwd=SECRET",
        "postgresql://localhost;password=SECRET/db",
        "jdbc:postgresql://localhost/db?user=role&password=SECRET",
        "Host=localhost;Username=role;Password=SECRET;Database=db",
        "Server=tcp:localhost;User Id=role;Password=SECRET",
        "host=localhost user=role password=SECRET",
        "mycompany.table.core.windows.net/?sv=2019&sig=SECRET",
        "htps://mycompany.table.core.windows.net/?sv=2019&sig=SECRET",
        "https://mycompany.table.core.windows.net/sv=2019&sig=SECRET",
        "https://mycompany.table.core.windows.net/Orders&sig=SECRET?sig=x",
        "https://user:SECRET@mycompany.table.core.windows.net/?sig=x",
        "?sv=2019&sig=SECRET",
        "BlobEndpoint=https://x;SharedAccessSignature=sig=SECRET",
        "TableEndpoint=https://mycompany/sig=SECRET;AccountName=mycompany;AccountKey=a2V5",
        "{\"AccountKey\": \"SECRET\"}",
    ];
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    let resume = directory.path().join("resume");
    let harmless = |form: &str, said: &str| {
        for part in SECRET.as_bytes().windows(6) {
            let part = std::str::from_utf8(part).unwrap();
            assert!(!said.contains(part), "{form}: {said}");
        }
        assert!(!resume.exists(), "{form}");
    };
    for form in forms {
        let wrong = form.replace("SECRET", SECRET);
        let kept = file(&directory, "kept", &format!("{wrong}\n"));
        let in_file = format!("@{}", text(&kept));
        let misplaced = format!("@{wrong}");
        let named = format!("env:{wrong}");
        let other = text(&other);
        let resume = ["--resume", text(&resume), "--retry-for", "0", "--table", "Orders"];
        for end in [wrong.as_str(), &in_file, "env:WRONG_END", &misplaced, &named] {
            for arguments in [quietly(end, other, &resume), quietly(other, end, &resume)] {
                let output = command(&arguments)
                    .current_dir(directory.path())
                    .env("WRONG_END", &wrong)
                    .output()
                    .unwrap();
                let said = format!("{output:?}");
                assert_eq!(output.status.code(), Some(2), "{form}: {said}");
                harmless(form, &said);
            }
        }
        for arguments in [
            vec![wrong.as_str()],
            vec!["--format", &wrong],
            vec!["--concurrency", &wrong],
            vec!["--on-conflict", &wrong],
            vec!["verify", &wrong],
            vec!["--from", other, &wrong],
        ] {
            harmless(form, &ends_with(2, &arguments));
        }
    }
    let said = ends_with(2, &quietly("\"AccountName=x;AccountKey=eA==\"", "./x", &[]));
    assert!(
        said.contains("not recognised: a text in quotes of 31 characters"),
        "{said}"
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let end = End::of("sql");
    let said = succeeds(&["--from", text(&begin), "--to", &end.argument(), "--dry-run"]);
    assert!(
        said.contains("Orders: ") && said.contains("the target gets a new one"),
        "{said}"
    );
    let End::Sql(database) = &end else { unreachable!() };
    assert_eq!(
        database
            .session("reader")
            .text("SELECT count(*) FROM table_service.query_tables()"),
        "0"
    );
    succeeds(&quietly(text(&begin), &end.argument(), &[]));
    let said = succeeds(&[
        "--from",
        &end.argument(),
        "--to",
        text(&directory.path().join("out")),
        "--dry-run",
    ]);
    assert!(said.contains("about 1 entities"), "{said}");
    assert!(!directory.path().join("out").exists());
}

#[test]
fn json_is_for_machines() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let end = End::of("sql");
    let done = output(&["--from", text(&begin), "--to", &end.argument(), "--json", "--verify"]);
    let lines: Vec<serde_json::Value> = String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let find = |event: &str| lines.iter().find(|line| line["event"] == event).unwrap();
    assert_eq!(find("report")["tables"][0]["written"], 1);
    assert_eq!(find("comparison")["equal"], true);
}

#[test]
fn an_existing_file_is_not_overwritten_by_accident() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let there = file(&directory, "There.jsonl", "precious");
    let arguments = ["--from", text(&begin), "--to", text(&there), "--quiet"];
    let said = ends_with(1, &arguments);
    assert!(said.contains("exists already"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
    let mut replace = arguments.to_vec();
    replace.extend(["--on-conflict", "replace"]);
    succeeds(&replace);
    assert!(
        std::fs::read_to_string(&there)
            .unwrap()
            .starts_with("{\"PartitionKey\"")
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let target = text(&target);
    let not_compressed = file(&directory, "Orders.jsonl.zst", "{}");
    let empty = file(&directory, "Empty.jsonl.zst", "");
    let no_table = file(&directory, "A.jsonl", "{}");
    for (from, status, says) in [
        (text(&empty), 1, "Empty.jsonl.zst: it is not compressed with zstd"),
        (
            text(&not_compressed),
            1,
            "Orders.jsonl.zst: it is not compressed with zstd",
        ),
        (
            text(&no_table),
            2,
            "A.jsonl is not named after a table; name the table with --table",
        ),
        (
            "postgresql://role@example.com/tables",
            2,
            "add ?sslmode=require for TLS",
        ),
    ] {
        let said = ends_with(status, &quietly(from, target, &[]));
        assert!(said.contains(says), "{said}");
    }
}
