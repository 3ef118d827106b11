//! Whether a table has data, or only lays out the page.

/// Characters of the longest cell of a data table.
const LONGEST_CELL: usize = 400;

/// The same with a header or caption.
const LONGEST_NAMED_CELL: usize = 1000;

/// The same without those, in a table whose cells have paragraphs or lists.
const LONGEST_BLOCK_CELL: usize = 150;

/// An open table, as far as it is read.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct OpenTable {
    /// The index of its start event.
    pub(super) event: usize,
    is_presentation: bool,
    /// Whether its rows are in `thead` now.
    pub(super) in_head: bool,
    /// Whether it has a header or a caption.
    pub(super) is_named: bool,
    /// Whether a cell has paragraphs, lists and the like.
    pub(super) has_blocks: bool,
    /// Whether a cell has a part of a page: a heading, rule or section.
    pub(super) has_sections: bool,
    pub(super) has_table: bool,
    rows: usize,
    /// The cells of the row, and of the longest row.
    cells: usize,
    columns: usize,
    /// The characters of the cell, and of the longest cell.
    chars: usize,
    longest: usize,
}

impl OpenTable {
    pub(super) fn new(event: usize, is_presentation: bool) -> Self {
        Self { event, is_presentation, ..Self::default() }
    }

    pub(super) fn start_row(&mut self) {
        self.rows += 1;
        self.cells = 0;
    }

    pub(super) fn start_cell(&mut self) {
        self.cells += 1;
        self.columns = self.columns.max(self.cells);
        self.chars = 0;
    }

    /// Counts characters of the open cell.
    pub(super) fn add(&mut self, chars: usize) {
        self.chars += chars;
        self.longest = self.longest.max(self.chars);
    }

    pub(super) const fn is_layout(&self) -> bool {
        let is_grid = self.rows > 1 && self.columns > 1 && self.longest <= LONGEST_BLOCK_CELL;
        let is_page_like = self.has_sections || self.has_table || self.has_blocks && !is_grid;
        let limit = if self.is_named { LONGEST_NAMED_CELL } else { LONGEST_CELL };
        self.is_presentation || self.longest > limit || is_page_like && !self.is_named
    }
}
