//! Code that may be in one storey or one file of the extension only: SQL functions in `src/api`, `unsafe` below
//! `src/engine`, and each way to tables that the caller has not named.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// A word that is permitted in some files only.
struct Rule {
    word: &'static str,
    is_permitted: fn(&Path) -> bool,
    text: &'static str,
}

const RULES: [Rule; 6] = [
    Rule {
        word: "unsafe",
        is_permitted: |path| !path.starts_with("src/api") && !path.starts_with("src/engine"),
        text: "src/api and src/engine have no `unsafe`: what needs it is a safe type or function of src/storage or src/postgres",
    },
    Rule {
        word: "pg_extern",
        is_permitted: |path| path.starts_with("src/api"),
        text: "SQL functions stand in src/api",
    },
    Rule {
        word: "SetUserIdAndSecContext",
        is_permitted: |path| path == Path::new("src/postgres/visit.rs"),
        text: "src/postgres/visit.rs is the one entry to tables of others: nothing else takes the rights of a role",
    },
    Rule {
        word: "PgTryBuilder",
        is_permitted: |path| path == Path::new("src/postgres/raised.rs"),
        text: "errors are caught by `caught` of src/postgres/raised.rs alone, which gives light-weight locks back first",
    },
    Rule {
        word: "eval_const_expressions",
        is_permitted: |_| false,
        text: "what others have stored in an expression is read as data: it is not evaluated",
    },
    Rule {
        word: "in_catalog",
        is_permitted: |path| {
            [
                "src/storage/table.rs",
                "src/engine/change_feed.rs",
                "src/engine/distribution.rs",
                "src/api/expiry.rs",
            ]
            .iter()
            .any(|permitted| path == Path::new(permitted))
        },
        text: "a table that the caller has not named is visited through src/postgres/visit.rs; add the file here if it does, or if it runs \
               nothing that is stored with the table",
    },
];

/// The crates of the gateway with their statements in one file, and that file.
const STATEMENTS: [(&str, &str); 2] = [
    ("crates/explorer/src", "crates/explorer/src/calls.rs"),
    ("crates/gateway/src", "crates/gateway/src/database/statements.rs"),
];

/// The beginnings of SQL. A method of HTTP has no space behind it, or a path.
const BEGINNINGS: [&str; 8] = [
    "BEGIN",
    "COMMIT",
    "INSERT INTO ",
    "ROLLBACK",
    "SELECT ",
    "SET ",
    "UPDATE ",
    "WITH ",
];

/// Returns the statements that are in another file of the gateway than the file for statements.
pub fn check_statements(path: &Path, text: &str) -> Result<Vec<String>, String> {
    let Some((_, file)) = STATEMENTS
        .iter()
        .find(|(of, file)| path.starts_with(of) && path != Path::new(file))
    else {
        return Ok(Vec::new());
    };
    let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let mut findings = Vec::new();
    find_literals(tokens, &mut |line, literal| {
        let text = literal.trim_start_matches(['r', '#']).strip_prefix('"');
        if text.is_some_and(|text| BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))) {
            findings.push(format!("{}:{line}: statements stand in {file}", path.display()));
        }
    });
    Ok(findings)
}

/// Calls `found` with the line and the text of each literal.
fn find_literals(tokens: TokenStream, found: &mut impl FnMut(usize, &str)) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => find_literals(group.stream(), found),
            TokenTree::Literal(literal) => found(literal.span().start().line, &literal.to_string()),
            _ => {}
        }
    }
}

/// The calls that open a file by its name.
const OPENS: [&str; 9] = [
    "File::create",
    "File::open(",
    "File::options(",
    "OpenOptions",
    "fs::copy(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "from_pem_file(",
];

/// Where files are opened: by the one rule, and those of the system and of the emulator's server, which nobody names.
const OPENERS: [&str; 4] = [
    "crates/command_line/src/files.rs",
    "crates/emulator/src/installation.rs",
    "crates/emulator/src/postgres.rs",
    "crates/emulator/src/server_user.rs",
];

/// Returns the places of a program that open a file and are not the one that does it for all programs.
pub fn check_opens(path: &Path, text: &str) -> Vec<String> {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_of_programs = matches!(parts.as_slice(), ["crates", of, "src", ..] if !["model", "xtask"].contains(of));
    let is_test = parts.iter().any(|part| ["tests", "tests.rs"].contains(part));
    if !is_of_programs || is_test || OPENERS.iter().any(|opener| path == Path::new(opener)) {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let opens = |line: &str| OPENS.iter().any(|open| line.contains(open));
    let lines = code.lines().enumerate().filter(|(_, line)| opens(line));
    lines
        .map(|(index, _)| {
            let line = index + 1;
            format!(
                "{}:{line}: files are opened by crates/command_line/src/files.rs alone, which looks whose they are",
                path.display()
            )
        })
        .collect()
}

/// Returns every word that is in the wrong place in this file, one text for each finding.
pub fn check(path: &Path, text: &str) -> Result<Vec<String>, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let mut findings = Vec::new();
    for rule in RULES.iter().filter(|rule| !(rule.is_permitted)(path)) {
        find(tokens.clone(), rule.word, &mut |line| {
            findings.push(format!("{}:{line}: {}", path.display(), rule.text))
        });
    }
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
        assert_eq!(findings("src/storage/a.rs", text), [""; 0]);
        assert_eq!(findings("src/engine/a.rs", text).len(), 1);
        let found = findings("src/api/bag/a.rs", text);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("src/api/bag/a.rs:2: ")),
            "{found:?}"
        );
    }

    #[test]
    fn other_ways_to_tables_of_others_are_found() {
        let text = "fn f() { pg_sys::SetUserIdAndSecContext(a, b) }";
        assert_eq!(findings("src/postgres/visit.rs", text), [""; 0]);
        assert_eq!(findings("src/postgres/spi.rs", text).len(), 1);
        assert_eq!(
            findings("src/postgres/visit.rs", "fn f() { eval_const_expressions() }").len(),
            1
        );
    }

    #[test]
    fn statements_are_found_elsewhere() {
        let code = "/// SELECT\nfn f() { ask(\"SELECT 1\"); send(\"DELETE\", \"a SELECT\"); run(r#\"BEGIN\"#) }";
        let found = |path| check_statements(Path::new(path), code).unwrap();
        assert_eq!(found("crates/gateway/src/database/statements.rs"), [""; 0]);
        assert_eq!(found("crates/copy/src/run.rs"), [""; 0]);
        let elsewhere = found("crates/gateway/src/database/node.rs");
        let line =
            "crates/gateway/src/database/node.rs:2: statements stand in crates/gateway/src/database/statements.rs";
        assert_eq!(elsewhere, [line, line]);
    }

    #[test]
    fn other_ways_to_open_a_file_are_found() {
        let text = "fn f() {\n    File::open(path)\n}\n#[cfg(test)]\nmod tests { use std::fs::OpenOptions; }";
        let found = |path: &str| check_opens(Path::new(path), text);
        assert_eq!(found("crates/copy/src/read.rs").len(), 1);
        assert!(found("crates/copy/src/read.rs")[0].starts_with("crates/copy/src/read.rs:2: "));
        for path in [
            OPENERS[0],
            "crates/copy/tests/copy/main.rs",
            "crates/gateway/src/config/tests.rs",
            "crates/xtask/src/main.rs",
        ] {
            assert!(found(path).is_empty(), "{path}");
        }
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
