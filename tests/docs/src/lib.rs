//! Documentation that runs.
//!
//! The `sql` blocks of a page run in psql, in order, in a database of their own. The output of a block is compared with
//! the `output` block behind it. [`Page`] finds the blocks, [`run`] runs them, and [`compare`](mod@compare) decides which
//! outputs are the same. The rules for writers are in `docs/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod compare;
mod page;
pub mod pictures;
mod psql;
pub mod reference;
mod run;

use std::path::{Path, PathBuf};

pub use page::{Block, Fence, Page, fences};
pub use run::{Problem, Report, run};

/// The root of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The paths of all pages, relative to the project: README.md and all below docs/.
pub fn pages() -> Vec<PathBuf> {
    let project = project();
    let mut pages = vec![PathBuf::from("README.md")];
    let mut directories = vec![project.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(&project).unwrap().to_owned());
            }
        }
    }
    pages.sort();
    pages
}
