//! What lines of manuals announce by themselves: a parameter, indented code.

/// Whether this declares a parameter, as docstrings do: `force : bool, optional`.
pub(super) fn is_typed(line: &str) -> bool {
    line.split_once(" : ").is_some_and(|(name, _)| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*' | b'.'))
    })
}

/// Whether indented code follows in reStructuredText: after `::`, or after the directive of a block of code.
pub(super) fn introduces_literal(line: &str) -> bool {
    match line.trim_start().strip_prefix(".. ") {
        Some(directive) => ["code", "sourcecode", "parsed-literal"].iter().any(|name| directive.starts_with(name)),
        None => line.ends_with("::"),
    }
}
