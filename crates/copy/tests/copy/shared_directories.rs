//! Files in directories where other users may put names: links are not followed, and nothing is left.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Stdio;

use crate::entities::lines;
use crate::program::{command, ends_with, file, quietly, succeeds, text};

const ONE: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n";

#[test]
fn the_spool_of_standard_output_has_no_name_and_belongs_to_the_user() {
    let place = tempfile::tempdir().unwrap();
    let arguments = quietly("-", "-", &["--table", "Orders", "--format", "csv"]);
    let mut child = command(&arguments)
        .env("TMPDIR", place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let files = format!("/proc/{}/fd", child.id());
    let spool = || {
        let open = std::fs::read_dir(&files).unwrap().map(|file| file.unwrap().path());
        open.into_iter()
            .find(|file| std::fs::read_link(file).is_ok_and(|path| path.starts_with(place.path())))
    };
    system_tests::wait_until("the spool is open", || spool().is_some());
    let data = std::fs::metadata(spool().unwrap()).unwrap();
    assert_eq!((data.nlink(), data.mode() & 0o777), (0, 0o600));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_link_under_a_name_of_the_program_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let begin = file(&directory, "Orders.jsonl", ONE);
    let victim = file(&directory, "victim", "precious");
    for (format, names) in [
        ("jsonl", &["Orders.jsonl.part"][..]),
        ("csv", &["Orders.csv.part", "Orders.csv.csv-part"]),
    ] {
        for name in names {
            symlink(&victim, place.join(name)).unwrap();
        }
        succeeds(&quietly(text(&begin), text(&place), &["--format", format]));
    }
    let resume = place.join("resume");
    symlink(&victim, place.join("resume.new")).unwrap();
    let again = ["--on-conflict", "replace", "--resume", text(&resume)];
    succeeds(&quietly(text(&begin), text(&place), &again));
    // Names that the user gives.
    let link = place.join("link");
    symlink(&victim, &link).unwrap();
    for option in ["--resume", "--rejects"] {
        ends_with(
            1,
            &quietly(
                text(&begin),
                text(&place),
                &["--on-conflict", "replace", option, text(&link)],
            ),
        );
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    succeeds(&quietly(
        text(&begin),
        text(&place),
        &["--on-conflict", "replace", "--rejects", "/dev/stderr"],
    ));
}

#[test]
fn pipes_of_others_get_nothing_and_say_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &format!("{ONE}x\n"));
    let pipe = directory.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Nobody waits at the other end.
    let mut both = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let to = directory.path().join("to");
    let again = |more: &[&str]| -> Vec<String> {
        let more = [&["--on-conflict", "replace"], more].concat();
        let arguments = quietly(text(&begin), text(&to), &more);
        arguments.into_iter().map(str::to_owned).collect()
    };
    let ends = |code, more: &[&str]| {
        let arguments = again(more);
        ends_with(code, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    ends(3, &["--rejects", text(&pipe)]);
    let mut reject = [0; 4096];
    let length = both.read(&mut reject).unwrap();
    assert!(String::from_utf8_lossy(&reject[..length]).contains("Nasty.jsonl"));
    let said = ends(1, &["--resume", text(&pipe)]);
    assert!(said.contains("it is no file"), "{said}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(&pipe, Some(1), None).unwrap();
    let said = ends(1, &["--rejects", text(&pipe)]);
    assert!(said.contains("of another user"), "{said}");
    let said = ends_with(
        1,
        &quietly(text(&pipe), text(&to), &["--table", "Other", "--format", "jsonl"]),
    );
    assert!(said.contains("of another user"), "{said}");
    both.write_all(b"!").unwrap();
    let length = both.read(&mut reject).unwrap();
    assert_eq!(&reject[..length], b"!", "nothing was written");
}

#[test]
fn resume_and_rejects_files_are_for_the_user_alone() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &format!("{}x\n", lines(5, 3000)));
    let (resume, rejects) = (directory.path().join("resume"), directory.path().join("rejects"));
    let to = directory.path().join("to");
    let more = ["--resume", text(&resume), "--rejects", text(&rejects), "--rate", "500"];
    let mut child = command(&quietly(text(&begin), text(&to), &more)).spawn().unwrap();
    system_tests::wait_until("both are there", || resume.exists() && rejects.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    for file in [&resume, &rejects] {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{}", file.display());
    }
}
