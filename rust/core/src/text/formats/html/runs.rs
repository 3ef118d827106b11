//! The text nodes of a page that show a passage: where an element such as `mark` may be put around it.

use pullquote_wire::result::OffsetUnit;

use super::{text, tokens};
use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::page::{ByteSpan, CharSpan, PageText};
use crate::text::positions::Positions;

/// The parts of a page's source that show spans of its text, in the order of the spans. Each is within one text node,
/// so that an element may be put around it. None is only white space, or in `xmp`, `plaintext` or a formula.
///
/// # Errors
/// Those of `check`.
pub fn html_runs(source: &str, spans: &[CharSpan], check: &Check) -> Result<Vec<CharSpan>> {
    let events = tokens::read(source, check)?;
    let reading = text::write(source, &events, check)?;
    let places = Positions::of(&reading.text, spans.iter().flat_map(|span| [span.start, span.end]).collect());
    let byte = |place| places.count(place, OffsetUnit::Byte);
    let mut runs: Vec<ByteSpan> = Vec::new();
    for span in spans {
        check()?;
        let own = runs.len();
        for (shown, part) in reading.map.parts(ByteSpan { start: byte(span.start), end: byte(span.end) }) {
            // A `br` is a line end of the text, and the reading of a word may come from several elements.
            let has_tag = part.of(source).contains('<') && shown.of(&reading.text) != part.of(source);
            if part.is_empty() || has_tag || is_within(&events.closed, part) {
                continue;
            }
            match runs[own..].last_mut() {
                // The text has white space once that the source repeats.
                Some(last) if source[last.end..part.start].trim_ascii().is_empty() => last.end = part.end,
                _ => runs.push(part),
            }
        }
    }
    runs.retain(|run| !run.of(source).trim().is_empty());
    let page = PageText::new(source);
    Ok(runs.into_iter().map(|run| page.chars(run)).collect())
}

/// Whether one of these spans, which are in order, has this part.
fn is_within(spans: &[ByteSpan], part: ByteSpan) -> bool {
    let after = spans.partition_point(|span| span.start <= part.start);
    after.checked_sub(1).is_some_and(|last| part.start < spans[last].end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;
    use crate::text::formats::html;

    /// The source with brackets around the runs of a part of its text.
    fn bracketed(source: &str, passage: &str) -> String {
        let text = html::read(source, &unstopped).unwrap().text;
        let start = text.find(passage).unwrap();
        let start = text[..start].chars().count();
        let span = CharSpan { start, end: start + passage.chars().count() };
        let chars: Vec<char> = source.chars().collect();
        let mut marked = String::new();
        let mut written = 0;
        for run in html_runs(source, &[span], &unstopped).unwrap() {
            marked.extend(&chars[written..run.start]);
            marked.push('[');
            marked.extend(&chars[run.start..run.end]);
            marked.push(']');
            written = run.end;
        }
        marked.extend(&chars[written..]);
        marked
    }

    #[test]
    fn runs_are_within_text_nodes() {
        for (source, passage, expected) in [
            ("<p>Ä <b>b</b> c d", "b c", "<p>Ä <b>[b]</b>[ c] d"),
            ("<p>a  b\n c</p>", "a b c", "<p>[a  b\n c]</p>"),
            ("a<!-- x -->b<script>c</script>d", "abd", "[a]<!-- x -->[b]<script>c</script>[d]"),
            ("a &amp; b&ampc", "& b&", "a [&amp; b&amp]c"),
            ("a<br>b <br/> c", "a\nb\nc", "[a]<br>[b] <br/> [c]"),
            ("1 < 2\n< 3", "1 < 2 < 3", "[1 < 2\n< 3]"),
            ("<table><tr> <td>a <td>b</table>", "a\tb", "<table><tr> <td>[a] <td>[b]</table>"),
            ("<pre>\n a\n\n b</pre>", " a\n\n b", "<pre>\n[ a\n\n b]</pre>"),
            ("<b>a</b> <i>b</i>", "a b", "<b>[a]</b> <i>[b]</i>"),
            (
                "a <xmp>b</xmp> c <math><mi>d</mi></math> e",
                "b\n\nc d e",
                "a <xmp>b</xmp> [c ]<math><mi>d</mi></math>[ e]",
            ),
            ("a<plaintext>b", "a\n\nb", "[a]<plaintext>b"),
        ] {
            assert_eq!(bracketed(source, passage), expected, "{passage:?} of {source:?}");
        }
    }
}
