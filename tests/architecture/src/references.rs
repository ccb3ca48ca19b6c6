//! Checks that the targets of documents, comments and patches exist.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

/// The paths in a Markdown document that do not exist, or do not contain the symbol that is named with them:
/// `` `src/file.rs` ``, `` `src/file.rs::symbol` `` or `` `src/file.rs:symbol` ``. `read` gives the text of a file, and
/// an empty one for a directory.
///
/// # Errors
///
/// A document that has no such path.
pub fn paths(name: &str, document: &str, read: &dyn Fn(&Path) -> Option<String>) -> Result<Vec<String>, String> {
    let span =
        Regex::new(r"`([A-Za-z_.][A-Za-z0-9_./-]*)(?:::?([A-Za-z0-9_:]+))?`").map_err(|error| error.to_string())?;
    let mut findings = Vec::new();
    let mut checked = 0;
    for (number, line) in document.lines().enumerate() {
        for found in span.captures_iter(line) {
            let path = found.get(1).map_or("", |text| text.as_str());
            let symbol = found.get(2).map(|text| text.as_str());
            if !is_path(path) {
                continue;
            }
            checked += 1;
            let number = number + 1;
            match (read(Path::new(path)), symbol) {
                (None, _) => findings.push(format!("{name}:{number}: {path} does not exist")),
                (Some(text), Some(symbol)) if !has_word(&text, symbol.rsplit(':').next().unwrap_or(symbol)) => {
                    findings.push(format!("{name}:{number}: {path} does not contain {symbol}"));
                }
                _ => {}
            }
        }
    }
    if checked == 0 {
        return Err(format!("{name}: it names no path"));
    }
    Ok(findings)
}

/// The steps of the table `| from | calls | in |` that are not in the code, a wrong number of calls or files before it, and the imports of
/// the calling files that are neither in the table nor among the `others`.
///
/// # Errors
///
/// A document without the table.
pub fn walk(document: &str, others: &[&str], read: &dyn Fn(&Path) -> Option<String>) -> Result<Vec<String>, String> {
    let (before, rest) = document
        .split_once("| from | calls | in |\n|---|---|---|\n")
        .ok_or("there is no table `| from | calls | in |`")?;
    let (rows, _) = rest.split_once("\n\n").ok_or("no text is behind the table")?;
    let cells = |row: &str| row.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let steps: Vec<Vec<String>> = rows.lines().map(cells).collect();
    let (mut findings, mut files) = (Vec::new(), BTreeSet::new());
    let (mut callers, mut reached) = (BTreeSet::new(), BTreeSet::new());
    let mut number = 0;
    for step in &steps {
        let [from, calls @ .., to] = step.as_slice() else {
            return Err(format!("a row has a file, its calls, and another file: {step:?}"));
        };
        number += calls.len();
        let (caller, callee) = (
            read(Path::new(from)).unwrap_or_default(),
            read(Path::new(to)).unwrap_or_default(),
        );
        for call in calls {
            let name = call.rsplit([':', '.']).next().unwrap_or(call);
            if !caller.contains(&format!("{call}(")) {
                findings.push(format!("{from} does not call {call}"));
            }
            if !callee.contains(&format!("fn {name}(")) && !callee.contains(&format!("fn {name}<")) {
                findings.push(format!("{to} has no function {name}"));
            }
        }
        if !files.is_empty() && !reached.contains(from) && !callers.contains(from) {
            findings.push(format!("no step leads to {from}"));
        }
        files.extend([from.clone(), to.clone()]);
        callers.insert(from.clone());
        reached.insert(to.clone());
    }
    let count = format!("{number} calls between {} files.", files.len());
    if !before.trim_end().ends_with(&count) {
        findings.push(format!("the table has {count}"));
    }
    let others: BTreeSet<String> = others.iter().map(|&file| file.to_owned()).collect();
    let mut imported = BTreeSet::new();
    for file in &callers {
        imported.extend(imports_of(file, &read(Path::new(file)).unwrap_or_default(), read));
    }
    let is_of = |file: &String| files.iter().any(|known| Path::new(known).starts_with(file));
    let unsaid = imported.iter().filter(|file| !others.contains(*file) && !is_of(file));
    findings.extend(unsaid.map(|file| format!("{file} is imported, and no step of the walk")));
    let gone = others.iter().filter(|file| !imported.contains(*file) || is_of(file));
    findings.extend(gone.map(|file| format!("{file} is not imported, or is a step of the walk")));
    Ok(findings)
}

