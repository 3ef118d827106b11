//! Source code and configuration without a fence, recognised by the shape of its lines: statements, brackets and keys,
//! with comments, strings and deeper lines between them.

use super::run::{Lines, Run};
use crate::text::page::BlockKind;
use crate::text::pieces::lines::{LineShape, indent};
use crate::text::pieces::list_marks::Mark;

/// Lines of a statement of SQL.
const LONGEST_QUERY: usize = 30;

/// Blank lines inside code.
const MAX_BLANK_LINES: usize = 3;

/// Bytes of the mark of an item.
const LONGEST_MARK: usize = 6;

/// Words of a command without any mark.
const MAX_COMMAND_WORDS: usize = 4;

/// Spaces before commands: what stands farther from the left edge is a date, a name or the number of a page.
const DEEPEST_COMMANDS: usize = 8;

/// Words that start a statement of a program. In prose they are words too, so a mark of code has to follow.
const KEYWORDS: [&str; 47] = [
    "async", "await", "break", "case", "class", "const", "continue", "def", "defer", "do", "elif", "else", "enum",
    "except", "export", "extern", "final", "finally", "fn", "for", "from", "func", "function", "if", "impl", "import",
    "interface", "let", "match", "mod", "module", "package", "private", "protected", "pub", "public", "raise",
    "return", "static", "struct", "template", "switch", "throw", "try", "type", "use", "while",
];

/// Further ones, of which some need no mark.
const SHELL: [&str; 14] =
    ["echo", "fi", "done", "then", "esac", "set", "cd", "sudo", "exit", "local", "unset", "alias", "pass", "var"];

/// Words in capitals that start a statement or a clause of SQL, or a step of a Dockerfile.
const CLAUSES: [&str; 37] = [
    "SELECT", "FROM", "WHERE", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "JOIN", "LEFT", "INNER",
    "GROUP", "ORDER", "HAVING", "VALUES", "UNION", "LIMIT", "WITH", "SET", "ON", "AND", "OR", "BEGIN", "GRANT",
    "WORKDIR", "COPY", "RUN", "CMD", "ENTRYPOINT", "ENV", "ARG", "EXPOSE", "ADD", "VOLUME", "USER", "LABEL",
];

/// Statements of SQL in lower case, and the word that follows in the same or the next line.
const QUERIES: [(&str, &str); 7] = [
    ("select", "from"),
    ("insert", "into"),
    ("create", "table"),
    ("delete", "from"),
    ("update", "set"),
    ("alter", "table"),
    ("drop", "table"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A statement, a bracket, or a setting.
    Code,
    Comment,
    /// What may stand inside code, if it is indented.
    Other,
}

pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let first = lines.get(at).ok_or(at + 1)?;
    if let Some(end) = commands_end(lines, at) {
        return Ok(Run { blocks: lines.blocks(at..end, BlockKind::Code).collect(), end });
    }
    let is_head = || lines.get(at + 1) == Some("{");
    let begins = lines.marks.has_code() && class(first) != Class::Other
        || lines.marks.has_quote() && (opens_string(first).is_some() || class(first) == Class::Comment)
        || begins_plainly(first)
        || is_head()
        || starts_query(lines, at);
    if !begins {
        return Err(at + 1);
    }
    let depth = indent(first);
    let (mut line, mut end, mut blanks) = (at, at, 0);
    // A comment below a blank line belongs to the code only if more follows.
    let mut is_pending = false;
    let (mut code, mut others) = (0, 0);
    // What ends the comment or string over several lines.
    let mut closing: Option<&str> = None;
    // SQL may go on without marks of code up to its semicolon.
    let mut in_statement = false;
    // After its first line, each part of a diff goes on with marked lines.
    let mut in_diff = false;
    // Where functions, sections and files of a diff start.
    let mut starts = vec![at];
    while let Some(text) = lines.get(line) {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            blanks += 1;
            if blanks > MAX_BLANK_LINES {
                break;
            }
            in_statement = false;
            line += 1;
            continue;
        }
        let is_inside = closing.is_some();
        let is_deeper = indent(text) > depth && code > 0;
        let is_head = || lines.get(line + 1).is_some_and(|next| next.trim() == "{");
        let class = match class(text) {
            _ if is_inside => Class::Comment,
            Class::Other if in_diff && text.starts_with(['+', '-', ' ', '\\']) => Class::Code,
            Class::Other if is_head() || starts_query(lines, line) => Class::Code,
            // The line that failed, and why: `>       assert gate.is_open`, `E       assert False`.
            Class::Other if code > 0 && (text.starts_with(">   ") || text.starts_with("E   ")) => Class::Code,
            class => class,
        };
        match class {
            Class::Code => code += 1,
            Class::Comment => {}
            Class::Other if opens_string(trimmed).is_some() => {}
            Class::Other if is_deeper || in_statement => others += 1,
            Class::Other => break,
        }
        let is_outer = blanks > 0 && !is_inside && !is_deeper && !closes(trimmed);
        if (is_outer && class != Class::Other) || text.starts_with("diff --git ") {
            starts.push(line);
        }
        in_diff |= text.starts_with("@@ ");
        closing = match closing {
            Some(mark) => Some(mark).filter(|mark| !trimmed.contains(mark)),
            None => opens_string(trimmed),
        };
        in_statement = !trimmed.ends_with(';') && (in_statement || is_clause(trimmed) || starts_query(lines, line));
        line += 1;
        is_pending = class != Class::Code && !is_deeper && (is_pending || blanks > 0);
        blanks = 0;
        if code > 0 && !is_pending {
            end = line;
        }
    }
    let is_code = code > 1 && code * 2 > others && end - at > 1;
    if !is_code {
        return Err(line.max(at + 1));
    }
    starts.retain(|start| *start < end);
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([end]);
    let blocks = starts.iter().zip(ends).flat_map(|(start, end)| lines.blocks(*start..end, BlockKind::Code)).collect();
    Ok(Run { blocks, end })
}

