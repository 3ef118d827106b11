//! Detects the format of a source from its start.
//!
//! Plain text parsed as Markdown or HTML loses more than the reverse, so the evidence has to be strong: a page starts
//! like HTML, or most of its lines are HTML tags, or tags break its lines; or it has several kinds of Markdown in the
//! usual places, or starts with a title above prose.

use super::Format;
use crate::text::pieces::marks::is_unspaced;

/// Bytes that detection examines.
const START: usize = 64 * 1024;

/// The least weight of [`Signs`] that makes a source Markdown.
const CONVINCING: usize = 4;

/// Never [`Format::Auto`].
pub(super) fn format(source: &str) -> Format {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let start = first_bytes(source, START);
    let opening = after_comments(start);
    if begins_with_tag(opening, &["!doctype html", "html", "head", "body"]) {
        return Format::Html;
    }
    // A shell script, or XML that is not HTML.
    if start.starts_with("#!") || start.trim_start().starts_with("<?xml") {
        return Format::Text;
    }
    let signs = Signs::of(start);
    let has_breaks = !signs.has_structure() && !signs.is_program() && breaks_lines_with_tags(opening);
    if !has_breaks && (signs.convince() || has_title_above_prose(start, &signs)) {
        return Format::Markdown;
    }
    let is_cut = start.len() < source.len();
    if has_breaks || is_fragment(opening, is_cut) { Format::Html } else { Format::Text }
}

/// At most `most` bytes, which end on a character boundary.
fn first_bytes(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// The text after white space, comments and an XML declaration.
fn after_comments(mut start: &str) -> &str {
    loop {
        start = start.trim_start();
        let end = match start {
            _ if start.starts_with("<!--") => "-->",
            _ if start.starts_with("<?xml") => "?>",
            _ => return start,
        };
        match start.find(end) {
            Some(at) => start = &start[at + end.len()..],
            None => return start,
        }
    }
}

fn begins_with_tag(text: &str, names: &[&str]) -> bool {
    let Some(text) = text.strip_prefix('<') else { return false };
    names.iter().any(|name| {
        let begins = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        begins && text[name.len()..].starts_with(|c: char| c == '>' || c == '/' || c.is_ascii_whitespace())
    })
}

/// Block elements; their tags are rare outside HTML.
const BLOCKS: [&str; 29] = [
    "address", "article", "aside", "blockquote", "center", "dd", "details", "div", "dl", "dt", "figure", "footer",
    "form", "h1", "h2", "h3", "h4", "header", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "tr",
    "ul",
];

/// Other elements that pages begin with.
const BEGINNINGS: [&str; 7] = ["a", "hr", "img", "script", "span", "strong", "style"];

/// Whether a text is an HTML fragment: it starts with a block element and ends with a tag (unless truncated) or has a
/// second one right after the end of one, or most of its lines start and end with tags, of different block elements.
fn is_fragment(text: &str, is_cut: bool) -> bool {
    let mut has_end = [false; BLOCKS.len()];
    // In a text about HTML, tags are words, or in ticks.
    let (mut ends, mut follows, mut is_word) = (0, false, text.contains('`'));
    for tag in text.split("</").skip(1) {
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if let Some(block) = BLOCKS.iter().position(|block| name.eq_ignore_ascii_case(block)) {
            has_end[block] = true;
            ends += 1;
            is_word |= tag.split_once('>').is_some_and(|(_, after)| after.starts_with(' '));
            follows |= tag.split_once('>').is_some_and(|(_, after)| begins_with_tag(after.trim_start(), &BLOCKS));
        }
    }
    let starts_so = begins_with_tag(text, &BLOCKS) || ends > 0 && begins_with_tag(text, &BEGINNINGS);
    follows |= ends > 1 && !is_word;
    let ends_so = is_cut || text.trim_end().ends_with('>');
    let is_one = starts_so && (ends_so || follows) && ends >= 1;
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tagged = || lines().filter(|line| line.starts_with('<') && line.ends_with('>')).count();
    let kinds = has_end.iter().filter(|&&has_end| has_end).count();
    is_one || (ends >= 3 && (starts_so || kinds >= 2) && tagged() * 2 > lines().count())
}

/// Elements within lines; their end tags show that tags which break lines are HTML.
const INLINE: [&str; 12] = ["a", "b", "code", "em", "font", "i", "s", "small", "span", "strong", "sub", "u"];

/// Whether tags end the lines of a text: `Intro<br>Text<br>`, `<b>Q</b><br>A`. Of a text about HTML and of a program, they
/// are words or in quotes.
fn breaks_lines_with_tags(text: &str) -> bool {
    let is_apart = |c: Option<char>| c.is_some_and(|c| c == ' ' || c == '|' || is_quote(c));
    let (mut breaks, mut words, mut ends) = (0, 0, 0);
    for (at, _) in text.match_indices('<') {
        let tag = &text[at..];
        if begins_with_tag(tag, &["br"]) {
            let after = tag.split_once('>').and_then(|(_, after)| after.chars().next());
            let is_word = is_apart(text[..at].chars().next_back()) || after.is_some_and(is_quote);
            *if is_word { &mut words } else { &mut breaks } += 1;
        } else if let Some(name) = tag.strip_prefix("</") {
            ends += usize::from(
                INLINE.iter().any(|inline| name.strip_prefix(inline).is_some_and(|end| end.starts_with('>'))),
            );
        }
    }
    breaks > words && breaks + ends >= 2
}

const fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '“' | '‘' | '”' | '’' | '\\' | '(')
}

