//! The checks, on this repository.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use architecture_tests::{ceilings, docstrings, imports, references, storeys, workspace};

/// Fails with all findings at once.
fn no(findings: &[String]) {
    assert!(findings.is_empty(), "\n\n{}\n", findings.join("\n\n"));
}

#[test]
fn imports_go_down_and_never_in_a_circle() {
    let findings: Vec<String> = workspace::crates().unwrap().iter().flat_map(imports::check).collect();
    no(&findings);
}

#[test]
fn each_storey_of_the_extension_has_what_belongs_to_it() {
    let mut findings = Vec::new();
    let mut checked = 0;
    for (path, text) in workspace::text_files().unwrap() {
        // The tests in PostgreSQL are functions of their own.
        let is_test = path == Path::new("src/tests.rs") || path.starts_with("src/tests");
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        if is_code && path.starts_with("src") && !is_test {
            findings.extend(storeys::check(&path, &text).unwrap());
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} files");
    no(&findings);
}

#[test]
fn all_statements_of_the_gateway_are_in_one_file() {
    let files = workspace::text_files().unwrap();
    let code = files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    no(&code
        .flat_map(|(path, text)| storeys::check_statements(path, text).unwrap())
        .collect::<Vec<_>>());
}

#[test]
fn the_programs_open_files_in_one_place() {
    let files = workspace::text_files().unwrap();
    let code = files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    no(&code
        .flat_map(|(path, text)| storeys::check_opens(path, text))
        .collect::<Vec<_>>());
}

#[test]
fn docstrings_of_functions_begin_alike() {
    let files = workspace::text_files().unwrap();
    let code = files.iter().filter(|(path, _)| {
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        is_code && (path.starts_with("src") || path.starts_with("crates"))
    });
    no(&code
        .flat_map(|(path, text)| docstrings::check(path, text))
        .collect::<Vec<_>>());
}

/// `ACCEPT=1` writes today's numbers as the ceilings.
#[test]
fn no_number_is_above_its_ceiling() {
    let path = workspace::root().join("tests/architecture/ceilings.txt");
    let numbers = ceilings::count(&workspace::text_files().unwrap()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var("ACCEPT").is_ok_and(|accept| accept == "1") {
        let head: String = text
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        let lines: String = numbers
            .iter()
            .map(|(name, number)| format!("{name} {number}\n"))
            .collect();
        std::fs::write(&path, head + &lines).unwrap();
        return;
    }
    no(&ceilings::differences(&ceilings::parse(&text).unwrap(), &numbers));
}

#[test]
fn what_the_map_the_rules_and_the_threat_model_point_to_exists() {
    let root = workspace::root();
    let read = |path: &Path| {
        let path = root.join(path);
        std::fs::read_to_string(&path)
            .ok()
            .or_else(|| path.is_dir().then(String::new))
    };
    for name in ["ARCHITECTURE.md", "docs/semantics.md", "docs/security.md"] {
        let document = std::fs::read_to_string(root.join(name)).unwrap();
        no(&references::paths(name, &document, &read).unwrap());
    }
}

/// The walk of a query in the map is the walk in the code.
#[test]
fn the_walk_of_a_query_is_the_one_in_the_map() {
    let root = workspace::root();
    let document = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
    // The calling files import these for other queries, or for their types alone.
    const OTHERS: [&str; 11] = [
        "src/api/results.rs",
        "src/engine/deadline.rs",
        "src/engine/explain.rs",
        "src/engine/fan_out.rs",
        "src/engine/inlining.rs",
        "src/engine/page.rs",
        "src/storage/direct",
        "src/storage/inlining.rs",
        "src/storage/name.rs",
        "src/storage/planner.rs",
        "src/storage/row.rs",
    ];
    no(&references::walk(&document, &OTHERS, &read).unwrap());
}

/// The threat model's table has no paths: they are in the list behind it.
#[test]
fn everything_that_is_forbidden_is_shown_by_a_test() {
    let document = std::fs::read_to_string(workspace::root().join("docs/security.md")).unwrap();
    no(&references::unshown(&document).unwrap());
}

#[test]
fn cited_sections_of_the_semantics_reference_exist() {
    let reference = workspace::root().join("docs/semantics.md");
    let headings = references::headings(&std::fs::read_to_string(reference).unwrap());
    let mut findings = Vec::new();
    for (path, text) in workspace::text_files().unwrap() {
        if path.starts_with("tests/architecture") {
            continue; // its tests cite what does not exist
        }
        for (line, section) in references::cited_sections(&text).unwrap() {
            if !headings.contains(&section) {
                findings.push(format!(
                    "{}:{line}: docs/semantics.md has no section {section}",
                    path.display()
                ));
            }
        }
    }
    no(&findings);
}

#[test]
fn every_section_of_rules_says_where_it_is_implemented_and_proved() {
    let document = std::fs::read_to_string(workspace::root().join("docs/semantics.md")).unwrap();
    no(&references::unproved(&document).unwrap());
}

/// The facts that PGXN needs of a release (https://pgxn.org/spec) are there and true.
#[test]
fn the_description_for_pgxn_is_true() {
    let root = workspace::root();
    let meta = std::fs::read_to_string(root.join("META.json")).unwrap();
    let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    let control = std::fs::read_to_string(root.join("table_service.control")).unwrap();
    let comment = control.lines().find_map(|line| line.strip_prefix("comment = '"));
    let comment = comment.and_then(|rest| rest.strip_suffix('\'')).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let extension = "/provides/table_service";
    for (member, value) in [
        ("/name".to_owned(), "table_service"),
        ("/abstract".to_owned(), comment),
        ("/version".to_owned(), version),
        ("/license".to_owned(), "postgresql"),
        ("/meta-spec/version".to_owned(), "1.0.0"),
        (format!("{extension}/abstract"), comment),
        (format!("{extension}/version"), version),
    ] {
        assert_eq!(
            meta.pointer(&member).and_then(|there| there.as_str()),
            Some(value),
            "{member}"
        );
    }
    assert!(meta["maintainer"].as_str().is_some_and(|name| !name.is_empty()));
    let file = |member: &str| meta.pointer(&format!("{extension}/{member}")).cloned();
    let directories = meta["no_index"]["directory"].as_array().cloned().unwrap();
    for named in [file("file"), file("docfile")]
        .into_iter()
        .map(Option::unwrap)
        .chain(directories)
    {
        assert!(
            root.join(named.as_str().unwrap()).exists(),
            "META.json: there is no {named}"
        );
    }
    // The majors that the extension can be built for.
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let majors: Vec<u32> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("pg")?.split(' ').next()?.parse().ok())
        .collect();
    let (first, last) = (majors.iter().min().unwrap(), majors.iter().max().unwrap());
    assert_eq!(
        meta["prereqs"]["runtime"]["requires"]["PostgreSQL"],
        format!(">= {first}.0.0, < {}.0.0", last + 1)
    );
}

/// A page or a comment names only tasks of `cargo xtask` and targets of `make` that are there. The changelog tells of former ones.
#[test]
fn commands_that_texts_name_exist() {
    let root = workspace::root();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let program = read("crates/xtask/src/main.rs");
    let (_, variants) = program.split_once("enum Task {\n").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let variants = variants.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    // As clap writes them.
    let name = |variant: &str| {
        let mut name = String::new();
        for c in variant.chars().take_while(char::is_ascii_alphanumeric) {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    };
    let mut tasks: BTreeSet<String> = variants.map(name).collect();
    tasks.insert("help".to_owned());
    let makefile = read("Makefile");
    let targets = makefile.lines().filter_map(|line| line.split_once(':'));
    let targets: BTreeSet<String> = targets.map(|(name, _)| name.to_owned()).collect();
    assert!(
        tasks.contains("test") && targets.contains("test"),
        "{tasks:?} {targets:?}"
    );
    let mut findings = Vec::new();
    for (path, text) in workspace::text_files().unwrap() {
        if path.starts_with("tests/architecture") || path == Path::new("CHANGELOG.md") {
            continue;
        }
        for (line, command) in references::commands(&text, &tasks, &targets).unwrap() {
            findings.push(format!("{}:{line}: there is no {command}", path.display()));
        }
    }
    no(&findings);
}

/// An upgrade looks at the schema before it does anything, as an installation does.
#[test]
fn upgrade_scripts_begin_with_the_same_check() {
    let directory = workspace::root().join("sql");
    let check = std::fs::read_to_string(directory.join("upgrade.sql")).unwrap();
    let mut scripts = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("table_service--") {
            continue;
        }
        scripts += 1;
        let script = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = script.split_once("\\quit\n\n").unwrap();
        assert!(
            head.lines()
                .all(|line| line.starts_with("-- ") || line.starts_with("\\echo ") || line.is_empty()),
            "{name}: only comments come before the check"
        );
        assert!(
            rest.starts_with(&check),
            "{name}: it does not begin with sql/upgrade.sql"
        );
    }
    assert!(scripts >= 2, "there are {scripts} upgrade scripts");
}

/// A patch with a changed context would only fail in `cargo xtask mutants`, which runs for hours.
#[test]
fn patches_of_the_mutations_apply() {
    let root = workspace::root();
    let mut findings = Vec::new();
    let mut checked = 0;
    for (path, _) in workspace::text_files().unwrap() {
        if path.starts_with("tests") && path.extension().is_some_and(|extension| extension == "patch") {
            let output = Command::new("git")
                .arg("apply")
                .arg("--check")
                .arg(&path)
                .current_dir(&root)
                .output()
                .unwrap();
            checked += 1;
            if !output.status.success() {
                findings.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
        }
    }
    assert!(checked > 0, "no patches found");
    no(&findings);
}

/// A second version of a crate is also compiled, in everybody's first start. Other crates decide on these; `cargo tree -i` says which.
#[test]
fn no_dependency_comes_twice_but_for_these() {
    const TWICE: [&str; 21] = [
        "base64",
        "bit-vec",
        "block-buffer",
        "const-oid",
        "crypto-common",
        "digest",
        "getrandom",
        "hashbrown",
        "md-5",
        "nom",
        "r-efi",
        "rand",
        "rand_core",
        "shlex",
        "syn",
        "synstructure",
        "toml",
        "toml_datetime",
        "wasi",
        "windows-sys",
        "winnow",
    ];
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap();
    let mut names: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    names.sort_unstable();
    let mut twice: Vec<&str> = names
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].trim_matches('"'))
        .collect();
    twice.dedup();
    assert_eq!(twice, TWICE);
}
