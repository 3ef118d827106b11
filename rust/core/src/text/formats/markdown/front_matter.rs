//! Front matter: metadata at the start of a source, in YAML between `---` or in TOML between `+++`.
//!
//! The parser's own extension finds such blocks anywhere, where they are a rule and a heading; this only examines the
//! start.

use crate::text::page::ByteSpan;

pub(super) struct FrontMatter {
    /// Its lines, including the marks.
    pub(super) span: ByteSpan,
    /// The value of its key `title`.
    pub(super) title: Option<String>,
}

/// The front matter of a source: a line of three marks, a line that is not blank, and a closing line of marks.
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

/// The value of a `title` line, without quotation marks.
fn value_of_title(line: &str, separator: char) -> Option<String> {
    let value = line.strip_prefix("title")?.trim_start().strip_prefix(separator)?.trim();
    let unquoted = ['"', '\''].iter().find_map(|&mark| value.strip_prefix(mark)?.strip_suffix(mark));
    let title = unquoted.unwrap_or(value).trim();
    (!title.is_empty()).then(|| title.to_owned())
}
