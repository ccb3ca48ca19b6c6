//! The objects of `docs/reference`: their signatures and their descriptions, and the statements that give psql these descriptions.
//!
//! A fence `signature` holds one object a line; a line that begins with spaces continues the one before. The description of an
//! object is the first sentence behind its fence. In a fence of several objects it is a line `-- Sentence.` before the object. The
//! columns of a type, table or view are described in the table `| column | meaning |` behind the fence.
//!
//! `sql/comments.sql` is made from these pages, and the upgrade script of this version has the same statements. A unit test here,
//! which needs no PostgreSQL, compares both with the pages; with `ACCEPT=1` it writes them.

use regex::Regex;

use crate::{Page, fences, project};

/// So that a line of `\df+` can be read.
const LONGEST: usize = 150;

/// One object of the reference.
#[derive(Debug, PartialEq, Eq)]
pub struct Object {
    /// The page and the line of the fence.
    pub place: String,
    pub signature: String,
    /// Empty if the page has none.
    pub description: String,
    /// The columns that are described, and how.
    pub columns: Vec<(String, String)>,
}

/// The pages of the reference, by name.
pub fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(project().join("docs/reference")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        pages.push(Page::parse(&name, &std::fs::read_to_string(path).unwrap()).unwrap());
    }
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    pages
}

/// The objects of a page, in its order.
pub fn objects(page: &Page) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    for fence in fences(&page.text).into_iter().filter(|fence| fence.info == "signature") {
        let first = objects.len();
        let mut description = String::new();
        for line in page.text[fence.content.clone()].lines() {
            if let Some(sentence) = line.strip_prefix("-- ") {
                sentence.clone_into(&mut description);
            } else if line.starts_with(' ') && objects.len() > first {
                let signature = &mut objects.last_mut().unwrap().signature;
                signature.push(' ');
                signature.push_str(line.trim());
            } else {
                objects.push(Object {
                    place: format!("docs/reference/{}:{}", page.name, page.line(fence.content.start)),
                    signature: line.trim().to_owned(),
                    description: std::mem::take(&mut description),
                    columns: Vec::new(),
                });
            }
        }
        if let [object] = &mut objects[first..] {
            let behind = &page.text[fence.end..];
            if object.description.is_empty() {
                object.description = first_sentence(behind).unwrap_or_default();
            }
            object.columns = columns(behind);
        }
    }
    objects
}

/// The first sentence of the text that follows, if it is one, without its marks.
fn first_sentence(text: &str) -> Option<String> {
    let paragraph: Vec<&str> = text
        .trim_start()
        .lines()
        .take_while(|line| {
            !line.trim().is_empty() && !["#", "|", "```", "- "].iter().any(|other| line.starts_with(other))
        })
        .collect();
    let plain = without_marks(&paragraph.join(" "));
    let end = plain.find(". ").map_or(plain.trim_end().len(), |end| end + 1);
    let sentence = &plain[..end];
    sentence.ends_with('.').then(|| sentence.to_owned())
}

/// The text of a link without its target, and code without its quotes.
fn without_marks(text: &str) -> String {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    link.replace_all(text, "$1").replace('`', "")
}

/// The rows of a table `| column | meaning |`, if one comes before the next fence or heading.
fn columns(behind: &str) -> Vec<(String, String)> {
    behind
        .lines()
        .take_while(|line| !line.starts_with('#') && !line.starts_with("```"))
        .skip_while(|line| *line != "| column | meaning |")
        .skip(2)
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .map(|(column, meaning)| (without_marks(column), without_marks(meaning)))
        .collect()
}

/// The statements that describe all objects of the reference.
///
/// # Errors
///
/// Every object without a description of its own that fits, and the remedy.
pub fn statements(objects: &[Object]) -> Result<String, String> {
    let types: Vec<&str> = objects
        .iter()
        .filter_map(|object| object.signature.strip_prefix("type ")?.split(' ').next())
        .collect();
    let mut statements = Vec::new();
    let mut findings = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for object in objects {
        let targets = targets(&object.signature, &types);
        let has_columns = ["type ", "table ", "view "]
            .iter()
            .any(|kind| object.signature.starts_with(kind));
        let columns = object.columns.iter().filter(|_| has_columns).map(|(column, meaning)| {
            let relation = object.signature.split(' ').nth(1).unwrap_or_default();
            (format!("COLUMN table_service.{relation}.\"{column}\""), meaning)
        });
        let described = targets
            .into_iter()
            .map(|target| (target, &object.description))
            .chain(columns);
        for (target, description) in described {
            let length = description.chars().count();
            if length == 0 || length > LONGEST || !description.ends_with('.') {
                findings.push(format!(
                    "{}: {target} needs a description of one sentence, with at most {LONGEST} characters. Write it as the first sentence behind the \
                     signature, or as a line `-- Sentence.` before it. It has: {description:?}",
                    object.place
                ));
            }
            if let Some(other) = seen.insert(target.clone(), description.clone()) {
                findings.push(format!("{}: {target} is described twice: {other:?}", object.place));
            }
            statements.push(format!(
                "COMMENT ON {target} IS\n    '{}';\n",
                description.replace('\'', "''")
            ));
        }
    }
    if findings.is_empty() {
        Ok(statements.concat())
    } else {
        Err(findings.join("\n"))
    }
}

