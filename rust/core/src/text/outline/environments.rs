//! Environments of LaTeX: theorems, lists, tables.

use std::ops::Range;

use super::view::View;

/// Environments that may be inside others.
const MAX_DEPTH: usize = 16;

/// Bytes of a name.
const LONGEST_NAME: usize = 40;

/// The runs from `\begin{theorem}` to `\end{theorem}` that fit.
pub(super) fn environments(view: &View<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !view.text.contains("\\begin{") {
        return found;
    }
    let mut open: Vec<(&str, usize)> = Vec::new();
    for unit in 0..view.spans.len() {
        for (at, _) in view.unit(unit).match_indices('\\') {
            let command = &view.unit(unit)[at + 1..];
            if let Some(name) = argument(command, "begin{").filter(|_| open.len() < MAX_DEPTH) {
                open.push((name, unit));
            } else if let Some(name) = argument(command, "end{")
                && let Some(place) = open.iter().rposition(|(other, _)| *other == name)
            {
                let run = open[place].1..unit + 1;
                open.truncate(place);
                found.extend(Some(run).filter(|run| view.fits(run.clone())));
            }
        }
    }
    found
}

fn argument<'text>(command: &'text str, name: &str) -> Option<&'text str> {
    let rest = command.strip_prefix(name)?;
    let end = rest.bytes().take(LONGEST_NAME).position(|byte| byte == b'}')?;
    Some(&rest[..end])
}
