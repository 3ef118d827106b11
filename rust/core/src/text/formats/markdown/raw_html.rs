//! Raw HTML between the paragraphs of Markdown, line by line. The content of a line decides, not its rendering.

use super::split_lines;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Raw HTML that starts with these tags is code.
const CODE: [&str; 4] = ["<script", "<style", "<pre", "<textarea"];

/// The blocks of these lines: lines of only markup are rules, adjacent lines with text are one block.
pub(super) fn blocks(source: &str, lines: ByteSpan) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let start = lines.of(source).trim_start_matches([' ', '>']);
    let is_code = CODE.iter().any(|code| start.get(..code.len()).is_some_and(|start| start.eq_ignore_ascii_case(code)));
    let mut markup = Markup::None;
    for line in split_lines(source, lines) {
        let has_text = markup.read(line.of(source));
        if line.trimmed(source).is_empty() {
            continue;
        }
        if is_code {
            blocks.push(Block { span: line, kind: BlockKind::Code, continues: !blocks.is_empty(), level: 0 });
        } else if !has_text {
            blocks.push(Block { span: line, kind: BlockKind::Rule, continues: false, level: 0 });
        } else if let Some(last) = blocks.last_mut().filter(|last| last.kind == BlockKind::Prose) {
            last.span.end = line.end;
        } else {
            blocks.push(Block { span: line, kind: BlockKind::Prose, continues: false, level: 0 });
        }
    }
    blocks
}

/// The markup that is open at the end of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Markup {
    None,
    Tag,
    Comment,
}

impl Markup {
    /// Advances to the end of a line; returns whether it has text outside markup.
    fn read(&mut self, line: &str) -> bool {
        // A `>` outside a tag is a quote mark.
        let mut rest = if *self == Self::None { line.trim_start_matches([' ', '\t', '>']) } else { line };
        let mut has_text = false;
        loop {
            let end = match self {
                Self::None => {
                    let text = &rest[..rest.find('<').unwrap_or(rest.len())];
                    has_text |= !text.trim().is_empty();
                    rest = &rest[text.len()..];
                    if rest.is_empty() {
                        return has_text;
                    }
                    *self = if rest.starts_with("<!--") { Self::Comment } else { Self::Tag };
                    continue;
                }
                Self::Tag => ">",
                Self::Comment => "-->",
            };
            let Some(at) = rest.find(end) else { return has_text };
            rest = &rest[at + end.len()..];
            *self = Self::None;
        }
    }
}