/// The files and directories of `api`, `engine` and `storage` that a file imports.
fn imports_of(file: &str, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> BTreeSet<String> {
    let directory = Path::new(file)
        .parent()
        .map_or_else(String::new, |it| it.display().to_string());
    let storeys = ["use crate::api::", "use crate::engine::", "use crate::storage::"];
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let module = match line.strip_prefix("use super::") {
            Some(rest) => Some((directory.clone(), rest)),
            None => storeys.iter().find_map(|storey| {
                let name = storey.strip_prefix("use crate::")?.strip_suffix("::")?;
                Some((format!("src/{name}"), line.strip_prefix(storey)?))
            }),
        };
        let Some((directory, rest)) = module else { continue };
        let names = rest.trim_start_matches('{').split(['{', ':', ',', ';', ' ', '}']);
        let name = names.map(str::trim).find(|name| !name.is_empty()).unwrap_or_default();
        let path = format!("{directory}/{name}");
        let as_file = format!("{path}.rs");
        let is_file = read(Path::new(&as_file)).is_some();
        found.insert(if is_file { as_file } else { path });
    }
    found
}

/// The rows of the table `| actor | may | may not |` that forbid something and have no item in the list behind the table, or one that
/// names no path; and the items of that list that are about no such row.
///
/// # Errors
///
/// A document without the table.
pub fn unshown(document: &str) -> Result<Vec<String>, String> {
    let (_, rest) = document
        .split_once("| actor | may | may not |\n|---|---|---|\n")
        .ok_or("there is no table `| actor | may | may not |`")?;
    let forbids = rest.lines().take_while(|line| line.starts_with('|')).filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (who, forbidden) = (cells.next()?, cells.nth(1)?);
        (!forbidden.is_empty()).then_some(who)
    });
    let forbids: Vec<&str> = forbids.collect();
    let list = rest
        .lines()
        .skip_while(|line| !line.starts_with("- "))
        .take_while(|line| line.trim_start().starts_with("- "));
    let mut items: Vec<(&str, bool)> = Vec::new();
    for line in list {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(who), _) => items.push((who, false)),
            (None, Some((_, names_a_path))) => *names_a_path |= line.split('`').nth(1).is_some_and(is_path_with_symbol),
            (None, None) => {}
        }
    }
    let shown = |who: &str| items.iter().any(|(item, names_a_path)| *item == who && *names_a_path);
    let unshown = forbids.iter().filter(|who| !shown(who));
    let unshown = unshown.map(|who| format!("no test shows what is forbidden to: {who}"));
    let unknown = items.iter().filter(|(who, _)| !forbids.contains(who));
    let unknown = unknown.map(|(who, _)| format!("nothing is forbidden to: {who}"));
    Ok(unshown.chain(unknown).collect())
}

fn is_path_with_symbol(text: &str) -> bool {
    is_path(text.split(':').next().unwrap_or(text))
}

/// The commands that a text names and that do not exist: `cargo xtask NAME` and `make NAME`. Returns their lines and names.
pub fn commands(
    text: &str,
    tasks: &BTreeSet<String>,
    targets: &BTreeSet<String>,
) -> Result<Vec<(usize, String)>, String> {
    let command =
        Regex::new(r"cargo xtask( [a-z][a-z0-9-]*)|`make( [a-z][a-z-]*)").map_err(|error| error.to_string())?;
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for found in command.captures_iter(line) {
            let (name, known) = match (found.get(1), found.get(2)) {
                (Some(task), _) => (task, tasks),
                (None, Some(target)) => (target, targets),
                (None, None) => continue,
            };
            if !known.contains(name.as_str().trim_start()) {
                findings.push((number + 1, found.get(0).map_or("", |text| text.as_str()).to_owned()));
            }
        }
    }
    Ok(findings)
}

