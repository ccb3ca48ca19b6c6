//! Another implementation of the protocol: an emulator, started by the script that sets AZURITE to its address.

use system_tests::random::seeds;

use crate::entities::lines;
use crate::program::{Place, connection_string, file, output, quietly, succeeds, text, verifying};

#[test]
#[ignore = "needs an emulator: cargo xtask copy-peers"]
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
            let place = Place::of(kind);
            let to = place.argument();
            let mut more = vec!["--table", &table];
            if let Some(format) = place.format() {
                more.extend(["--format", format]);
            }
            succeeds(&quietly(&emulator, &to, &more));
            succeeds(&verifying(begin, &to, &["--table", &table]));
        }
    }
}

#[test]
#[ignore = "needs an emulator: cargo xtask copy-peers"]
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
    let place = Place::of("sql");
    succeeds(&quietly(&kept, &place.argument(), &["--table", "Kept"]));
    succeeds(&verifying(text(&begin), &place.argument(), &["--table", "Kept"]));
}
