//! The sentences of a written text, which of them claim something, and the markers of each.

use super::markers::{Marker, Sources, begins_line, read_markers};
use crate::error::{Error, Result};
use crate::runtime::call::Check;
use crate::text::formats::{Document, Format};
use crate::text::outline::has_blank_line;
use crate::text::page::{BlockKind, ByteSpan};
use crate::text::pieces::Units;

/// A written text, cut into sentences.
#[derive(Debug)]
pub struct Claims {
    /// The text with white space in place of markers.
    pub(super) masked: String,
    pub(super) sentences: Vec<Sentence>,
}

#[derive(Debug)]
pub(super) struct Sentence {
    pub(super) span: ByteSpan,
    /// What the pages are searched for; `None` if it claims nothing.
    pub(super) query: Option<String>,
    pub(super) markers: Vec<Marker>,
}

/// First words that mean something of the sentence before.
const PRONOUNS: &str = "it they he she this these that those its their his her er sie es dies diese dieser dieses il elle ils \
    elles ce cette ces él ella ellos ellas esto esta este";

/// Beginnings of sentences about the answer itself.
const ABOUT_ITSELF: [&str; 14] = [
    "let me know", "i hope", "here is", "here are", "here's", "i could not", "i couldn't", "i cannot", "i'm sorry",
    "sorry", "sure", "feel free", "if you", "as an ai",
];

/// Titles of lists of sources, whose items claim nothing.
const LISTS_OF_SOURCES: &str = "sources source references reference bibliography citations footnotes notes links quellen \
    literatur fuentes referencias références fonti";

impl Claims {
    /// Cuts a text into sentences.
    ///
    /// # Errors
    /// Those of `check`; [`crate::error::ErrorKind::InvalidArgument`] for a text without a letter or digit.
    pub fn read(answer: &str, sources: &Sources, check: &Check) -> Result<Self> {
        if !answer.contains(char::is_alphanumeric) {
            return Err(Error::of_field("answer", format!("answer has no letter and no digit: {answer:.80?}")));
        }
        let (markers, masked) = read_markers(answer, sources, check)?;
        let document = Document::read(&masked, Format::Markdown, check)?;
        let units = Units::sentences(&masked, document.blocks(), document.links(), check)?;
        let blocks = document.blocks().unwrap_or_default();
        let (mut sentences, mut in_list_of_sources): (Vec<Sentence>, bool) = (Vec::new(), false);
        let (mut before, mut before_end) = (String::new(), 0);
        for (unit, &span) in units.spans.iter().enumerate() {
            check()?;
            let block = blocks.partition_point(|block| block.span.end <= span.start);
            let kind = blocks.get(block).map_or(BlockKind::Prose, |block| block.kind);
            let heading = units.headings.partition_point(|heading| heading.end <= unit);
            let is_heading = kind == BlockKind::Heading
                || units.headings.get(heading).is_some_and(|heading| heading.contains(&unit));
            let text = span.of(&masked);
            let words = words_of(text);
            if is_heading || words.trim_end().ends_with(':') {
                let name = words.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                in_list_of_sources = LISTS_OF_SOURCES.split_whitespace().any(|known| known == name);
            }
            let is_kind = !matches!(
                kind,
                BlockKind::Heading | BlockKind::Code | BlockKind::Rule | BlockKind::HeaderRow | BlockKind::Source
            );
            let claims = is_kind && !is_heading && !in_list_of_sources && is_claim(&words);
            let query = claims.then(|| {
                let first = words.split_whitespace().next().unwrap_or_default().to_lowercase();
                let refers = PRONOUNS.split_whitespace().any(|pronoun| pronoun == first);
                let is_near = !has_blank_line(&masked[before_end..span.start]);
                let query =
                    if refers && is_near && !before.is_empty() { format!("{before} {words}") } else { words.clone() };
                (before, before_end) = (words, span.end);
                query
            });
            sentences.push(Sentence { span, query, markers: Vec::new() });
        }
        assign(&mut sentences, markers, &masked);
        Ok(Self { masked, sentences })
    }