/// Whether a text starts with its only `#` line, a title, and prose follows. A comment stands above code, settings or
/// records, or is itself a sentence.
fn has_title_above_prose(text: &str, signs: &Signs) -> bool {
    let mut lines = text.lines().map(str::trim_end).skip_while(|line| line.is_empty());
    let Some(title) = lines.next().filter(|line| heading_level(line).is_some() && !line.ends_with(is_end)) else {
        return false;
    };
    let is_text = |c: char| c.is_alphanumeric() && !c.is_lowercase() && !c.is_numeric();
    let starts_so = |line: &str| line.trim_start_matches(['*', '_', '“', '¿', '¡']).starts_with(is_text);
    let paragraph: Vec<&str> = lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let (Some(first), Some(last)) = (paragraph.first(), paragraph.last()) else { return false };
    let has_words = title.contains(char::is_alphabetic);
    has_words
        && starts_so(first)
        && last.ends_with(is_end)
        && paragraph.iter().all(|line| !line.starts_with('#'))
        && !signs.is_program()
}

/// A mark at the end of a sentence.
const fn is_end(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '।' | '۔' | '؟')
}

/// Counts of Markdown syntax in a text.
#[derive(Default)]
struct Signs {
    /// Headings after an empty line and before prose or more Markdown. All headings of level one count once, because
    /// comments of programs look like them.
    headings: usize,
    has_main_heading: bool,
    fences: usize,
    items: usize,
    links: usize,
    tables: usize,
    strong: usize,
    code: usize,
    has_front_matter: bool,
    /// Lines of code, and all lines, outside fences.
    program: usize,
    lines: usize,
}

impl Signs {
    fn of(text: &str) -> Self {
        let mut signs = Self { has_front_matter: has_front_matter(text), ..Self::default() };
        let mut fence: Option<&str> = None;
        // The previous line, and the level of the heading if the last non-empty line was one.
        let (mut before, mut heading) = ("", None);
        for line in text.lines().map(str::trim_end) {
            let content = line.trim_start();
            if let Some(open) = fence {
                if content.starts_with(open) {
                    signs.fences += 1;
                    fence = None;
                }
                continue;
            }
            if content.is_empty() {
                before = "";
                continue;
            }
            signs.lines += 1;
            let level = heading_level(line);
            let is_comment = level.is_some() && level == heading_level(before);
            if let Some(level) = heading.take()
                && !is_comment
                && is_markdown_or_prose(content)
                && (level > 1 || !std::mem::replace(&mut signs.has_main_heading, true))
            {
                signs.headings += 1;
            }
            if line.starts_with("```") || line.starts_with("~~~") {
                fence = Some(&line[..3]);
            } else if is_comment || line == "#" {
                signs.program += 1;
            } else if level.is_some() {
                heading = level.filter(|_| before.is_empty());
            } else {
                signs.items += usize::from(is_item(content));
                signs.tables += usize::from(is_delimiter_row(content) && before.contains('|'));
                signs.links += links(content);
                signs.strong += between_marks(content, "**");
                signs.code += between_marks(content, "`");
                signs.program += usize::from(is_program(line));
            }
            before = line;
        }
        signs
    }

    /// Headings alone are enough if there are several; otherwise several kinds of syntax, or many instances of one.
    /// Measured on 5,600 files of Rust's registry and a Linux system: 1 of 4,294 files that are neither HTML nor
    /// Markdown is detected as Markdown, 35 of 794 Markdown files (licences and such) as text, and all 542 HTML files
    /// as HTML.
    fn convince(&self) -> bool {
        let weigh = |count: usize, one: usize, more: usize| match count {
            0 => 0,
            1 => one,
            _ => more,
        };
        let weight = weigh(self.headings, 2, 4)
            + weigh(self.fences, 2, 3)
            + weigh(self.links, 1, 3)
            + weigh(self.tables, 3, 4)
            + weigh(self.strong, 1, 2)
            + weigh(self.items, 0, 1)
            + weigh(self.code, 0, 1);
        let is_program = self.is_program() && weight < 2 * CONVINCING;
        self.has_front_matter || (weight >= CONVINCING && self.has_structure() && !is_program)
    }

