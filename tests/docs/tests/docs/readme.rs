//! The parts of README.md that are no SQL: lines of the tour, and the version on its badge and of images.

use docs_tests::{Page, project, run};
use regex::Regex;

/// The first of `lines` that `printed` does not have behind the ones before it.
fn missing<'l>(lines: &'l str, printed: &str) -> Option<&'l str> {
    // The tour is a script of standard input, so psql prints no name of it before an error.
    let place = Regex::new(r"^psql:\S+: ").unwrap();
    let mut rest = printed
        .lines()
        .map(|line| place.replace(line, "").trim_end().to_owned());
    let mut lines = lines.lines().filter(|line| *line != "…");
    lines.find(|wanted| !rest.any(|line| line == *wanted))
}

#[test]
fn lines_of_the_tour_are_printed_by_it() {
    let project = project();
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    let (_, behind) = readme.split_once("    make run\n").unwrap();
    let lines = behind
        .split("```text\n")
        .nth(1)
        .and_then(|fence| fence.split("```").next())
        .unwrap();
    let script = project.join("tour/employees.sql");
    let page = format!("```sql\n\\i {}\n```\n```output\n```\n", script.display());
    let printed = run(&Page::parse("tour", &page).unwrap()).accepted;
    assert_eq!(
        missing(lines, &printed),
        None,
        "a line of README.md that the tour does not print:\n{printed}"
    );
    assert_eq!(missing("a\n…\nd", "a\nb\nc\n"), Some("d"));
    assert_eq!(missing("b\na", "a\nb\n"), Some("a"));
}

#[test]
fn the_badge_and_the_images_have_the_version() {
    let read = |path: &str| std::fs::read_to_string(project().join(path)).unwrap();
    let manifest = read("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = "))
        .unwrap();
    let version = version.trim_matches('"');
    let badge = format!("[![version {version}](https://img.shields.io/badge/version-{version}-blue)](../../releases)");
    assert!(
        read("README.md").contains(&badge),
        "README.md has no badge of the version {version}"
    );
    let with_images = [
        "deploy/kubernetes/database.yaml",
        "deploy/kubernetes/gateway.yaml",
        "docs/guide/emulator.md",
        "docs/guide/kubernetes.md",
        "packaging/compose.yaml",
    ];
    for path in with_images {
        let text = read(path);
        let tags = text.split("table-service").skip(1).filter_map(|behind| {
            let behind = behind.trim_start_matches(|letter: char| letter.is_ascii_lowercase() || letter == '-');
            // Aspire takes the name and the tag apart.
            [":", "\", \""].iter().find_map(|&between| behind.strip_prefix(between))
        });
        let versions = tags
            .filter_map(|tag| tag.split(|end: char| !end.is_ascii_digit() && end != '.').next())
            .filter(|tag| tag.contains('.'));
        assert!(
            versions.clone().all(|tag| tag == version),
            "{path} has another version than {version}"
        );
        assert!(versions.count() > 0, "{path} names no image");
    }
}
