//! Speakers: their names before what they say (`Ann:`), with the time, or on a line of their own above it.

use std::ops::Range;

use super::name_lines::{LONGEST_NAME, is_name, is_person, is_time_line, without_label};
use super::run::{Lines, Run};
use super::stamps::{is_day, stamp};
use crate::text::outline::is_admonition;
use crate::text::page::{Block, BlockKind};
use crate::text::pieces::lines::indent;
use crate::text::pieces::wrapping::ends_sentence;

/// Lines of a turn below the name.
const MAX_TURN_LINES: usize = 40;

/// Columns before the name of a speaker in a screenplay.
const MIN_CUE_INDENT: usize = 8;

/// Turns of a conversation without times.
const MIN_TURNS: usize = 3;

/// Bytes of a line with a name, and of each with what a forum says of its bearer; and the most of those.
const LONGEST_HEAD_LINE: usize = 80;
const MAX_DETAILS: usize = 2;

/// Bytes of the longest line of reactions or of a notice.
const LONGEST_NOTICE: usize = 40;

/// A speaker on a line of their own, above what they say.
struct Label<'text> {
    line: usize,
    name: &'text str,
    has_time: bool,
    /// Whether it is indented more than what is said, in capitals, as in screenplays.
    is_cue: bool,
    /// Whether a blank line may stand below.
    is_bold: bool,
    /// The first line of what is said.
    below: usize,
}

impl<'text> Label<'text> {
    fn at(lines: &Lines<'text>, line: usize) -> Option<Self> {
        let own = lines.get(line).filter(|own| own.len() <= LONGEST_HEAD_LINE)?;
        let below = (line + 1..lines.end()).map_while(|line| lines.get(line).filter(|text| !text.is_empty()));
        let time = lines_to_time(below, lines.begins_part(line)).or(has_lone_time(lines, line).then_some(2));
        let has_time = time.is_some();
        let (text, is_bold) = lone_name(own).or_else(|| time.and_then(|_| posted_name(own)))?;
        let time_end = line + 1 + time.unwrap_or(0);
        let is_gap = lines.is_blank(time_end) && (is_bold || has_time);
        let below = time_end + usize::from(is_gap);
        let depth = |line: usize| lines.get(line).map_or(0, indent);
        let is_cue = depth(line) >= MIN_CUE_INDENT && (1..depth(line)).contains(&depth(below)) && !has_small(text);
        (!lines.is_blank(below)).then_some(Self { line, name: text, has_time, is_cue, is_bold, below })
    }
}

/// A conversation whose speakers stand on lines of their own, below blank lines or rules. Titles do too, so most names come again,
/// or have a time below them.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    if !lines.begins_part(at) {
        return Err(at + 1);
    }
    let first = Label::at(lines, at).ok_or(at + 1)?;
    let (mut line, mut turns) = (first.below, vec![first]);
    // Turns that end with a question, and those whose first paragraph ends with a sentence.
    let (mut questions, mut sentences) = (0, 0);
    let end = loop {
        let last = &turns[turns.len() - 1];
        let (below, is_first_paragraph) = (last.below, last.below == line);
        // With a time below it, a name needs no blank line above.
        let begins_turn = |line: usize| line > below && Label::at(lines, line).is_some_and(|label| label.has_time);
        while !lines.is_blank(line) && !begins_turn(line) {
            line += 1;
        }
        let text = lines.get(line - 1).unwrap_or_default();
        sentences += usize::from(is_first_paragraph && ends_sentence(text));
        let Some(next) = lines.next_text(line) else { break line };
        if last.is_cue && Label::at(lines, next).is_none_or(|label| !label.is_cue) {
            break line;
        }
        if let Some(label) = Label::at(lines, next) {
            questions += usize::from(text.ends_with(['?', '？']));
            line = label.below;
            turns.push(label);
        } else if next - last.line < MAX_TURN_LINES {
            line = next;
        } else {
            break line;
        }
    };
    let read = end.max(at + 1);
    let names: Vec<&str> = turns.iter().map(|turn| turn.name).collect();
    let counts = Counts::new(&names);
    let is_timed = turns.iter().all(|turn| turn.has_time);
    let are_cues = turns.iter().all(|turn| turn.is_cue);
    if !is_timed && !are_cues {
        // A title above the conversation.
        match names.iter().position(|name| counts.of(name) > 1) {
            Some(0) => {}
            Some(place) => return Err(turns[place].line),
            None => return Err(read),
        }
    }
    let is_bold = turns.iter().any(|turn| turn.is_bold);
    let is_conversation = are_cues
        || is_timed && turns.len() > 1
        || counts.are_speakers()
            && sentences * 2 > turns.len()
            // Bold titles come again in the parts of a manual.
            && (!is_bold || questions > 0);
    if !is_conversation {
        return Err(read);
    }
    let ends = turns.iter().skip(1).map(|turn| turn.line).chain([end]);
    let blocks = turns
        .iter()
        .zip(ends)
        .flat_map(|(turn, end)| paragraphs(lines, turn.line..end, turn.below - turn.line))
        .collect();
    Ok(Run { blocks, end })
}

