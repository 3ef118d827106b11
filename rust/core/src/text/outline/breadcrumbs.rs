//! Breadcrumbs: what names the subject of a unit, although it stands elsewhere: the headings of its sections, the items
//! around a nested one, a term, a question, the line that introduces a list or code, a caption.

use std::ops::Range;

/// The most names of a unit: lines that each introduce the next one have many.
const MAX_NAMES: usize = 16;

/// A run of units that names the subject of those in its scope, which follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) units: Range<usize>,
    pub(crate) scope: Range<usize>,
}

/// The names of all units of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breadcrumbs {
    /// The units of each name, and one more than the place of the name around it; 0 for none.
    names: Vec<(Range<usize>, u32)>,
    /// For each unit, one more than the place of the innermost name.
    innermost: Vec<u32>,
}

impl Breadcrumbs {
    /// Of names in any order, on a page with this number of units.
    pub(crate) fn new(mut names: Vec<Name>, units: usize) -> Self {
        names.retain(|name| !name.scope.is_empty());
        names.sort_by_key(|name| (name.scope.start, name.units.start, name.units.end, usize::MAX - name.scope.end));
        names.dedup_by_key(|name| (name.scope.start, name.units.start));
        let mut found = Self { names: Vec::with_capacity(names.len()), innermost: Vec::with_capacity(units) };
        // The ends and places of names whose scope goes on.
        let mut open: Vec<(usize, u32)> = Vec::new();
        let mut names = (1_u32..).zip(names).peekable();
        for unit in 0..units {
            while open.pop_if(|(end, _)| *end <= unit).is_some() {}
            while let Some((place, name)) = names.next_if(|(_, name)| name.scope.start <= unit) {
                found.names.push((name.units, open.last().map_or(0, |(_, outer)| *outer)));
                open.push((name.scope.end, place));
            }
            found.innermost.push(open.last().map_or(0, |(_, place)| *place));
        }
        found
    }

    /// The names of a run, outermost first. None is a part of it.
    pub(crate) fn of(&self, run: &Range<usize>) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.above(run.start).cloned().collect();
        found.reverse();
        found
    }

    /// The names of a unit, innermost first.
    pub(crate) fn above(&self, unit: usize) -> impl Iterator<Item = &Range<usize>> {
        let innermost = self.innermost(unit).map(|place| &self.names[place]);
        let around = |(_, outer): &&(Range<usize>, u32)| self.names.get((*outer as usize).checked_sub(1)?);
        std::iter::successors(innermost, around).map(|(units, _)| units).take(MAX_NAMES)
    }

    /// The place of a unit's innermost name among all.
    pub(crate) fn innermost(&self, unit: usize) -> Option<usize> {
        (self.innermost.get(unit).copied().unwrap_or(0) as usize).checked_sub(1)
    }

    /// For each name, the place of the innermost one of it and those around it of whose units this is true.
    pub(crate) fn nearest(&self, is_true: impl Fn(&Range<usize>) -> bool) -> Vec<Option<usize>> {
        let mut found: Vec<Option<usize>> = Vec::with_capacity(self.names.len());
        for (place, (units, outer)) in self.names.iter().enumerate() {
            let around = (*outer as usize).checked_sub(1).and_then(|outer| found[outer]);
            found.push(if is_true(units) { Some(place) } else { around });
        }
        found
    }

    /// The units of the name at a place.
    pub(crate) fn units(&self, place: usize) -> &Range<usize> {
        &self.names[place].0
    }

    /// The approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.names.as_slice()) + size_of_val(self.innermost.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::call::unstopped;
    use crate::text::formats::{Document, Format};
    use crate::text::pieces::Units;

    #[test]
    fn each_unit_has_the_names_above_it() {
        let cases = [
            ("# Plans\n\n- Student\n  - Price: 2\n  - Users: 3\n", "- Users", vec!["# Plans", "- Student"]),
            ("You may leave if\n\n- you are done\n- it is late\n\nText.\n", "- it", vec!["You may leave if"]),
            ("You may leave if\n\n- you are done\n- it is late\n\nText.\n", "Text", vec![]),
            ("Is it dry?\n\nYes. It is dry.\n\nAlways so.\n\nIs it old?\n\nNo.\n", "Always", vec!["Is it dry?"]),
            ("Is it dry?\n\nYes. It is dry.\n\nAlways so.\n", "Always", vec![]),
            ("Run this.\n\n```\nls\n```\n", "ls", vec!["Run this."]),
            ("**Prices**\n\nAdults pay 5 euros. Children pay half.\n", "Children", vec!["**Prices**"]),
        ];
        for (source, start, expected) in cases {
            let page = Document::read(source, Format::Markdown, &unstopped).unwrap();
            let text = page.text();
            let units = Units::sentences(text, page.blocks(), &[], &unstopped).unwrap();
            let unit = units.spans.iter().position(|span| span.of(text).trim_start().starts_with(start)).unwrap();
            let names: Vec<&str> = units.breadcrumbs(&(unit..unit + 1)).iter().map(|span| span.of(text)).collect();
            assert_eq!(names, expected, "{source:?}");
        }
    }
}
