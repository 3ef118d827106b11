//! CSV and TSV: a header, then records, which quotes may let run over line ends.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};

use super::run::{Lines, MAX_SEPARATORS_IN_PROSE, Run};
use crate::text::page::BlockKind;

/// Bytes of the longest name of a column.
const LONGEST_NAME: usize = 60;

/// Records below a header that make a table.
const MIN_RECORDS: usize = 2;

/// Bytes of the longest record over several lines: an open quote would take the rest of the page.
const LONGEST_RECORD: usize = 16 * 1024;

/// The same before it is known whether this is a table.
const LONGEST_FIRST_RECORD: usize = 2 * 1024;

/// Quotes of a table that nothing closes. After these, a quote is a mark like others.
const MAX_OPEN_QUOTES: usize = 4;

/// Fields are separated by tabs, commas or semicolons, without a space after them, as prose has it. The header names at
/// least two, each once; the first may be empty. Records have no more fields than that: the last ones may be missing.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    if !lines.marks.has_tab() && !lines.marks.has_tight_separator() {
        return Err(at + 1);
    }
    let line = lines.get(at).unwrap_or_default();
    // A number such as 1,000 is not worth a reader: the line below has separators too, unless a quote runs on there.
    let runs_on = bytecount::count(line.as_bytes(), b'"') % 2 == 1;
    let below = lines.get(at + 1).unwrap_or_default();
    let has_both = |mark: &u8| has_separators(line, *mark) && (runs_on || has_separators(below, *mark));
    let marks = [b'\t', b',', b';'].into_iter().filter(has_both);
    let mut readers =
        marks.map(|mark| Records { lines, reader: ReaderBuilder::new().delimiter(mark).build(), mark, open_quotes: 0 });
    let mut records = readers.find_map(|mut records| records.start_table(at).then_some(records)).ok_or(at + 1)?;
    let mut blocks = Vec::new();
    let mut end = at;
    while !lines.is_blank(end) {
        let next = records.read(end, None);
        let kind = if end == at { BlockKind::HeaderRow } else { BlockKind::Row };
        blocks.push(lines.block(end..next, kind, end > at));
        end = next;
    }
    Ok(Run { blocks, end })
}

/// Whether a line has this separator as tables have it.
fn has_separators(line: &str, mark: u8) -> bool {
    let bytes = line.as_bytes();
    bytes.windows(2).any(|pair| pair[0] == mark && (mark == b'\t' || !pair[1].is_ascii_whitespace()))
}

/// The records of a table.
struct Records<'page> {
    lines: &'page Lines<'page>,
    reader: Reader,
    mark: u8,
    open_quotes: usize,
}

