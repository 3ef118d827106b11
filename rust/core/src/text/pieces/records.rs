//! Records: lines that stand alone, as in logs, chats, CSV and TSV.
//!
//! They often have equal widths, and so look like wrapped prose.

use super::lines::content;

/// Separators in a line that prose may have.
const MAX_SEPARATORS_IN_PROSE: usize = 2;

/// Whether two adjacent lines are records of one kind.
pub(super) fn are_records(line: &str, next: &str) -> bool {
    (has_timestamp(line) && has_timestamp(next)) || have_equal_fields(line, next)
}

/// Whether a line starts with a date or time: `2024-05-01 12:00`, `[12:03] anna:`, `12:00:10.5 INFO`.
fn has_timestamp(line: &str) -> bool {
    let line = content(line);
    let line = line.strip_prefix(['[', '(']).unwrap_or(line).as_bytes();
    let digits =
        |from: usize| line.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
    let first = digits(0);
    let second = digits(first + 1);
    match line.get(first) {
        Some(b':') => (1..=2).contains(&first) && second == 2,
        Some(mark @ (b'-' | b'/' | b'.')) => {
            (1..=4).contains(&first) && (1..=2).contains(&second) && line.get(first + 1 + second) == Some(mark)
        }
        _ => false,
    }
}

/// Whether both lines have equally many fields, separated by tabs, or by commas or semicolons without a space.
fn have_equal_fields(line: &str, next: &str) -> bool {
    let tabs = |line: &str| bytecount::count(line.as_bytes(), b'\t');
    let separators = |line: &str, mark: u8| {
        let bytes = line.as_bytes();
        bytes.windows(2).filter(|two| two[0] == mark && !two[1].is_ascii_whitespace()).count()
    };
    let are_equal = |count: usize, other: usize, above: usize| count > above && count == other;
    are_equal(tabs(line.trim()), tabs(next.trim()), 0)
        || [b',', b';']
            .iter()
            .any(|&mark| are_equal(separators(line, mark), separators(next, mark), MAX_SEPARATORS_IN_PROSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_records() {
        for (line, next) in [
            ("2024-05-01 12:00 a", "2024-05-02 b"),
            ("[12:03] anna: hi", "[12:04] bob: hi"),
            ("1,2,,x", "\"a, b\",2,3,4"),
            ("a\tb c", "d e\tf"),
        ] {
            assert!(are_records(line, next), "{line:?} {next:?}");
        }
        for (line, next) in [
            ("12 men, 3 women", "12:30 was the time"),
            ("one, two, three, four", "five, six, seven, eight"),
            ("1.5 to 3.5", "2.11.0 is new"),
            ("10,000 and 20,000", "30,000 and 40,000"),
            ("\tindented", "\tindented"),
            ("1,2,3,4", "1,2,3"),
        ] {
            assert!(!are_records(line, next), "{line:?} {next:?}");
        }
    }
}
