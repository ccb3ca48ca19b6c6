//! Copies that are killed, and services that do not answer: nothing is lost, and nothing comes twice.

use std::sync::atomic::Ordering;
use std::time::Duration;

use system_tests::random::{Random, seeds};

use crate::entities::lines;
use crate::program::{End, command, connection_string, ends_with, file, quietly, start, succeeds, text, verifying};
use crate::proxy::Proxy;

const ENTITIES: usize = 5000;

/// Kills the copy again and again, at moments that the seed says, until it is allowed to end.
fn killed(seed: u64, from: &str, to: &End) {
    let mut random = Random::new(seed);
    let directory = tempfile::tempdir().unwrap();
    let resume = directory.path().join("resume");
    let target = to.argument();
    // The default way: an entity that came twice would be rejected.
    let mut arguments = vec![
        "--from",
        from,
        "--to",
        &target,
        "--resume",
        text(&resume),
        "--table",
        "Nasty",
        "--quiet",
    ];
    if let Some(format) = to.format() {
        arguments.extend(["--format", format]);
    }
    // Slowly, so that there are moments to kill it at.
    let mut slowly = arguments.clone();
    slowly.extend(["--rate", "3000"]);
    let mut done = false;
    for _ in 0..4 {
        let mut child = start(&slowly);
        std::thread::sleep(Duration::from_millis(50 + random.below(900) as u64));
        // It may have been faster.
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            done = true;
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if !done {
        succeeds(&arguments);
    }
    assert!(!resume.exists(), "a complete copy leaves no resume file");
    let said = succeeds(&verifying(from, &target, &["--table", "Nasty"]));
    assert!(said.contains(&format!("equal, {ENTITIES} entities")), "{said}");
    // The keys of a database hide that a key came twice; the lines of a file show it.
    if let End::Directory(directory, format) = to
        && *format == "jsonl"
    {
        let written = std::fs::read_to_string(directory.path().join("Nasty.jsonl")).unwrap();
        assert_eq!(written.lines().count(), ENTITIES);
    }
}

#[test]
fn a_killed_copy_goes_on_where_it_was() {
    for seed in seeds(1) {
        let directory = tempfile::tempdir().unwrap();
        let begin = file(&directory, "Nasty.jsonl", &lines(seed, ENTITIES));
        let sql = End::of("sql");
        killed(seed, text(&begin), &sql);
        let rest = End::of("rest");
        killed(seed + 1, &sql.argument(), &rest);
        for format in ["jsonl", "jsonl.zst", "azcopy", "csv"] {
            killed(seed + 2, &sql.argument(), &End::of(format));
        }
        killed(seed + 3, &rest.argument(), &End::of("jsonl.zst"));
    }
}

#[test]
fn ctrl_c_ends_a_copy_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(5, ENTITIES));
    let resume = directory.path().join("resume");
    let sql = End::of("sql");
    let to = sql.argument();
    let arguments = [
        "--from",
        text(&begin),
        "--to",
        &to,
        "--resume",
        text(&resume),
        "--quiet",
    ];
    let mut slowly = arguments.to_vec();
    slowly.extend(["--rate", "300"]);
    let child = command(&slowly).stderr(std::process::Stdio::piped()).spawn().unwrap();
    system_tests::wait_until("the copy has begun", || {
        std::fs::read_to_string(&resume).is_ok_and(|text| text.contains("records"))
    });
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("goes on where it was"), "{said}");
    succeeds(&arguments);
    succeeds(&verifying(text(&begin), &to, &[]));
}

/// It would be asked again for an hour.
#[test]
fn a_copy_that_waits_for_a_service_ends_when_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(5, 10));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = connection_string(listener.local_addr().unwrap());
    let mut child = command(&quietly(text(&begin), &to, &[]))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..3 {
        drop(listener.accept().unwrap());
    }
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    system_tests::wait_until("the copy ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_service_that_is_busy_and_cuts_connections_is_asked_again() {
    for seed in seeds(1) {
        let directory = tempfile::tempdir().unwrap();
        let begin = file(&directory, "Nasty.jsonl", &lines(seed, 1500));
        let End::Gateway(service) = End::of("rest") else {
            unreachable!()
        };
        let proxy = Proxy::start(service.gateway.address, seed);
        let proxied = connection_string(proxy.address);
        succeeds(&quietly(text(&begin), &proxied, &[]));
        let written = proxy.faults.load(Ordering::Relaxed);
        assert!(written > 0, "the proxy did nothing");
        succeeds(&verifying(
            text(&begin),
            &connection_string(service.gateway.address),
            &[],
        ));
        let files = End::of("jsonl");
        succeeds(&quietly(&proxied, &files.argument(), &[]));
        assert!(proxy.faults.load(Ordering::Relaxed) > written, "the proxy did nothing");
        succeeds(&verifying(text(&begin), &files.argument(), &[]));
    }
}

#[test]
fn a_service_that_stays_away_ends_the_copy() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let nobody = "DefaultEndpointsProtocol=http;AccountName=nobody;AccountKey=c2VjcmV0a2V5;TableEndpoint=http://127.0.0.1:9/nobody";
    let said = ends_with(1, &quietly(text(&begin), nobody, &["--retry-for", "1"]));
    assert!(
        said.contains("http://127.0.0.1:9/nobody") && !said.contains("c2VjcmV0a2V5"),
        "{said}"
    );
    let said = ends_with(
        1,
        &quietly(
            text(&begin),
            "postgresql://u:secret@127.0.0.1:9/d",
            &["--retry-for", "1"],
        ),
    );
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn a_resume_file_belongs_to_one_copy_and_has_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(3, ENTITIES));
    let resume = directory.path().join("resume");
    let rest = End::of("rest");
    let to = rest.argument();
    let slowly = [
        "--from",
        text(&begin),
        "--to",
        &to,
        "--resume",
        text(&resume),
        "--rate",
        "500",
        "--quiet",
    ];
    let mut child = start(&slowly);
    system_tests::wait_until("positions are saved", || {
        std::fs::read_to_string(&resume).is_ok_and(|text| text.contains("records"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = std::fs::read_to_string(&resume).unwrap();
    assert!(!kept.contains(raw_http::KEY), "{kept}");
    let other = End::of("sql");
    let said = ends_with(
        1,
        &[
            "--from",
            text(&begin),
            "--to",
            &other.argument(),
            "--resume",
            text(&resume),
        ],
    );
    assert!(said.contains("belongs to another copy"), "{said}");
}
