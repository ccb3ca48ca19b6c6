//! Every page runs and prints the outputs that it shows.
//!
//! Environment: `ACCEPT=1` writes the outputs of this run into the pages instead of comparing; `PAGE=…` runs only the
//! pages with this in their path.

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
                // The test harness hides the text that a passing test prints with println!.
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
        // These pages have commands of the shell instead, or need several servers.
        let without = [
            "archive",
            "emulator",
            "explorer",
            "faults",
            "kubernetes",
            "move",
            "operate",
            "proxies",
            "scale-out",
            "standby-reads",
            "upgrade",
        ]
        .map(|page| format!("docs/guide/{page}.md"));
        let has_sql = without.iter().all(|page| page != name);
        if name.starts_with("docs/guide/") && has_sql {
            assert!(outputs >= 2, "{name} has {outputs} blocks with output");
        }
        // Start shows every output. Its only block without one is the set-up, which prints nothing.
        if name == "docs/guide/start.md" {
            let unseen: Vec<_> = page.blocks.iter().filter(|block| block.output.is_none()).collect();
            assert_eq!(unseen.len(), 1, "{unseen:#?}");
            assert!(unseen[0].sql.starts_with("CREATE EXTENSION"));
        }
    }
}

/// The parts that a page of the guide must have and this one lacks.
fn missing(text: &str) -> Vec<&'static str> {
    let heading = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    let entities = |line: &str| line.starts_with('|') && line.contains("PartitionKey | RowKey");
    let parts = [
        ("its entities in a table", text.lines().any(entities)),
        ("## Considerations", heading("## Considerations")),
        ("## When to use …", heading("## When to use")),
        ("## More with PostgreSQL", heading("## More with PostgreSQL")),
    ];
    parts
        .iter()
        .filter(|(_, there)| !there)
        .map(|(part, _)| *part)
        .collect()
}

#[test]
fn every_topic_has_its_entities_considerations_and_when_to_use_it() {
    // The overview of the patterns, and pages about programs instead of entities.
    let others = [
        "archive.md",
        "patterns.md",
        "drivers.md",
        "emulator.md",
        "explorer.md",
        "faults.md",
        "gateway.md",
        "kubernetes.md",
        "monitoring.md",
        "move.md",
        "operate.md",
        "orms.md",
        "proxies.md",
        "scale-out.md",
        "standby-reads.md",
        "upgrade.md",
    ];
    let guide = project().join("docs/guide");
    let mut incomplete = Vec::new();
    for path in pages().iter().map(|path| project().join(path)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.parent() != Some(guide.as_path()) || others.contains(&name) {
            continue;
        }
        let mut missing = missing(&std::fs::read_to_string(&path).unwrap());
        // The whole of these pages is about additions of PostgreSQL.
        let is_all = [
            "beyond.md",
            "bulk-work.md",
            "change-feed.md",
            "expiry.md",
            "property-indexes.md",
        ]
        .contains(&name);
        missing.retain(|&part| !is_all || part != "## More with PostgreSQL");
        if !missing.is_empty() {
            incomplete.push(format!("{name} lacks {}", missing.join(", ")));
        }
    }
    assert!(incomplete.is_empty(), "{incomplete:#?}");
    assert_eq!(
        missing("| table | PartitionKey | RowKey |\n\n## When to use which\n\n## More with PostgreSQL: an index\n"),
        ["## Considerations"]
    );
}

/// A filter that is not quoted with `$$…$$` in a call. Filters contain quotes; readers should not have to double them.
fn plainly_quoted_filter(sql: &str) -> Option<&str> {
    let plain = Regex::new(concat!(
        r"\b(?:query_entities|query_page|query_page_json|explain_query|matches)\(\s*(?:'[^']*'|[\w.]+),\s*'",
        r"|\b(?:query_tables|filter_to_sql)\(\s*'",
        r"|\bfilter\s*=>\s*'",
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
    assert_eq!(
        plainly_quoted_filter("SELECT query_entities('T',\n    'A eq 1')"),
        Some("query_entities('T',\n    '")
    );
    assert_eq!(
        plainly_quoted_filter("SELECT query_page('T', top => 1, filter => 'A eq 1')"),
        Some("filter => '")
    );
}
