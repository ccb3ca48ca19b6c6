//! The files of the page. They are a part of the program.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
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

/// The path behind `/explorer`, the content type, and the text.
const FILES: &[(&str, &str, &str)] = &[
    ("", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/grid.css", CSS, include_str!("page/grid.css")),
    ("/explain.css", CSS, include_str!("page/explain.css")),
    ("/entity.css", CSS, include_str!("page/entity.css")),
    ("/load.css", CSS, include_str!("page/load.css")),
    ("/home.css", CSS, include_str!("page/home.css")),
    ("/import.css", CSS, include_str!("page/import.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/api.js", SCRIPT, include_str!("page/api.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/route.js", SCRIPT, include_str!("page/route.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/icons.js", SCRIPT, include_str!("page/icons.js")),
    ("/menu.js", SCRIPT, include_str!("page/menu.js")),
    ("/panel.js", SCRIPT, include_str!("page/panel.js")),
    ("/memory.js", SCRIPT, include_str!("page/memory.js")),
    ("/columns.js", SCRIPT, include_str!("page/columns.js")),
    ("/grid.js", SCRIPT, include_str!("page/grid.js")),
    ("/filters.js", SCRIPT, include_str!("page/filters.js")),
    ("/filter.js", SCRIPT, include_str!("page/filter.js")),
    ("/explain.js", SCRIPT, include_str!("page/explain.js")),
    ("/entities.js", SCRIPT, include_str!("page/entities.js")),
    ("/entity.js", SCRIPT, include_str!("page/entity.js")),
    ("/bulk.js", SCRIPT, include_str!("page/bulk.js")),
    ("/home.js", SCRIPT, include_str!("page/home.js")),
    ("/import.js", SCRIPT, include_str!("page/import.js")),
    ("/partitions.js", SCRIPT, include_str!("page/partitions.js")),
    ("/sample.js", SCRIPT, include_str!("page/sample.js")),
    ("/values.js", SCRIPT, include_str!("page/values.js")),
    ("/design.js", SCRIPT, include_str!("page/design.js")),
    ("/plots.js", SCRIPT, include_str!("page/plots.js")),
];

/// The files as they are sent: by their path.
static PACKED: LazyLock<HashMap<&str, Packed>> =
    LazyLock::new(|| FILES.iter().map(|(path, _, text)| (*path, Packed::new(text))).collect());

/// A file with what names its content, and in the form that browsers unpack.
struct Packed {
    tag: String,
    gzip: Option<Bytes>,
}

impl Packed {
    fn new(text: &str) -> Packed {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
        Packed {
            tag: format!("\"{:016x}\"", hasher.finish()),
            gzip: written.ok().map(Bytes::from),
        }
    }
}

/// Returns the file with a path behind `/explorer`. A browser keeps it, and asks whether it is still the same.
pub fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let (name, content_type, text) = FILES.iter().find(|(name, ..)| *name == path)?;
    let packed = PACKED.get(name)?;
    let says = |header: HeaderName, word: &str| {
        let value = headers.get(header).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|one| one.trim() == word))
    };
    let mut response = match &packed.gzip {
        _ if says(IF_NONE_MATCH, &packed.tag) => with(StatusCode::NOT_MODIFIED, content_type, full("")),
        Some(gzip) if says(ACCEPT_ENCODING, "gzip") => {
            let mut response = with(StatusCode::OK, content_type, full(gzip.clone()));
            let encoding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(CONTENT_ENCODING, encoding);
            response
        }
        _ => with(StatusCode::OK, content_type, full(*text)),
    };
    let own = response.headers_mut();
    own.insert(ETAG, HeaderValue::from_str(&packed.tag).ok()?);
    own.insert(VARY, HeaderValue::from_static("accept-encoding"));
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::calls::{CALLS, EXPORT, PREVIEW};

    /// Else a browser would ask for one script after it has read another.
    #[test]
    fn the_page_names_all_files_that_it_needs() {
        let page = FILES
            .iter()
            .find(|(path, ..)| path.is_empty())
            .map(|(.., text)| *text)
            .unwrap();
        for (path, ..) in FILES.iter().filter(|(path, ..)| !path.is_empty()) {
            assert!(page.contains(&format!("\"/explorer{path}\"")), "{path}");
        }
    }

    #[test]
    fn the_scripts_make_the_calls_that_there_are() {
        let mut called = BTreeSet::new();
        for (path, _, text) in FILES {
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
        for (path, _, text) in FILES {
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