impl Records<'_> {
    /// Whether a header and enough records start here.
    fn start_table(&mut self, at: usize) -> bool {
        let mut names = Vec::new();
        let mut next = self.read(at, Some(&mut names));
        let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        let is_name = |name: &&str| {
            name.contains(char::is_alphabetic)
                && name.len() <= LONGEST_NAME
                && !name.contains(['=', '{', '}', '<', '>', ',', ';', '!', '?', '\t'])
                && (!name.ends_with('.') || !name.contains(' '))
                // An open quote.
                && !name.starts_with('\'')
                && name.matches('(').count() == name.matches(')').count()
        };
        let are_names = names.len() > 1
            && names[usize::from(names[0].is_empty())..].iter().all(is_name)
            && (1..names.len()).all(|place| !names[..place].contains(&names[place]));
        if !are_names {
            return false;
        }
        let mut has_numbers = true;
        for _ in 0..MIN_RECORDS {
            if self.lines.is_blank(next) {
                return false;
            }
            let mut fields = Vec::new();
            next = self.read(next, Some(&mut fields));
            let is_prose = self.mark != b'\t' && fields.iter().skip(1).any(|field| field.starts_with(' '));
            if is_prose || !(2..=names.len()).contains(&fields.len()) || fields[0].trim().is_empty() {
                return false;
            }
            has_numbers &= fields.iter().any(|field| field.contains(char::is_numeric));
        }
        names.len() > MAX_SEPARATORS_IN_PROSE + usize::from(self.mark != b'\t') || has_numbers
    }

    /// Reads the record that starts with a line. Returns the line after it.
    fn read(&mut self, at: usize, mut fields: Option<&mut Vec<String>>) -> usize {
        let line = self.lines.get(at).unwrap_or_default();
        if fields.is_none() && (self.open_quotes >= MAX_OPEN_QUOTES || !line.contains('"')) {
            return at + 1;
        }
        let longest = if fields.is_some() { LONGEST_FIRST_RECORD } else { LONGEST_RECORD };
        let rest = self.lines.bytes(at, longest);
        let length = self.length(rest, fields.as_deref_mut());
        let length = length.unwrap_or_else(|| {
            // Nothing closes the quote: it is a mark of inches, say.
            self.open_quotes += 1;
            if let Some(fields) = fields.as_deref_mut() {
                fields.clear();
            }
            self.length(line.replace('"', "'").as_bytes(), fields).unwrap_or(line.len())
        });
        self.lines.line_from(at + 1, self.lines.start(at) + length)
    }

    /// The bytes of the first record; `None` if a quote stays open.
    fn length(&mut self, rest: &[u8], mut fields: Option<&mut Vec<String>>) -> Option<usize> {
        if !may_close(rest) {
            return None;
        }
        self.reader.reset();
        let (mut read, mut field) = (0, Vec::new());
        let mut output = [0; 1024];
        loop {
            let (result, taken, written) = self.reader.read_field(&rest[read..], &mut output);
            read += taken;
            field.extend_from_slice(&output[..written]);
            match result {
                ReadFieldResult::Field { record_end } => {
                    if let Some(fields) = fields.as_deref_mut() {
                        fields.push(String::from_utf8_lossy(&field).into_owned());
                    }
                    field.clear();
                    if record_end {
                        break;
                    }
                }
                // At the end of the page, a call without input ends the record.
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::End => break,
            }
        }
        let quotes = bytecount::count(&rest[..read], b'"');
        quotes.is_multiple_of(2).then_some(read)
    }
}

/// Whether a line ends after an even number of quotes, so that the first record may end there.
fn may_close(rest: &[u8]) -> bool {
    let mut is_open = false;
    let ends = rest.iter().any(|byte| {
        is_open ^= *byte == b'"';
        !is_open && matches!(byte, b'\n' | b'\r')
    });
    ends || !is_open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::pieces::lines::lines;

    /// The rows of the table at the start of a text.
    fn rows(text: &str) -> Option<Vec<&str>> {
        let found: Vec<_> = lines(text).collect();
        let shapes: Vec<_> = found.iter().map(|line| line.shape).collect();
        let mut lines = Lines::new(text, &found, &shapes);
        lines.reach(0);
        let run = run(&lines, 0).ok()?;
        Some(run.blocks.iter().map(|block| block.span.of(text)).collect())
    }

    #[test]
    fn headers_start_tables() {
        for lines in [
            ["version,codename,eol-server", "4.10,Warty Warthog", "16.04 LTS,Xenial Xerus,2021-04-30"],
            ["\"name\",\"price (net)\"", "\"Tea, green\",3.50", "Coffee,4"],
            ["name\tcity\tland", "Anna\tBern", "Ben\tRome\tIT"],
            ["Name;Straße;Ort;Land", "Anna;Weg 1;Bern;CH", "Ben;Via;Rom;IT"],
            ["Nr.;Name;Ort", "1;Anna;Bern", "2;Ben;Rom"],
        ] {
            assert_eq!(rows(&lines.join("\n")).expect("a table"), lines);
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
            assert!(rows(&lines.join("\n")).is_none(), "{lines:?}");
        }
        assert!(rows("name,price\nTea,3").is_none(), "one record is none of a kind");
    }
}
