//! The parts of a block of code that stay together.

use std::ops::Range;

use super::has_blank_line;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::ByteSpan;

/// Levels of brackets that are searched for one that divides a part.
const MAX_LEVELS: usize = 4;

/// Lines of code, each of them a unit.
pub(super) struct Code<'page> {
    text: &'page str,
    spans: &'page [ByteSpan],
}

impl<'page> Code<'page> {
    pub(super) const fn new(text: &'page str, spans: &'page [ByteSpan]) -> Self {
        Self { text, spans }
    }

    /// The parts of a block that is too long: what a blank line or a line of the outermost depth begins, the largest that
    /// fit. Fences stay with the first and the last line.
    pub(super) fn parts(
        &self,
        block: &Range<usize>,
        fits: impl Fn(&Range<usize>) -> bool,
        check: &Check,
    ) -> Result<Vec<Range<usize>>> {
        let mut parts =
            vec![block.start..block.end.min(block.start + 2), block.start.max(block.end.saturating_sub(2))..block.end];
        let depths: Vec<usize> = block.clone().map(|unit| self.depth(unit)).collect();
        let mut open = vec![block.clone()];
        let mut checkpoints = Checkpoints::new(check);
        let mut read = 0;
        while let Some(part) = open.pop() {
            if part.len() < 2 || fits(&part) {
                parts.push(part);
                continue;
            }
            read += self.spans[part.end - 1].end - self.spans[part.start].start;
            checkpoints.reach(read)?;
            let starts = self.starts(&part, &depths[part.start - block.start..part.end - block.start]);
            let ends = starts.iter().copied().chain([part.end]);
            let inner = [part.start].into_iter().chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end);
            // A part that nothing divides is lines.
            open.extend(inner.filter(|_| !starts.is_empty()));
        }
        Ok(parts)
    }

    /// The objects of a list that stand below each other, and what is above and below them. Empty for fewer than two.
    pub(super) fn elements(&self, block: &Range<usize>) -> Vec<Range<usize>> {
        let objects = self.objects(block);
        if objects.is_empty() { self.entries(block) } else { objects }
    }

    /// The entries of a list in YAML, if each has several lines.
    fn entries(&self, block: &Range<usize>) -> Vec<Range<usize>> {
        let is_entry = |unit: &usize| self.unit(*unit).starts_with("- ");
        let is_first = |unit: &usize| is_entry(unit) && self.unit(*unit - 1).ends_with(':');
        let Some(first) = (block.start + 1..block.end).find(is_first) else { return Vec::new() };
        let depth = self.depth(first);
        let end = (first..block.end).find(|unit| self.depth(*unit) < depth).unwrap_or(block.end);
        let starts: Vec<usize> = (first..end).filter(|unit| self.depth(*unit) == depth && is_entry(unit)).collect();
        let ends = starts.iter().skip(1).copied().chain([end]);
        let entries: Vec<Range<usize>> = starts.iter().zip(ends).map(|(start, end)| *start..end).collect();
        if entries.len() < 2 || entries.iter().any(|entry| entry.len() < 2) {
            return Vec::new();
        }
        let below = Some(end..block.end).filter(|below| !below.is_empty());
        std::iter::once(block.start..first).chain(entries).chain(below).collect()
    }

    fn objects(&self, block: &Range<usize>) -> Vec<Range<usize>> {
        let opens = |unit: &usize| self.unit(*unit) == "{" && self.unit(*unit - 1).ends_with(['[', ',']);
        let Some(first) = (block.start + 1..block.end).find(opens) else { return Vec::new() };
        let depth = self.depth(first);
        let of_list = (first..block.end).filter(|unit| self.depth(*unit) == depth);
        let ends: Vec<usize> = of_list.filter(|unit| self.unit(*unit).starts_with('}')).map(|end| end + 1).collect();
        if ends.len() < 2 {
            return Vec::new();
        }
        let begins = [first].into_iter().chain(ends.iter().copied());
        std::iter::once(block.start..first).chain(begins.zip(&ends).map(|(start, end)| start..*end)).collect()
    }

    /// The starts of the parts of code after the first one.
    fn starts(&self, part: &Range<usize>, depths: &[usize]) -> Vec<usize> {
        // In C, the brace of a function has its own line.
        let is_body = |unit: usize| {
            self.unit(unit) == "{" && self.unit(unit - 1).ends_with(|c: char| c == ')' || c.is_alphanumeric())
        };
        let is_closing = |unit: usize| self.unit(unit).starts_with(['}', ')', ']', '`', '~']) || is_body(unit);
        let inner = || part.clone().skip(1).zip(&depths[1..]);
        let begins = |unit: usize| !is_closing(unit) && !is_comment(self.unit(unit - 1));
        let mut levels: Vec<usize> = inner().filter(|(unit, _)| !is_closing(*unit)).map(|(_, depth)| *depth).collect();
        levels.sort_unstable();
        levels.dedup();
        let of_level = |level: usize| {
            let outer = || inner().filter(move |(unit, depth)| **depth == level && begins(*unit)).map(|(unit, _)| unit);
            let after_blank: Vec<usize> = outer().filter(|unit| has_blank_line(self.gap(*unit))).collect();
            let is_one_level = depths[0] >= level;
            match after_blank {
                starts if !starts.is_empty() => starts,
                // The first line of a function and its first statement stay together.
                _ => outer().skip(usize::from(!is_one_level)).collect(),
            }
        };
        // A level with one line divides nothing: `"members": [`.
        levels.into_iter().take(MAX_LEVELS).map(of_level).find(|starts| !starts.is_empty()).unwrap_or_default()
    }

    /// How deep a line stands: its column after the first, and 0 for the name of a section.
    fn depth(&self, unit: usize) -> usize {
        let text = self.unit(unit);
        let before = &self.text[..self.spans[unit].start];
        let column = before.len() - before.trim_end_matches([' ', '\t']).len();
        let is_section = text.starts_with('[')
            && text.ends_with(']')
            && text[1..].starts_with(|c: char| c.is_alphabetic() || c == '[');
        if is_section { 0 } else { column + 1 }
    }

    fn unit(&self, unit: usize) -> &str {
        self.spans[unit].of(self.text)
    }

    /// The white space before a unit that is not the first.
    fn gap(&self, unit: usize) -> &str {
        &self.text[self.spans[unit - 1].end..self.spans[unit].start]
    }
}

/// Whether this line of code is a comment or a decorator, which belongs to the line below.
pub(super) fn is_comment(line: &str) -> bool {
    ["//", "/*", "* ", "*/", "#", "-- ", ";", "@"].iter().any(|mark| line.starts_with(mark))
}
