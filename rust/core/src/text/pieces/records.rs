//! Records: lines that stand alone, as in logs, chats, CSV and TSV, and the header of CSV and TSV.
//!
//! Records often have equal widths, and so look like wrapped prose.

use super::lines::content;

/// Separators in a line that prose may have.
const MAX_SEPARATORS_IN_PROSE: usize = 2;

/// Bytes of the longest name of a column.
const LONGEST_NAME: usize = 60;

/// Records below a header that make a table.
const MIN_RECORDS: usize = 2;

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

/// Whether these lines, of which there are no more than three, start a table of CSV or TSV: a header, then records.
///
/// Fields are separated by tabs, commas or semicolons, without a space after them, as prose has it. The header names at
/// least two, each once; the first may be empty. Records have no more fields than that: the last ones may be missing.
pub(super) fn start_table(lines: &[&str]) -> bool {
    let [header, records @ ..] = lines else { return false };
    [b'\t', b',', b';'].into_iter().any(|mark| {
        let Some(names) = fields(header, mark).filter(|names| names.len() > 1) else { return false };
        let is_name = |name: &&str| {
            name.contains(char::is_alphabetic)
                && name.len() <= LONGEST_NAME
                && !name.contains(['=', '{', '}', '<', '>', ',', ';', '!', '?', '\t'])
                && !name.ends_with('.')
                && name.matches('(').count() == name.matches(')').count()
        };
        let is_record = |line: &&str| {
            let cells = fields(line, mark).unwrap_or_default();
            (2..=names.len()).contains(&cells.len()) && !cells[0].is_empty()
        };
        let has_numbers = || records.iter().all(|line| line.contains(char::is_numeric));
        records.len() >= MIN_RECORDS
            && names[usize::from(names[0].is_empty())..].iter().all(is_name)
            && (1..names.len()).all(|place| !names[..place].contains(&names[place]))
            && records.iter().all(is_record)
            && (names.len() > MAX_SEPARATORS_IN_PROSE + usize::from(mark != b'\t') || has_numbers())
    })
}

/// The fields of a line, without the quotes around them; `None` if a mark outside quotes is followed by a space, or a
/// quote stays open.
fn fields(line: &str, mark: u8) -> Option<Vec<&str>> {
    let (mut cells, mut start, mut is_quoted) = (Vec::new(), 0, false);
    let bytes = line.as_bytes();
    for (place, byte) in bytes.iter().enumerate() {
        if *byte == b'"' {
            is_quoted = !is_quoted;
        } else if *byte == mark && !is_quoted {
            if mark != b'\t' && bytes.get(place + 1) == Some(&b' ') {
                return None;
            }
            cells.push(&line[start..place]);
            start = place + 1;
        }
    }
    cells.push(&line[start..]);
    (!is_quoted).then(|| cells.into_iter().map(|cell| cell.trim().trim_matches('"')).collect())
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

    #[test]
    fn headers_start_tables() {
        for lines in [
            ["version,codename,eol-server", "4.10,Warty Warthog", "16.04 LTS,Xenial Xerus,2021-04-30"],
            ["\"name\",\"price (net)\"", "\"Tea, green\",3.50", "Coffee,4"],
            ["name\tcity\tland", "Anna\tBern", "Ben\tRome\tIT"],
            ["Name;Straße;Ort;Land", "Anna;Weg 1;Bern;CH", "Ben;Via;Rom;IT"],
        ] {
            assert!(start_table(&lines), "{lines:?}");
        }
        for lines in [
            ["1,2,3", "4,5,6", "7,8,9"],
            ["Apples, pears, plums", "three, 4, five", "6, 7, 8"],
            ["let a = f(b,c);", "let d = g(e,1);", "let h = i(j,2);"],
            ["name,price", "Tea,3", "and then they said 4"],
            ["name,name", "Tea,3", "Coffee,4"],
            ["ADAM\tMy young master", "\tO my gentle master 1", "\tO my sweet master 2"],
            ["ADAM\tMy master", "ANNA\tWho is it", "ADAM\tIt is he"],
            ["yes,no", "we,they", "in,out"],
            ["name,\"open", "Tea,3", "Coffee,4"],
        ] {
            assert!(!start_table(&lines), "{lines:?}");
        }
        assert!(!start_table(&["name,price", "Tea,3"]), "one record is none of a kind");
    }
}
