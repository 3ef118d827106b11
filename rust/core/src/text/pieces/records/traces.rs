//! Lines of stack traces: errors, calls and their places.

/// Whether this is a line of a stack trace, or starts one.
pub(super) fn is_trace(line: &str) -> bool {
    const STARTS: [&str; 13] = [
        "Traceback (most recent call last)",
        "File \"",
        "Caused by: ",
        "Suppressed: ",
        "... ",
        "stack backtrace:",
        "goroutine ",
        "Stack trace:",
        "Exception in ",
        "panic: ",
        "The above exception",
        "During handling of",
        "thread '",
    ];
    let text = line.trim_start();
    let may_start = text.starts_with(['T', 'F', 'C', 'S', '.', 's', 'g', 'E', 'p', 'D', 't']);
    if may_start && STARTS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    // `at a.b.C.d(C.java:1)`, `#0 main () at a.c:1`
    if is_frame(text) {
        return true;
    }
    // `a.b.SomeException: It failed.`
    let name = text.split([':', ' ']).next().unwrap_or_default();
    let ends = ["Error", "Exception", "Warning", "Throwable", "Interrupt"];
    ends.iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

/// Whether a thread says here that it failed, and below why.
pub(super) fn is_panic(line: &str) -> bool {
    line.trim_start().starts_with("thread '")
}

/// Whether this is the place of a call or error: `/srv/main.go:12 +0x1d`, `0: std::panicking::begin_panic`, `9 | let x`.
pub(super) fn is_source(text: &str) -> bool {
    let text = text.trim_start();
    let number = text.bytes().take_while(u8::is_ascii_digit).count();
    (number > 0 && (text[number..].starts_with(": ") || text[number..].trim_start().starts_with("| ")))
        || text.split(' ').next().is_some_and(|place| place.contains('/') && place.contains(':'))
}

/// Whether this is one call of a stack trace: `at a.b.C.d(C.java:1)`, `#0 0x12 in main ()`.
pub(super) fn is_frame(text: &str) -> bool {
    let is_call = text.strip_prefix("at ").is_some_and(|call| call.ends_with(')') || call.contains(':'));
    let number = text.strip_prefix('#').unwrap_or_default();
    is_call || number.starts_with(|c: char| c.is_ascii_digit()) && number.contains([':', '('])
}
