//! Speakers: their names before what they say (`Ann:`), with the time, or on a line of their own above it.

use std::ops::Range;

use super::run::{Lines, Run};
use super::stamps::{is_day, stamp};
use crate::text::page::{Block, BlockKind};
use crate::text::pieces::abbreviations::is_opener;
use crate::text::pieces::lines::indent;
use crate::text::pieces::wrapping::ends_sentence;

/// Bytes of the longest name of a speaker.
const LONGEST_NAME: usize = 40;

/// Words of a name.
const MAX_NAME_WORDS: usize = 4;

/// Bytes of a line that has only a speaker and the time.
const LONGEST_NAME_LINE: usize = 60;

/// Lines of a turn below the name.
const MAX_TURN_LINES: usize = 40;

/// Columns before the name of a speaker in a screenplay.
const MIN_CUE_INDENT: usize = 8;

/// Turns of a conversation without times.
const MIN_TURNS: usize = 3;

/// Bytes of a line that says who wrote the text below it, and when.
const LONGEST_ATTRIBUTION: usize = 120;

/// What somebody did who is named in such a line.
const VERBS: [&str; 15] = [
    " wrote", " added a comment", " commented", " replied", " posted", " said", " asked", " answered", " schrieb",
    " a écrit", " escribió", " ha scritto", " escreveu", " schreef", " написал",
];

/// What stands before the name of the author of a post.
const POSTERS: [&str; 5] = ["Posted by ", "posted by ", "Asked by ", "Answered by ", "Written by "];

/// Days before the time of a message, as apps write them.
const DAYS: [&str; 24] = [
    "today at", "yesterday at", "heute um", "gestern um", "aujourd’hui à", "aujourd'hui à", "hier à", "hoy a las",
    "ayer a las", "oggi alle", "ieri alle", "hoje às", "ontem às", "vandaag om", "gisteren om", "dzisiaj o",
    "wczoraj o", "сегодня в", "вчера в", "今日", "昨日", "今天", "昨天", "오늘",
];

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
        let has_time = lines.get(line + 1).is_some_and(is_time_line);
        let posted = || if has_time { posted_name(lines.get(line)?) } else { None };
        let (text, is_bold) = lone_name(lines.get(line)?).or_else(posted)?;
        let time_end = line + 1 + usize::from(has_time);
        let is_gap = lines.is_blank(time_end) && (is_bold || has_time);
        let below = time_end + usize::from(is_gap);
        let depth = |line: usize| lines.get(line).map_or(0, indent);
        let is_cue = depth(line) >= MIN_CUE_INDENT && (1..depth(line)).contains(&depth(below)) && !has_small(text);
        (!lines.is_blank(below)).then_some(Self { line, name: text, has_time, is_cue, is_bold, below })
    }
}

/// A conversation whose speakers stand on lines of their own, below blank lines. Titles do too, so most names come again,
/// or have a time below them.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    if at.checked_sub(1).is_some_and(|above| !lines.is_blank(above)) {
        return Err(at + 1);
    }
    let first = Label::at(lines, at).ok_or(at + 1)?;
    let (mut line, mut turns) = (first.below, vec![first]);
    // Turns that end with a question, and those whose first paragraph ends with a sentence.
    let (mut questions, mut sentences) = (0, 0);
    let end = loop {
        let last = &turns[turns.len() - 1];
        let is_first_paragraph = last.below == line;
        while !lines.is_blank(line) {
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
    let blocks = turns.iter().zip(ends).flat_map(|(turn, end)| paragraphs(lines, turn.line..end)).collect();
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
    let text = line.trim();
    let name = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).map_or(text, |(name, _)| name);
    (text.len() <= LONGEST_NAME + 8 && is_name(name, true)).then_some((name, false))
}

/// Whether this is only a time of day: `8:07 AM`, `Today at 10:07`.
fn is_time_line(line: &str) -> bool {
    let text = line.trim();
    if text.len() > LONGEST_NOTICE || !text.contains(char::is_numeric) {
        return false;
    }
    let after =
        |day: &str| text.get(..day.len()).filter(|begin| begin.to_lowercase() == day).map(|_| &text[day.len()..]);
    let time = DAYS.into_iter().find_map(after).map_or(text, str::trim_start);
    stamp(time).is_some_and(|stamp| stamp.end == time.len())
}