fn is_path(text: &str) -> bool {
    const ENDINGS: [&str; 9] = [".rs", ".sql", ".sh", ".toml", ".md", ".control", ".spec", ".out", ".py"];
    // A media type is no path.
    text.contains('/') && !text.starts_with("application/") || ENDINGS.iter().any(|ending| text.ends_with(ending))
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text.get(..start).and_then(|text| text.chars().next_back());
        let after = text.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// The sections that a text cites from the semantics reference, with their lines: `(semantics 2.1)`, `semantics 4.1 to 4.3`,
/// `semantics 7.2, 7.3`.
///
/// # Errors
///
/// Never, whatever the text says.
pub fn cited_sections(text: &str) -> Result<Vec<(usize, String)>, String> {
    // A comment may be wrapped anywhere.
    let gap = r"(?:\s|//[/!]?|--|#|\*|\|)*";
    let first = Regex::new(&format!(r"(?i)\bsemantics{gap}(\d+(?:\.\d+)?)\b")).map_err(|error| error.to_string())?;
    let next = Regex::new(&format!(r"^{gap}(?:,|and|to|or){gap}(\d+\.\d+)\b")).map_err(|error| error.to_string())?;
    let mut sections = Vec::new();
    for found in first.captures_iter(text) {
        let Some(mut section) = found.get(1) else { continue };
        let mut end = section.end();
        loop {
            let line = text.get(..end).map_or(0, |before| before.matches('\n').count()) + 1;
            sections.push((line, section.as_str().to_owned()));
            let Some(rest) = text.get(end..) else { break };
            let Some(found) = next.captures(rest).and_then(|found| found.get(1)) else {
                break;
            };
            section = found;
            end += found.end();
        }
    }
    Ok(sections)
}

/// The numbers of the sections of a Markdown document, if headings begin with one: `## 1. Data`, `### 1.2 Names`.
#[must_use]
pub fn headings(document: &str) -> BTreeSet<String> {
    let headings = document.lines().filter(|line| line.starts_with('#'));
    headings
        .filter_map(|line| line.trim_start_matches('#').split_whitespace().next())
        .map(|word| word.trim_end_matches('.').to_owned())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// The sections `N.M` of the rules of the service (chapters 1 to 7) that no row of a table `| rule | implemented in | proved by |`
/// is about: neither one in the section, nor one that names it as in `| 3.2 to 3.5 headers |`; and the sections that
/// such a row names and that do not exist.
///
/// # Errors
///
/// Never, whatever the document says.
pub fn unproved(document: &str) -> Result<Vec<String>, String> {
    let heading = Regex::new(r"^#+ (\d+(?:\.\d+)?)\.? ").map_err(|error| error.to_string())?;
    let named = Regex::new(r"^\| ((?:\d+\.\d+(?:, | to | ))+)").map_err(|error| error.to_string())?;
    let mut sections: Vec<String> = Vec::new();
    let mut about: Vec<String> = Vec::new();
    let mut in_table = false;
    for line in document.lines() {
        if let Some(number) = heading.captures(line).and_then(|found| found.get(1)) {
            sections.push(number.as_str().to_owned());
        }
        if line == "| rule | implemented in | proved by |" {
            in_table = true;
            about.extend(sections.last().cloned());
        } else if !line.starts_with('|') {
            in_table = false;
        } else if in_table && let Some(names) = named.captures(line).and_then(|found| found.get(1)) {
            about.extend(between(names.as_str()));
        }
    }
    let is_rule = |section: &String| section.contains('.') && section.starts_with(|c: char| ('1'..='7').contains(&c));
    let lacking = sections
        .iter()
        .filter(|section| is_rule(section) && !about.contains(section));
    let lacking =
        lacking.map(|section| format!("section {section} lacks a table `| rule | implemented in | proved by |`"));
    let unknown = about.iter().filter(|section| !sections.contains(section));
    let unknown = unknown.map(|section| format!("a table is about section {section}, which does not exist"));
    Ok(lacking.chain(unknown).collect())
}

/// The sections of `3.2 to 3.5` and of `7.2, 7.3`.
fn between(names: &str) -> Vec<String> {
    let mut sections: Vec<String> = Vec::new();
    let mut is_range = false;
    for word in names.split([' ', ',']).filter(|word| !word.is_empty()) {
        let parts = |section: &str| {
            let (chapter, number) = section.split_once('.')?;
            Some((chapter.to_owned(), number.parse::<u32>().ok()?))
        };
        if word == "to" {
            is_range = true;
            continue;
        }
        if let (true, Some((_, first)), Some((chapter, last))) = (
            is_range,
            sections.last().and_then(|section| parts(section)),
            parts(word),
        ) {
            sections.extend((first + 1..last).map(|number| format!("{chapter}.{number}")));
        }
        sections.push(word.to_owned());
        is_range = false;
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_walk_is_a_call() {
        let document = |count: &str, calls: &str| {
            format!(
                "The walk: {count}\n\n| from | calls | in |\n|---|---|---|\n| `src/api/a.rs` | {calls} | `src/engine/b.rs` |\n\nEnd"
            )
        };
        let read = |path: &Path| match path.to_str().unwrap() {
            "src/api/a.rs" => Some("use crate::engine::b::B;\nuse crate::storage::c::C;\n B::open(1)".to_owned()),
            "src/engine/b.rs" => Some("pub fn open(".to_owned()),
            "src/storage/c.rs" => Some(String::new()),
            _ => None,
        };
        let found = |count, calls, others: &[&str]| walk(&document(count, calls), others, &read).unwrap();
        let (count, c) = ("1 calls between 2 files.", "src/storage/c.rs");
        assert_eq!(found(count, "`B::open`", &[c]), Vec::<String>::new());
        assert_eq!(
            found("2 calls between 2 files.", "`B::open`, `open`", &[c]),
            Vec::<String>::new()
        );
        assert_eq!(found("1 calls between 3 files.", "`B::open`", &[c]).len(), 1);
        assert_eq!(found(count, "`B::close`", &[c]).len(), 2);
        assert_eq!(found(count, "`B::open`", &[]).len(), 1);
        assert_eq!(found(count, "`B::open`", &[c, "src/storage/d.rs"]).len(), 1);
        assert!(walk("", &[], &read).is_err());
    }

    #[test]
    fn a_section_of_rules_without_a_table_is_named() {
        let table = "| rule | implemented in | proved by |\n|---|---|---|\n";
        let of = |row: &str| {
            format!("## 3. Three\n### 3.1 A\n\n{table}{row}\n\n### 3.2 B\n### 3.3 C\n## 8. Eight\n### 8.1 D\n")
        };
        assert_eq!(
            unproved(&of("| one | `a.rs` | `b.rs` |")),
            Ok(["3.2", "3.3"]
                .map(|section| format!("section {section} lacks a table `{}`", &table[..37]))
                .to_vec())
        );
        assert_eq!(unproved(&of("| 3.1 to 3.3 all | `a.rs` | `b.rs` |")), Ok(vec![]));
        assert_eq!(unproved(&of("| 3.2, 3.3 two | `a.rs` | `b.rs` |")), Ok(vec![]));
        assert_eq!(
            unproved(&of("| 3.1 to 3.4 all | `a.rs` | `b.rs` |")),
            Ok(vec!["a table is about section 3.4, which does not exist".to_owned()])
        );
    }

    #[test]
    fn paths_and_symbols_are_looked_up() {
        let read = |path: &Path| match path.to_str() {
            Some("src/a.rs") => Some("fn there() {}".to_owned()),
            Some("src/") => Some(String::new()),
            _ => None,
        };
        let document = "`a media/type`\n| `src/a.rs::there` | `src/` `CHECK` |\n  - `src/a.rs`\n";
        assert_eq!(paths("DOC", document, &read), Ok(vec![]));
        let document = "| `src/a.rs::ther` | `src/a.rs:absent` |\n  - `src/b.rs`\n";
        assert_eq!(
            paths("DOC", document, &read),
            Ok(vec![
                "DOC:1: src/a.rs does not contain ther".to_owned(),
                "DOC:1: src/a.rs does not contain absent".to_owned(),
                "DOC:2: src/b.rs does not exist".to_owned(),
            ])
        );
        assert!(paths("DOC", "no table", &read).is_err());
    }

    #[test]
    fn what_is_forbidden_needs_something_that_shows_it() {
        let of = |list: &str| {
            unshown(&format!(
                "| actor | may | may not |\n|---|---|---|\n| a | all | |\n| b | read | write |\n\nText.\n\n{list}\nMore.\n\n- c\n"
            ))
        };
        assert_eq!(of("- b\n  - `tests/b.rs::b`\n"), Ok(vec![]));
        let lacking = "no test shows what is forbidden to: b".to_owned();
        assert_eq!(of("- b\n  - `write`\n"), Ok(vec![lacking.clone()]));
        let unknown = "nothing is forbidden to: a".to_owned();
        assert_eq!(of("- a\n  - `tests/b.rs`\n"), Ok(vec![lacking, unknown]));
        assert!(unshown("no table").is_err());
    }

    #[test]
    fn citations_are_found_in_all_their_forms() {
        let cited = |text: &str| -> Vec<String> {
            let sections = cited_sections(text).unwrap();
            sections.into_iter().map(|(_, section)| section).collect()
        };
        assert_eq!(cited("(semantics 2.1), and what If-Match may say (2.2)."), ["2.1"]);
        assert_eq!(cited("//! `$filter` (semantics 6)."), ["6"]);
        assert_eq!(cited("(semantics 1.4, 1.6, 4.4)"), ["1.4", "1.6", "4.4"]);
        assert_eq!(cited("semantics 4.4 to 4.7, 2.2 and so on"), ["4.4", "4.7", "2.2"]);
        assert_eq!(
            cited("/// before limits (semantics\n    /// 0.2,\n    /// 5.4)."),
            ["0.2", "5.4"]
        );
        assert_eq!(cited("Semantics 6.3 rule 4"), ["6.3"]);
        assert_eq!(cited("semantics 1.5, 16 bytes"), ["1.5"]);
        assert_eq!(cited("the semantics of 3.5"), Vec::<String>::new());
    }

    #[test]
    fn headings_are_known_by_their_numbers() {
        let document = "# Title\n## 1. Data\n### 1.2 Names\ntext 9.9\n";
        assert_eq!(headings(document), BTreeSet::from(["1".to_owned(), "1.2".to_owned()]));
    }
}