    /// How many sentences claim something.
    pub fn count(&self) -> usize {
        self.sentences.iter().filter(|sentence| sentence.query.is_some()).count()
    }
}

/// A sentence without the marks of lists, quotes and emphasis, and with single spaces.
fn words_of(text: &str) -> String {
    let text = text.trim_start_matches(['-', '*', '+', '•', '>', '#', ' ', '|']);
    let text = &text[list_number(text)..];
    let words = text.split_whitespace().map(|word| word.trim_matches(['*', '_', '`', '|']));
    let joined = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    joined.replace(" .", ".").replace(" ,", ",")
}

/// Bytes of the number of a list's item.
fn list_number(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_item = (1..=3).contains(&digits) && text[digits..].starts_with(['.', ')']);
    if is_item && text[digits + 1..].starts_with([' ', '\t']) { digits + 2 } else { 0 }
}

fn is_claim(words: &str) -> bool {
    let end = words.trim_end_matches(['"', '”', '*', '_', ')', ' ']);
    let lower = words.to_lowercase();
    let is_about_itself = ABOUT_ITSELF.iter().any(|beginning| lower.starts_with(beginning));
    let count = words.split(' ').filter(|word| word.chars().any(char::is_alphanumeric)).count();
    let is_word = count > 1 || words.contains(|c: char| c.is_numeric()) || words.chars().count() > 12;
    is_word && !end.ends_with([':', '?', '：', '？']) && !is_about_itself
}

/// Gives each marker to its sentence: the one around it, the one that ends before it, or, at a line's start, the next one.
fn assign(sentences: &mut [Sentence], markers: Vec<Marker>, masked: &str) {
    for marker in markers {
        let next = sentences.partition_point(|sentence| sentence.span.start <= marker.span.start);
        let begins_line = begins_line(masked, marker.span.start);
        let is_before =
            |place: &usize| begins_line && sentences.get(*place).is_some_and(|next| same_line(masked, &marker, next));
        let inside = next.checked_sub(1).filter(|place| marker.span.start < sentences[*place].span.end);
        let place = inside.or_else(|| Some(next).filter(is_before)).or_else(|| next.checked_sub(1));
        if let Some(sentence) = place.or(Some(0)).and_then(|place| sentences.get_mut(place)) {
            sentence.markers.push(marker);
        }
    }
}

fn same_line(text: &str, marker: &Marker, next: &Sentence) -> bool {
    text.get(marker.span.end..next.span.start).is_some_and(|gap| !gap.contains('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;

    const NONE: Sources<'_> = Sources { ids: &[], titles: &[], numbers: None, pages: 3 };

    #[test]
    fn headings_code_questions_and_lead_ins_claim_nothing() {
        let answer = "# The Moon\n\nHere are the facts:\n\n- It is **384,400 km** away [1].\n- It is white.[2] Is it far?\n\n\
                      ```\nlet x = 1;\n```\n\n[3] It has no air.\n\nSources:\n\n- [1] Moon page\n";
        let claims = Claims::read(answer, &NONE, &unstopped).unwrap();
        let sentence = |sentence: &Sentence| {
            let labels: Vec<&str> = sentence.markers.iter().map(|marker| marker.label.as_str()).collect();
            sentence.query.as_ref().map(|query| (query.clone(), labels.join(" ")))
        };
        let found: Vec<(String, String)> = claims.sentences.iter().filter_map(sentence).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let expected =
            [("It is 384,400 km away.", "1"), ("It is 384,400 km away. It is white.", "2"), ("It has no air.", "3")];
        assert_eq!(found, expected);
    }

    #[test]
    fn answer_without_words_is_refused() {
        assert!(Claims::read(" -- ", &NONE, &unstopped).unwrap_err().message().contains("answer"));
    }
}
