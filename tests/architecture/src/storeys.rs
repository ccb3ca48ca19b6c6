//! What stands in one storey of the extension only: SQL functions in `src/api`, and `unsafe` below it.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

const API: &str = "src/api";

/// Everything that stands in the wrong storey in this file, one text for each finding.
///
/// # Errors
/// The file is no Rust.
pub fn check(path: &Path, text: &str) -> Result<Vec<String>, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let (word, rule) = if path.starts_with(API) {
        (
            "unsafe",
            "src/api has no `unsafe`: what needs it is a safe type or function of src/postgres",
        )
    } else {
        ("pg_extern", "SQL functions stand in src/api")
    };
    let mut findings = Vec::new();
    find(tokens, word, &mut |line| {
        findings.push(format!("{}:{line}: {rule}", path.display()))
    });
    Ok(findings)
}

/// Calls `found` with the line of each identifier that is this word.
fn find(tokens: TokenStream, word: &str, found: &mut impl FnMut(usize)) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => find(group.stream(), word, found),
            TokenTree::Ident(ident) if ident == word => found(ident.span().start().line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(Path::new(path), text).unwrap()
    }

    #[test]
    fn unsafe_is_found_in_the_api() {
        let text = "/// No unsafe.\nfn f() { g(|| { unsafe { h() } }, \"unsafe\") }";
        assert_eq!(findings("src/engine/a.rs", text), [""; 0]);
        let found = findings("src/api/bag/a.rs", text);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("src/api/bag/a.rs:2: ")),
            "{found:?}"
        );
    }

    #[test]
    fn sql_functions_are_found_elsewhere() {
        let text = "use a;\n#[pg_extern(immutable)]\nfn f() {}";
        assert_eq!(findings("src/api/a.rs", text), [""; 0]);
        let found = findings("src/postgres/types/a.rs", text);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("src/postgres/types/a.rs:2: ")),
            "{found:?}"
        );
    }
}
