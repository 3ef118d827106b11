//! Formats: whatever a page is, its blocks are sorted, disjoint and trimmed, its units cover them, and reading calls the
//! check as often as for any other page of its length. The first byte selects the format.
#![no_main]

use std::sync::atomic::{AtomicUsize, Ordering};

use libfuzzer_sys::fuzz_target;
use pullquote_core::text::formats::{Document, Format};
use pullquote_core::text::pieces::Units;

fuzz_target!(|data: &[u8]| {
    let [choice, source @ ..] = data else { return };
    let Ok(source) = std::str::from_utf8(source) else { return };
    let format = [Format::Text, Format::Markdown, Format::Html, Format::Auto][usize::from(choice % 4)];
    let checks = AtomicUsize::new(0);
    let check = || {
        checks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let document = Document::read(source, format, &check).expect("no check fails");
    let text = document.text();
    let mut end = 0;
    for block in document.blocks().unwrap_or_default() {
        assert!(block.span.start >= end && block.span.end > block.span.start, "{block:?} after {end}");
        assert_eq!(block.span.of(text).trim(), block.span.of(text));
        end = block.span.end;
    }
    let units = Units::sentences(text, document.blocks(), document.links(), &check).expect("no check fails");
    let covered: usize = units.spans.iter().map(|unit| unit.of(text).split_whitespace().map(str::len).sum::<usize>()).sum();
    assert_eq!(covered, text.split_whitespace().map(str::len).sum::<usize>(), "text is missing");
    // Steps are bounded by the length: each is a check, or ends before the next one.
    assert!(checks.into_inner() <= 64 + source.len(), "too many steps");
});
