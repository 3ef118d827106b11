//! Every stage calls the check of its call often enough, and ends at the first one that fails; and the time for a text
//! grows with its length. Nothing here measures time: a stage that is quadratic would need hours for these texts.

use std::sync::atomic::{AtomicUsize, Ordering};

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::quotes::locate;
use pullquote_core::ranking::terms::{Language, PageTerms};
use pullquote_core::runtime::call::{Check, unstopped};
use pullquote_core::text::formats::{Document, Format};
use pullquote_core::text::pieces::{Units, sentences, words_checked};
use pullquote_core::tokens::{Role, Tokens, counts_before};
use pullquote_wire::result::OffsetUnit;

use crate::common::shapes::shapes;
use crate::common::{model, word_piece};

/// Bytes between two checks, at most.
const BYTES_PER_CHECK: usize = 64 * 1024;

const FORMATS: [Format; 4] = [Format::Text, Format::Markdown, Format::Html, Format::Auto];

const QUOTE: &str = "The cat in the moon, and the **bread** is not in Paris";

/// Parts of work on a text that only call their check, not the call.
type Stage = (&'static str, fn(&str, &Check) -> Result<()>);

/// A part of tokenizing.
type Tokenizing<'stage> = (&'stage str, &'stage dyn Fn(&Check) -> Result<()>);

const STAGES: [Stage; 7] = [
    ("read Markdown", |text, check| Document::read(text, Format::Markdown, check).map(drop)),
    ("read HTML", |text, check| Document::read(text, Format::Html, check).map(drop)),
    ("cut into sentences", |text, check| sentences(text, check).map(drop)),
    ("cut into words", |text, check| words_checked(text, check).map(drop)),
    ("relate units", |text, check| Units::sentences(text, None, &[], check).map(drop)),
    ("locate a quote", |text, check| locate(text, QUOTE, OffsetUnit::Codepoint, check).map(drop)),
    ("scan terms", |text, check| PageTerms::new_checked(text, &[], Language::English, check).map(drop)),
];

/// Counts the checks of a stage, and fails the last one.
fn checks(stage: impl FnOnce(&Check) -> Result<()>, last: usize) -> (usize, Result<()>) {
    let count = AtomicUsize::new(0);
    let check = || {
        if count.fetch_add(1, Ordering::Relaxed) + 1 < last {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Cancelled, "the last check"))
    };
    let result = stage(&check);
    (count.into_inner(), result)
}

#[test]
fn every_stage_checks_often_and_ends_at_the_first_failed_check() {
    let text = "The cat is in the moon, and the bread is in Paris. It *is*!\n\n".repeat(20_000);
    for (name, stage) in STAGES {
        let (count, result) = checks(|check| stage(&text, check), usize::MAX);
        result.unwrap();
        assert!(count >= text.len() / BYTES_PER_CHECK, "{name}: {count} checks of {} bytes", text.len());
        for last in [1, 2, count / 2, count] {
            let (called, result) = checks(|check| stage(&text, check), last);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled, "{name}, check {last}");
            assert_eq!(called, last, "{name} goes on after check {last}");
        }
    }
}

/// Also of texts in which a stage finds nothing for a long time.
#[test]
fn every_stage_checks_often_whatever_the_text() {
    // One step of a segmenter reads all of a grapheme cluster, and one of a tokenizer all of white space and of a comment.
    let exempt = ["one cluster", "spaces", "unclosed declarations"];
    let mut rare = Vec::new();
    for (shape, made) in shapes().filter(|(shape, _)| !exempt.contains(&shape.as_str())) {
        let text = made.text(1 << 20);
        for (name, stage) in STAGES {
            let (count, result) = checks(|check| stage(&text, check), usize::MAX);
            result.unwrap();
            // A block, and a piece of Markdown, is worked on in parts of 256 KiB.
            if count < text.len() / (4 * BYTES_PER_CHECK) {
                rare.push(format!("{name} of {shape}: {count} checks of {} bytes", text.len()));
            }
        }
    }
    assert!(rare.is_empty(), "{rare:#?}");
}

#[test]
fn tokenizing_checks_often() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    for text in ["the cat is ".repeat(100_000), "[".repeat(1 << 20)] {
        let units = sentences(&text, &unstopped).unwrap();
        let stages: [Tokenizing<'_>; 4] = [
            ("units", &|check| tokens.units(&text, check).map(drop)),
            ("page", &|check| tokens.page(&text, &units, check).map(drop)),
            ("of_units", &|check| tokens.words(&text).of_units(&text, &units, check).map(drop)),
            ("counts_before", &|check| counts_before(&text, &units, |text| tokens.budgeted(text), check).map(drop)),
        ];
        for (name, stage) in stages {
            let (count, result) = checks(stage, usize::MAX);
            result.unwrap();
            assert!(count >= 2, "{name}: {count} checks");
            let (called, result) = checks(stage, 2);
            assert_eq!((called, result.unwrap_err().kind()), (2, ErrorKind::Cancelled), "{name}");
        }
    }
}

/// A text longer than the model's limit is tokenized as far as needed.
#[test]
fn texts_are_tokenized_up_to_the_limit_only() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    let text = "the cat is ".repeat(1_000_000);
    let (count, result) = checks(|check| tokens.texts(&[&text], Role::Query, check).map(drop), usize::MAX);
    result.unwrap();
    assert_eq!(count, 2, "one for the text, one for its first part");
    assert_eq!(tokens.text(&text, Role::Query).unwrap(), tokens.text(&text[..10_000], Role::Query).unwrap());
}

/// Several megabytes of each shape. A debug build needs seconds for a stage that is linear.
#[test]
fn large_texts_of_every_shape_are_read_and_cut() {
    for (shape, made) in shapes() {
        let text = made.text(2 << 20);
        for format in FORMATS {
            let document = Document::read(&text, format, &unstopped).unwrap();
            let units = Units::sentences(document.text(), document.blocks(), document.links(), &unstopped).unwrap();
            let covered: usize = units.groups.iter().map(ExactSizeIterator::len).sum();
            assert_eq!(covered, units.spans.len(), "{shape} as {format:?}");
        }
    }
}
