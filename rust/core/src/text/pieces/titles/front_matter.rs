//! Sections without numbers before those with numbers, of which they are no parents: `ABSTRACT`, `RECITALS`.

use super::super::lines::{Line, LineShape, content};
use super::look::Look;
use super::{Candidates, main_sections};

/// Sections before the first one with a number, in lower case.
const FRONT_MATTER: [&str; 18] = [
    "abstract", "summary", "preface", "foreword", "preamble", "recitals", "background", "executive summary",
    "zusammenfassung", "kurzfassung", "vorwort", "präambel", "résumé", "préambule", "resumen", "resumo", "preámbulo",
    "riassunto",
];

/// What stands before the sections with numbers.
#[derive(Default)]
pub(super) struct FrontMatter {
    /// The look of the last one.
    pub(super) look: Option<Look>,
    /// The line of the first section with a number.
    pub(super) end: Option<usize>,
    /// Whether the first line looks like them, and names all of the page.
    pub(super) is_below_first: bool,
}

impl FrontMatter {
    pub(super) fn of(text: &str, lines: &[Line], found: &Candidates<'_>, first: Option<usize>) -> Self {
        let of_line = |line: usize| found.get(line).map(|one| (one.look, line));
        let Some((main, last_main)) = main_sections(found) else { return Self::default() };
        let Some(end) = (0..lines.len()).find(|line| of_line(*line).is_some_and(|(look, _)| look == main)) else {
            return Self::default();
        };
        let Some((look, last)) = (0..end).rev().find_map(of_line) else { return Self::default() };
        let below = (last + 1..lines.len()).find(|line| lines[*line].shape != LineShape::Blank);
        if below == Some(end) || matches!(look, Look::Numbered(..) | Look::Label(_)) {
            return Self::default();
        }
        let is_first =
            |line: usize| found.get(line).and_then(|one| one.mark).is_some_and(|mark| mark.number.is_first());
        let starts =
            (end..=last_main).filter(|line| of_line(*line).is_some_and(|(look, _)| look == main) && is_first(*line));
        let after = (last_main + 1..lines.len()).filter(|line| of_line(*line).is_some_and(|(other, _)| other == look));
        let is_below_first = first
            .is_some_and(|first| first < last && of_line(first).is_some_and(|(other, _)| other == look))
            && starts.count() == 1
            && after.count() <= 1;
        let is_named =
            FRONT_MATTER.contains(&content(lines[last].span().of(text)).trim_matches('*').to_lowercase().as_str());
        let is_front = is_named || is_below_first;
        Self { look: Some(look).filter(|_| is_front), end: Some(end).filter(|_| is_front), is_below_first }
    }
}