/// Names in the order of a page, and how often each of them comes.
pub(super) struct Counts<'text> {
    names: &'text [&'text str],
    sorted: Vec<&'text str>,
}

impl<'text> Counts<'text> {
    pub(super) fn new(names: &'text [&'text str]) -> Self {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        Self { names, sorted }
    }

    fn of(&self, name: &str) -> usize {
        self.sorted.partition_point(|other| *other <= name) - self.sorted.partition_point(|other| *other < name)
    }

    /// Whether these may be speakers: they alternate, and most come again.
    pub(super) fn are_speakers(&self) -> bool {
        let singles = self.names.iter().filter(|name| self.of(name) == 1).count();
        self.names.len() >= MIN_TURNS
            && self.names.windows(2).all(|pair| pair[0] != pair[1])
            && singles * 4 <= self.names.len() + 1
    }
}

fn has_small(text: &str) -> bool {
    text.contains(char::is_lowercase)
}

/// A name that is all of a line or heading, and whether it is bold.
pub(super) fn lone_name(line: &str) -> Option<(&str, bool)> {
    let text = line.trim().trim_start_matches('#').trim_start();
    let is_bold = text.starts_with("**") && text.ends_with("**");
    let name = text.trim_matches('*').trim_end_matches(':');
    (text.len() <= LONGEST_NAME + 8 && is_name(name, false)).then_some((name, is_bold))
}

/// The name in a line above a time, which may have no capitals, and the rank of its bearer after it: `kolya77 (Novice)`.
fn posted_name(line: &str) -> Option<(&str, bool)> {
    let text = without_label(line.trim());
    let name = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).map_or(text, |(name, _)| name);
    (text.len() <= LONGEST_NAME + 8 && is_name(name, true)).then_some((name, false))
}

/// The number of lines below a name up to the time. Below a blank line, what a forum says of the author may stand between
/// the two: `Novice, posts: 4`.
fn lines_to_time<'text>(below: impl Iterator<Item = &'text str>, begins: bool) -> Option<usize> {
    let most = if begins { MAX_DETAILS + 1 } else { 1 };
    for (above, line) in below.take(most).map(str::trim).enumerate() {
        if is_time_line(line) || is_day(line) {
            return Some(above + 1);
        }
        if line.len() > LONGEST_HEAD_LINE || ends_sentence(line) {
            return None;
        }
    }
    None
}

/// Whether the line below a blank one has only the time.
fn has_lone_time(lines: &Lines<'_>, name: usize) -> bool {
    let is_time = |line: &str| is_time_line(line) || is_day(line);
    lines.begins_part(name)
        && lines.is_blank(name + 1)
        && lines.get(name + 2).is_some_and(is_time)
        && lines.is_blank(name + 3)
}

/// The end of the name, and the time below it, at the start of a turn.
pub(super) fn label_end(turn: &str) -> Option<usize> {
    let mut lines = turn.split_inclusive('\n');
    let name = lines.next()?;
    let time = lines_to_time(lines.clone(), true);
    lone_name(name).or_else(|| time.and_then(|_| posted_name(name)))?;
    Some(name.len() + lines.take(time.unwrap_or(0)).map(str::len).sum::<usize>())
}

/// The paragraphs of a turn whose head has some lines of its own, and the notices between them, which no speaker says.
pub(super) fn paragraphs<'page>(
    lines: &'page Lines<'_>,
    turn: Range<usize>,
    head: usize,
) -> impl Iterator<Item = Block> + 'page {
    let mut at = turn.start;
    // A reply may be nothing but a picture.
    let first = turn.start + head;
    let is_reply = head > 0 && (first + 1..turn.end).all(|line| lines.is_blank(line));
    std::iter::from_fn(move || {
        let start = (at..turn.end).find(|line| !lines.is_blank(*line))?;
        let is = |line: usize, is_true: fn(&str) -> bool| line > turn.start && lines.get(line).is_some_and(is_true);
        // How many reacted may stand below the picture.
        let is_notice = |line: usize| {
            is(line, is_notice) && !(is_reply && line == first)
                || is(line, is_count) && is(line - 1, is_notice)
                || line > turn.start && lines.is_rule(line)
        };
        if is_notice(start) {
            at = start + 1;
            return Some(lines.block(start..at, BlockKind::Rule, false));
        }
        let head_end = start + if start == turn.start && has_lone_time(lines, start) { 2 } else { 0 };
        at = (head_end..turn.end).find(|line| lines.is_blank(*line) || is_notice(*line)).unwrap_or(turn.end);
        Some(lines.block(start..at, BlockKind::Turn, start > turn.start))
    })
}

