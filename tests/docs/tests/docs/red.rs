//! The test of the documentation detects errors.

use docs_tests::{Page, Report, pages, project, run};

fn run_text(text: &str) -> Report {
    run(&Page::parse("page.md", text).unwrap())
}

/// The problems of a page, one text each.
fn problems(text: &str) -> Vec<String> {
    run_text(text).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn an_altered_output_of_a_real_page_is_red() {
    let text = std::fs::read_to_string(project().join("README.md")).unwrap();
    let altered = text.replacen("donh@contoso.com\",\"FirstName", "donh@example.com\",\"FirstName", 1);
    assert_ne!(
        text, altered,
        "README.md shows the employee no more: choose another output to alter"
    );
    let report = run(&Page::parse("README.md", &altered).unwrap());
    let [problem] = report.problems.as_slice() else {
        panic!("{:?}", report.problems);
    };
    let place = text.find("donh@contoso.com\",\"FirstName").unwrap();
    assert_eq!(problem.line, text[..place].matches('\n').count() + 1);
    assert!(
        problem
            .to_string()
            .contains("\n- 00001   | {\"Age\":34,\"Email\":\"donh@example.com\""),
        "{problem}"
    );
    assert!(
        problem
            .to_string()
            .contains("\n+ 00001   | {\"Age\":34,\"Email\":\"donh@contoso.com\""),
        "{problem}"
    );
    assert_eq!(report.accepted, text, "accepting restores the page");
}

#[test]
fn results_notices_and_errors_arrive_in_their_order() {
    let page = "```sql
SELECT 1 AS a;
DO $$ BEGIN RAISE NOTICE 'between'; END $$;
SELECT 1/0;
SELECT 2 AS b;
```
```output
 a
---
 1
(1 row)

NOTICE:  between
ERROR:  division by zero
 b
---
 2
(1 row)
```
";
    assert_eq!(problems(page), Vec::<String>::new());
}

#[test]
fn an_error_in_a_block_without_output_is_red() {
    let found = problems("```sql\nSELECT 1;\nSELECT 1/0;\n```\n\n```sql\nSELECT 2;\n```\n");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("page.md:2: this block, which has no output block, fails"),
        "{}",
        found[0]
    );
    assert!(found[0].ends_with("ERROR:  division by zero"), "{}", found[0]);
    assert!(!problems("```sql\n\\no_such_command\n```\n").is_empty());
}

#[test]
fn an_error_instead_of_the_output_cannot_hide() {
    let found = problems("```sql\nSELECT 1/0;\n```\n```output\n(1 row)\n```\n");
    assert!(found[0].starts_with("page.md:5: the output differs"), "{}", found[0]);
}

#[test]
fn a_block_that_does_not_run_at_all_is_red() {
    let found = problems("```sql\nSELECT 1;\n```\n```output\n```\n");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn variables_and_sessions_live_as_long_as_the_page() {
    let page = "```sql
CREATE TABLE t (a int);
SELECT 42 AS answer \\gset
```
```sql session=other
BEGIN;
INSERT INTO t VALUES (1);
```
```sql
SELECT :'answer' AS answer, count(*) FROM t;
```
```output
 answer | count
--------+-------
 42     |     0
(1 row)
```
```sql session=other
COMMIT;
```
```sql
SELECT count(*) FROM t;
```
```output
 count
-------
     1
(1 row)
```
";
    assert_eq!(problems(page), Vec::<String>::new());
}

#[test]
fn a_session_may_end_if_the_page_shows_it() {
    let page = "```sql session=worker
SELECT pg_terminate_backend(pg_backend_pid());
```
```output
```
```sql session=worker
SELECT 'again' AS word;
```
```output
 word
-------
 again
(1 row)
```
";
    // psql's own words for it differ from version to version.
    let found = problems(page);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("+FATAL:  terminating connection due to administrator command"),
        "{}",
        found[0]
    );
}

#[test]
fn all_pages_are_found() {
    let pages = pages();
    for page in ["README.md", "docs/guide/index-entities.md"] {
        assert!(pages.iter().any(|path| path.to_str() == Some(page)), "{pages:?}");
    }
}