    const fn has_structure(&self) -> bool {
        self.headings + self.fences + self.links + self.tables > 0
    }

    /// Whether many lines are code.
    const fn is_program(&self) -> bool {
        self.program * 5 > self.lines
    }
}

/// Whether a text starts with front matter: keys between lines of three marks, and no key after them, unlike a YAML
/// file of several documents.
fn has_front_matter(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_end);
    let (marks, separator) = match lines.next() {
        Some("---") => ("---", ':'),
        Some("+++") => ("+++", '='),
        _ => return false,
    };
    let is_key = |line: &str| {
        let key = line.split(separator).next().unwrap_or_default().trim_end();
        key.len() < line.len() && key.chars().all(|c| c.is_alphanumeric() || "_-. ".contains(c))
    };
    lines.next().is_some_and(is_key)
        && lines.any(|line| line == marks)
        && lines.find(|line| !line.is_empty()).is_some_and(|line| !is_key(line))
}

fn heading_level(line: &str) -> Option<usize> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then_some(level)
}

/// Whether a line after a `#` line shows that it was a heading, not a comment.
fn is_markdown_or_prose(line: &str) -> bool {
    let marks = ["```", "~~~", "![", "[", "|", "> ", "<", "**"];
    let has_words =
        line.split_whitespace().nth(3).is_some() || line.chars().filter(|c| is_unspaced(*c)).nth(7).is_some();
    let is_prose = line.starts_with(char::is_alphabetic) && has_words;
    is_item(line)
        || heading_level(line).is_some()
        || marks.iter().any(|mark| line.starts_with(mark))
        || (is_prose && !is_program(line))
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let marks: &[&str] = if number.len() < line.len() { &[". ", ") "] } else { &["- ", "* ", "+ "] };
    marks.iter().any(|mark| number.starts_with(mark))
}

/// Whether this is the line between the header and the rows of a table.
fn is_delimiter_row(line: &str) -> bool {
    line.contains('|') && line.contains("--") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
}

/// Bytes of the longest link target.
const LONGEST_TARGET: usize = 2000;

/// Counts at most three links whose target looks like a URL or path.
fn links(line: &str) -> usize {
    let Some(bracket) = line.find('[') else { return 0 };
    let is_target = |rest: &str| {
        let rest = first_bytes(rest, LONGEST_TARGET);
        let target = rest.split(')').next().unwrap_or_default();
        let target = target.split(" \"").next().unwrap_or_default();
        target.len() < rest.len() && target.contains(['/', '.', '#', ':']) && !target.contains(' ')
    };
    let is_link = |&(at, _): &(usize, &str)| bracket < at && is_target(&line[at + 2..]);
    line.match_indices("](").filter(is_link).take(3).count()
}

/// Counts the spans of words between two of these marks.
fn between_marks(line: &str, marks: &str) -> usize {
    let parts: Vec<&str> = line.split(marks).collect();
    let outside = |part: &str| !part.ends_with(|c: char| c.is_alphanumeric() && !is_unspaced(c));
    let inside = |part: &str| !part.is_empty() && part.trim() == part && !part.starts_with('*');
    parts
        .chunks_exact(2)
        .filter(|pair| outside(pair[0]) && inside(pair[1]))
        .count()
        .min(parts.len().saturating_sub(1) / 2)
}

/// Whether a line looks like code.
fn is_program(line: &str) -> bool {
    const STARTS: [&str; 15] = [
        "import ", "from ", "def ", "class ", "return ", "export ", "echo ", "sudo ", "if [", "elif ", "fn ", "let ",
        "const ", "#include", "set -",
    ];
    const ENDS: [&str; 9] = [";", "{", "}", "):", "else:", "\\", "()", "&&", ","];
    let content = line.trim_start();
    let is_assignment = content.split_once(['=']).is_some_and(|(name, _)| {
        let name = name.trim_end();
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.[]".contains(c))
    });
    let starts = STARTS.iter().any(|start| content.starts_with(start)) && !line.ends_with('.');
    is_assignment || starts || ENDS.iter().any(|end| line.ends_with(end) && !(*end == "," && content == line))
}

#[cfg(test)]
mod tests;
