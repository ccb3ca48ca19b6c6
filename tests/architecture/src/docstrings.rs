//! Docstrings of functions have one dialect: "Returns whether …", and not "Whether …".

use std::path::Path;

/// Other beginnings of the first sentence, each with the right one.
const OTHERS: [(&str, &str); 5] = [
    ("Whether ", "Returns whether"),
    ("Return ", "Returns"),
    ("Get ", "Returns"),
    ("Gets ", "Returns"),
    ("Create ", "Creates"),
];

/// Every docstring of a function in this file that begins otherwise, one text for each finding.
#[must_use]
pub fn check(path: &Path, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut findings = Vec::new();
    let mut earlier = "";
    for (number, line) in lines.iter().enumerate() {
        let is_first = !std::mem::replace(&mut earlier, line).starts_with("///");
        let Some(doc) = line.strip_prefix("/// ").filter(|_| is_first) else {
            continue;
        };
        let Some((_, instead)) = OTHERS.iter().find(|(other, _)| doc.starts_with(other)) else {
            continue;
        };
        let item = lines
            .iter()
            .skip(number)
            .find(|line| !line.starts_with("///") && !line.starts_with("#["));
        if item.is_some_and(|item| is_function(item)) {
            findings.push(format!(
                "{}:{}: the docstring of a function says \"{instead} …\"",
                path.display(),
                number + 1
            ));
        }
    }
    findings
}

fn is_function(item: &str) -> bool {
    let words = item.split_whitespace();
    let mut words = words.skip_while(|word| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word));
    words.next() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_docstrings_of_functions_are_looked_at() {
        let text = "/// Whether it is.\nfield: bool,\n\n/// Returns whether it is.\nfn a() -> bool {}\n\n\
            /// Returns it.\n/// Whether it is new.\nfn b() {}\n\n    /// Whether it is.\n    #[must_use]\n    pub(super) const fn c() -> bool {}\n";
        let found = check(Path::new("a.rs"), text);
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("a.rs:11: ")),
            "{found:?}"
        );
    }
}
