//! Another implementation of the protocol: an emulator, started by the script that sets AZURITE to its address.

use system_tests::random::seeds;

use crate::entities::lines;
use crate::program::{End, connection_string, file, output, quietly, succeeds, text, verifying};

#[test]
#[ignore = "needs an emulator: cargo xtask copy-emulators"]
fn an_emulator_gives_back_what_it_gets() {
    let address = std::env::var("AZURITE").unwrap();
    let emulator = connection_string(address.parse().unwrap());
    for seed in seeds(1) {
        let directory = tempfile::tempdir().unwrap();
        // azurite 3.37 has no negative zero.
        let entities = lines(seed, 500).replace(":-0.0", ":0.0");
        let begin = file(&directory, "begin.jsonl", &entities);
        let begin = text(&begin);
        let table = format!("Nasty{seed}");
        succeeds(&quietly(begin, &emulator, &["--table", &table, "--verify"]));
        for kind in ["sql", "rest", "jsonl.zst"] {
            let end = End::of(kind);
            let to = end.argument();
            let mut more = vec!["--table", &table];
            if let Some(format) = end.format() {
                more.extend(["--format", format]);
            }
            succeeds(&quietly(&emulator, &to, &more));
            succeeds(&verifying(begin, &to, &["--table", &table]));
        }
    }
}

#[test]
#[ignore = "needs an emulator: cargo xtask copy-emulators"]
fn an_emulators_database_file_has_what_the_emulator_got() {
    let emulator = connection_string(std::env::var("AZURITE").unwrap().parse().unwrap());
    let kept = std::env::var("AZURITE_DIRECTORY").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Kept.jsonl", &lines(11, 500).replace(":-0.0", ":0.0"));
    succeeds(&quietly(text(&begin), &emulator, &[]));
    // It writes the file every five seconds.
    system_tests::wait_until("the file has all entities", || {
        output(&verifying(text(&begin), &kept, &["--table", "Kept"]))
            .status
            .success()
    });
    let end = End::of("sql");
    succeeds(&quietly(&kept, &end.argument(), &["--table", "Kept"]));
    succeeds(&verifying(text(&begin), &end.argument(), &["--table", "Kept"]));
}

#[test]
#[ignore = "needs an emulator: cargo xtask copy-emulators"]
fn an_emulator_counts_and_deletes() {
    let emulator = connection_string(std::env::var("AZURITE").unwrap().parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let entities: String = (0..2500)
        .map(|n| {
            format!(
                "{{\"PartitionKey\":\"O'Brien {}\",\"RowKey\":\"{n}\",\"N\":{n}}}\n",
                n % 3
            )
        })
        .collect();
    let begin = file(&directory, "Deleted.jsonl", &entities);
    succeeds(&quietly(text(&begin), &emulator, &[]));
    let with = |command: &str, filter: &str, more: &[&str]| {
        let begin = [
            command, "--quiet", "--from", &emulator, "--table", "Deleted", "--filter", filter,
        ];
        succeeds(&[&begin[..], more].concat())
    };
    assert!(with("count", "N ge 1000", &[]).contains("Deleted: 1500 entities"));
    assert!(with("delete", "N ge 1000", &["--dry-run"]).contains("Deleted: 1500 entities would be deleted"));
    let said = with("delete", "N ge 1000", &["--yes"]);
    assert!(said.contains("1500 read, 1500 deleted, 0 gone already"), "{said}");
    assert!(with("count", "true", &[]).contains("Deleted: 1000 entities"));
    with("delete", "true", &["--yes"]);
    assert!(with("count", "true", &[]).contains("Deleted: 0 entities"));
}