/// The end of commands without a prompt: a paragraph in lower case that stands deeper than the one above it, and has no
/// sentence.
fn commands_end(lines: &Lines<'_>, at: usize) -> Option<usize> {
    let depth = indent(lines.get(at)?);
    let is_flatter = |line: &str| indent(line) < depth && depth <= indent(line) + DEEPEST_COMMANDS;
    let is_below =
        at > 1 && lines.is_blank(at - 1) && !lines.is_blank(at - 2) && lines.get(at - 2).is_some_and(is_flatter);
    if !is_below || lines.shape(at) != LineShape::Text {
        return None;
    }
    let mut end = at;
    let mut goes_on = false;
    while let Some(line) = lines.get(end).filter(|_| !lines.is_blank(end)) {
        if indent(line) < depth || !goes_on && !is_command(line.trim()) {
            return None;
        }
        goes_on = line.ends_with('\\');
        end += 1;
    }
    Some(end)
}

/// `docker system df -v | grep web`, `timedatectl status`
fn is_command(line: &str) -> bool {
    let is_short = || line.split(' ').count() <= MAX_COMMAND_WORDS;
    let has_mark =
        || line.contains(" -") || line.contains(" | ") || line.contains(['/', '=', '\\', '_', '<', '>', '&', '$', '@']);
    line.starts_with(|c: char| c.is_ascii_lowercase() || matches!(c, '.' | '/' | '~' | '$'))
        && (!line.ends_with(['.', '!', '?', ':', ',', ';']) || line.ends_with(" ."))
        && (is_short() || has_mark())
}

/// Whether a line only ends what is above: `})`, `end`.
fn closes(text: &str) -> bool {
    text.starts_with(['}', ')', ']', '{']) || matches!(text, "end" | "end;" | "fi" | "done" | "esac" | "*/")
}

/// Whether a line without marks of code may start it: a comment, or a word that needs none.
fn begins_plainly(line: &str) -> bool {
    let text = line.trim_start();
    match text.as_bytes() {
        [b'#' | b'-', ..] => class(line) != Class::Other,
        [first, second, ..] if first.is_ascii_uppercase() => second.is_ascii_uppercase() && is_clause(text),
        _ => {
            let word = text.split(' ').next().unwrap_or_default();
            matches!(
                word,
                "import" | "from" | "package" | "return" | "pass" | "set" | "cd" | "echo" | "fi" | "done" | "then"
            ) && class(line) != Class::Other
        }
    }
}

/// What closes the comment or string that a line opens and leaves open.
fn opens_string(line: &str) -> Option<&'static str> {
    let text = line.trim();
    for mark in ["\"\"\"", "'''"] {
        if text.matches(mark).count() % 2 == 1 {
            return Some(mark);
        }
    }
    let open = text.rfind("/*")?;
    let is_comment = open == 0 || text.as_bytes()[open - 1] == b' ';
    (is_comment && !text[open..].contains("*/")).then_some("*/")
}

