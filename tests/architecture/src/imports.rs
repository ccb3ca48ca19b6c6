//! The rules for imports: crates and storeys import only those below them, and no modules of one directory import each
//! other in a circle.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::modules::{Crate, Kind, Mention, Module};

/// The crates of the product and the program that builds and tests them, each with those of them that it may import.
const CRATES: [(&str, &[&str]); 12] = [
    ("table_service", &["table_service_model"]),
    (
        "table_service_archive",
        &[
            "table_service_command_line",
            "table_service_files",
            "table_service_model",
        ],
    ),
    ("table_service_command_line", &["table_service_model"]),
    (
        "table_service_connect",
        &["table_service_command_line", "table_service_model"],
    ),
    (
        "table_service_copy",
        &[
            "table_service_archive",
            "table_service_command_line",
            "table_service_connect",
            "table_service_documents",
            "table_service_files",
            "table_service_model",
        ],
    ),
    ("table_service_documents", &["table_service_model"]),
    (
        "table_service_emulator",
        &[
            "table_service_command_line",
            "table_service_connect",
            "table_service_explorer",
            "table_service_gateway",
            "table_service_model",
        ],
    ),
    (
        "table_service_explorer",
        &[
            "table_service_command_line",
            "table_service_files",
            "table_service_model",
        ],
    ),
    (
        "table_service_files",
        &["table_service_command_line", "table_service_model"],
    ),
    (
        "table_service_gateway",
        &[
            "table_service_command_line",
            "table_service_connect",
            "table_service_documents",
            "table_service_explorer",
            "table_service_model",
        ],
    ),
    ("table_service_model", &[]),
    ("xtask", &[]),
];

/// The programs that reach PostgreSQL, with their explorer, and the names that only the crate for this may use.
const PROGRAMS: [&str; 4] = [
    "table_service_copy",
    "table_service_emulator",
    "table_service_explorer",
    "table_service_gateway",
];
const REACHES_SERVERS: &str = "table_service_connect";
const OF_REACHING: [&[&str]; 8] = [
    &["tokio_postgres", "Config"],
    &["tokio_postgres", "NoTls"],
    &["tokio_postgres", "config"],
    &["tokio_postgres", "connect"],
    &["tokio_postgres_rustls"],
    &["rustls", "ClientConfig"],
    &["rustls", "RootCertStore"],
    &["rustls_native_certs"],
];

/// The storeys of the extension, the lowest first. Each may import those below it.
const STOREYS: [&str; 4] = ["postgres", "storage", "engine", "api"];
const STOREYS_OF: &str = "table_service";

/// Everything that is wrong with the imports of a crate, one text for each finding.
#[must_use]
pub fn check(tree: &Crate) -> Vec<String> {
    let edges = edges(tree);
    let mut findings = crates(tree);
    findings.extend(servers(tree));
    if tree.name == STOREYS_OF {
        findings.extend(storeys(tree, &edges));
    }
    findings.extend(circles(tree, &edges));
    findings
}

/// One module names something that another one defines. Modules here are files: the content of an inline module belongs
/// to the file.
struct Edge<'a> {
    from: usize,
    to: usize,
    mention: &'a Mention,
}

fn edges(tree: &Crate) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for mention in &module.mentions {
            if let Some(target) = depends_on(tree, index, mention) {
                let (from, to) = (file_of(tree, index), file_of(tree, target));
                if from != to {
                    edges.push(Edge { from, to, mention });
                }
            }
        }
    }
    edges
}

/// The module of this crate that a mention depends on.
fn depends_on(tree: &Crate, from: usize, mention: &Mention) -> Option<usize> {
    if mention.kind == Kind::Reexport {
        return None;
    }
    let found = resolve(tree, from, &mention.path, 0)?;
    match mention.kind {
        Kind::Glob => Some(found.module).filter(|&module| tree.module(module).is_some_and(|m| !m.items.is_empty())),
        // A variable may have the name of a module, and a module is no value.
        Kind::Code if !found.item && mention.path.len() == 1 => None,
        // The name of a module that one is in says nothing; an item that is taken from there is a mention of its own.
        _ if !found.item && (from == found.module || ancestors(tree, from).any(|module| module == found.module)) => {
            None
        }
        _ => Some(found.module),
    }
}

