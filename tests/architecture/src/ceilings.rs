//! How large the house may be: numbers that a change raises only in its own commit, with the reason in its body.
//!
//! `tests/architecture/ceilings.txt` has a line for each number. A change that goes over a ceiling makes the thing
//! smaller, or raises the number. A change that comes far below one lowers it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Numbers by their names, such as `lines crates/copy`.
pub type Numbers = BTreeMap<String, usize>;

/// A function with more lines than this is a long one.
const LONG: usize = 60;
/// A comment is not wider than this.
const WIDTH: usize = 120;
/// The words of a dialect that documents and comments are to lose.
const WORDS: [&str; 5] = ["what", "who", "too", "in the place of", "stands"];

/// The numbers of a repository's text files.
///
/// # Errors
/// A file of Rust that cannot be parsed.
pub fn count(files: &[(PathBuf, String)]) -> Result<Numbers, String> {
    let mut numbers = Numbers::new();
    let mut files_of_types: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    let tests = test_files(files);
    for (path, text) in files
        .iter()
        .filter(|(path, _)| !tests.iter().any(|test| path.starts_with(test)))
    {
        let kind = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        if is_document(path, kind) {
            for word in WORDS {
                add(
                    &mut numbers,
                    format!("\"{word}\" in documents"),
                    occurrences(text, word),
                );
            }
        }
        let Some(room) = room(path, kind) else {
            continue;
        };
        add(&mut numbers, "wide comments".to_owned(), wide_comments(text));
        let comments = comments(text);
        for word in WORDS {
            let number = occurrences(&comments, word);
            add(&mut numbers, "words of the dialect in comments".to_owned(), number);
        }
        let lines = match kind {
            "rs" => {
                let parsed = syn::parse_file(text).map_err(|error| format!("{}: {error}", path.display()))?;
                let mut found = Found::default();
                found.visit_file(&parsed);
                for (what, number) in [
                    ("unsafe", found.unsafe_blocks),
                    ("public items without documents", found.undocumented),
                    ("long functions", found.long),
                ] {
                    add(&mut numbers, format!("{what} {room}"), number);
                }
                let longest = numbers.entry("lines of the longest function".to_owned()).or_default();
                *longest = found.longest.max(*longest);
                for name in found.types {
                    files_of_types.entry(name).or_default().insert(path);
                }
                text.lines().count() - found.test_lines
            }
            "js" | "mjs" => {
                add(
                    &mut numbers,
                    format!("long functions {room}"),
                    long_functions_of_script(text),
                );
                text.lines().count()
            }
            _ => text.lines().count(),
        };
        add(&mut numbers, format!("lines {room}"), lines);
        add(&mut numbers, "lines of all".to_owned(), lines);
    }
    let recurring = files_of_types.values().filter(|files| files.len() > 1).count();
    add(&mut numbers, "names of types in several files".to_owned(), recurring);
    numbers.retain(|_, number| *number > 0);
    Ok(numbers)
}

fn add(numbers: &mut Numbers, name: String, number: usize) {
    *numbers.entry(name).or_default() += number;
}

/// The numbers of a file of ceilings.
///
/// # Errors
/// A line that is no name with a number.
pub fn parse(text: &str) -> Result<Numbers, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, number) = line.rsplit_once(' ').ok_or(line)?;
            Ok((name.trim_end().to_owned(), number.parse().map_err(|_| line)?))
        })
        .collect::<Result<_, &str>>()
        .map_err(|line| format!("{line:?} is not a name with a number"))
}

/// The differences from the ceilings, a text for each. A number may be below its ceiling by a fiftieth, but by ten at
/// least and by 200 at most: a fiftieth of all lines is more than most changes.
#[must_use]
pub fn differences(ceilings: &Numbers, numbers: &Numbers) -> Vec<String> {
    let names: BTreeSet<&String> = ceilings.keys().chain(numbers.keys()).collect();
    let number_of = |of: &Numbers, name: &String| of.get(name).copied().unwrap_or_default();
    let compared = names
        .into_iter()
        .map(|name| (name, number_of(ceilings, name), number_of(numbers, name)));
    compared
        .filter_map(|(name, ceiling, number)| {
            if number > ceiling {
                Some(format!(
                    "{name}: {number}, and the ceiling is {ceiling}. Make it smaller, or raise the number with the reason in the commit message"
                ))
            } else if ceiling - number > (ceiling / 50).clamp(10, 200) {
                Some(format!("{name}: {number}, and the ceiling is {ceiling}. Lower it"))
            } else {
                None
            }
        })
        .collect()
}

/// The files and directories of modules that only tests have: those behind `#[cfg(test)] mod NAME;`.
fn test_files(files: &[(PathBuf, String)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, text) in files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|kind| kind == "rs"))
    {
        let is_of_directory = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
        let directory = match is_of_directory {
            true => path.parent().unwrap_or(Path::new("")).to_owned(),
            false => path.with_extension(""),
        };
        let declarations = text
            .split("#[cfg(test)]\nmod ")
            .skip(1)
            .filter_map(|behind| behind.split_once(';'));
        for (name, _) in declarations.filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_')) {
            found.extend([directory.join(format!("{name}.rs")), directory.join(name)]);
        }
    }
    found
}

