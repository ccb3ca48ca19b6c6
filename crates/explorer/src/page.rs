//! The files of the page. They are a part of the program, and a browser gets its scripts as two, and its styles as one.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{Response, StatusCode};

use crate::answer::{Body, full, with};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const PAGE: &str = include_str!("page/index.html");
const ICON: &str = include_str!("page/icon.svg");
const STYLES: &[&str] = &[
    include_str!("page/style.css"),
    include_str!("page/grid.css"),
    include_str!("page/explain.css"),
    include_str!("page/entity.css"),
    include_str!("page/load.css"),
    include_str!("page/home.css"),
    include_str!("page/import.css"),
];
/// The modules of these names, each with its text.
macro_rules! modules {
    ($($name:literal)*) => {
        &[$((concat!($name, ".js"), include_str!(concat!("page/", $name, ".js")))),*]
    };
}

/// The modules that begin the calls for which the page waits. They are so small that the calls begin while a browser still reads the others.
const EARLY: &[(&str, &str)] = modules! {
    "api" "route" "memory" "early"
};
/// The other modules. Each stands behind those that it imports.
const MAIN: &[(&str, &str)] = modules! {
    "dom" "icons" "menu" "panel" "tables" "columns" "filters" "colours" "filter" "explain" "values" "grid"
    "entity" "cell" "bulk" "import" "entities" "plots" "partitions" "design" "sample" "home" "main"
};

/// What a page of another version gets for its script. A browser asks for the page itself at each load, and that names the right one.
const STALE: &str = "location.reload();\n";

/// A file that is always asked for under the same name: a browser keeps it, and asks whether it is still the same.
const ASKED: &str = "no-cache";
/// A file whose name says what is in it: a browser that has it does not ask.
const KEPT: &str = "max-age=31536000, immutable";

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let style = File::named("style", "css", CSS, STYLES.concat());
    let early = File::named(
        "early",
        "js",
        SCRIPT,
        script("'use strict';\nconst modules = {};", EARLY),
    );
    let main = File::named("main", "js", SCRIPT, script("", MAIN));
    let page = PAGE
        .replace("/style.css", &style.path)
        .replace("/early.js", &early.path)
        .replace("/main.js", &main.path);
    vec![
        File::new(String::new(), HTML, page, ASKED),
        main,
        early,
        style,
        File::new("/icon.svg".to_owned(), "image/svg+xml", ICON.to_owned(), ASKED),
    ]
});

/// A file as it is sent, also in the form that browsers unpack.
struct File {
    /// Behind `/explorer`.
    path: String,
    content_type: &'static str,
    text: String,
    gzip: Option<Bytes>,
    tag: String,
    caching: &'static str,
}

impl File {
    fn new(path: String, content_type: &'static str, text: String, caching: &'static str) -> File {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
        File {
            path,
            content_type,
            gzip: written.ok().map(Bytes::from),
            tag: format!("\"{}\"", hash(&text)),
            text,
            caching,
        }
    }