fn class(line: &str) -> Class {
    let text = line.trim();
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return Class::Other };
    if is_clause_of_list(text) {
        return Class::Other;
    }
    match first {
        b'#' if text.starts_with("#!")
            || text.starts_with("#include")
            || text.starts_with("#define")
            || text.starts_with("#[") =>
        {
            return Class::Code;
        }
        b'#' | b';' => return Class::Comment,
        b'/' if text.starts_with("//") || text.starts_with("/*") => return Class::Comment,
        b'*' if indent(line) > 0 || text == "*/" => return Class::Comment,
        b'-' if text.starts_with("-- ") || text == "--" => return Class::Comment,
        b'-' if text.starts_with("- ") => return if is_setting(&text[2..]) { Class::Code } else { Class::Other },
        b'@' if is_name(text[1..].split('(').next().unwrap_or_default()) => return Class::Code,
        b'@' if text.starts_with("@@ ") => return Class::Code,
        b'+' | b'-' if text.starts_with("+++ ") || text.starts_with("--- ") => return Class::Code,
        b'i' if text.starts_with("index ") && text.contains("..") => return Class::Code,
        b'd' if (text.starts_with("diff --git ") || text.starts_with("deleted file")) => return Class::Code,
        b'<' if text.ends_with('>') && bytes.len() > 3 => return Class::Code,
        b'"' if text.starts_with("\"\"\"") => return Class::Comment,
        b'\'' if text.starts_with("'''") => return Class::Comment,
        _ => {}
    }
    let code = without_comment(text);
    let is_code = is_bracket(code)
        || is_section(code)
        || is_assignment(code)
        || is_call(code)
        || is_statement(code)
        || is_setting(code);
    if is_code || is_clause(text) { Class::Code } else { Class::Other }
}

/// Whether an item of a list ends with a semicolon: `(b) the joints;`, `2. the joints;`
fn is_clause_of_list(text: &str) -> bool {
    let begin = &text.as_bytes()[..text.len().min(LONGEST_MARK)];
    text.starts_with(|c: char| c == '(' || c.is_ascii_alphanumeric())
        && begin.iter().any(|byte| matches!(byte, b')' | b'.'))
        && Mark::at_start(text).is_some_and(|mark| text[mark.end..].trim_start().starts_with(char::is_alphabetic))
}

/// The line without the comment at its end.
fn without_comment(text: &str) -> &str {
    let comment = [" // ", " # ", " -- ", " /* "].iter().filter_map(|mark| text.find(mark)).min();
    text[..comment.unwrap_or(text.len())].trim_end()
}

/// Whether a line has only brackets and marks: `});`.
fn is_bracket(code: &str) -> bool {
    code.bytes().all(|byte| matches!(byte, b'{' | b'}' | b'(' | b')' | b'[' | b']' | b';' | b','))
}

/// `[server]`, `[[servers.web]]`
fn is_section(code: &str) -> bool {
    let name = code.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.is_some_and(|name| {
        let name = name.trim_start_matches('[').trim_end_matches(']');
        name.starts_with(|c: char| c.is_alphabetic() || c == '"')
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '"' | '/' | ' ' | '*' | '@'))
            && name.split(' ').count() <= 2
    })
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'))
        && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-'))
}

/// `total = 1`, `self.size += 1`, `path := at`, `let x: int = 3`, `NAME="x"`
fn is_assignment(code: &str) -> bool {
    let Some(at) = code.find('=') else { return false };
    let (target, value) = (code[..at].trim_end(), &code[at + 1..]);
    let target = target.trim_end_matches([':', '+', '-', '*', '/', '|', '&', '?', '.', '<', '>', '!', '=', ' ']);
    let target = target.split(": ").next().unwrap_or_default();
    let words: Vec<&str> = target.split(' ').take(5).collect();
    let is_target = |word: &&str| {
        let name = word.trim_end_matches([',', ':']);
        let name = name
            .split(['[', '(', '<'])
            .next()
            .unwrap_or_default()
            .trim_start_matches(['*', '&', '{', '"'])
            .trim_end_matches('"');
        name.is_empty() || is_name(name)
    };
    let is_declared = words.len() > 1
        && (KEYWORDS.contains(&words[0]) || words[0] == "var" || words.len() <= 3 && code.ends_with(';'));
    let are_names = words.iter().all(is_target) && !target.is_empty();
    are_names
        && !value.is_empty()
        && (words.len() == 1 || is_declared || words[..words.len() - 1].iter().all(|word| word.ends_with(',')))
        || words.len() == 1 && is_name(target) && value.is_empty()
}

/// `print(x)`, `self.pages.len();`, `foo(a, b) {`, `.filter(x)`
fn is_call(code: &str) -> bool {
    let Some(open) = code.find('(') else { return false };
    let name = code[..open].trim_start_matches(['.', '!', '*', '&']).trim_end_matches('!');
    let name = name.rsplit("::").next().unwrap_or_default();
    let ends = code.ends_with([')', ';', '{', ',', '(', '?', '[']) || code.ends_with("=>");
    is_name(name) && ends && (name.len() > 1)
}

