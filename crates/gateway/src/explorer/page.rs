//! The files of the page. They are a part of the program.

use http::{Response, StatusCode};

use super::answer::{Body, full, with};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The path behind `/explorer`, the content type, and the text.
const FILES: [(&str, &str, &str); 14] = [
    ("", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/api.js", SCRIPT, include_str!("page/api.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/place.js", SCRIPT, include_str!("page/place.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/entities.js", SCRIPT, include_str!("page/entities.js")),
    ("/entity.js", SCRIPT, include_str!("page/entity.js")),
    ("/bulk.js", SCRIPT, include_str!("page/bulk.js")),
    ("/files.js", SCRIPT, include_str!("page/files.js")),
    ("/design.js", SCRIPT, include_str!("page/design.js")),
    ("/plots.js", SCRIPT, include_str!("page/plots.js")),
];

/// The file with a path behind `/explorer`.
pub fn file(path: &str) -> Option<Response<Body>> {
    let (_, content_type, text) = FILES.iter().find(|(name, ..)| *name == path)?;
    Some(with(StatusCode::OK, content_type, full(*text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What entities hold becomes text nodes. The policy of the page forbids the rest too, where browsers know it.
    #[test]
    fn no_script_makes_html_or_code_of_a_text() {
        for (path, _, text) in FILES {
            for way in [
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
                assert!(!text.contains(way), "{path}: {way}");
            }
        }
    }
}
