//! Another implementation of the protocol: an emulator, started by the script that sets AZURITE to its address.

use system_tests::random::rounds;

use crate::entities::lines;
use crate::program::{Place, file, succeeds, text};

#[test]
fn an_emulator_gives_back_what_it_gets() {
    let Ok(address) = std::env::var("AZURITE") else {
        eprintln!("AZURITE is not set, so there is no emulator to copy to (make copy-peers)");
        return;
    };
    let emulator = crate::program::connection_string(address.parse().unwrap());
    for seed in 0..rounds(1) {
        let directory = tempfile::tempdir().unwrap();
        let begin = file(&directory, "begin.jsonl", &lines(seed, 500));
        let table = format!("Nasty{}x{seed}", std::process::id());
        succeeds(&[
            "--from",
            text(&begin),
            "--to",
            &emulator,
            "--table",
            &table,
            "--quiet",
            "--verify",
        ]);
        for kind in ["sql", "rest", "jsonl.zst"] {
            let place = Place::of(kind);
            let to = place.argument();
            let mut arguments = vec!["--from", &emulator, "--to", &to, "--table", &table, "--quiet"];
            if let Some(format) = place.format() {
                arguments.extend(["--format", format]);
            }
            succeeds(&arguments);
            succeeds(&[
                "verify",
                "--from",
                text(&begin),
                "--to",
                &to,
                "--table",
                &table,
                "--quiet",
            ]);
        }
    }
}
