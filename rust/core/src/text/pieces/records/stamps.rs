//! Stamps: dates and times at the start of a line, as programs and people write them.

/// Bytes after the time that a bracket may have: `[10:00:17 INF]`.
const LONGEST_BRACKET_REST: usize = 24;

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

#[derive(Clone, Copy, Default)]
pub(super) struct Stamp {
    /// After its closing bracket.
    pub(super) end: usize,
    has_date: bool,
    has_clock: bool,
    has_seconds: bool,
}

impl Stamp {
    /// Whether it has a day.
    pub(super) const fn has_day(self) -> bool {
        self.has_date
    }

    /// Whether it has a day and a time of day.
    pub(super) const fn is_dated(self) -> bool {
        self.has_date && self.has_clock
    }

    /// Whether a program wrote it.
    pub(super) const fn is_exact(self) -> bool {
        self.has_seconds || (self.has_date && self.has_clock)
    }
}

/// Whether the first characters of a text may be those of a stamp.
pub(super) fn may_be_stamp(text: &str) -> bool {
    match text.as_bytes() {
        [first, second, ..] if first.is_ascii_uppercase() => {
            second.is_ascii_digit() || MONTHS.iter().chain(&WEEKDAYS).any(|name| text.starts_with(&name[..3]))
        }
        _ => true,
    }
}

/// The stamp at the start of a text: `2024-05-01T10:00:00Z`, `[10:00]`, `May  1 10:00:00`, `1714557600.123`.
pub(super) fn stamp(text: &str) -> Option<Stamp> {
    let bytes = text.as_bytes();
    let is_open = matches!(bytes.first()?, b'[' | b'(');
    if let Some(end) = counted_seconds(bytes, usize::from(is_open)) {
        let stamp = Stamp { end, has_date: true, has_clock: true, has_seconds: true };
        return closed(bytes, stamp, is_open);
    }
    // The logger of Kubernetes: `I0501 10:00:00.000000`.
    let is_level = matches!(bytes, [b'I' | b'W' | b'E' | b'F', one, _, _, _, b' ', ..] if one.is_ascii_digit());
    let begin = if is_level { 5 } else { usize::from(is_open) };
    // `Monday 10:00`
    let day = named(text, begin, &WEEKDAYS).filter(|day| clock(bytes, *day).is_some());
    let mut found = Stamp { end: day.unwrap_or(begin), ..Stamp::default() };
    loop {
        let mut at = found.end + spaces(bytes, found.end);
        // `Jun 6, 2023 - 4:18 pm`
        if found.has_date && bytes.get(at) == Some(&b'-') {
            let after = at + 1 + spaces(bytes, at + 1);
            at = if clock(bytes, after).is_some() { after } else { at };
        }
        // `March 3, 2024 at 10:15 am`
        if found.has_date && bytes[at..].starts_with(b"at ") && clock(bytes, at + 3).is_some() {
            at += 3;
        }
        let named = || if found.has_date { None } else { named_date(text, at) };
        if let Some(end) = date(bytes, at).filter(|_| !found.has_date).or_else(named) {
            found.has_date = true;
            let joint = usize::from(matches!(bytes.get(end), Some(b'T' | b',' | b':' | b'_')));
            found.end = end + joint;
        } else if let Some((end, has_seconds)) = clock(bytes, at).filter(|_| !found.has_clock) {
            (found.has_clock, found.has_seconds) = (true, has_seconds);
            found.end = end;
        } else if found.has_date && found.has_clock && is_year(bytes, at) {
            found.end = at + 4;
        } else {
            break;
        }
    }
    // A date in words starts sentences, too, but not with a dash after it.
    let after = text[found.end..].trim_start_matches(',');
    let has_joint = [" - ", " – ", " — "].iter().any(|joint| after.starts_with(joint));
    let is_date = found.has_date && (bytes[usize::from(is_open)].is_ascii_digit() || has_joint);
    if found.has_clock || is_date { closed(bytes, found, is_open) } else { None }
}

