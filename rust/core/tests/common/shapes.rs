//! Texts that are expensive for some stage, made at any size: what `cost.rs` and `memory_growth.rs` measure.

/// What repeats, or how a text of about this many bytes is made.
pub(crate) enum Shape {
    Repeated(&'static str),
    Made(fn(usize) -> String),
}

use Shape::{Made, Repeated};

/// As `bench/growth.py` has them, by name.
pub(crate) const SHAPES: &[(&str, Shape)] = &[
    ("prose", Repeated("The moon is far, and the cat is *bright*. See [it](http://a.b/c).\n\n")),
    ("one long line", Repeated("the cat is in the moon ")),
    ("one letter", Repeated("x")),
    ("spaces", Repeated(" ")),
    ("empty lines", Repeated("\n")),
    ("short sentences", Repeated("A. ")),
    ("short lines", Repeated("a\n")),
    ("abbreviations", Repeated("Mr. X e.g. Dr. ")),
    ("combining marks", Repeated("e\u{301}\u{323}")),
    ("one cluster", Made(|size| format!("a{}", "\u{301}".repeat(size / 2)))),
    ("zero width", Repeated("a\u{200b}\u{200d}")),
    ("han", Repeated("我来到北京清华大学")),
    ("thai", Repeated("ภาษาไทยง่าย")),
    ("emoji", Repeated("👩🏽\u{200d}🚀")),
    ("form feeds", Repeated("Head\nA b.\n\x0c")),
    ("headings", Repeated("# a\n")),
    ("headings of html", Repeated("<h1>a</h1>")),
    ("underlined headings", Repeated("a\n===\n")),
    ("nested headings", Repeated("# a\n\n## b\n\n### c\n\n")),
    ("fences", Repeated("```\na\n")),
    ("unclosed fence", Made(|size| format!("```\n{}", "a\n".repeat(size / 2)))),
    ("backticks", Repeated("`")),
    ("backticks of many lengths", Made(|size| grown(size, |n| "`".repeat(n) + " "))),
    ("emphasis", Repeated("*a **b ")),
    ("unclosed emphasis", Made(|size| "*a ".repeat(size / 6) + &"a* ".repeat(size / 6))),
    ("brackets", Repeated("[")),
    ("brackets that close", Made(|size| "[".repeat(size / 4) + &"](b)".repeat(size / 6))),
    ("links", Repeated("[a](b) ")),
    ("unclosed links", Repeated("[a](b \"c ")),
    ("images", Repeated("![")),
    ("definitions", Made(|size| numbered(size / 20, "[{}]: a\n") + "\n" + &numbered(size / 20, "[{}] "))),
    ("footnotes", Made(|size| numbered(size / 20, "[^{}]: a\n") + "\n" + &numbered(size / 20, "[^{}] "))),
    ("footnotes in quotes", Made(|size| "[^a]: > ".repeat(size / 16) + "a\n" + &"b\n".repeat(size / 4))),
    ("entities", Repeated("&amp;&#x41;&nosuch;")),
    ("autolinks", Repeated("<http://a.b>")),
    ("open angles", Repeated("<")),
    ("quotes", Repeated("> a\n")),
    ("nested quotes", Repeated("> ")),
    ("nested quotes and lazy lines", Made(|size| "> ".repeat(size / 4) + "a\n" + &"b\n".repeat(size / 4))),
    ("items", Repeated("- a\n")),
    ("nested items", Repeated("- ")),
    ("nested items and lazy lines", Made(|size| "- ".repeat(size / 4) + "a\n" + &"b\n".repeat(size / 4))),
    ("nested numbers and lazy lines", Made(|size| "1) ".repeat(size / 6) + "a\n" + &"b\n".repeat(size / 4))),
    (
        "deeper and deeper items",
        Made(|size| grown(size / 2, |n| " ".repeat(2 * n) + "- a\n") + &"b\n".repeat(size / 4)),
    ),
    ("rules", Repeated("- - -\n")),
    ("rows", Repeated("| a | b |\n")),
    (
        "table of many columns",
        Made(|size| {
            let columns = (size / 40).min(5000);
            let header = format!("{}|\n{}|\n", "|a".repeat(columns), "|-".repeat(columns));
            header + &"|b\n".repeat(size / 4)
        }),
    ),
    ("csv", Repeated("a,b,c,d\n")),
    ("html blocks", Repeated("<div>\n\n")),
    ("unclosed comment", Repeated("<!-- a ")),
    ("unclosed declarations", Repeated("<![CDATA[ <? <!A ")),
    ("unclosed attributes", Repeated("<a href='b ")),
    ("nested elements", Repeated("<div>")),
    ("nested inline elements", Repeated("<b>")),
    ("misnested elements", Repeated("<b><i><p>a</b></i>")),
    ("unclosed paragraphs", Repeated("<p>a")),
    ("unclosed items", Repeated("<ul><li>a")),
    ("nested tables", Repeated("<table><tr><td>a")),
    (
        "html table of many columns",
        Made(|size| {
            let row = format!("<tr>{}</tr>", "<td>a".repeat((size / 20).min(5000)));
            format!("<table>{}", row.repeat(size / row.len() + 1))
        }),
    ),
    ("row spans", Repeated("<tr><td rowspan=9999 colspan=9999>a</td></tr>")),
    ("scripts", Repeated("<script>a</script>")),
    ("line breaks", Repeated("a<br>")),
    ("selects", Repeated("<select><option>a")),
    ("foreign elements", Repeated("<svg><math><p>")),
];

impl Shape {
    /// A text of about this many bytes.
    pub(crate) fn text(&self, bytes: usize) -> String {
        match self {
            Repeated(part) => part.repeat(bytes / part.len()),
            Made(make) => make(bytes),
        }
    }
}

/// Parts that grow, up to a total size.
fn grown(size: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for length in 1.. {
        if text.len() >= size {
            break;
        }
        text += &part(length);
    }
    text
}

/// A pattern for each number.
fn numbered(count: usize, pattern: &str) -> String {
    (0..count).map(|number| pattern.replace("{}", &number.to_string())).collect()
}
