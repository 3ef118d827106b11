//! Entries of logs and turns of conversations: lines that begin with a time, a level, a speaker, or are objects of JSON.
//!
//! Entries of logs are never cut. Turns consist of sentences, so a long one is cut at their ends.

use super::columns;
use super::entry_marks::is_place_prompt;
use super::entry_starts::{Family, Mark, is_title_of_post, mark_at, step_of};
use super::forms::{Field, forms};
use super::run::{Lines, Run};
use super::speakers::paragraphs;
use super::stamps::{Stamp, stamp};
use super::steps::goes_on_in_diff;
use super::traces::{is_panic, is_source, is_trace};
use crate::text::page::BlockKind;
use crate::text::pieces::lines::{LineShape, indent};
use crate::text::pieces::list_marks::{Mark as ListMark, System};
use crate::text::pieces::wrapping::{NARROWEST_PARAGRAPH, ends_sentence, width};

/// Lines of a turn below its first paragraph.
const MAX_TURN_LINES: usize = 20;

/// Turns before one in which its speaker is looked for.
const MAX_SPEAKERS: usize = 8;

/// Who writes in chats with programs.
const ROLES: [&str; 9] = ["User", "Assistant", "Human", "System", "AI", "You", "ChatGPT", "Claude", "Model"];

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).ok_or(at + 1)?;
    let first = first_mark(lines, at, line).ok_or(at + 1)?;
    let depth = indent(line);
    let mut starts = vec![(at, first)];
    let (mut end, mut line) = (at + 1, at + 1);
    // Lines that belong to an entry only if another one follows.
    let (mut is_pending, mut has_gap, mut traces) = (false, false, 0);
    while let Some(text) = lines.get(line) {
        let (_, first) = &starts[0];
        // What a language model says may have titles of Markdown.
        let is_heading = || lines.shape(line) == LineShape::Heading && !text.trim_start().starts_with('#');
        if first.kind == BlockKind::Turn && (is_heading() || lines.is_bold_title(line)) {
            break;
        }
        let next = mark_at(lines, line, text).filter(|_| indent(text) == depth);
        if text.is_empty() {
            // Below the line with a name, what is said may be a paragraph.
            let is_name = first.family == Family::NameLine && starts.last().is_some_and(|last| last.0 + 1 == line);
            let goes_on = |after: &usize| is_name || continues_after_blank(lines, *after, &starts);
            let Some(after) = lines.next_text(line).filter(goes_on) else {
                break;
            };
            (has_gap, line) = (true, after);
            continue;
        }
        match next {
            // Before the other commands are read, which then begin runs of their own.
            Some(next)
                if next.family == first.family && starts.len() == 1 && printed_table(lines, &starts[0], line) =>
            {
                return Err(line);
            }
            // The byline below the title of a post.
            Some(_)
                if first.family == Family::NameLine
                    && starts.last().is_some_and(|last| last.0 + 1 == line)
                    && is_title_of_post(lines, line - 1, lines.get(line - 1).unwrap_or_default()) =>
            {
                end = line + 1;
            }
            // `Benefits:` above a list.
            Some(next) if next.family == Family::Speaker && is_lead_in(lines, line, &next) => break,
            Some(next) if next.family == first.family => {
                starts.push((line, next));
                (end, is_pending) = (line + 1, false);
            }
            Some(_) if starts.len() == 1 && first.family == Family::Speaker => break,
            _ if indent(text) > depth
                || is_trace(text)
                || is_source(text)
                || first.is_open()
                || is_call(lines, line, first) =>
            {
                traces += usize::from(is_trace(text) || is_source(text));
                end = if is_pending { end } else { line + 1 };
            }
            Some(_) if starts.len() == 1 => break,
            _ => is_pending = true,
        }
        line += 1;
    }
    if !is_run(lines, &starts, end, has_gap, traces) || starts.len() == 1 && printed_table(lines, &starts[0], end) {
        return Err(line);
    }
    let fields: Vec<Field> = starts.iter().map(|(line, mark)| (*line, mark.end)).collect();
    let form = Some(fields).filter(|_| starts[0].1.family == Family::Speaker);
    if let Some(ends) = form.and_then(|fields| forms(lines, &fields, end)) {
        let begins = [at].into_iter().chain(ends.iter().copied());
        let blocks = begins.zip(&ends).flat_map(|(start, end)| lines.blocks(start..*end, BlockKind::Record)).collect();
        return Ok(Run { blocks, end });
    }
    if is_speech(lines, &starts) {
        return Ok(Run { blocks: vec![lines.block(at..end, BlockKind::Captions, false)], end });
    }
    let mut blocks = Vec::new();
    for (place, (start, mark)) in starts.iter().enumerate() {
        let stop = starts.get(place + 1).map_or(end, |next| next.0);
        match mark.kind {
            BlockKind::Turn => {
                let head = usize::from(mark.family == Family::NameLine);
                blocks.extend(paragraphs(lines, *start..stop, head));
            }
            kind => blocks.extend(lines.blocks(*start..stop, kind)),
        }
    }
    Ok(Run { blocks, end })
}

