//! Forms: fields with names before colons, which else look like what several people say.

use super::run::{Lines, Run};
use super::speakers::speaker;
use crate::text::page::{BlockKind, boundary_from};
use crate::text::pieces::wrapping::ends_sentence;

/// Words and bytes of the name of a field: `Monday to Friday`.
const MAX_NAME_WORDS: usize = 4;
const LONGEST_NAME: usize = 40;

/// Bytes of an abbreviation in it.
const LONGEST_SHORT: usize = 5;

/// Fields of a form, which else looks like what three people say.
const MIN_FIELDS: usize = 3;

/// Of this number of values of a form, at most one ends as a sentence does.
const FIELDS_PER_SENTENCE: usize = 4;

/// A line with a field, and the end of the field's name.
pub(super) type Field = (usize, usize);

/// The ends of forms, up to a line: paragraphs in which no name repeats, and that have the same first or second field, a column
/// for the values, or values that are no sentences.
pub(super) fn forms(lines: &Lines<'_>, fields: &[Field], end: usize) -> Option<Vec<usize>> {
    let parts = |(line, name_end): Field| lines.get(line).and_then(|text| text.split_at_checked(name_end));
    let name = |field: Field| parts(field).map_or("", |(name, _)| name);
    let value = |field: Field| parts(field).map_or("", |(_, value)| value);
    let is_new = |one: &Field, next: &Field| (one.0..next.0).any(|line| lines.is_blank(line));
    // `Week 1: Introduction`, `Reading: …`, `Week 2: …`
    let counted = |field: Field| {
        let name = name(field).trim_end_matches(':');
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (word.len() < name.len() && word.ends_with(' ')).then_some(word)
    };
    let first = counted(fields[0]);
    let begins = |field: &Field| first.is_some() && counted(*field) == first;
    let is_counted = fields.iter().skip(1).any(begins);
    let forms: Vec<&[Field]> = fields.chunk_by(|one, next| !is_new(one, next) && !begins(next)).collect();
    let are_fields = |form: &&[Field]| {
        let mut names: Vec<&str> = form.iter().copied().map(name).collect();
        names.sort_unstable();
        // A time is none: `Agent (10:01)`.
        let has_number = |name: &&str| name.contains('(') && name.contains(|c: char| c.is_ascii_digit());
        names.windows(2).all(|pair| pair[0] != pair[1]) && !names.iter().any(has_number)
    };
    // A title may stand before the first field.
    let are_same = (0..2).any(|place| {
        let of = |form: &[Field]| form.get(place).copied().map(name);
        let first = of(forms[0]);
        first.is_some() && forms.iter().all(|form| of(form) == first)
    }) || is_counted;
    let long = forms.iter().filter(|form| form.len() >= MIN_FIELDS).count();
    let is_aligned = |one: &Field| value(*one).starts_with("  ") || value(*one).starts_with('\t');
    let sentences = fields.iter().filter(|one| ends_sentence(value(**one))).count();
    // `Step 1: Open it`
    let has_number = fields.iter().any(|one| name(*one).contains(|c: char| c.is_ascii_digit()));
    let is_form = long > 0
        && (fields.iter().all(is_aligned)
            || forms.len() > 1 && are_same && 2 * long > forms.len()
            || (forms.len() > 1 || !has_number) && sentences * FIELDS_PER_SENTENCE <= fields.len());
    // A title may stand above the first field.
    let begin = |pair: &[&[Field]]| {
        let (first, above) = (pair[1][0].0, pair[0].last().map_or(0, |last| last.0));
        (above..first).rev().find(|line| lines.is_blank(*line)).map_or(first, |blank| blank + 1)
    };
    let ends = forms.windows(2).map(begin).chain([end]).collect();
    (is_form && forms.iter().all(are_fields)).then_some(ends)
}

/// A paragraph of fields, of which some have names that no speaker has: `Release date: 3 May 2020`.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    // A title may stand above the first field.
    let is_above = |above: usize| lines.get(above).is_some_and(|text| ends_sentence(text) && !text.ends_with(':'));
    if !lines.marks.has_code() || !lines.begins_part(at) && at.checked_sub(1).is_none_or(is_above) {
        return Err(at + 1);
    }
    let field = |line: usize| lines.get(line).and_then(field_name_end).map(|end| (line, end));
    let fields: Vec<Field> = (at..).map_while(field).collect();
    let end = at + fields.len();
    let is_speaker = |one: &Field| lines.get(one.0).is_some_and(|text| speaker(text, false).is_some());
    if fields.len() < MIN_FIELDS || !lines.is_blank(end) || fields.iter().all(is_speaker) {
        return Err(end.max(at + 1));
    }
    forms(lines, &fields, end).ok_or(end)?;
    Ok(Run { blocks: lines.blocks(at..end, BlockKind::Record).collect(), end })
}

/// The end of the name of a field at the start of a line, with its colon.
fn field_name_end(line: &str) -> Option<usize> {
    let start = &line[..boundary_from(line, line.len().min(LONGEST_NAME + 2))];
    let name = &line[..start.find(": ").filter(|end| *end <= LONGEST_NAME)?];
    let value = &line[name.len() + 2..];
    let is_name = name.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
        && name.split(' ').count() <= MAX_NAME_WORDS
        && !name.contains([',', ';', '?', '!', '"', '|'])
        // `Customer no.`
        && name.split('.').rev().skip(1).all(|word| word.rsplit(' ').next().is_some_and(|last| last.len() <= LONGEST_SHORT));
    (is_name && !value.trim().is_empty()).then_some(name.len() + 1)
}