/// The part of the product that a file belongs to. Tests, documents and data belong to none.
fn room(path: &Path, kind: &str) -> Option<String> {
    let words: Vec<&str> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(word) => word.to_str(),
            _ => None,
        })
        .collect();
    // Released scripts stay as they are.
    let is_released =
        words.first() == Some(&"sql") && (words.contains(&"releases") || words.last()?.matches("--").count() == 2);
    let is_made = ["sql/install.sql", "sql/comments.sql"]
        .iter()
        .any(|made| path == Path::new(made));
    let is_test = words.contains(&"tests") || words.last() == Some(&"tests.rs");
    if is_released || is_made || is_test || !["rs", "js", "mjs", "css", "html", "sql", "sh", "py"].contains(&kind) {
        return None;
    }
    match words.as_slice() {
        ["src", storey, _, ..] => Some(format!("src/{storey}")),
        ["src", _] | ["build.rs"] => Some("src".to_owned()),
        ["crates", "explorer", "src", "page", ..] => Some("crates/explorer/src/page".to_owned()),
        ["crates", name, ..] => Some(format!("crates/{name}")),
        [
            first @ ("sql" | "pgrx-config" | "packaging" | "tour" | "deploy" | "benches" | ".ci"),
            ..,
        ] => Some((*first).to_owned()),
        _ => None,
    }
}

fn is_document(path: &Path, kind: &str) -> bool {
    let is_here = path.starts_with("docs") || path.parent() == Some(Path::new(""));
    kind == "md" && is_here && path != Path::new("CHANGELOG.md")
}

/// How often some words are in a text, in any case.
fn occurrences(text: &str, words: &str) -> usize {
    let plain: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .collect();
    let one_space: Vec<&str> = plain.split_whitespace().collect();
    let words: Vec<&str> = words.split(' ').collect();
    one_space.windows(words.len()).filter(|found| *found == words).count()
}

/// The lines of a text that are comments of Rust or JavaScript, one behind the other.
fn comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let comments = lines.filter_map(|line| line.strip_prefix("//"));
    comments.collect::<Vec<_>>().join("\n")
}

fn wide_comments(text: &str) -> usize {
    let is_comment = |line: &str| {
        ["//", "--", "# ", "*"]
            .iter()
            .any(|begin| line.trim_start().starts_with(begin))
    };
    let is_wide = |line: &&str| line.chars().count() > WIDTH && is_comment(line);
    text.lines().filter(is_wide).count()
}

/// The counts of one file of Rust.
#[derive(Default)]
struct Found {
    test_lines: usize,
    unsafe_blocks: usize,
    undocumented: usize,
    long: usize,
    longest: usize,
    types: Vec<String>,
}

impl Found {
    fn function(&mut self, whole: &impl Spanned) {
        self.long += usize::from(lines(whole) > LONG);
        self.longest = self.longest.max(lines(whole));
    }

    fn item(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute]) {
        let is_documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
        self.undocumented += usize::from(matches!(visibility, syn::Visibility::Public(_)) && !is_documented);
    }
}