    /// Makes a file whose name changes with its text.
    fn named(name: &str, extension: &str, content_type: &'static str, text: String) -> File {
        let path = format!("/{name}.{}.{extension}", hash(&text));
        File::new(path, content_type, text, KEPT)
    }
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns modules as one script. Each is a function that runs once, and what it exports stands in `modules`, which the early script makes.
fn script(before: &str, modules: &[(&str, &str)]) -> String {
    let mut script = format!("{before}\n");
    for (name, text) in modules {
        let mut exported = Vec::new();
        let _ = writeln!(script, "modules['./{name}'] = (() => {{");
        for line in text.lines() {
            let imported = line
                .strip_prefix("import {")
                .and_then(|rest| rest.split_once("} from "));
            if let Some((names, from)) = imported {
                let _ = writeln!(
                    script,
                    "const {{{}}} = modules[{}];",
                    names.replace(" as ", ": "),
                    from.trim_end_matches(';')
                );
                continue;
            }
            let declared = line.strip_prefix("export ");
            let is_keyword = |word: &&str| ["async", "class", "const", "function"].contains(word);
            let mut words = declared.unwrap_or_default().split([' ', '(']);
            exported.extend(words.find(|word| !word.is_empty() && !is_keyword(word)));
            let _ = writeln!(script, "{}", declared.unwrap_or(line));
        }
        let _ = writeln!(script, "return {{ {} }};\n}})();", exported.join(", "));
    }
    script
}

/// Makes the files, so that the first browser need not wait for that.
pub fn prepare() {
    LazyLock::force(&FILES);
}

/// Returns the path of the main script. A page that has another one is of another version.
pub fn script_path() -> String {
    let script = FILES.iter().find(|file| file.content_type == SCRIPT);
    script.map(|file| format!("/explorer{}", file.path)).unwrap_or_default()
}

/// Returns the file with a path behind `/explorer`.
pub fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        let is_stale = ["/main.", "/early."].iter().any(|name| path.starts_with(name)) && path.ends_with(".js");
        return is_stale.then(|| with(StatusCode::OK, SCRIPT, full(STALE)));
    };
    let says = |header: HeaderName, word: &str| {
        let value = headers.get(header).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|one| one.trim() == word))
    };
    let mut response = match &file.gzip {
        _ if says(IF_NONE_MATCH, &file.tag) => with(StatusCode::NOT_MODIFIED, file.content_type, full("")),
        Some(gzip) if says(ACCEPT_ENCODING, "gzip") => {
            let mut response = with(StatusCode::OK, file.content_type, full(gzip.clone()));
            let encoding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(CONTENT_ENCODING, encoding);
            response
        }
        _ => with(StatusCode::OK, file.content_type, full(file.text.as_str())),
    };
    let own = response.headers_mut();
    own.insert(ETAG, HeaderValue::from_str(&file.tag).ok()?);
    own.insert(VARY, HeaderValue::from_static("accept-encoding"));
    own.insert(CACHE_CONTROL, HeaderValue::from_static(file.caching));
    Some(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::calls::{CALLS, EXPORT, PREVIEW};

    fn modules() -> impl Iterator<Item = (&'static str, &'static str)> {
        EARLY.iter().chain(MAIN).copied()
    }

    #[test]
    fn a_module_stands_behind_those_that_it_imports() {
        let mut before = BTreeSet::new();
        for (name, text) in modules() {
            for (_, from) in text.lines().filter_map(|line| line.split_once("} from './")) {
                let from = from.trim_end_matches("';");
                assert!(before.contains(from), "{name} stands before {from}, which it imports");
            }
            before.insert(name);
        }
        // Nothing else is imported or exported.
        for script in [script("", EARLY), script("", MAIN)] {
            let begins = |line: &&str| line.starts_with("import ") || line.starts_with("export ");
            assert_eq!(script.lines().find(begins), None);
        }
    }

    #[test]
    fn the_page_names_files_that_are_there() {
        let page = FILES.iter().find(|file| file.content_type == HTML).unwrap();
        for file in FILES.iter().filter(|file| file.content_type != HTML) {
            assert_eq!(
                page.text.matches(&format!("\"/explorer{}\"", file.path)).count(),
                1,
                "{}",
                file.path
            );
        }
        assert_eq!(page.text.matches("\"/explorer/").count(), 4);
    }

    #[test]
    fn the_scripts_make_the_calls_that_there_are() {
        let mut called = BTreeSet::new();
        for (path, text) in modules() {
            for method in [".call(", ".step(", ".change("] {
                let calls = text.match_indices(method).map(|(at, _)| &text[at + method.len()..]);
                // The methods themselves pass a name on.
                for call in calls.filter(|call| !call.starts_with("name, parameters")) {
                    let name = call.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
                    let (name, _) = name.unwrap_or_else(|| panic!("{path}: {method} has no literal: {call:.60}"));
                    called.insert(name);
                }
            }
        }
        let known = CALLS.iter().map(|call| call.name).chain([EXPORT, PREVIEW]);
        assert_eq!(called, known.collect());
    }

    /// Values of entities become text nodes. The policy of the page forbids the rest too, in browsers that know it.
    #[test]
    fn no_script_makes_html_or_code_of_a_text() {
        for (path, text) in modules() {
            for name in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "setHTML",
                "createContextualFragment",
                "DOMParser",
                "srcdoc",
                "document.write",
                "eval(",
                "Function(",
                "javascript:",
            ] {
                assert!(!text.contains(name), "{path}: {name}");
            }
        }
    }
}