struct Found {
    module: usize,
    /// Something in the module, not the module as such.
    item: bool,
}

/// Finds where the path leads from a module, through re-exports to the module that defines the item.
fn resolve(tree: &Crate, from: usize, path: &[String], depth: usize) -> Option<Found> {
    let (first, mut rest) = path.split_first()?;
    let here = tree.module(from)?;
    let mut module = match first.as_str() {
        "crate" => 0,
        "self" => from,
        "super" => here.parent?,
        name => return look_up(tree, from, name, rest, depth, true),
    };
    while let Some((step, after)) = rest.split_first() {
        if step != "super" {
            return look_up(tree, module, step, after, depth, false);
        }
        module = tree.module(module)?.parent?;
        rest = after;
    }
    Some(Found { module, item: false })
}

/// Finds `name::rest` in a module. `bare` says that nothing is before the name, so it may also be something that this
/// crate does not have.
fn look_up(tree: &Crate, module: usize, name: &str, rest: &[String], depth: usize, bare: bool) -> Option<Found> {
    let here = tree.module(module)?;
    if let Some(&child) = here.children.get(name) {
        return match rest.split_first() {
            Some((step, after)) => look_up(tree, child, step, after, depth, false),
            None => Some(Found {
                module: child,
                item: false,
            }),
        };
    }
    if here.items.contains(name) {
        return Some(Found { module, item: true });
    }
    if depth < 16 {
        if let Some(path) = here.names.get(name) {
            // `use name::thing` and no more: the name is another crate's.
            let path: Vec<String> = path.iter().chain(rest).cloned().collect();
            return (path.first().map(String::as_str) != Some(name))
                .then(|| resolve(tree, module, &path, depth + 1))?;
        }
        for glob in &here.globs {
            let path: Vec<String> = glob.iter().chain([&name.to_owned()]).chain(rest).cloned().collect();
            let found = resolve(tree, module, &path, depth + 1);
            // Only where the name is known to be there.
            if let Some(found) = found.filter(|found| known(tree, found, name)) {
                return Some(found);
            }
        }
    }
    // The items that a macro defines are in the module where the macro is called.
    (!bare).then_some(Found { module, item: true })
}

fn known(tree: &Crate, found: &Found, name: &str) -> bool {
    !found.item
        || tree
            .module(found.module)
            .is_some_and(|module| module.items.contains(name))
}

/// The module that is the file of this module.
fn file_of(tree: &Crate, index: usize) -> usize {
    match tree.module(index) {
        Some(Module {
            inline: true,
            parent: Some(parent),
            ..
        }) => file_of(tree, *parent),
        _ => index,
    }
}

fn ancestors(tree: &Crate, index: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(tree.module(index).and_then(|module| module.parent), |&module| {
        tree.module(module).and_then(|module| module.parent)
    })
}

/// `crate::filter::ast`, for messages.
fn path_of(tree: &Crate, index: usize) -> String {
    let mut names: Vec<&str> = ancestors(tree, index)
        .filter_map(|module| name_of(tree, module))
        .collect();
    names.reverse();
    names.extend(name_of(tree, index));
    if let Some(root) = names.first_mut() {
        *root = "crate";
    }
    names.join("::")
}

fn name_of(tree: &Crate, index: usize) -> Option<&str> {
    tree.module(index).map(|module| module.name.as_str())
}

/// `src/api/tables.rs:12 names crate::engine::scan::Scan`
fn place(tree: &Crate, edge: &Edge) -> String {
    let file = tree.module(edge.from).map(|module| module.file.display().to_string());
    format!(
        "{}:{} names {}",
        file.unwrap_or_default(),
        edge.mention.line,
        edge.mention.path.join("::")
    )
}

// --- Crates -------------------------------------------------------------------------------------------------------------

