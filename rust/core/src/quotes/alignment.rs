//! Which letters of a quote stand for which of a page: the edits between both.

use super::letters::Letter;
use super::search::End;

/// A letter of the quote and a letter of the page, as indices; without one of them, the other one is an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) quote: Option<usize>,
    pub(super) page: Option<usize>,
}

/// The best alignment of the whole quote with letters of the page that end at a place; in order.
///
/// It fills a band of the matrix of edit distances, from the place's end to its start.
pub(super) fn align(page: &[Letter], quote: &[Letter], end: End) -> Vec<Pair> {
    let (rows, edits) = (quote.len(), end.edits);
    let width = 2 * edits + 1;
    let ours = |row: usize| quote[rows - row].char;
    let theirs = |column: usize| page[end.at - column].char;
    // The cell (row, column) is at row * width + column + edits - row; `FAR` is outside of the band.
    let mut costs = vec![FAR; (rows + 1) * width];
    let cell = |row: usize, column: usize| -> Option<usize> {
        let place = (column + edits).checked_sub(row)?;
        (place < width && column <= end.at).then_some(row * width + place)
    };
    let known = |costs: &[u16], row: Option<usize>, column: Option<usize>| {
        row.zip(column).and_then(|(row, column)| cell(row, column)).map_or(FAR, |at| costs[at])
    };
    for row in 0..=rows {
        for column in row.saturating_sub(edits)..=(row + edits).min(end.at) {
            let Some(at) = cell(row, column) else { continue };
            costs[at] = match (row.checked_sub(1), column.checked_sub(1)) {
                (None, None) => 0,
                (above, left) => {
                    let both = above.is_some() && left.is_some();
                    let replaced = u16::from(!both || ours(row) != theirs(column));
                    let diagonal = known(&costs, above, left).saturating_add(replaced);
                    let single = known(&costs, above, Some(column)).min(known(&costs, Some(row), left));
                    diagonal.min(single.saturating_add(1))
                }
            };
        }
    }
    let mut column = (rows.saturating_sub(edits)..=(rows + edits).min(end.at))
        .min_by_key(|&column| {
            let is_in_word = !page.get(end.at - column).is_some_and(|first| first.starts_word);
            (known(&costs, Some(rows), Some(column)), is_in_word, column.abs_diff(rows))
        })
        .unwrap_or(rows.min(end.at));
    let (mut row, mut pairs) = (rows, Vec::with_capacity(rows + edits));
    while row > 0 || column > 0 {
        let cost = known(&costs, Some(row), Some(column));
        let (above, left) = (row.checked_sub(1), column.checked_sub(1));
        let diagonal = known(&costs, above, left);
        let is_equal = row > 0 && column > 0 && ours(row) == theirs(column);
        let (quote_at, page_at) = (rows - row, end.at - column);
        let goes_on = diagonal != FAR && diagonal + u16::from(!is_equal) == cost;
        let lacks_page = known(&costs, above, Some(column)).saturating_add(1) == cost;
        let (takes_quote, takes_page) = match (goes_on, row, column) {
            (true, ..) => (true, true),
            (false, 0, _) => (false, true),
            (false, _, 0) => (true, false),
            _ => (lacks_page, !lacks_page),
        };
        pairs.push(Pair { quote: takes_quote.then_some(quote_at), page: takes_page.then_some(page_at) });
        row -= usize::from(takes_quote);
        column -= usize::from(takes_page);
    }
    pairs
}

/// More than any number of edits that is looked for.
const FAR: u16 = u16::MAX;
