//! Lines of source code and configuration by their shape: statements, calls, assignments, brackets, settings, comments.

use crate::text::pieces::lines::indent;
use crate::text::pieces::list_marks::Mark;

/// Bytes of the mark of an item.
const LONGEST_MARK: usize = 6;

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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A statement, a bracket, or a setting.
    Code,
    Comment,
    /// What may stand inside code, if it is indented.
    Other,
}

pub(super) fn class(line: &str) -> Class {
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
        // The first byte of the comma in `1、`.
        && begin.iter().any(|byte| matches!(byte, b')' | b'.' | 0xe3))
        && Mark::at_start(text).is_some_and(|mark| text[mark.end..].trim_start().starts_with(char::is_alphanumeric))
}

/// The line without the comment at its end.
pub(super) fn without_comment(text: &str) -> &str {
    let bytes = text.as_bytes();
    let starts = |mark: usize| {
        let after = &bytes[mark..];
        let is_mark = [&b"// "[..], b"# ", b"-- ", b"/* "].iter().any(|mark| after.starts_with(mark));
        mark.checked_sub(1).filter(|space| is_mark && bytes[*space] == b' ')
    };
    let comment = memchr::memchr3_iter(b'/', b'#', b'-', bytes).find_map(starts);
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
    let Some(at) = code.find('=').filter(|at| !is_definition(&code[..*at], &code[at + 1..])) else { return false };
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

/// `NGO = non-governmental organisation`, as glossaries have it.
fn is_definition(name: &str, value: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | ',' | '.' | '\'' | '’'));
    let begins_small = value.trim_start().starts_with(char::is_lowercase);
    name.starts_with(char::is_uppercase)
        && name.ends_with(' ')
        && value.split_whitespace().count() >= if begins_small { 2 } else { 4 }
        && value.split_whitespace().all(is_word)
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
    // Most lines are prose, and their first word tells.
    let has_mark = || {
        code.contains(['(', ')', '{', '}', '=', ';', '<', '[', '"', '\'', '$', '&'])
            || code.contains("::")
            || code.contains("->")
    };
    let mut words = code.split([' ', '(', ':', ';', '{']);
    let word = words.next().unwrap_or_default();
    let ends = code.ends_with([';', '{', '}', ':', ',', '(', ')', '[', ']', '\\', '>']);
    let count = || code.split(' ').count();
    if code.ends_with(" \\")
        || code.ends_with("; do")
        || code.ends_with("; then")
        || code.starts_with("sudo ")
        || code.ends_with('{')
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
        return code.trim_end_matches([';', ':']) == word || (ends && has_mark());
    }
    if matches!(word, "import" | "package" | "use" | "module" | "from") {
        let names = code.split(' ').skip(1);
        let are_names = names.clone().next().is_some()
            && names.clone().all(|name| {
                matches!(name, "import" | "as" | "from" | "static" | "*" | "{" | "}")
                    || !name.ends_with('.') && is_path(name)
            });
        return are_names
            && (count() == 2
                || code.contains(" import ")
                || code.contains(" from ")
                || code.contains(" as ")
                || code.ends_with(';'));
    }
    if KEYWORDS.contains(&word) || SHELL.contains(&word) {
        let is_return = matches!(word, "return" | "raise" | "throw" | "exit" | "set" | "cd") && count() <= 2;
        return is_return
            || (ends && has_mark())
            || matches!(word, "return" | "echo" | "export" | "local")
                && has_mark()
                && code.contains(['(', '"', '$', '='])
            || code.ends_with(':') && is_python_head(word);
    }
    // `int count;`, `total -= x / 2;`
    code.ends_with(';') && (has_mark() && code.matches([';', '(', '=', ')']).count() > 1 || count() <= 2)
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
pub(super) fn is_clause(text: &str) -> bool {
    let mut words = text.split([' ', '(']);
    let first = words.next().unwrap_or_default();
    // In a licence, all words have capitals.
    let is_code = || text.contains(|c: char| c.is_lowercase() || matches!(c, ';' | '(' | '=' | '*' | '_'));
    CLAUSES.contains(&first) && words.next().is_some_and(|next| !next.is_empty()) && is_code()
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
