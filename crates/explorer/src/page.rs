//! The files of the page. They are a part of the program. A browser gets its scripts as they are, and its styles as one.

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

/// Files of the page, each with its name.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("page/", $name)))),*]
    };
}

const PAGE: &str = include_str!("page/index.html");
const ICON: &str = include_str!("page/icon.svg");
const STYLES: &[(&str, &str)] = files! {
    "style.css" "grid.css" "explain.css" "entity.css" "load.css" "home.css" "import.css"
};
/// The modules of the first view, as browsers read them. The first one is a script, which begins the first calls.
const FIRST: &[(&str, &str)] = files! {
    "early.js" "api.js" "memory.js" "route.js" "main.js" "dom.js" "entities.js" "grid.js" "filter.js" "explain.js" "columns.js" "filters.js"
    "colours.js" "icons.js" "menu.js" "panel.js" "tables.js"
};
/// The modules that are loaded when they are needed, or later.
const LATER: &[(&str, &str)] = files! {
    "bulk.js" "cell.js" "conflict.js" "design.js" "editor.js" "edits.js" "entity.js" "home.js" "import.js" "keys.js" "partitions.js"
    "plots.js" "sample.js" "values.js"
};
/// The place in `index.html` for links that let a browser ask for all modules of the first view at once.
const PRELOADS: &str = "<!-- preloads -->";

/// The script for a page of another version. A browser loads the page itself anew, and that names the right one.
const STALE: &str = "location.reload();\n";

/// A file that is always asked for under the same name: a browser keeps it, and asks whether it is still the same.
const ASKED: &str = "no-cache";
/// A file in a directory with the hash of all files as its name: a browser that has it does not ask.
const KEPT: &str = "max-age=31536000, immutable";

fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIRST.iter().chain(LATER).copied()
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let style: String = STYLES.iter().map(|(_, text)| *text).collect();
    let texts: String = scripts().map(|(_, text)| text).collect();
    // The modules import each other by their names, so one directory has all files of a version.
    let directory = format!("/{}", hash(&[PAGE, ICON, &style, &texts].concat()));
    let kept = |name: &str, content_type, text: &str| {
        File::new(format!("{directory}/{name}"), content_type, text.to_owned(), KEPT)
    };
    let preload = |name| format!("<link rel=\"modulepreload\" href=\"/explorer/{name}\">");
    let is_named = |name| PAGE.contains(&format!("\"/explorer/{name}\""));
    let others = FIRST.iter().filter(|(name, _)| !is_named(name));
    let preloads: Vec<String> = others.map(|(name, _)| preload(name)).collect();
    let page = PAGE.replace(PRELOADS, &preloads.join("\n  "));
    let page = page.replace("\"/explorer/", &format!("\"/explorer{directory}/"));
    let mut files = vec![
        File::new(String::new(), HTML, page, ASKED),
        kept("style.css", CSS, &style),
        kept("icon.svg", "image/svg+xml", ICON),
    ];
    files.extend(scripts().map(|(name, text)| kept(name, SCRIPT, text)));
    files
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
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Makes the files, so that the first browser need not wait for that.
pub fn prepare() {
    LazyLock::force(&FILES);
}

/// Returns the path of the main script. A page that has another one is of another version.
pub fn script_path() -> String {
    let script = FILES.iter().find(|file| file.path.ends_with("/main.js"));
    script.map(|file| format!("/explorer{}", file.path)).unwrap_or_default()
}

/// Returns the file with a path behind `/explorer`.
pub fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return path.ends_with(".js").then(|| with(StatusCode::OK, SCRIPT, full(STALE)));
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

    #[test]
    fn the_page_names_files_that_are_there() {
        let page = FILES.iter().find(|file| file.content_type == HTML).unwrap();
        for file in FILES.iter().filter(|file| file.content_type != HTML) {
            let is_later = LATER.iter().any(|(name, _)| file.path.ends_with(&format!("/{name}")));
            let named = page.text.matches(&format!("\"/explorer{}\"", file.path)).count();
            assert_eq!(named, usize::from(!is_later), "{}", file.path);
        }
        assert_eq!(page.text.matches("\"/explorer/").count(), FILES.len() - 1 - LATER.len());
    }

    #[test]
    fn the_scripts_make_the_calls_that_there_are() {
        let mut called = BTreeSet::new();
        for (path, text) in scripts() {
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

    /// Values of entities become text nodes. In browsers that know it, the policy of the page also forbids the rest.
    #[test]
    fn no_script_makes_html_or_code_of_a_text() {
        for (path, text) in scripts() {
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