fn crates(tree: &Crate) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == tree.name) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for module in &tree.modules {
        for mention in module.mentions.iter().filter(|mention| !mention.test) {
            let Some(first) = mention.path.first() else { continue };
            let known = CRATES.iter().any(|(name, _)| name == first) && *first != tree.name;
            if known && !allowed.contains(&first.as_str()) && mention.kind != Kind::Code {
                findings.push(format!(
                    "{}:{} imports {}: {} may not depend on {first}; the extension and the programs use the model, and nothing else",
                    module.file.display(),
                    mention.line,
                    mention.path.join("::"),
                    tree.name,
                ));
            }
        }
    }
    findings
}

/// One crate knows how a server of PostgreSQL is reached.
fn servers(tree: &Crate) -> Vec<String> {
    if !PROGRAMS.contains(&tree.name.as_str()) {
        return Vec::new();
    }
    let code = tree.modules.iter().filter(|module| !module.test);
    let mentions = code.flat_map(|module| module.mentions.iter().map(move |mention| (module, mention)));
    let is_of_reaching = |mention: &Mention| {
        let starts_with = |path: &&[&str]| mention.path.iter().zip(*path).filter(|(a, b)| a == b).count() == path.len();
        !mention.test && OF_REACHING.iter().any(starts_with)
    };
    mentions
        .filter(|(_, mention)| is_of_reaching(mention))
        .map(|(module, mention)| {
            format!(
                "{}:{} names {}: {REACHES_SERVERS} reads the URLs of databases and connects to them, and no other crate",
                module.file.display(),
                mention.line,
                mention.path.join("::")
            )
        })
        .collect()
}

// --- Storeys ------------------------------------------------------------------------------------------------------------

fn storeys(tree: &Crate, edges: &[Edge]) -> Vec<String> {
    let rank = |name: &str| STOREYS.iter().position(|storey| *storey == name);
    let mut findings = Vec::new();
    for module in tree
        .modules
        .iter()
        .filter(|module| module.parent == Some(0) && !module.test)
    {
        if rank(&module.name).is_none() {
            findings.push(format!(
                "{}: a module of the extension belongs to one of the storeys {}",
                module.file.display(),
                STOREYS.join(", ")
            ));
        }
    }
    for edge in edges.iter().filter(|edge| !edge.mention.test) {
        let (Some(from), to) = (top(tree, edge.from), top(tree, edge.to)) else {
            continue; // the root sees everything
        };
        let Some(from_rank) = rank(&from) else { continue };
        match to {
            None => findings.push(format!(
                "{}: {from} may not import from the root of the crate, which is above all storeys",
                place(tree, edge)
            )),
            Some(to) if rank(&to).is_some_and(|to_rank| to_rank > from_rank) => findings.push(format!(
                "{} of {}: {from} may not import from {to}; imports go down, from {}",
                place(tree, edge),
                path_of(tree, edge.to),
                STOREYS.iter().rev().copied().collect::<Vec<_>>().join(" to ")
            )),
            Some(_) => {}
        }
    }
    findings
}

/// The name of the root's child that a module is, or is in; `None` for the root.
fn top(tree: &Crate, index: usize) -> Option<String> {
    let child = std::iter::once(index)
        .chain(ancestors(tree, index))
        .find(|&module| tree.module(module).is_some_and(|module| module.parent == Some(0)))?;
    name_of(tree, child).map(str::to_owned)
}

// --- Circles ------------------------------------------------------------------------------------------------------------

/// For each module with children: the circles among them and the module's own file.
fn circles(tree: &Crate, edges: &[Edge]) -> Vec<String> {
    let mut findings = Vec::new();
    for (parent, module) in tree.modules.iter().enumerate() {
        if module.inline || module.children.is_empty() {
            continue;
        }
        let mut graph: BTreeMap<usize, BTreeMap<usize, &Edge>> = BTreeMap::new();
        for edge in edges {
            // Imports of tests do not bind the code that they test.
            if edge.mention.test && !module.test {
                continue;
            }
            let (Some(from), Some(to)) = (below(tree, parent, edge.from), below(tree, parent, edge.to)) else {
                continue;
            };
            if from != to {
                graph.entry(from).or_default().entry(to).or_insert(edge);
            }
        }
        findings.extend(in_graph(tree, &graph));
    }
    findings
}