/// Whether this is a day and nothing else: `3 May 2024`, `May 3, 2024`, `2024-05-03`.
pub(in crate::text::pieces) fn is_day(text: &str) -> bool {
    let Some(end) = date(text.as_bytes(), 0).or_else(|| named_date(text, 0)) else { return false };
    let rest = text[end..].trim_start_matches([',', ' ']);
    rest.is_empty() || rest.len() == 4 && is_year(rest.as_bytes(), 0)
}

/// The stamp with the bracket that closes it, if one opened it.
fn closed(bytes: &[u8], mut stamp: Stamp, is_open: bool) -> Option<Stamp> {
    if is_open {
        let rest = bytes[stamp.end..].iter().take(LONGEST_BRACKET_REST);
        stamp.end += rest.into_iter().position(|byte| matches!(byte, b']' | b')'))? + 1;
    }
    let is_whole = bytes.get(stamp.end).is_none_or(|next| !next.is_ascii_alphanumeric());
    is_whole.then_some(stamp)
}

fn spaces(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| **byte == b' ').count()
}

fn digits(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn is_year(bytes: &[u8], at: usize) -> bool {
    digits(bytes, at) == 4
}

/// The seconds since 1970, or since a computer started: `1714557600.123`, `[    0.000000]`.
fn counted_seconds(bytes: &[u8], from: usize) -> Option<usize> {
    let at = from + if from > 0 { spaces(bytes, from) } else { 0 };
    let whole = digits(bytes, at);
    let has_part = bytes.get(at + whole) == Some(&b'.');
    let part = if has_part { digits(bytes, at + whole + 1) } else { 0 };
    let is_epoch = matches!(whole, 10 | 13) && matches!(bytes[at], b'1' | b'2');
    let is_uptime = from > 0 && whole > 0 && part == 6;
    (is_epoch || is_uptime).then_some(at + whole + usize::from(part > 0) + part)
}

/// The end of a date in digits, or of `01/May/2024`.
fn date(bytes: &[u8], at: usize) -> Option<usize> {
    let first = digits(bytes, at);
    let mark = *bytes.get(at + first).filter(|mark| matches!(mark, b'-' | b'/' | b'.'))?;
    let second_at = at + first + 1;
    let second = match bytes.get(second_at..second_at + 3) {
        Some(month) if MONTHS.iter().any(|name| &name.as_bytes()[..3] == month) => 3,
        _ => digits(bytes, second_at),
    };
    let third_at = second_at + second + 1;
    if bytes.get(third_at - 1) != Some(&mark) {
        return None;
    }
    let third = digits(bytes, third_at);
    let is_date = match (first, second, third) {
        (4, 1..=2, 1..=2) | (1..=2, 1..=3, 4) => true,
        // Two digits of a version or an address are no year without a time after them.
        (1..=2, 1..=3, 2) => {
            matches!(bytes.get(third_at + 2..), Some([b',' | b' ', next, ..]) if next.is_ascii_digit() || *next == b' ')
        }
        _ => false,
    };
    let end = third_at + third;
    (is_date && bytes.get(end).is_none_or(|next| !matches!(next, b'.' | b'-'))).then_some(end)
}

/// The end of a date in words: `May  1`, `Wed May 01, 2024`, `1 May 2024`. The year may follow the time.
fn named_date(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let at = named(text, at, &WEEKDAYS).unwrap_or(at);
    let (day_at, is_first) = named(text, at, &MONTHS).map_or((at, true), |day| (day, false));
    let day = digits(bytes, day_at);
    if !(1..=2).contains(&day) {
        return None;
    }
    if !is_first {
        // `Jun 6, 2023`
        let end = day_at + day;
        let year = end + usize::from(bytes.get(end) == Some(&b','));
        let year = year + spaces(bytes, year);
        return Some(if year > end && is_year(bytes, year) { year + 4 } else { end });
    }
    let month = day_at + day + spaces(bytes, day_at + day);
    // `2 Nov, 09:12`
    let (name, rest) =
        text.get(month..)?.split_at_checked(text.get(month..)?.bytes().take_while(u8::is_ascii_alphabetic).count())?;
    let has_clock = rest.strip_prefix(", ").is_some_and(|time| clock(time.as_bytes(), 0).is_some());
    if has_clock && name.len() > 2 && MONTHS.iter().any(|month| month.starts_with(name)) {
        return Some(month + name.len());
    }
    let end = named(text, month, &MONTHS)?;
    is_year(bytes, end).then_some(end + 4)
}

/// What follows one of these names, which may be short: `Mon`, `Sept.`, `Wed,`.
fn named(text: &str, at: usize, names: &[&str]) -> Option<usize> {
    let rest = text.get(at..)?;
    let word = &rest[..rest.bytes().take_while(u8::is_ascii_alphabetic).count()];
    if word.len() < 3 || !names.iter().any(|name| name.starts_with(word)) {
        return None;
    }
    let end = at + word.len() + rest[word.len()..].bytes().take_while(|byte| matches!(byte, b',' | b'.')).count();
    (text.as_bytes().get(end) == Some(&b' ')).then(|| end + spaces(text.as_bytes(), end))
}

/// The end of a time of day, and whether it has seconds.
fn clock(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let hours = digits(bytes, at);
    let minutes = at + hours + 1;
    if !(1..=2).contains(&hours) || bytes.get(minutes - 1) != Some(&b':') || digits(bytes, minutes) != 2 {
        return None;
    }
    let mut end = minutes + 2;
    let mut has_seconds = bytes.get(end) == Some(&b':') && digits(bytes, end + 1) == 2;
    end += if has_seconds { 3 } else { 0 };
    if matches!(bytes.get(end), Some(b'.' | b',')) && digits(bytes, end + 1) > 0 {
        // Subtitles may leave out the hours: `00:01.000`.
        has_seconds = true;
        end += 1 + digits(bytes, end + 1);
    }
    let half = end + spaces(bytes, end).min(1);
    if matches!(bytes.get(half..half + 2), Some([b'A' | b'a' | b'P' | b'p', b'M' | b'm'])) {
        end = half + 2;
    }
    match bytes.get(end) {
        Some(b'Z') => end += 1,
        Some(b'+' | b'-') if digits(bytes, end + 1) >= 2 => {
            end += 1 + digits(bytes, end + 1);
            end += if bytes.get(end) == Some(&b':') { 1 + digits(bytes, end + 1) } else { 0 };
        }
        _ => {}
    }
    let is_whole = bytes.get(end).is_none_or(|next| !next.is_ascii_digit() && *next != b'%');
    is_whole.then_some((end, has_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_end_where_the_text_begins() {
        for (stamp_text, is_exact) in [
            ("2024-05-01T10:00:00Z", true),
            ("2024-05-01 10:00:00,123", true),
            ("2024-05-01T10:00:00.123+02:00", true),
            ("[2024-05-01 10:00:00]", true),
            ("[01/May/2024:10:00:00 +0000]", true),
            ("2024/05/01 10:00:00", true),
            ("[Wed May 01 10:00:00 2024]", true),
            ("May  1 10:00:00", true),
            ("I0501 10:00:00.000000", true),
            ("[    0.000000]", true),
            ("1714557600.123", true),
            ("01/05/2024, 10:07", true),
            ("[01.05.24, 10:07:33]", true),
            ("[10:00:17 INF]", true),
            ("[10:00]", false),
            ("(9:05)", false),
            ("10:07 AM", false),
            ("2024-05-01", false),
            ("01.05.2024", false),
        ] {
            let found = stamp(&format!("{stamp_text} Text 7.")).map(|stamp| (stamp.end, stamp.is_exact()));
            assert_eq!(found, Some((stamp_text.len(), is_exact)), "{stamp_text}");
        }
        for text in
            ["12 men", "10.0.0.17 is up", "1.10.22 is new", "May 1 was warm", "3.50", "[1] Ann", "1:3", "2024 was"]
        {
            assert!(stamp(text).is_none(), "{text}");
        }
    }
}