/// The names of an object for `COMMENT ON`: none for a setting, and for an operator class also its family.
fn targets(signature: &str, types: &[&str]) -> Vec<String> {
    let own = |name: &str| match name.starts_with("pg_catalog.") {
        true => name.to_owned(),
        false => format!("table_service.{name}"),
    };
    let qualified = |name: &str| {
        let element = name.trim_end_matches("[]");
        if types.contains(&element) {
            own(name)
        } else {
            name.to_owned()
        }
    };
    let words: Vec<&str> = signature.split(' ').collect();
    match words.as_slice() {
        ["setting", ..] => vec![],
        ["schema", name] => vec![format!("SCHEMA {name}")],
        ["type", name, ..] => vec![format!("TYPE {}", own(name))],
        ["table", name] => vec![format!("TABLE {}", own(name))],
        ["view", name] => vec![format!("VIEW {}", own(name))],
        ["event", "trigger", name] => vec![format!("EVENT TRIGGER {name}")],
        ["cast", from, "→", to, _] => {
            vec![format!(
                "CAST ({} AS {})",
                qualified(from),
                qualified(to.trim_end_matches(','))
            )]
        }
        ["operator", "class", name, "for", method] => ["CLASS", "FAMILY"]
            .map(|kind| format!("OPERATOR {kind} {} USING {method}", own(name)))
            .to_vec(),
        ["operator", left, name, right, "→", _] => {
            vec![format!(
                "OPERATOR table_service.{name} ({}, {})",
                qualified(left),
                qualified(right)
            )]
        }
        _ => {
            let (kind, rest) = match signature.strip_prefix("procedure ") {
                Some(rest) => ("PROCEDURE", rest),
                None => ("FUNCTION", signature),
            };
            let (name, rest) = rest.split_once('(').unwrap_or((rest, ")"));
            let arguments: Vec<String> = arguments(rest)
                .iter()
                .map(|argument| type_of(argument, &qualified))
                .collect();
            vec![format!("{kind} {}({})", own(name), arguments.join(", "))]
        }
    }
}

/// The arguments of a function, from behind its opening parenthesis. Defaults have parentheses and commas of their own.
fn arguments(text: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut open = 0_usize;
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '(' if !is_quoted => open += 1,
            ')' if !is_quoted && open == 0 => break,
            ')' if !is_quoted => open -= 1,
            ',' if !is_quoted && open == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().unwrap().push(c);
    }
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