/// The child of `parent` that a module is, or is in; `parent` for itself, `None` for a module outside.
fn below(tree: &Crate, parent: usize, index: usize) -> Option<usize> {
    if index == parent {
        return Some(parent);
    }
    std::iter::once(index)
        .chain(ancestors(tree, index))
        .find(|&module| tree.module(module).is_some_and(|module| module.parent == Some(parent)))
        .map(|child| file_of(tree, child))
}

/// A shortest circle for each group of modules that depend on each other.
fn in_graph(tree: &Crate, graph: &BTreeMap<usize, BTreeMap<usize, &Edge>>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut reported: BTreeSet<usize> = BTreeSet::new();
    let mut circles: Vec<Vec<usize>> = graph
        .keys()
        .filter_map(|&start| shortest_circle(graph, start))
        .collect();
    circles.sort_by_key(Vec::len);
    for circle in circles {
        if circle.iter().any(|module| reported.contains(module)) {
            continue;
        }
        reported.extend(&circle);
        let names: Vec<String> = circle.iter().map(|&module| path_of(tree, module)).collect();
        let mut text = format!("a circle in {}: {}", tree.name, names.join(" -> "));
        if let Some(first) = names.first() {
            text.push_str(&format!(" -> {first}"));
        }
        for (position, from) in circle.iter().enumerate() {
            let to = circle.get(position + 1).or(circle.first());
            if let Some(edge) = to.and_then(|to| graph.get(from)?.get(to)) {
                text.push_str(&format!("\n    {}", place(tree, edge)));
            }
        }
        findings.push(text);
    }
    findings
}