/// Whether what a command printed above a line is a table.
fn printed_table(lines: &Lines<'_>, (at, command): &(usize, Mark), end: usize) -> bool {
    let end = (at + 1..end).rev().find(|line| !lines.is_blank(*line)).map_or(end, |last| last + 1);
    command.family == Family::Prompt && columns::are_columns(lines, at + 1, end)
}

/// The mark of the first entry of a run.
fn first_mark(lines: &Lines<'_>, at: usize, line: &str) -> Option<Mark> {
    // In a wrapped paragraph, a line may start with a time.
    let above = at.checked_sub(1).and_then(|above| lines.get(above)).unwrap_or_default();
    let is_title = || width(above) < NARROWEST_PARAGRAPH && at > 0 && lines.begins_part(at - 1);
    let is_wrapped = above.ends_with(|c: char| c.is_alphanumeric() || c == ',') && !is_title();
    let found = mark_at(lines, at, line).filter(|found| !found.is_loose || !is_wrapped);
    if found.as_ref().is_some_and(|found| found.family != Family::Speaker) {
        return found;
    }
    let below = lines.get(at + 1).unwrap_or_default();
    let has_trace = || is_trace(line) || (indent(below) > 0 || below.starts_with("stack backtrace")) && is_trace(below);
    let is_error = indent(line) == 0 && has_trace();
    let error = is_error.then_some(Mark { family: Family::Trace, kind: BlockKind::Record, end: 0, is_loose: false });
    error.or(found)
}

/// Whether this line of a stack trace names a function, whose place is below, or says what the line above announces.
fn is_call(lines: &Lines<'_>, line: usize, first: &Mark) -> bool {
    first.family == Family::Trace
        && (lines.get(line + 1).is_some_and(|place| indent(place) > 0)
            || lines.get(line - 1).is_some_and(|above| is_trace(above) && above.ends_with(':')))
}

/// The line that starts the last step.
fn last_step<'text>(lines: &Lines<'text>, starts: &[(usize, Mark)]) -> &'text str {
    starts.last().and_then(|(line, _)| lines.get(*line)).unwrap_or_default()
}

/// Whether an entry may start or go on below a blank line.
fn continues_after_blank(lines: &Lines<'_>, after: usize, starts: &[(usize, Mark)]) -> bool {
    let (at, first) = &starts[0];
    let depth = lines.get(*at).map_or(0, indent);
    let mark = |line: usize| lines.get(line).and_then(|text| mark_at(lines, line, text));
    let is_next = |line: usize| mark(line).filter(|next| next.family == first.family);
    match first.family {
        Family::Trace => lines.get(after).is_some_and(is_trace),
        Family::Step | Family::Commit if lines.get(after).is_some_and(|text| indent(text) > depth) => true,
        Family::Step if lines.get(after).is_some_and(|text| goes_on_in_diff(last_step(lines, starts), text)) => true,
        _ if is_next(after).is_some() => true,
        Family::NameLine | Family::Prompt
            if first.family == Family::NameLine || lines.get(*at).is_some_and(is_place_prompt) =>
        {
            (after + 1..after + MAX_TURN_LINES).any(|line| is_next(line).is_some())
        }
        // What somebody says in a chat may have paragraphs.
        Family::Stamp if first.kind == BlockKind::Turn && !first.is_loose => {
            (after + 1..after + MAX_TURN_LINES).any(|line| is_next(line).is_some())
        }
        // A further paragraph of a turn, if a known speaker follows; of the first one only if a paragraph begins with that.
        Family::Speaker => {
            let is_first = starts.len() == 1;
            // Nor does a numbered part of minutes go on below a field of the one before.
            let is_numbered =
                lines.get(after).and_then(ListMark::at_start).is_some_and(|mark| mark.style.system == System::Decimal);
            if is_numbered {
                return false;
            }
            let begins = |line: usize| line.checked_sub(1).is_none_or(|above| lines.is_blank(above));
            let is_known = |speaker: &str| {
                starts.iter().rev().take(MAX_SPEAKERS).any(|(line, mark)| name(lines, *line, mark) == speaker)
            };
            let is_again = |line: usize| {
                (!is_first || begins(line)) && is_next(line).is_some_and(|next| is_known(name(lines, line, &next)))
            };
            (!is_first || begins(*at) && lines.get(*at).is_some_and(ends_sentence))
                && (after + 1..after + MAX_TURN_LINES).any(is_again)
        }
        _ => false,
    }
}