/// The mode and the type of an argument, without its name and its default.
fn type_of(argument: &str, qualified: &impl Fn(&str) -> String) -> String {
    let argument = argument.split(" DEFAULT ").next().unwrap_or_default().trim();
    let (mode, argument) = match argument.split_once(' ') {
        Some((mode @ ("VARIADIC" | "INOUT" | "OUT"), rest)) => (format!("{mode} "), rest),
        _ => (String::new(), argument),
    };
    let name = argument.split_once(' ').map_or(argument, |(_, rest)| rest);
    mode + &qualified(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const BEGIN: &str = "-- What psql says of each object. Made from docs/reference by `cargo xtask schema --accept`: change the sentence there.\n";
    const END: &str = "-- The end of what psql says.\n";

    /// The upgrade script to this version.
    fn upgrade_script() -> PathBuf {
        let ending = format!("--{}.sql", env!("CARGO_PKG_VERSION"));
        let scripts = fs::read_dir(project().join("sql"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut to_this = scripts.filter(|path| path.to_str().unwrap().ends_with(&ending));
        to_this.next().expect("no upgrade script to this version")
    }

    /// A script with these descriptions at its end.
    fn with_descriptions(script: &str, descriptions: &str) -> String {
        let before = match (script.find(BEGIN), script.find(END)) {
            (Some(begin), Some(end)) => script[..begin].to_owned() + &script[end + END.len()..],
            _ => script.to_owned(),
        };
        before + descriptions
    }

    #[test]
    fn psql_says_what_the_reference_says() {
        let all: Vec<Object> = pages().iter().flat_map(objects).collect();
        let statements = statements(&all).unwrap_or_else(|findings| panic!("\n{findings}\n"));
        let descriptions = format!("{BEGIN}{statements}{END}");
        let upgrade = upgrade_script();
        let upgraded = with_descriptions(&fs::read_to_string(&upgrade).unwrap(), &descriptions);
        for (path, right) in [(project().join("sql/comments.sql"), descriptions), (upgrade, upgraded)] {
            if std::env::var("ACCEPT").is_ok_and(|accept| accept == "1") {
                fs::write(&path, &right).unwrap();
            }
            assert!(
                fs::read_to_string(&path).is_ok_and(|there| there == right),
                "{} does not describe the objects as docs/reference does. Run: cargo xtask schema --accept",
                path.display()
            );
        }
    }

    #[test]
    fn descriptions_move_to_the_end_of_a_script() {
        let old = format!("A;\n{BEGIN}old;\n{END}B;\n");
        let new = format!("{BEGIN}new;\n{END}");
        assert_eq!(with_descriptions(&old, &new), format!("A;\nB;\n{new}"));
        assert_eq!(with_descriptions("A;\n", &new), format!("A;\n{new}"));
    }

    fn described(page: &str) -> Result<String, String> {
        statements(&objects(&Page::parse("p.md", page).unwrap()))
    }

    #[test]
    fn every_kind_of_object_gets_its_statement() {
        let page = "```signature\ntype bag (\"timestamp\" text)\n```\n\nA `bag` of [things](x.md#y). It\nhas more.\n\n| column | meaning |\n|---|---|\n| `timestamp` | It's a time. |\n
```signature\n-- F.\nf(bag bag, n bigint DEFAULT g(1, ')'),\n  VARIADIC more bag[]) → TABLE(a text, b text)\n-- G.\ng() → text\n-- S.\nsetting a.b integer\n-- H.\nh(internal) → internal
-- P.\nprocedure p(a double precision, INOUT b bag DEFAULT NULL)\n-- O.\noperator bag - text[] → bag\n-- K.\noperator class k for btree\n-- C.\ncast bag → jsonb, explicit\n-- X.\nschema x
-- T.\ntable t\n-- V.\nview v\n-- E.\nevent trigger e\n```\n";
        let expected = "TYPE table_service.bag IS\n    'A bag of things.';
COLUMN table_service.bag.\"timestamp\" IS\n    'It''s a time.';
FUNCTION table_service.f(table_service.bag, bigint, VARIADIC table_service.bag[]) IS\n    'F.';
FUNCTION table_service.g() IS\n    'G.';
FUNCTION table_service.h(internal) IS\n    'H.';
PROCEDURE table_service.p(double precision, INOUT table_service.bag) IS\n    'P.';
OPERATOR table_service.- (table_service.bag, text[]) IS\n    'O.';
OPERATOR CLASS table_service.k USING btree IS\n    'K.';
OPERATOR FAMILY table_service.k USING btree IS\n    'K.';
CAST (table_service.bag AS jsonb) IS\n    'C.';
SCHEMA x IS\n    'X.';
TABLE table_service.t IS\n    'T.';
VIEW table_service.v IS\n    'V.';
EVENT TRIGGER e IS\n    'E.';\n";
        assert_eq!(described(page).unwrap().replace("COMMENT ON ", ""), expected);
    }

    #[test]
    fn an_object_without_a_description_is_named() {
        let finding = |page: &str| described(page).unwrap_err();
        let two = finding("```signature\n-- F.\nf() → text\ng() → text\n```\n\nA sentence about both.\n");
        assert!(
            two.starts_with("docs/reference/p.md:2: FUNCTION table_service.g() needs a description"),
            "{two}"
        );
        for page in [
            "```signature\nf() → text\n```\n",
            "```signature\nf() → text\n```\n\n## Next\n\nA sentence.\n",
            "```signature\nf() → text\n```\n\n```sql\nSELECT 1;\n```\n\nA sentence.\n",
            "```signature\nf() → text\n```\n\nThese are all:\n\n- one.\n",
        ] {
            assert!(finding(page).contains("f() needs a description"), "{page}");
        }
        let long = format!("```signature\nf() → text\n```\n\n{}.\n", "word ".repeat(50));
        assert!(finding(&long).contains("at most 150 characters"));
        let twice = "```signature\n-- F.\nf(a text) → text\n-- F.\nf(b text) → text\n```\n";
        assert!(finding(twice).contains("described twice"));
    }
}