/// A statement that a keyword starts, or that ends as only statements do.
fn is_statement(code: &str) -> bool {
    let has_mark = code.contains(['(', ')', '{', '}', '=', ';', '<', '[', '"', '\'', '$', '&'])
        || code.contains("::")
        || code.contains("->");
    let mut words = code.split([' ', '(', ':', ';', '{']);
    let word = words.next().unwrap_or_default();
    let ends = code.ends_with([';', '{', '}', ':', ',', '(', ')', '[', ']', '\\', '>']);
    let count = code.split(' ').count();
    if code.ends_with('{')
        || code.ends_with("};")
        || code.ends_with("});")
        || code.ends_with(") =>")
        || code.starts_with('}')
    {
        return true;
    }
    if matches!(
        word,
        "fi" | "done" | "esac" | "then" | "pass" | "break" | "continue" | "else" | "do" | "try" | "finally" | "end"
    ) {
        return code.trim_end_matches([';', ':']) == word || (ends && has_mark);
    }
    if matches!(word, "import" | "package" | "use" | "module" | "from") {
        let names = code.split(' ').skip(1);
        let are_names = names.clone().next().is_some()
            && names.clone().all(|name| {
                matches!(name, "import" | "as" | "from" | "static" | "*" | "{" | "}")
                    || !name.ends_with('.') && is_path(name)
            });
        return are_names
            && (count == 2
                || code.contains(" import ")
                || code.contains(" from ")
                || code.contains(" as ")
                || code.ends_with(';'));
    }
    if KEYWORDS.contains(&word) || SHELL.contains(&word) {
        let is_return = matches!(word, "return" | "raise" | "throw" | "exit" | "set" | "cd") && count <= 2;
        return is_return
            || (has_mark && ends)
            || matches!(word, "return" | "echo" | "export" | "local")
                && has_mark
                && code.contains(['(', '"', '$', '='])
            || code.ends_with(':') && is_python_head(word);
    }
    // `int count;`, `total -= x / 2;`
    code.ends_with(';') && (has_mark && code.matches([';', '(', '=', ')']).count() > 1 || count <= 2)
}

fn is_python_head(word: &str) -> bool {
    matches!(word, "def" | "class" | "if" | "elif" | "for" | "while" | "with" | "except" | "match" | "case" | "async")
}

fn is_path(name: &str) -> bool {
    name.trim_matches(['"', '\'', ';', ',', '{', '}', '(', ')', '<', '>'])
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '-' | '@' | '*' | '{' | '}'))
}

/// `SELECT id, total`: a word in capitals starts a clause.
fn is_clause(text: &str) -> bool {
    let mut words = text.split([' ', '(']);
    let first = words.next().unwrap_or_default();
    // In a licence, all words have capitals.
    let is_code = || text.contains(|c: char| c.is_lowercase() || matches!(c, ';' | '(' | '=' | '*' | '_'));
    CLAUSES.contains(&first) && words.next().is_some_and(|next| !next.is_empty()) && is_code()
}

/// Whether a statement of SQL in lower case starts with a line and ends with a semicolon.
fn starts_query(lines: &Lines<'_>, line: usize) -> bool {
    let Some(text) = lines.get(line).filter(|text| text.trim_start().starts_with(['s', 'i', 'c', 'd', 'u', 'a']))
    else {
        return false;
    };
    let mut words = text.split_whitespace();
    let first = words.next();
    let Some((_, then)) = QUERIES.iter().find(|(word, _)| first == Some(word)) else { return false };
    let next = lines.get(line + 1).unwrap_or_default();
    let follows = words.chain(next.split_whitespace().take(1)).any(|word| word == *then);
    let end = (line..line + LONGEST_QUERY)
        .take_while(|line| !lines.is_blank(*line))
        .find(|line| lines.get(*line).is_some_and(|text| without_comment(text.trim()).ends_with(';')));
    follows && end.is_some()
}

/// A setting of YAML: `path: /srv`, `servers:`. Its name is in lower case, and one word.
fn is_setting(code: &str) -> bool {
    let Some(colon) = code.find(':') else { return false };
    let (name, value) = (&code[..colon], &code[colon + 1..]);
    let name = name.trim_matches('"');
    is_name(name)
        && name.starts_with(char::is_lowercase)
        && (value.is_empty() || value.starts_with(' '))
        && value.trim() != "|"
        || is_name(name) && matches!(value.trim(), "|" | ">")
        || code.starts_with('"') && is_name(name) && value.starts_with(' ')
}