/// Whether entries are enough for a run that ends before a line.
fn is_run(lines: &Lines<'_>, starts: &[(usize, Mark)], end: usize, has_gap: bool, traces: usize) -> bool {
    let (at, first) = &starts[0];
    let is_each_line = starts.len() == end - at;
    match first.family {
        Family::Speaker if are_counted(lines, starts) || are_above_lists(lines, starts) => false,
        Family::Speaker => {
            let mut names: Vec<&str> = starts.iter().map(|(line, mark)| name(lines, *line, mark)).collect();
            names.sort_unstable();
            let repeats = names.windows(2).any(|pair| pair[0] == pair[1]);
            repeats || (starts.len() > 1 && !has_gap && is_each_line)
        }
        Family::Object => true,
        Family::Component | Family::Commit => !is_each_line,
        Family::Step => starts.len() > 1 || !is_each_line,
        Family::Numbered => {
            starts.len() > 1 && starts.iter().any(|(line, _)| step_of(lines, *line) == step_of(lines, line + 1))
        }
        Family::Trace => {
            traces > 1 || (traces > 0 && end - at > 2) || !is_each_line && lines.get(*at).is_some_and(is_panic)
        }
        // Alone it is indented: a price is no command.
        Family::Prompt => starts.len() > 1 || !is_each_line || lines.get(*at).is_some_and(|line| indent(line) > 1),
        Family::NameLine => starts.len() > 1 && starts.windows(2).all(|pair| pair[1].0 > pair[0].0 + 1),
        // An entry of a log alone among prose.
        Family::Stamp if starts.len() == 1 && traces == 0 => {
            let above = at.checked_sub(1).and_then(|above| lines.get(above)).unwrap_or_default();
            first.kind == BlockKind::Record
                && (above.is_empty() || above.ends_with([':', '.']))
                && lines.get(*at).is_some_and(is_dated_entry)
        }
        _ => starts.len() > 1 || traces > 0,
    }
}

/// Whether a name that is no role is all of a line: `Benefits:`.
fn is_lone(lines: &Lines<'_>, line: usize, mark: &Mark) -> bool {
    let own = lines.get(line).unwrap_or_default();
    mark.end == own.len() && !ROLES.contains(&own.trim().trim_matches(['*', ':']))
}

/// Whether a lone name ends its part, or stands above a list.
fn is_lead_in(lines: &Lines<'_>, line: usize, mark: &Mark) -> bool {
    let below = line + 1;
    is_lone(lines, line, mark) && (below >= lines.end() || lines.shape(below) == LineShape::Item)
}

/// Whether names are labels that count: `Step 1:`, `Step 2:`.
fn are_counted(lines: &Lines<'_>, starts: &[(usize, Mark)]) -> bool {
    let mark = |line: usize| lines.get(line).and_then(|text| ListMark::at_start(text.trim_start()));
    let follows = |pair: &[(usize, Mark)]| {
        mark(pair[0].0)
            .zip(mark(pair[1].0))
            .is_some_and(|(one, next)| one.style == next.style && next.number.follows(one.number))
    };
    starts.len() > 1 && starts.windows(2).all(follows)
}

/// Whether below most names only a list or deeper text stands: `Tasks:`, `Returns:`. Programs have such answers, too.
fn are_above_lists(lines: &Lines<'_>, starts: &[(usize, Mark)]) -> bool {
    let is_above = |(line, mark): &(usize, Mark)| {
        let (own, below) = (lines.get(*line).unwrap_or_default(), lines.get(line + 1).unwrap_or_default());
        let is_list = || lines.shape(line + 1) == LineShape::Item || indent(below) > indent(own);
        is_lone(lines, *line, mark) && !below.is_empty() && is_list()
    };
    starts.iter().filter(|start| is_above(start)).count() * 2 > starts.len()
}

/// Whether times interrupt what somebody says, as in `[00:04] old bridge was`: most entries start in lower case.
fn is_speech(lines: &Lines<'_>, starts: &[(usize, Mark)]) -> bool {
    let is_small = |(line, mark): &&(usize, Mark)| {
        let text = lines.get(*line).unwrap_or_default();
        let has_day = stamp(text.trim_start()).is_some_and(Stamp::has_day);
        mark.family == Family::Stamp && mark.kind == BlockKind::Turn && !has_day && {
            let said = text[mark.end..].trim_start();
            text[..mark.end].ends_with([']', ')']) | !text[..mark.end].ends_with([':', '>'])
                && said.starts_with(char::is_lowercase)
        }
    };
    let small = starts.iter().filter(is_small).count();
    small * 2 > starts.len()
}

/// Whether a line starts with a date and a time, which the text of an entry follows.
fn is_dated_entry(line: &str) -> bool {
    let text = line.trim_start();
    stamp(text).is_some_and(|stamp| stamp.is_dated() && text[stamp.end..].trim_start().contains(' '))
}

fn name<'text>(lines: &Lines<'text>, line: usize, mark: &Mark) -> &'text str {
    lines.get(line).unwrap_or_default().get(..mark.end).unwrap_or_default()
}
