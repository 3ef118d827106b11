//! The columns of a data table: where the cells of a row stand.

/// Columns in which a cell of several rows keeps its place.
const MAX_COLUMNS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Columns {
    /// The column of the last cell, and of the next one.
    last: usize,
    next: usize,
    /// For each column the rows below, or this one if it is not reached, that a cell from above goes on into.
    below: Vec<u8>,
}

impl Columns {
    /// Starts a cell. Returns the columns from the last cell, or from the start of the row.
    pub(super) fn start_cell(&mut self, columns: u8, rows: u8) -> usize {
        self.skip_covered();
        let end = self.next + usize::from(columns.max(1));
        if rows > 1 && end <= MAX_COLUMNS {
            self.below.resize(self.below.len().max(end), 0);
            self.below[self.next..end].fill(rows - 1);
        }
        let columns = self.next - self.last;
        (self.last, self.next) = (self.next, end);
        columns
    }

    /// Moves over columns of cells from rows above.
    fn skip_covered(&mut self) {
        while let Some(rows @ 1..) = self.below.get_mut(self.next) {
            *rows -= 1;
            self.next += 1;
        }
    }

    pub(super) fn end_row(&mut self) {
        for rows in self.below.iter_mut().skip(self.next) {
            *rows = rows.saturating_sub(1);
        }
        (self.last, self.next) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_several_rows_and_columns_keep_their_place() {
        let mut columns = Columns::default();
        let mut row = |cells: &[(u8, u8)]| -> Vec<usize> {
            let places = cells.iter().map(|(columns_of_cell, rows)| columns.start_cell(*columns_of_cell, *rows));
            let places = places.collect();
            columns.end_row();
            places
        };
        assert_eq!(row(&[(1, 3), (2, 1), (1, 2)]), [0, 1, 2]);
        assert_eq!(row(&[(1, 1), (1, 1), (1, 1)]), [1, 1, 2]);
        assert_eq!(row(&[(1, 1)]), [1]);
        assert_eq!(row(&[(1, 1), (1, 1)]), [0, 1]);
    }
}
