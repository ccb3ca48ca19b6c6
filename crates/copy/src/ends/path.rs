//! The syntax of paths of files and directories.

use std::path::Path;

use super::files::Format;

/// Returns whether a text is the path of a file or a directory, and may be shown. A mistyped connection string or a key
/// is not.
///
/// A name that exists is a path. Else it has no character that is usual in secrets and URLs, and begins with `/`, `./`
/// or `../`, or ends as files do that the program reads and writes, or is made of plain words.
pub fn is_path(text: &str) -> bool {
    if std::fs::symlink_metadata(text).is_ok() {
        return true;
    }
    let is_harmless = |c: char| !c.is_control() && !"=;?&\"'`@:%<>|\\*{}".contains(c);
    if !text.chars().all(is_harmless) {
        return false;
    }
    let is_rooted = ["/", "./", "../"].iter().any(|begin| text.starts_with(begin));
    is_rooted && !text.starts_with("//")
        || Format::of_path(Path::new(text)).is_some()
        || text.trim_end_matches('/').split('/').all(is_plain)
}

/// Returns whether a part of a path is made of words and numbers, such as `backup` or `orders-2026`. Keys mix them.
fn is_plain(part: &str) -> bool {
    part.len() <= 64
        && part.split(['-', '_', '.', ' ']).all(|word| {
            let all = |is: fn(&u8) -> bool| word.bytes().all(|byte| is(&byte));
            let capital = word.strip_prefix(|c: char| c.is_ascii_uppercase());
            !word.is_empty()
                && (all(u8::is_ascii_digit)
                    || all(u8::is_ascii_uppercase)
                    || capital.unwrap_or(word).bytes().all(|byte| byte.is_ascii_lowercase()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_look_like_paths() {
        for path in [
            "backup",
            "Orders",
            "orders-2026-11-25",
            "out/today/",
            "Orders.jsonl.zst",
            "dir1/o2.csv",
            "./Backup1",
            "../x",
            "/tmp/.tmpAb3/out",
            ".",
            "/",
        ] {
            assert!(is_path(path), "{path}");
        }
        for other in [
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
            "/K1SZFPTOtr/KBHBeksoGMGw==",
            "5f4dcc3b5aa765d61d8327deb882cf99",
            "c2VjcmV0a2V5",
            "//u:p@h/d",
            "postgres//u:p@h/d",
            "C:\\a;b",
            "",
        ] {
            assert!(!is_path(other), "{other}");
        }
    }
}
