//! The pictures are those that the program draws.

use docs_tests::{pictures, project};

/// `ACCEPT=1` draws them again.
#[test]
fn pictures_are_those_that_are_drawn() {
    for (name, svg) in pictures::all() {
        let path = project().join(format!("docs/guide/pictures/{name}.svg"));
        if std::env::var("ACCEPT").is_ok_and(|accept| accept == "1") {
            std::fs::write(&path, &svg).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == svg,
            "{} is not what tests/docs/src/pictures.rs draws; ACCEPT=1 draws it again",
            path.display()
        );
    }
}