fn shortest_circle(graph: &BTreeMap<usize, BTreeMap<usize, &Edge>>, start: usize) -> Option<Vec<usize>> {
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for &next in graph.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut circle = vec![module];
                while let Some(&before) = circle.last().and_then(|last| came_from.get(last)) {
                    circle.push(before);
                }
                circle.reverse();
                return Some(circle);
            }
            if next != start && !came_from.contains_key(&next) {
                came_from.insert(next, module);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The findings in a crate of these files.
    fn findings(name: &str, files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        check(&Crate::read(name, Path::new("lib.rs"), false, &read).unwrap())
    }

    fn assert_none(name: &str, files: &[(&str, &str)]) {
        assert_eq!(findings(name, files), Vec::<String>::new());
    }

    fn assert_one(name: &str, files: &[(&str, &str)], expected: &str) {
        assert_eq!(findings(name, files), [expected]);
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod api; mod engine; mod postgres; use api::f;");
    const API: (&str, &str) = ("api/mod.rs", "pub fn f() { crate::engine::g() }");
    const ENGINE: (&str, &str) = ("engine.rs", "use crate::postgres::h; pub fn g() { h() }");
    const POSTGRES: (&str, &str) = ("postgres.rs", "pub fn h() {}");

    #[test]
    fn storeys_import_what_is_below() {
        assert_none("table_service", &[ROOT, API, ENGINE, POSTGRES]);
    }

    #[test]
    fn an_upward_import_is_found() {
        let engine = ("engine.rs", "\nuse crate::{api::f, postgres};");
        let api = ("api/mod.rs", "pub fn f() {}");
        assert_one(
            "table_service",
            &[ROOT, api, engine, POSTGRES],
            "engine.rs:2 names crate::api::f of crate::api: engine may not import from api; imports go down, from api to engine to storage to postgres",
        );
    }

    #[test]
    fn an_upward_path_without_use_is_found_in_macros_too() {
        for body in ["super::engine::g()", "assert_eq!(crate::engine::g(), ())"] {
            let engine = ("engine.rs", "pub fn g() {}");
            let postgres = format!("pub fn h() {{ {body} }}");
            let found = findings("table_service", &[ROOT, API, engine, ("postgres.rs", &postgres)]);
            assert!(
                matches!(found.as_slice(), [one] if one.contains("postgres may not import from engine")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn an_upward_import_through_a_reexport_is_found() {
        let root = ("lib.rs", "mod api; mod engine; mod postgres; pub use api::f;");
        let api = ("api/mod.rs", "mod tables; pub use self::tables::*;");
        let tables = ("api/tables.rs", "pub fn f() {}");
        let postgres = ("postgres.rs", "use crate::f;");
        assert_one(
            "table_service",
            &[root, api, tables, ("engine.rs", ""), postgres],
            "postgres.rs:1 names crate::f of crate::api::tables: postgres may not import from api; imports go down, from api to engine to storage to postgres",
        );
    }

    #[test]
    fn nothing_imports_from_the_root() {
        let root = ("lib.rs", "mod api; mod engine; mod postgres; pub struct Root;");
        let api = ("api/mod.rs", "use crate::Root;");
        assert_one(
            "table_service",
            &[root, api, ENGINE, POSTGRES],
            "api/mod.rs:1 names crate::Root: api may not import from the root of the crate, which is above all storeys",
        );
    }

    #[test]
    fn every_module_of_the_extension_is_in_a_storey() {
        let root = ("lib.rs", "mod api; mod engine; mod postgres; mod other;");
        assert_one(
            "table_service",
            &[root, API, ENGINE, POSTGRES, ("other.rs", "")],
            "other.rs: a module of the extension belongs to one of the storeys postgres, storage, engine, api",
        );
    }

    #[test]
    fn tests_see_all_storeys() {
        let root = (
            "lib.rs",
            "mod api; mod engine; mod postgres; #[cfg(any(test, feature = \"pg_test\"))] mod tests;",
        );
        let tests = ("tests.rs", "use crate::engine::g;");
        let postgres = (
            "postgres.rs",
            "pub fn h() {} #[cfg(test)] mod tests { use super::*; use crate::api::f; }",
        );
        assert_none("table_service", &[root, API, ENGINE, postgres, tests]);
    }

    #[test]
    fn the_model_imports_neither_of_its_users() {
        assert_one(
            "table_service_model",
            &[("lib.rs", "use table_service_gateway::config;")],
            "lib.rs:1 imports table_service_gateway::config: table_service_model may not depend on table_service_gateway; the extension and the programs use the model, and nothing else",
        );
        assert_none(
            "table_service_gateway",
            &[(
                "lib.rs",
                "use table_service_model::Error; use table_service_explorer::Explorer;",
            )],
        );
    }

    #[test]
    fn the_explorer_knows_no_gateway() {
        assert_one(
            "table_service_explorer",
            &[("lib.rs", "use table_service_gateway::database::Node;")],
            "lib.rs:1 imports table_service_gateway::database::Node: table_service_explorer may not depend on table_service_gateway; the extension and the programs use the model, and nothing else",
        );
    }

    const AB: (&str, &str) = ("lib.rs", "mod a; mod b;");

    #[test]
    fn no_program_reaches_a_server_by_itself() {
        for code in [
            "use tokio_postgres::{Client, Config};",
            "fn f(url: &str) { let config: tokio_postgres::Config = url.parse(); }",
            "use tokio_postgres::config::Host;",
            "use rustls::ClientConfig;",
        ] {
            let found = findings("table_service_copy", &[("lib.rs", code)]);
            assert!(
                matches!(found.as_slice(), [one] if one.starts_with("lib.rs:1 names ")),
                "{found:?}"
            );
            assert_none("table_service_connect", &[("lib.rs", code)]);
        }
        assert_none(
            "table_service_gateway",
            &[(
                "lib.rs",
                "use tokio_postgres::{Client, Row}; use rustls::ServerConfig; struct Config;",
            )],
        );
    }

    #[test]
    fn a_circle_of_siblings_is_found() {
        assert_one(
            "any",
            &[
                AB,
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "pub struct B(super::a::A);"),
            ],
            "a circle in any: crate::a -> crate::b -> crate::a\n    a.rs:1 names crate::b::B\n    b.rs:1 names super::a::A",
        );
    }

    #[test]
    fn a_circle_of_three_is_found_once() {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let found = findings(
            "any",
            &[
                root,
                ("a.rs", "use crate::b;"),
                ("b.rs", "use crate::c;"),
                ("c.rs", "use crate::a;"),
            ],
        );
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("a circle in any: crate::a -> crate::b -> crate::c -> crate::a")),
            "{found:?}"
        );
    }

    #[test]
    fn a_circle_between_directories_is_found_wherever_in_them_it_is() {
        let a = ("a/mod.rs", "mod inner;");
        let inner = ("a/inner.rs", "use crate::b::B; pub struct Inner;");
        let b = ("b.rs", "use crate::a::inner::Inner; pub struct B;");
        let found = findings("any", &[AB, a, inner, b]);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("a circle in any: crate::a -> crate::b -> crate::a")),
            "{found:?}"
        );
    }

    #[test]
    fn a_circle_within_a_directory_is_found() {
        let files = [
            ("lib.rs", "mod filter;"),
            ("filter.rs", "mod ast; mod parse;"),
            ("filter/ast.rs", "use super::parse::parse;"),
            ("filter/parse.rs", "use super::ast; pub fn parse() { ast::new() }"),
        ];
        let found = findings("any", &files);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("a circle in any: crate::filter::ast -> crate::filter::parse -> ")),
            "{found:?}"
        );
    }

    #[test]
    fn a_parent_that_only_reexports_is_in_no_circle() {
        let child = ("a/inner.rs", "use super::Shared; pub struct Inner;");
        let a = ("a/mod.rs", "mod inner; pub use self::inner::Inner; pub struct Shared;");
        assert_none("any", &[("lib.rs", "mod a;"), a, child]);
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
        let child = ("a/inner.rs", "use super::Shared; pub struct Inner;");
        for parent in [
            "mod inner; pub use self::inner::Inner; pub struct Shared(Inner);",
            "mod inner; use self::inner::Inner; pub struct Shared;",
            "mod inner; pub struct Shared(inner::Inner);",
        ] {
            let found = findings("any", &[("lib.rs", "mod a;"), ("a/mod.rs", parent), child]);
            assert!(
                matches!(found.as_slice(), [one] if one.starts_with("a circle in any: crate::a -> crate::a::inner -> crate::a")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_child_may_use_its_sibling_by_the_parents_reexport() {
        let a = (
            "a/mod.rs",
            "mod one; mod two; pub use self::one::One; pub fn f() { two::g() }",
        );
        let one = ("a/one.rs", "pub struct One;");
        let two = ("a/two.rs", "use super::One; use crate::a; pub fn g() -> a::One {}");
        assert_none("any", &[("lib.rs", "mod a;"), a, one, two]);
    }

    #[test]
    fn tests_of_modules_do_not_bind_the_modules() {
        let a = ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }");
        let b = (
            "b.rs",
            "use crate::a::A; pub struct B; #[cfg(test)] use crate::a::Other;",
        );
        assert_none("any", &[AB, a, b]);
    }

    #[test]
    fn a_circle_among_tests_is_found() {
        let root = ("lib.rs", "#[cfg(test)] mod tests;");
        let tests = ("tests/mod.rs", "mod a; mod b;");
        let found = findings(
            "any",
            &[
                root,
                tests,
                ("tests/a.rs", "use super::b::B; pub struct A;"),
                ("tests/b.rs", "use super::a::A; pub struct B;"),
            ],
        );
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("a circle in any: crate::tests::a -> crate::tests::b")),
            "{found:?}"
        );
    }

    #[test]
    fn a_variable_is_no_module() {
        let a = (
            "a/mod.rs",
            "mod error; pub struct Shared; fn f(error: u8) -> u8 { error }",
        );
        assert_none("any", &[("lib.rs", "mod a;"), a, ("a/error.rs", "use super::Shared;")]);
    }
}
