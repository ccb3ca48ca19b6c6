//! Every link between pages leads to an existing file and heading, and every picture exists.

use std::path::{Path, PathBuf};

use docs_tests::{pages, project};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// The anchors that a page's headings get on GitHub.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut heading = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().unwrap_or_default();
                let kept = words.to_lowercase();
                let kept = kept
                    .chars()
                    .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                let again = anchors.iter().filter(|other| **other == anchor).count();
                anchors.push(if again == 0 {
                    anchor
                } else {
                    format!("{anchor}-{again}")
                });
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            _ => {}
        }
    }
    anchors
}

fn links(text: &str) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    Parser::new(text).filter_map(target).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let project = project();
    let mut dead = Vec::new();
    let others = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "benches/README.md",
    ]
    .map(PathBuf::from);
    for page in pages().into_iter().chain(others) {
        let text = std::fs::read_to_string(project.join(&page)).unwrap();
        for link in links(&text) {
            // Some are addresses of the repository's pages on GitHub.
            if link.contains("://")
                || ["../../releases", "../../actions/"]
                    .iter()
                    .any(|page| link.starts_with(page))
            {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let directory = project.join(&page).parent().unwrap().to_owned();
            let target = if path.is_empty() {
                project.join(&page)
            } else {
                directory.join(Path::new(path))
            };
            let known = match std::fs::read_to_string(&target) {
                _ if anchor.is_empty() => target.exists(),
                Ok(text) => anchors(&text).iter().any(|known| known == anchor),
                Err(_) => false,
            };
            if !known {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# One Word\n## `a_b(c)`: what?\n## One word\n";
    assert_eq!(anchors(text), ["one-word", "a_bc-what", "one-word-1"]);
}