/// The end of the name, and the time below it, at the start of a turn.
pub(super) fn label_end(turn: &str) -> Option<usize> {
    let mut lines = turn.split_inclusive('\n');
    let name = lines.next()?;
    let time = lines.next().filter(|line| is_time_line(line));
    lone_name(name).or_else(|| time.and_then(|_| posted_name(name)))?;
    Some(name.len() + time.map_or(0, str::len))
}

/// The paragraphs of a turn, and the notices between them, which no speaker says.
pub(super) fn paragraphs<'page>(lines: &'page Lines<'_>, turn: Range<usize>) -> impl Iterator<Item = Block> + 'page {
    let mut at = turn.start;
    std::iter::from_fn(move || {
        let start = (at..turn.end).find(|line| !lines.is_blank(*line))?;
        let is_notice = |line: usize| line > turn.start && lines.get(line).is_some_and(is_notice);
        if is_notice(start) {
            at = start + 1;
            return Some(lines.block(start..at, BlockKind::Rule, false));
        }
        at = (start..turn.end).find(|line| lines.is_blank(*line) || is_notice(*line)).unwrap_or(turn.end);
        Some(lines.block(start..at, BlockKind::Turn, start > turn.start))
    })
}

/// Whether a line of a chat is what the program shows: `New messages`, `3 replies`, reactions with their numbers.
fn is_notice(line: &str) -> bool {
    let text = line.trim();
    if text.len() > LONGEST_NOTICE {
        return false;
    }
    let count = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if matches!(text, "New messages" | "New" | "(edited)") || matches!(count, " reply" | " replies") {
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

/// The end of the speaker at the start of a text: `Ann:`, `Ann Lee (10:00):`, `<ann>`, `**Ann:**`. `any_case` allows
/// names without capitals.
pub(super) fn speaker(text: &str, any_case: bool) -> Option<usize> {
    if let Some(nick) = text.strip_prefix('<') {
        let end = nick.find('>').filter(|end| (1..=LONGEST_NAME).contains(end))?;
        let is_nick = !nick[..end].contains(['/', '=', '"', ' ']) && nick[end + 1..].starts_with(' ');
        return is_nick.then_some(end + 2);
    }
    let bytes = &text.as_bytes()[..text.len().min(LONGEST_NAME + 16)];
    let is_end =
        |at: &usize| bytes[*at] == b':' && bytes.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'\t' | b'*'));
    let Some(colon) = (0..bytes.len()).filter(is_end).find(|at| bytes[*at] == b':') else { return role(text) };
    if let Some(end) = role(text).filter(|end| *end < colon) {
        return Some(end);
    }
    let name = text[..colon].trim_start_matches('*').trim_end_matches('*');
    let name = match name.rfind(['(', '[']) {
        Some(time) if stamp(&name[time..]).is_some() => name[..time].trim_end(),
        _ => name,
    };
    let end = colon + 1 + text[colon + 1..].bytes().take_while(|byte| *byte == b'*').count();
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

/// Whether this may name a person: up to four words with capitals.
pub(super) fn is_name(name: &str, any_case: bool) -> bool {
    let mut words = name.split(' ');
    let is_word = |(place, word): (usize, &str)| {
        let is_small = matches!(
            word,
            "von" | "van" | "de" | "da" | "di" | "la" | "le" | "of" | "the" | "and" | "zu" | "al" | "bin"
        );
        let first = word.chars().next();
        let is_cased = any_case || first.is_some_and(|first| !first.is_lowercase());
        let is_spelled =
            word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '\'' | '’' | '-' | '_' | '&' | '#'));
        first.is_some() && is_spelled && (is_cased || (place > 0 && is_small))
    };
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_alphabetic() || c == '@')
        && words.clone().count() <= MAX_NAME_WORDS
        && words.by_ref().map(|word| word.trim_start_matches('@')).enumerate().all(is_word)
}

