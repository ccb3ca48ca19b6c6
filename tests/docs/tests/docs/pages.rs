//! Every page runs, and prints what it shows.
//!
//! Environment: `ACCEPT=1` writes the outputs of this run into the pages instead of comparing; `PAGE=…` runs only the
//! pages whose path contains this.

use std::io::Write;

use docs_tests::{Page, pages, project, run};
use regex::Regex;

#[test]
fn every_page_prints_what_it_shows() {
    let accept = std::env::var("ACCEPT").is_ok_and(|accept| accept == "1");
    let only = std::env::var("PAGE").unwrap_or_default();
    let mut problems = Vec::new();
    for path in pages() {
        let name = path.to_str().unwrap();
        if !name.contains(&only) {
            continue;
        }
        let file = project().join(&path);
        let page = match Page::parse(name, &std::fs::read_to_string(&file).unwrap()) {
            Ok(page) => page,
            Err(message) => {
                problems.push(message);
                continue;
            }
        };
        if page.blocks.is_empty() {
            continue;
        }
        let report = run(&page);
        if accept && report.can_be_accepted() {
            if report.accepted != page.text {
                // Not by println!, which a test that passes keeps to itself.
                writeln!(std::io::stderr(), "{name}: {} outputs rewritten", report.problems.len()).unwrap();
                std::fs::write(&file, report.accepted).unwrap();
            }
        } else {
            problems.extend(report.problems.iter().map(ToString::to_string));
        }
    }
    assert!(problems.is_empty(), "\n\n{}\n", problems.join("\n\n"));
}

#[test]
fn every_page_of_the_guide_shows_what_it_says() {
    for path in pages() {
        let name = path.to_str().unwrap();
        let page = Page::parse(name, &std::fs::read_to_string(project().join(&path)).unwrap()).unwrap();
        let outputs = page.blocks.iter().filter(|block| block.output.is_some()).count();
        if name.starts_with("docs/guide/") {
            assert!(outputs >= 2, "{name} has {outputs} blocks with output");
        }
        // Start is a transcript: nothing in it happens unseen but the set-up, which prints nothing.
        if name == "docs/guide/start.md" {
            let unseen: Vec<_> = page.blocks.iter().filter(|block| block.output.is_none()).collect();
            assert_eq!(unseen.len(), 1, "{unseen:#?}");
            assert!(unseen[0].sql.starts_with("CREATE EXTENSION"));
        }
    }
}

/// A call whose filter is quoted otherwise than `$$…$$`. Filters have quotes themselves: readers should not have to double
/// them.
fn plainly_quoted_filter(sql: &str) -> Option<&str> {
    let plain = Regex::new(concat!(
        r"\b(?:query_entities|query_page|query_page_json|explain_query)\('[^']*', '",
        r"|\b(?:query_tables|filter_to_sql)\('",
        r"|\bmatches\(\w+, '",
    ));
    plain.unwrap().find(sql).map(|call| call.as_str())
}

#[test]
fn filters_are_quoted_with_dollars() {
    for path in pages() {
        let name = path.to_str().unwrap();
        let page = Page::parse(name, &std::fs::read_to_string(project().join(&path)).unwrap()).unwrap();
        for block in &page.blocks {
            if let Some(call) = plainly_quoted_filter(&block.sql) {
                panic!("{name}:{}: {call}… must quote its filter $$…$$", block.line);
            }
        }
    }
    assert_eq!(
        plainly_quoted_filter("SELECT query_entities('T', $$A eq 'x'$$, 'A'), query_page('T', top => 1)"),
        None
    );
    assert_eq!(
        plainly_quoted_filter("SELECT query_page('T', 'A eq 1')"),
        Some("query_page('T', '")
    );
    assert_eq!(
        plainly_quoted_filter("WHERE matches(e, 'A eq 1')"),
        Some("matches(e, '")
    );
}
