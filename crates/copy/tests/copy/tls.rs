//! Encrypted connections: the other side's certificate is checked before it gets anything.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use raw_http::{ACCOUNT, KEY};
use system_tests::Cluster;
use system_tests::gateway::Gateway;
use system_tests::tls::Certificate;
use tempfile::TempDir;

use crate::entities::lines;
use crate::program::{End, command, database_url, ends_with, file, quietly, succeeds, text, verifying};

/// A directory that the user of the servers can read.
fn directory() -> TempDir {
    let readable = Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(readable).tempdir().unwrap()
}

/// Runs the program where the system trusts only this certificate. Returns its status and its messages.
fn trusting(certificate: &Certificate, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command(arguments);
    command
        .env_remove("SSL_CERT_DIR")
        .env("SSL_CERT_FILE", &certificate.certificate);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_service_is_reached_over_tls() {
    let directory = directory();
    let [own, other] = ["own", "other"].map(|name| Certificate::new(directory.path(), name));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    let url = database_url(&database);
    let files = ["--tls-certificate", &own.certificate, "--tls-key", &own.key];
    let gateway = Gateway::start(&[["--database-url", &url].as_slice(), &files].concat());
    let service = format!(
        "DefaultEndpointsProtocol=https;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=https://localhost:{}/{ACCOUNT};",
        gateway.address.port()
    );
    let begin = file(&directory, "Nasty.jsonl", &lines(9, 300));
    let begin = text(&begin);

    let (status, said) = trusting(&other, &quietly(begin, &service, &[]));
    assert!(
        status == Some(1) && said.contains("certificate") && !said.contains(KEY),
        "{said}"
    );
    assert_eq!(
        database
            .session("owner")
            .run("SELECT * FROM table_service.query_tables()")
            .len(),
        0
    );

    let (status, said) = trusting(&own, &quietly(begin, &service, &[]));
    assert_eq!(status, Some(0), "{said}");
    let back = End::of("sql");
    let (status, said) = trusting(&own, &quietly(&service, &back.argument(), &[]));
    assert_eq!(status, Some(0), "{said}");
    succeeds(&verifying(begin, &back.argument(), &[]));
}

#[test]
fn a_database_is_reached_over_tls() {
    if !Cluster::has_tls() {
        return;
    }
    let directory = directory();
    let [own, other] = ["own", "other"].map(|name| Certificate::new(directory.path(), name));
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", own.certificate),
        format!("ssl_key_file={}", own.key),
    ];
    let cluster = Cluster::start_on_tcp(&settings.each_ref().map(String::as_str));
    cluster.session().run("CREATE EXTENSION table_service");
    let url = format!(
        "postgresql://postgres@localhost:{}/postgres?sslmode=require",
        cluster.port()
    );
    let begin = file(&directory, "Nasty.jsonl", &lines(9, 300));

    let (status, said) = trusting(&other, &quietly(text(&begin), &url, &[]));
    assert!(status == Some(1) && said.contains("certificate"), "{said}");
    let (status, said) = trusting(&own, &quietly(text(&begin), &url, &[]));
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = trusting(&own, &verifying(text(&begin), &url, &["--timestamps"]));
    assert!(status == Some(0) && said.contains("equal, 300 entities"), "{said}");

    // The option counts, whatever the system trusts.
    for (option, system, expected) in [(&own, &other, Some(0)), (&other, &own, Some(1))] {
        let option = ["--database-ca", &option.certificate, "--on-conflict", "replace"];
        let (status, said) = trusting(system, &quietly(text(&begin), &url, &option));
        assert_eq!(status, expected, "{said}");
    }
    let no_certificate = file(&directory, "empty.pem", "");
    let said = ends_with(
        2,
        &quietly(text(&begin), &url, &["--database-ca", text(&no_certificate)]),
    );
    assert!(
        said.contains("--database-ca: ") && said.contains("it has no certificate"),
        "{said}"
    );
}