fn is_count(line: &str) -> bool {
    let count = line.trim();
    !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a line of a chat is what the program shows: `New messages`, `3 replies`, reactions with their numbers.
fn is_notice(line: &str) -> bool {
    let text = line.trim();
    if text.len() > LONGEST_NOTICE {
        return false;
    }
    let count = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_of_thread = matches!(count, " reply" | " replies") || text.starts_with("Last reply ");
    if matches!(text, "New messages" | "New" | "(edited)" | "reply" | "Reply") || is_of_thread {
        return true;
    }
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_emoji = |word: &str| {
        word.len() > 2 && word.starts_with(':') && word.ends_with(':')
            || !word.is_ascii() && !word.contains(char::is_alphanumeric)
    };
    let mut words = text.split_whitespace();
    words.next().is_some_and(is_emoji) && words.all(|word| is_number(word) || is_emoji(word))
}

/// The end of the speaker at the start of a text: `Ann:`, `Anne :`, `田中：`, `Ann Lee (10:00):`, `<ann>`, `**Ann:**`. `any_case`
/// allows names without capitals.
pub(super) fn speaker(text: &str, any_case: bool) -> Option<usize> {
    if let Some(nick) = text.strip_prefix('<') {
        let end = nick.find('>').filter(|end| (1..=LONGEST_NAME).contains(end))?;
        let is_nick = !nick[..end].contains(['/', '=', '"', ' ']) && nick[end + 1..].starts_with(' ');
        return is_nick.then_some(end + 2);
    }
    let bytes = &text.as_bytes()[..text.len().min(LONGEST_NAME + 16)];
    let is_end = |at: &usize| match &bytes[*at..] {
        [b':', next, ..] => matches!(next, b' ' | b'\t' | b'*'),
        after => matches!(after, [b':'] | [0xef, 0xbc, 0x9a, ..]),
    };
    let Some(colon) = (0..bytes.len()).find(is_end) else { return role(text) };
    if let Some(end) = role(text).filter(|end| *end < colon) {
        return Some(end);
    }
    let colon_end = colon + if bytes[colon] == b':' { 1 } else { '：'.len_utf8() };
    let name = text[..colon].trim_end();
    // `Repaired :` above a list.
    if name.len() < colon && text[colon_end..].trim().is_empty() || is_admonition(name) {
        return None;
    }
    let name = name.trim_start_matches('*').trim_end_matches('*');
    // `ChatGPT said:`
    let is_line = text[colon_end..].trim_matches(['*', ' ']).is_empty();
    let name = name.strip_suffix(" said").filter(|_| is_line).unwrap_or(name);
    let name = match name.rfind(['(', '[']) {
        Some(time) if stamp(&name[time..]).is_some() => name[..time].trim_end(),
        // `Ann Berg (CEO)`
        Some(role) if name.ends_with(')') && is_person(name[..role].trim_end()) => name[..role].trim_end(),
        _ => name,
    };
    let end = colon_end + text[colon_end..].bytes().take_while(|byte| *byte == b'*').count();
    is_name(name, any_case).then_some(end)
}

/// Words before the name of somebody who speaks in a court, a council or a parliament.
const TITLES: [&str; 26] = [
    "Mr", "Mrs", "Ms", "Miss", "Dr", "Prof", "Sir", "MR", "MRS", "MS", "DR", "Senator", "Representative",
    "Congressman", "Congresswoman", "Chairman", "Chairwoman", "Chair", "Secretary", "Judge", "Justice", "General",
    "Admiral", "Governor", "Professor", "The",
];

/// The end of a role in a play or a hearing: `HAMLET. Whither wilt thou lead me?`, `Mr. ROE. I do not think so.`, `Ms. LEE of
/// Ohio. I yield.`
fn role(text: &str) -> Option<usize> {
    let ends = |end: &usize| {
        let word = text[..*end].rsplit(' ').next().unwrap_or_default();
        word.len() > 1 && !TITLES.contains(&word)
    };
    let start = &text.as_bytes()[..text.len().min(LONGEST_NAME)];
    let end = (0..start.len()).filter(|at| start[*at] == b'.').find(ends)?;
    let (name, said) = (&text[..end], text[end + 1..].strip_prefix(' ')?.trim_start());
    let first = name.split([' ', '.']).next().unwrap_or_default();
    let is_capital = |c: char| c.is_uppercase() || c == ' ';
    let is_titled = || first.len() < name.len() && TITLES.contains(&first);
    let is_role = name.chars().all(is_capital) && name.chars().nth(1).is_some_and(char::is_uppercase) || is_titled();
    let is_numeral = name.bytes().all(|byte| b"IVXLCDM".contains(&byte));
    (is_role
        && !is_numeral
        && is_name(name, false)
        && said.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()))
    .then_some(end + 1)
}

/// Whether a text starts with a title and a name in capitals, who speaks: `Mr. ROE. I do not think so.`
pub(in crate::text::pieces) fn starts_speech(text: &str) -> Option<usize> {
    let is_capital = |word: &str| word.len() > 1 && word.chars().filter(|c| c.is_uppercase()).count() > 1;
    let end = if text.starts_with(['M', 'D', 'S', 'T', 'R', 'C']) { role(text) } else { None };
    end.filter(|end| {
        let (title, name) = text[..*end].split_once(' ').unwrap_or_default();
        TITLES.contains(&title.trim_end_matches('.')) && name.split([' ', '.']).any(is_capital)
    })
}
