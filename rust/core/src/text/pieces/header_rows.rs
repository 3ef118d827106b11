//! The headers of tables that are drawn in text.

use super::marks::is_separator_row;
use crate::text::page::{Block, BlockKind};

/// Finds the headers of tables with rules: the row above the first rule, if that is the only one below a row, or of
/// `=`.
pub(super) fn mark_header_rows(text: &str, blocks: &mut [Block]) {
    let is_rule = |block: &Block| is_separator_row(block.span.of(text));
    for table in blocks.chunk_by_mut(|_, next| next.kind == BlockKind::Row && next.continues) {
        let Some(header) = table.iter().position(|row| !is_rule(row)) else { continue };
        let Some(rule) = table.get(header + 1).filter(|row| is_rule(row)) else { continue };
        let is_only = !table[header + 2..].iter().rev().skip(1).any(is_rule);
        if table[header].kind == BlockKind::Row && (is_only || rule.span.of(text).contains(['=', '═', '╪', '━']))
        {
            table[header].kind = BlockKind::HeaderRow;
        }
    }
}
