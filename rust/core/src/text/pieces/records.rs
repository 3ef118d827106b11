//! Runs of lines that are no prose: logs, chats, subtitles, CSV, columns of text, data and source code.
//!
//! Each has a finder, which reads the run that begins with a line, if one does. It knows most lines of prose by their
//! first characters.

mod asciidoc;
pub(crate) mod chat_marks;
mod code;
mod columns;
mod csv;
mod cues;
pub(super) mod cuts;
mod entries;
mod entry_marks;
mod entry_starts;
mod forms;
mod headings;
mod http;
mod mail;
mod name_lines;
mod paragraphs;
mod run;
mod speakers;
mod stamps;
mod statements;
mod steps;
mod traces;
mod trees;
mod wiki_tables;

use super::lines::{Line, LineShape};
use crate::text::page::{BlockKind, boundary_from};
pub(super) use cues::CueMarks;
pub(crate) use entry_starts::turn_label;
pub(crate) use headings::is_prompted;
pub(super) use headings::with_turns;
pub(super) use name_lines::is_attribution;
pub(crate) use name_lines::is_person;
pub(super) use paragraphs::with_records;
use run::{Lines, Run};
pub(super) use speakers::starts_speech;
pub(super) use stamps::is_day;

/// Longer lines, in bytes, may be dumps of data.
const SHORTEST_DUMP: usize = 300;

/// The lines of a page, of which runs are found in order.
pub(super) struct Runs<'text> {
    lines: Lines<'text>,
    /// For each finder, the line before which it has read all and found nothing.
    failed: [usize; FINDERS.len()],
    finders: &'static [Finder],
}

/// Reads the run that begins with a line. Without one, returns the number of the first line that it has not read.
type Finder = fn(&Lines<'_>, usize) -> Result<Run, usize>;

const FINDERS: [Finder; 13] = [
    asciidoc::run,
    wiki_tables::run,
    trees::run,
    cues::run,
    csv::run,
    http::run,
    mail::run,
    forms::run,
    entries::run,
    speakers::run,
    code::run,
    columns::run,
    dump,
];

/// Where markup says what is code.
const FINDERS_IN_MARKUP: [Finder; 8] =
    [cues::run, csv::run, http::run, mail::run, forms::run, entries::run, speakers::run, columns::run];

impl<'text> Runs<'text> {
    /// `shapes` are those of the lines by themselves.
    pub(super) fn new(text: &'text str, lines: &'text [Line], shapes: &'text [LineShape]) -> Self {
        Self { lines: Lines::new(text, lines, shapes), failed: [0; FINDERS.len()], finders: &FINDERS }
    }

    /// Of lines of prose between markup.
    fn in_markup(text: &'text str, lines: &'text [Line], shapes: &'text [LineShape]) -> Self {
        Self { finders: &FINDERS_IN_MARKUP, ..Self::new(text, lines, shapes) }
    }

    /// The run that begins with a line.
    pub(super) fn at(&mut self, line: usize) -> Option<Run> {
        match self.lines.shape(line) {
            LineShape::Text | LineShape::Heading | LineShape::PageNumber | LineShape::Item => {}
            LineShape::Row | LineShape::Rule { .. } if self.lines.is_asciidoc => {}
            _ => return None,
        }
        self.lines.reach(line);
        for (finder, failed) in self.finders.iter().zip(&mut self.failed) {
            if *failed > line {
                continue;
            }
            match finder(&self.lines, line) {
                Ok(run) => return Some(run),
                Err(read) => *failed = read,
            }
        }
        None
    }
}

/// A long line of data or minified code.
fn dump(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).filter(|line| line.len() >= SHORTEST_DUMP).ok_or(at + 1)?;
    // The start of a long line tells.
    let sample = &line[..boundary_from(line, 2 * SHORTEST_DUMP)];
    if !cuts::is_dump(sample) || !cuts::is_dump(line) {
        return Err(at + 1);
    }
    Ok(Run { blocks: vec![lines.block(at..at + 1, BlockKind::Record, false)], end: at + 1 })
}
