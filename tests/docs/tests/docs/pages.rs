//! Every page runs, and prints what it shows.
//!
//! Environment: `ACCEPT=1` writes the outputs of this run into the pages instead of comparing; `PAGE=…` runs only the
//! pages whose path contains this.

use docs_tests::{Page, pages, project, run};

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
                println!("{name}: {} outputs rewritten", report.problems.len());
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