/// Whether this names a person: two words with capitals or more, and no article.
pub(crate) fn is_person(name: &str) -> bool {
    let mut words = name.split(' ');
    words.next().is_some_and(|first| !is_opener(first)) && words.next().is_some() && is_name(name, false)
}

/// What stands between a speaker and the time.
const JOINTS: [char; 9] = [' ', '\t', '-', '–', '—', '|', ',', '•', '»'];

/// Whether a line says who wrote the text below it, and when: `Ann wrote on 3 May 2024:`, `On 3 May 2024, Ann wrote:`,
/// `ann • 3 hours ago`.
fn is_attribution(text: &str) -> bool {
    let is_past = text.ends_with(" ago");
    if text.len() > LONGEST_ATTRIBUTION
        || !is_past && !text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | 'M' | 'm' | ')'))
        || !text.bytes().any(|byte| byte.is_ascii_digit())
    {
        return false;
    }
    let is_verb = |verb: &&str| {
        let after = text.find(*verb).map(|at| &text[at + verb.len()..]);
        after.is_some_and(|after| after.starts_with([' ', ':', ',']))
    };
    if POSTERS.iter().any(|poster| text.starts_with(poster)) && !text.contains(". ") {
        return true;
    }
    // Sentences have them, too, but no date and no colon at their end.
    let is_cut = || text.ends_with(':') || text.contains(" on ") || is_past;
    if VERBS.iter().any(is_verb) {
        return is_cut() || time_at_end(text).is_some();
    }
    if let Some((name, day)) = text.rsplit_once(" on ") {
        return is_day(day) && is_name(name.trim_matches('*'), true);
    }
    let joint = text.rfind(['•', '·', '»', '|']).filter(|_| is_past);
    joint.is_some_and(|joint| is_name(text[..joint].trim_end_matches(JOINTS), true))
}

/// Whether this is only a speaker and a time: `Ann Lee  10:07 AM`, `Ann — Today at 10:07`.
pub(super) fn is_name_line(text: &str) -> bool {
    if is_attribution(text) {
        return true;
    }
    if text.len() > LONGEST_NAME_LINE
        || !text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, 'M' | 'm' | ')' | ']'))
    {
        return false;
    }
    let Some(time) = time_at_end(text) else { return false };
    let before = text[..time].trim_end();
    let without = |day: &str| {
        let start = before.len().checked_sub(day.len())?;
        before.get(start..).filter(|end| end.to_lowercase() == day).map(|_| before[..start].trim_end())
    };
    let name = DAYS.into_iter().find_map(without).unwrap_or(before);
    let name = name.trim_end_matches(JOINTS).trim_start_matches("by ");
    // A nick has no capitals: `ann — Today at 10:07`, `ann [10:07 AM]`.
    let is_nick = !name.contains(' ') && (name.len() < before.len() || text[time..].starts_with(['(', '[']));
    is_name(name.trim_matches('*'), is_nick)
}

/// Where the time starts that ends a text.
fn time_at_end(text: &str) -> Option<usize> {
    let is_begin = |at: usize| text[..at].ends_with([' ', '\t']);
    let starts = text.char_indices().filter(|(at, c)| *at > 0 && (c.is_ascii_digit() || matches!(c, '(' | '[')));
    let ends = |at: &usize| stamp(&text[*at..]).is_some_and(|stamp| at + stamp.end == text.len());
    starts.map(|(at, _)| at).filter(|at| is_begin(*at)).find(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_write_the_day_before_the_time() {
        for line in ["ann — Today at 10:07", "Lívia — Hoje às 14:02", "Ben — gestern um 9:15", "Ann Lee  10:07 AM"]
        {
            assert!(is_name_line(line), "{line}");
        }
        assert!(is_time_line("Aujourd’hui à 9:15") && is_time_line("8:07 AM"));
        assert!(!is_name_line("we met there at 10:07") && !is_time_line("Morgen um 9:15 dort"));
    }
}
