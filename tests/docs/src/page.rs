//! The blocks of a page.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A page of the documentation.
pub struct Page {
    pub name: String,
    pub text: String,
    pub blocks: Vec<Block>,
}

/// A block of SQL.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first statement, from 1.
    pub line: usize,
    /// The session that runs it; empty for the page's own.
    pub session: String,
    pub sql: String,
    pub output: Option<Output>,
}

/// The output block of a block of SQL.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The line of its first line, from 1.
    pub line: usize,
    pub text: String,
    /// Where its content is in the page.
    range: Range<usize>,
}

impl Page {
    /// # Errors
    /// The fault of the page, and its line.
    pub fn parse(name: &str, text: &str) -> Result<Page, String> {
        let mut blocks: Vec<Block> = Vec::new();
        // Where the latest SQL block ended, while it may still get an output block.
        let mut open_until = None;
        for fence in fences(text) {
            let line = line_of(text, fence.content.start);
            let error = |what: &str| Err(format!("{name}:{line}: {what}"));
            let content = text[fence.content.clone()].to_owned();
            let mut words = fence.info.split_whitespace();
            match words.next() {
                Some("sql") => {
                    if fence.indented {
                        return error("a block of SQL must not be indented");
                    }
                    let session = match (words.next(), words.next()) {
                        (None, _) => "",
                        (Some(word), None) if word.starts_with("session=") => &word["session=".len()..],
                        _ => return error("after sql there may only be session=<name>"),
                    };
                    if !is_complete(&content) {
                        return error("the last statement has no end: it would not run");
                    }
                    blocks.push(Block {
                        line,
                        session: session.to_owned(),
                        sql: content,
                        output: None,
                    });
                    open_until = Some(fence.end);
                }
                Some("output") => {
                    let follows = open_until
                        .take()
                        .filter(|&end| text[end..fence.start].trim().is_empty());
                    match (follows, blocks.last_mut()) {
                        (Some(_), Some(block)) => {
                            block.output = Some(Output {
                                line,
                                text: content,
                                range: fence.content,
                            });
                        }
                        _ => return error("this output does not follow a block of SQL"),
                    }
                }
                _ => {}
            }
        }
        Ok(Page {
            name: name.to_owned(),
            text: text.to_owned(),
            blocks,
        })
    }

    /// The number of the line at an offset, from 1.
    pub fn line(&self, offset: usize) -> usize {
        line_of(&self.text, offset)
    }

    /// The page with other outputs, by the indexes of their blocks.
    pub fn with_outputs(&self, outputs: &[(usize, String)]) -> String {
        let mut text = self.text.clone();
        for (index, output) in outputs.iter().rev() {
            if let Some(old) = &self.blocks[*index].output {
                text.replace_range(old.range.clone(), output);
            }
        }
        text
    }
}

/// A fenced block of code.
pub struct Fence {
    pub info: String,
    /// Where it begins and ends, fences included.
    start: usize,
    pub end: usize,
    pub content: Range<usize>,
    indented: bool,
}

/// All fenced blocks of a page.
pub fn fences(text: &str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut info = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(words))) => info = Some(words.to_string()),
            Event::End(TagEnd::CodeBlock) => {
                if let Some(info) = info.take() {
                    let whole = &text[range.clone()];
                    let start = range.start + whole.find('\n').map_or(whole.len(), |end| end + 1);
                    let end = range.start + whole.trim_end().rfind('\n').map_or(whole.len(), |end| end + 1);
                    found.push(Fence {
                        info,
                        start: range.start,
                        end: range.end,
                        content: start..end.max(start),
                        indented: !text[..range.start].is_empty() && !text[..range.start].ends_with('\n'),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// The number of the line at an offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Whether the last statement ends: psql keeps one without a semicolon for later.
fn is_complete(sql: &str) -> bool {
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("--");
    match sql.lines().rev().find(code) {
        Some(line) => line.trim_end().ends_with(';') || line.contains('\\') || line.contains("; --"),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n\n```sql\nSELECT 1;\n```\n\n```output\n 1\n```\n\nText.\n\n```sql session=two\nSELECT 2;\n```\n\n```json\n{}\n```\n";

    #[test]
    fn blocks_know_their_lines_sessions_and_outputs() {
        let page = Page::parse("p.md", PAGE).unwrap();
        assert_eq!(page.blocks.len(), 2);
        let [first, second] = page.blocks.as_slice() else {
            panic!()
        };
        assert_eq!(
            (first.line, first.sql.as_str(), first.session.as_str()),
            (4, "SELECT 1;\n", "")
        );
        let output = first.output.as_ref().unwrap();
        assert_eq!((output.line, output.text.as_str()), (8, " 1\n"));
        assert_eq!((second.line, second.session.as_str()), (14, "two"));
        assert_eq!(second.output, None);
    }

    #[test]
    fn outputs_are_rewritten_in_place() {
        let page = Page::parse("p.md", PAGE).unwrap();
        let new = page.with_outputs(&[(0, " 17\n(1 row)\n".to_owned())]);
        assert_eq!(new, PAGE.replace(" 1\n```", " 17\n(1 row)\n```"));
    }

    #[test]
    fn an_empty_output_block_can_be_filled() {
        let page = Page::parse("p.md", "```sql\nSELECT 1;\n```\n```output\n```\n").unwrap();
        assert_eq!(page.blocks[0].output.as_ref().unwrap().text, "");
        assert_eq!(
            page.with_outputs(&[(0, "x\n".to_owned())]),
            "```sql\nSELECT 1;\n```\n```output\nx\n```\n"
        );
    }

    #[test]
    fn what_would_be_skipped_silently_is_an_error() {
        for (page, error) in [
            ("text\n\n```output\n1\n```\n", "p.md:4: this output does not follow"),
            (
                "```sql\nSELECT 1;\n```\nwords\n```output\n1\n```\n",
                "p.md:6: this output",
            ),
            ("```sql\nSELECT 1\n```\n", "p.md:2: the last statement has no end"),
            (
                "```sql and more\nSELECT 1;\n```\n",
                "p.md:2: after sql there may only be",
            ),
            (
                "- item\n\n  ```sql\n  SELECT 1;\n  ```\n",
                "p.md:4: a block of SQL must not be indented",
            ),
        ] {
            match Page::parse("p.md", page) {
                Err(message) => assert!(message.starts_with(error), "{message}"),
                Ok(_) => panic!("{page} is taken"),
            }
        }
    }
}
