//! The ends of a copy: services, databases, files and archives, each as a source, as a target or as both.

mod archive;
mod backoff;
pub mod databases;
mod end;
pub mod files;
mod options;
pub mod output;
mod path;
mod secret;
pub mod services;
mod source;
mod target;

pub use archive::ArchiveSource;
pub use end::End;
pub use options::{Options, Reach, Work};
pub use source::Source;
pub use target::Target;