fn lines(of: &impl Spanned) -> usize {
    let span = of.span();
    span.end().line - span.start().line + 1
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg
            && attribute
                .parse_args::<TokenStream>()
                // Those that run in PostgreSQL are `any(test, feature = "pg_test")`.
                .is_ok_and(|condition| condition.to_string() == "test" || condition.to_string().contains("pg_test"))
    })
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (visibility, attributes) = match item {
            syn::Item::Fn(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Struct(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Enum(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Trait(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Const(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Type(item) => (Some(&item.vis), &item.attrs),
            syn::Item::Mod(item) => (None, &item.attrs),
            syn::Item::Impl(item) => (None, &item.attrs),
            _ => return visit::visit_item(self, item),
        };
        if is_test(attributes) {
            self.test_lines += lines(item);
            return;
        }
        if let Some(visibility) = visibility {
            self.item(visibility, attributes);
        }
        match item {
            syn::Item::Struct(syn::ItemStruct { ident, .. })
            | syn::Item::Enum(syn::ItemEnum { ident, .. })
            | syn::Item::Trait(syn::ItemTrait { ident, .. })
            | syn::Item::Type(syn::ItemType { ident, .. }) => self.types.push(ident.to_string()),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(function);
        self.unsafe_blocks += usize::from(function.sig.unsafety.is_some());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(function);
        self.item(&function.vis, &function.attrs);
        self.unsafe_blocks += usize::from(function.sig.unsafety.is_some());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.unsafe_blocks += usize::from(item.unsafety.is_some());
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_blocks += 1;
        visit::visit_expr_unsafe(self, block);
    }
}

/// The long functions of a script as prettier forms it: they begin with their name and end with a brace, both at one column.
fn long_functions_of_script(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let line = line
            .trim_start()
            .trim_start_matches("export ")
            .trim_start_matches("async ");
        line.starts_with("function ") && line.ends_with('{')
    };
    let length = |(first, line): (usize, &&str)| {
        let column = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(column));
        lines
            .iter()
            .skip(first)
            .position(|line| line.trim_end() == end)
            .map_or(0, |after| after + 1)
    };
    let all = lines.iter().enumerate().filter(|(_, line)| begins(line));
    all.map(length).filter(|&length| length > LONG).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &str, text: &str) -> Numbers {
        count(&[(path.into(), text.to_owned())]).unwrap()
    }

    #[test]
    fn tests_and_released_scripts_are_no_product() {
        let code =
            "/// A.\npub fn a() {}\npub fn b() { unsafe { c() } }\n#[cfg(test)]\nmod tests {\n    fn d() {}\n}\n";
        let numbers = counted("crates/copy/src/a.rs", code);
        let name = |name: &str| numbers.get(name).copied();
        assert_eq!(name("lines crates/copy"), Some(3));
        assert_eq!(name("unsafe crates/copy"), Some(1));
        assert_eq!(name("public items without documents crates/copy"), Some(1));
        for other in [
            "crates/copy/tests/a.rs",
            "sql/t--0.1.0--0.2.0.sql",
            "sql/install.sql",
            "docs/a.sql",
        ] {
            assert_eq!(counted(other, "-- a\n"), Numbers::new(), "{other}");
        }
    }

    #[test]
    fn modules_of_tests_are_no_product_in_files_of_their_own() {
        let files = [
            ("crates/copy/src/lib.rs", "#[cfg(test)]\nmod laws;\nmod other;\n"),
            ("crates/copy/src/laws.rs", "fn a() {}\n"),
            ("crates/copy/src/laws/more.rs", "fn a() {}\n"),
            ("crates/copy/src/other.rs", "fn a() {}\n"),
        ];
        let numbers = count(&files.map(|(path, text)| (path.into(), text.to_owned()))).unwrap();
        assert_eq!(numbers.get("lines crates/copy"), Some(&2));
    }

    #[test]
    fn long_functions_are_counted_in_both_languages() {
        let body = "  a();\n".repeat(60);
        for (path, text) in [
            ("crates/copy/src/a.rs", format!("fn a() {{\n{body}}}\n")),
            (
                "crates/explorer/src/page/a.js",
                format!("export async function a() {{\n{body}}}\n"),
            ),
        ] {
            let numbers = counted(path, &text);
            assert!(
                numbers
                    .iter()
                    .any(|(name, number)| name.starts_with("long functions") && *number == 1),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn names_of_types_that_recur_are_counted_once_each() {
        let files = ["a", "b", "c"].map(|name| {
            let code = "struct State;\nenum Only {}\n".replace("Only", &name.to_uppercase());
            (format!("crates/copy/src/{name}.rs").into(), code)
        });
        let numbers = count(&files).unwrap();
        assert_eq!(numbers.get("names of types in several files"), Some(&1));
    }

    #[test]
    fn the_longest_function_is_of_all_files() {
        let files = [3, 7, 5].map(|lines: usize| {
            let code = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
            (format!("crates/copy/src/a{lines}.rs").into(), code)
        });
        assert_eq!(count(&files).unwrap().get("lines of the longest function"), Some(&7));
    }

    #[test]
    fn words_count_in_documents() {
        let numbers = counted("docs/a.md", "What stands\nin the\nplace of what? Whatever.\n");
        assert_eq!(numbers.get("\"what\" in documents"), Some(&2));
        assert_eq!(numbers.get("\"in the place of\" in documents"), Some(&1));
    }

    #[test]
    fn words_count_in_comments() {
        let numbers = counted(
            "crates/copy/src/a.rs",
            "/// What stands in the\n/// place of it.\nconst A: &str = \"what\";\n",
        );
        assert_eq!(numbers.get("words of the dialect in comments"), Some(&3));
    }

    #[test]
    fn a_number_above_and_one_far_below_are_told() {
        let of = |number| Numbers::from([("lines of all".to_owned(), number)]);
        assert_eq!(differences(&of(100), &of(100)), Vec::<String>::new());
        assert_eq!(differences(&of(100), &of(95)), Vec::<String>::new());
        assert!(differences(&of(100), &of(101)).join("").contains("Make it smaller"));
        assert!(differences(&of(100), &of(80)).join("").contains("Lower it"));
        assert!(differences(&of(90_000), &of(89_700)).join("").contains("Lower it"));
        assert_eq!(parse("# a\nlines of all 100\n"), Ok(of(100)));
        assert!(parse("lines").is_err());
    }
}
