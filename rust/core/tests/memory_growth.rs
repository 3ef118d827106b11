//! The memory of a call grows with its page, not with the square of it: dhat counts the bytes that a call holds at once,
//! for a page of each shape and for one that is four times as long. With the usual options it holds no more than the server
//! counts for it.

mod common;

use common::shapes::shapes;
use common::{FakeEncoder, Poison, highlights, model, question, word_piece};
use pullquote_core::engine::MEMORY_OF_TEXT;
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Engine, Pairing, Question, Request};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

/// Bytes of the shorter page: a bit more than a power of two, where growing vectors are the emptiest.
const SIZE: usize = 8 * 1024 + 256;

/// What a call holds whatever its page, and what growing vectors may round up to.
const CONSTANT: usize = 256 * 1024;

/// Rows with fewer cells than their table get empty ones: at most 2¹⁸ in a piece of Markdown.
const EMPTY_CELLS: usize = 24 * 1024 * 1024;

/// The most bytes that a call about one page held at once.
fn peak(engine: &Engine, question: &Question, page: String, format: Format) -> usize {
    let queries = vec!["When is the cat in the moon?".to_owned()];
    let request =
        Request { queries, pages: vec![page], formats: vec![format], titles: Vec::new(), pairing: Pairing::All };
    let _profiler = dhat::Profiler::builder().testing().build();
    highlights(engine, &request, question, &Call::default()).unwrap();
    dhat::HeapStats::get().max_bytes
}

#[test]
fn memory_of_a_call_grows_linearly_with_its_page() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = FakeEncoder::new(1, true, Poison::default());
    let (batches, query_counts) = (encoder.log.clone(), encoder.query_counts.clone());
    let engine = Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap();
    let all = Question {
        context: 1000,
        explain: true,
        ..Question::new(&Options { top_k: Some(100_000), ..Options::default() }).unwrap()
    };
    let usual = question();
    // Tables that are made once.
    peak(&engine, &usual, "The cat is in the moon.".to_owned(), Format::Text);
    for (shape, made) in shapes() {
        for format in [Format::Text, Format::Markdown, Format::Html] {
            let peak = |size: usize, question: &Question| {
                // Or what the fake encoder remembers grows within whichever call fills it.
                *batches.lock().unwrap() = Vec::new();
                *query_counts.lock().unwrap() = Vec::new();
                peak(&engine, question, made.text(size), format)
            };
            let (short, long) = (peak(SIZE, &all), peak(4 * SIZE, &all));
            assert!(
                long <= 5 * short + CONSTANT,
                "{shape} as {format:?}: {short} bytes, and {long} for four times the page"
            );
            let usual = peak(4 * SIZE, &usual);
            let limit = MEMORY_OF_TEXT * 4 * SIZE + if shape.contains("columns") { EMPTY_CELLS } else { CONSTANT };
            assert!(usual <= limit, "{shape} as {format:?}: {usual} bytes, and {limit} are counted");
        }
    }
}
