//! Raw HTML between the paragraphs of Markdown: its elements are blocks, with their tags. The content of a line decides
//! whether it is text, not its rendering.

use super::split_lines;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Raw HTML that starts with these tags is code.
const CODE: [&str; 4] = ["<script", "<style", "<pre", "<textarea"];

/// Elements that hold others, each of which is a block.
const CONTAINERS: [&str; 16] = [
    "dl", "ul", "ol", "table", "thead", "tbody", "tfoot", "div", "section", "article", "details", "summary", "figure",
    "blockquote", "center", "main",
];

/// The blocks of these lines: elements with text, and lines of only markup, which are rules.
pub(super) fn blocks(source: &str, lines: ByteSpan) -> Vec<Block> {
    let start = lines.of(source).trim_start_matches([' ', '>']);
    if CODE.iter().any(|code| start.get(..code.len()).is_some_and(|start| start.eq_ignore_ascii_case(code))) {
        let texts = split_lines(source, lines).filter(|line| !line.trimmed(source).is_empty()).enumerate();
        return texts
            .map(|(line, span)| Block { span, kind: BlockKind::Code, continues: line > 0, level: 0, ends: 0 })
            .collect();
    }
    let mut blocks: Vec<Block> = Vec::new();
    let pieces = pieces(source, lines);
    let is_one_line = |end: usize, start: usize| !source[end..start].contains('\n');
    // Where tags start that stand in the line of the next piece.
    let mut tags: Option<usize> = None;
    for (place, Piece { block, has_text }) in pieces.iter().enumerate() {
        let Block { span, .. } = *block;
        let start = tags.take().unwrap_or(span.start);
        let last = blocks.last_mut().filter(|last| last.kind != BlockKind::Rule && is_one_line(last.span.end, start));
        let is_end = span.of(source).starts_with("</");
        let goes_on = || pieces.get(place + 1).is_some_and(|next| is_one_line(span.end, next.block.span.start));
        match last {
            _ if *has_text => blocks.push(Block { span: ByteSpan { start, ..span }, ..*block }),
            Some(last) if is_end => last.span.end = span.end,
            _ if goes_on() => tags = Some(start),
            Some(last) => last.span.end = span.end,
            None => {
                let texts = split_lines(source, ByteSpan { start, ..span });
                let rule = |span| Block { span, kind: BlockKind::Rule, continues: false, level: 0, ends: 0 };
                blocks.extend(texts.filter(|line| !line.trimmed(source).is_empty()).map(rule));
            }
        }
    }
    blocks
}

/// A part of raw HTML between two tags of blocks.
struct Piece {
    block: Block,
    has_text: bool,
}

/// The element that text belongs to.
#[derive(Clone, Copy)]
struct Open {
    kind: BlockKind,
    level: u8,
    /// Whether a block has begun it.
    is_begun: bool,
}

fn pieces(source: &str, lines: ByteSpan) -> Vec<Piece> {
    let outside = Open { kind: BlockKind::Prose, level: 0, is_begun: false };
    let (mut pieces, mut open) = (Vec::new(), outside);
    let (mut start, mut at, mut has_text) = (lines.start, lines.start, false);
    let (mut lists, mut has_rows, mut row_has_data) = (0_u8, false, false);
    let mut is_line_start = true;
    while at < lines.end {
        let rest = &source[at..lines.end];
        if !rest.starts_with('<') {
            let end = rest.find(['<', '\n']).map_or(rest.len(), |end| end.max(1));
            // A `>` at the start of a line is a quote mark.
            let text = &rest[..end];
            let text = if is_line_start { text.trim_start_matches([' ', '\t', '>', '\n']) } else { text };
            has_text |= !text.trim().is_empty();
            is_line_start = rest[..end].ends_with('\n') || is_line_start && text.is_empty();
            at += end;
            continue;
        }
        is_line_start = false;
        let close = if rest.starts_with("<!--") { "-->" } else { ">" };
        let end = at + rest.find(close).map_or(rest.len(), |end| end + close.len());
        let (name, is_end) = tag_name(rest);
        let in_row = matches!(open.kind, BlockKind::Row | BlockKind::HeaderRow);
        let role = role(&name).filter(|role| !in_row || matches!(role, Role::Row | Role::Container));
        row_has_data |= in_row && name == "td";
        if let Some(role) = role {
            let cut = if is_end { end } else { at };
            let is_header = in_row && !has_rows && !row_has_data && source[start..cut].contains("<th");
            let Open { kind, level, is_begun } = open;
            let kind = if is_header { BlockKind::HeaderRow } else { kind };
            let continues = if in_row { has_rows } else { is_begun };
            let mut push = |span: ByteSpan, has_text| {
                let span = span.trimmed(source);
                if !span.is_empty() {
                    pieces.push(Piece { block: Block { span, kind, continues, level, ends: 0 }, has_text });
                }
            };
            // The tag of a container stands alone.
            let alone = ByteSpan { start: at, end };
            if role == Role::Container {
                push(ByteSpan { start, end: at }, has_text);
                push(alone, false);
                start = end;
            } else {
                push(ByteSpan { start, end: cut }, has_text);
                start = cut;
            }
            open.is_begun |= has_text && matches!(kind, BlockKind::Item | BlockKind::Term);
            has_rows |= in_row && has_text;
            has_text = false;
            let is_list = matches!(name.as_str(), "ul" | "ol" | "dl");
            lists = if is_end { lists.saturating_sub(is_list.into()) } else { lists.saturating_add(is_list.into()) };
            has_rows &= name != "table";
            row_has_data &= role != Role::Row;
            open = match role {
                Role::Paragraph if kind == BlockKind::Item => open,
                Role::Element(kind, level) if !is_end => {
                    let level = if kind == BlockKind::Heading { level } else { lists.max(1) };
                    Open { kind, level, is_begun: false }
                }
                Role::Row if !is_end => Open { kind: BlockKind::Row, level: 0, is_begun: false },
                _ => Open { level: lists, ..outside },
            };
        }
        at = end;
    }
    let Open { kind, level, is_begun } = open;
    let span = ByteSpan { start, end: lines.end }.trimmed(source);
    pieces.push(Piece { block: Block { span, kind, continues: is_begun, level, ends: 0 }, has_text });
    pieces
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// With the level of a heading.
    Element(BlockKind, u8),
    Row,
    Paragraph,
    Container,
}

fn role(name: &str) -> Option<Role> {
    Some(match name {
        "dt" => Role::Element(BlockKind::Term, 0),
        "dd" | "li" => Role::Element(BlockKind::Item, 0),
        "caption" | "figcaption" => Role::Element(BlockKind::Caption, 0),
        "tr" => Role::Row,
        "p" => Role::Paragraph,
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => Role::Element(BlockKind::Heading, name.as_bytes()[1] - b'0'),
        _ if CONTAINERS.contains(&name) => Role::Container,
        _ => return None,
    })
}

/// The name of the tag that a text starts with, in lower case, and whether it is an end tag.
fn tag_name(text: &str) -> (String, bool) {
    let inside = &text[1..];
    let name = inside.strip_prefix('/').unwrap_or(inside);
    let end = name.bytes().take_while(u8::is_ascii_alphanumeric).count();
    (name[..end].to_ascii_lowercase(), name.len() < inside.len())
}
