//! Sections without numbers before those with numbers, of which they are no parents: `ABSTRACT`, `RECITALS`.

use super::super::lines::{Line, LineShape, content};
use super::look::Look;
use super::{Candidates, MainSections};

/// Sections before the first one with a number, in lower case.
const FRONT_MATTER: [&str; 18] = [
    "abstract", "summary", "preface", "foreword", "preamble", "recitals", "background", "executive summary",
    "zusammenfassung", "kurzfassung", "vorwort", "präambel", "résumé", "préambule", "resumen", "resumo", "preámbulo",
    "riassunto",
];

/// What stands before the sections with numbers.
#[derive(Clone, Copy)]
pub(super) struct FrontMatter {
    /// The look of the last one.
    pub(super) look: Look,
    /// The line of the first section with a number.
    pub(super) end: usize,
    /// Whether the first line looks like them, and names all of the page.
    pub(super) is_below_first: bool,
}

impl FrontMatter {
    pub(super) fn of(
        text: &str,
        lines: &[Line],
        found: &Candidates<'_>,
        first: Option<usize>,
        main: MainSections,
    ) -> Option<Self> {
        let of_line = |line: usize| found.get(line).map(|one| (one.look, line));
        let looks_like = |line: usize, look: Look| of_line(line).is_some_and(|(other, _)| other == look);
        let end = main.first;
        let (look, last) = (0..end).rev().find_map(of_line)?;
        let below = (last + 1..lines.len()).find(|line| lines[*line].shape != LineShape::Blank);
        if below == Some(end) || matches!(look, Look::Numbered(..) | Look::Label(_)) {
            return None;
        }
        let is_first =
            |line: usize| found.get(line).and_then(|one| one.mark).is_some_and(|mark| mark.number.is_first());
        let starts = (end..=main.last).filter(|line| looks_like(*line, main.look) && is_first(*line));
        let after = (main.last + 1..lines.len()).filter(|line| looks_like(*line, look));
        let is_below_first = first.is_some_and(|first| first < last && looks_like(first, look))
            && starts.count() == 1
            && after.count() <= 1;
        let is_named =
            FRONT_MATTER.contains(&content(lines[last].span().of(text)).trim_matches('*').to_lowercase().as_str());
        (is_named || is_below_first).then_some(Self { look, end, is_below_first })
    }
}
