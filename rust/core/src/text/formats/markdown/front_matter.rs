//! Front matter: what a source says of itself before it starts, in YAML between `---` or in TOML between `+++`.
//!
//! The parser's own extension finds such blocks anywhere in a source, where they are a rule and a heading; only the
//! start of a source is looked at here.

use crate::text::page::ByteSpan;

/// Front matter that was found.
pub(super) struct FrontMatter {
    /// Its lines, the first and the last one included.
    pub(super) span: ByteSpan,
    /// What it calls the source.
    pub(super) title: Option<String>,
}

/// The front matter of a source: a first line of three marks, one that is not blank, and a line of the same marks.
pub(super) fn find(source: &str) -> Option<FrontMatter> {
    let text = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    let (marks, separator): (&[&str], char) = match first.trim_end() {
        "---" => (&["---", "..."], ':'),
        "+++" => (&["+++"], '='),
        _ => return None,
    };
    let mut end = source.len() - text.len() + first.len();
    let mut title = None;
    for (index, line) in lines.enumerate() {
        end += line.len();
        let content = line.trim_end();
        let closes = marks.contains(&content);
        if index == 0 && (closes || content.is_empty()) {
            return None;
        }
        if closes {
            return Some(FrontMatter { span: ByteSpan { start: 0, end }, title });
        }
        title = title.or_else(|| value_of_title(content, separator));
    }
    None
}

/// The value of a line that gives the title, without its quotation marks.
fn value_of_title(line: &str, separator: char) -> Option<String> {
    let value = line.strip_prefix("title")?.trim_start().strip_prefix(separator)?.trim();
    let unquoted = ['"', '\''].iter().find_map(|&mark| value.strip_prefix(mark)?.strip_suffix(mark));
    let title = unquoted.unwrap_or(value).trim();
    (!title.is_empty()).then(|| title.to_owned())
}
