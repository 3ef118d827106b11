//! The law of tokens: the ids of a window equal those of its text tokenized alone, for every tokenizer and text.

use std::ops::Range;

use proptest::prelude::*;
use pullquote_core::encoder::model::Model;
use pullquote_core::error::{Error, ErrorKind};
use pullquote_core::runtime::call::unstopped;
use pullquote_core::text::page::ByteSpan;
use pullquote_core::text::pieces::{self, Unit, Windows};
use pullquote_core::tokens::{GivenIds, Role, RowOptions, TextOrIds, Token, Tokens, TruncationSide};
use serde_json::{Value, json};

use crate::common::{byte_level, model, sentence_piece, unknown_family, word_piece};

/// A text, and windows between any two of its character boundaries.
fn text_and_windows() -> impl Strategy<Value = (String, Vec<ByteSpan>)> {
    let words = "[ \\n\\t]{0,2}(the|The cat|moon\\.|is!|漢字。|日本|e\\.|Paris,|\u{e9}\u{301}|à la|[a-e]{1,4}|\\PC{0,6}|\u{a0}|\u{3000}|\u{85}|=\u{338}|\u{fffd}|don't|<s>|\\[SEP\\]|\u{b8})";
    proptest::collection::vec(words, 0..40).prop_map(|words| words.concat()).prop_flat_map(|text| {
        let boundaries: Vec<usize> = text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect();
        let boundary = proptest::sample::select(boundaries);
        let windows = proptest::collection::vec((boundary.clone(), boundary), 0..12);
        (Just(text), windows).prop_map(|(text, windows)| {
            let span = |(a, b): (usize, usize)| ByteSpan { start: a.min(b), end: a.max(b) }.trimmed(&text);
            let windows = windows.into_iter().map(span).filter(|span| !span.is_empty()).collect();
            (text, windows)
        })
    })
}

fn check(tokens: &Tokens, text: &str, windows: &[ByteSpan]) -> Result<(), TestCaseError> {
    let page = tokens.page(text, windows, &|| Ok(())).unwrap();
    prop_assert_eq!(page.len(), windows.len());
    let mut truncated = 0;
    for (index, window) in windows.iter().enumerate() {
        let (alone, is_truncated) = tokens.text(window.of(text), Role::Passage).unwrap();
        prop_assert_eq!(page.row(index), alone, "window {:?} of {:?}", window.of(text), text);
        prop_assert_eq!(page.row_len(index), page.row(index).len());
        truncated += usize::from(is_truncated);
    }
    // Word by word, without the prompt, special ids and the limit.
    let found = tokens.words(text).of_units(text, windows, &|| Ok(())).unwrap();
    prop_assert_eq!(found.len(), windows.len());
    for (ids, window) in found.iter().zip(windows) {
        let (alone, is_truncated) = tokens.text(window.of(text), Role::Query).unwrap();
        prop_assert!(is_truncated || alone[1..alone.len() - 1] == *ids, "window {:?} of {:?}", window.of(text), text);
    }
    prop_assert_eq!(page.truncated.len(), truncated);
    Ok(())
}

/// Long texts are tokenized in parts, with the tokens and spans of the whole.
fn check_visit(tokens: &Tokens, tokenizer: &tokenizers::Tokenizer, text: &str) -> Result<(), TestCaseError> {
    let text = text.repeat(40_000 / text.len().max(1));
    let mut visited = Vec::new();
    let mut visit = |token: Token<'_>| {
        visited.push((token.id, token.name.to_owned(), token.span));
        Ok(())
    };
    tokens.visit(&text, true, &|| Ok(()), &mut visit).unwrap();
    let whole = tokenizer.encode(text.as_str(), true).unwrap();
    let spans = whole.get_offsets().iter().zip(whole.get_special_tokens_mask());
    let spans = spans.map(|((start, end), special)| (*special == 0).then_some(ByteSpan { start: *start, end: *end }));
    let expected = whole.get_ids().iter().zip(whole.get_tokens()).zip(spans);
    let expected: Vec<_> =
        expected.map(|((id, name), span)| (i32::try_from(*id).unwrap(), name.clone(), span)).collect();
    prop_assert_eq!(visited.len(), expected.len());
    for (found, expected) in visited.iter().zip(&expected) {
        prop_assert_eq!(found, expected);
    }
    Ok(())
}

#[test]
fn visit_ends_with_its_check() {
    let (_folder, model) = model(&word_piece(), 128, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    let (checks, mut visited) = (std::sync::atomic::AtomicUsize::new(0), 0);
    let check = || match checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, "stopped")),
    };
    let mut visit = |_: Token<'_>| {
        visited += 1;
        Ok(())
    };
    let error = tokens.visit(&"[".repeat(1_000_000), true, &check, &mut visit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!((1..100_000).contains(&visited), "{visited}");
}

fn law(tokenizer: &Value, prompt: &str, max_tokens: usize) {
    // A prompt changes the first ids of a window only, and windows are found without it.
    let cases = if prompt.is_empty() { 300 } else { 100 };
    let (_folder, model) = model(tokenizer, max_tokens, ("", prompt));
    let tokens = Tokens::read(&model).unwrap();
    let mut whole: tokenizers::Tokenizer = tokenizer.to_string().parse().unwrap();
    whole.with_truncation(None).unwrap().with_padding(None);
    proptest!(ProptestConfig::with_cases(cases / 10), |((text, _) in text_and_windows())| {
        check_visit(&tokens, &whole, &text)?;
    });
    proptest!(ProptestConfig::with_cases(cases), |((text, windows) in text_and_windows())| {
        check(&tokens, &text, &windows)?;
        for unit in [Unit::Sentence, Unit::Word] {
            let windows = pieces::parse_pieces(&text, unit, Windows::new(3, 1, false).unwrap(), &unstopped).unwrap();
            check(&tokens, &text, &windows)?;
        }
        let units = tokens.units(&text, &|| Ok(())).unwrap();
        let over = |window: Range<usize>| ByteSpan { start: units[window.start].start, end: units[window.end - 1].end };
        let windows: Vec<ByteSpan> = Windows::new(4, 2, false).unwrap().ranges(units.len()).map(over).collect();
        check(&tokens, &text, &windows)?;
        let covered: usize = units.iter().map(|unit| unit.of(&text).chars().filter(|c| !c.is_whitespace()).count()).sum();
        prop_assert_eq!(covered, text.chars().filter(|c| !c.is_whitespace()).count());
        prop_assert!(units.windows(2).all(|pair| pair[0].end <= pair[1].start));
    });
}

#[test]
fn word_piece_windows_are_slices() {
    law(&word_piece(), "", 512);
}

/// The normalizers that `words` replaces, with every character of a word between others and alone. One test each,
/// because together they are the longest. Of ideographs and Hangul syllables, which normalizers read by range and by
/// arithmetic, it takes one of `step`.
fn every_character_has_the_tokenizers_ids(normalizer: Value, step: u32) {
    let mut tokenizer = word_piece();
    tokenizer["normalizer"] = normalizer;
    let (_folder, model) = model(&tokenizer, 1 << 20, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    let is_letter = |c: &char| c.is_alphanumeric() || *c < '\u{100}' || ('\u{2000}'..'\u{3100}').contains(c);
    let is_one_of_many = |c: char| matches!(c, '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{20000}'..='\u{2f7ff}' | '\u{30000}'..);
    let is_taken = |c: &char| !is_one_of_many(*c) || u32::from(*c).is_multiple_of(step);
    let letters: Vec<char> = ('\0'..=char::MAX).filter(is_letter).filter(is_taken).collect();
    for letters in letters.chunks(500) {
        let text = letters.iter().fold(String::new(), |text, c| text + &format!("cat{c}in {c} Cat{c} the "));
        let alone = tokens.text(&text, Role::Query).unwrap().0;
        let found = tokens.words(&text).of_units(&text, &[ByteSpan { start: 0, end: text.len() }], &|| Ok(())).unwrap();
        assert_eq!(found[0], alone[1..alone.len() - 1], "{text:?}");
        // The last text has an added token, with which the tokenizer reads all.
        let texts = [text.as_str(), "[SEP]"];
        let known = |texts: &[&str], tokens_in_all: usize| {
            let words = tokens.words(&texts.concat());
            let each = words.characters_per_token(texts.len(), 1, |index| texts[index]).unwrap();
            f64::from(each) * f64::from(u32::try_from(tokens_in_all).unwrap())
        };
        let added = known(&texts, found[0].len() + 1) - known(&texts[..1], found[0].len());
        assert!((added - 5.0).abs() < 0.1, "{added} {text:?}");
    }
}

fn bert_normalizer(lowercase: bool, strip_accents: Value) -> Value {
    let mut normalizer = word_piece()["normalizer"].take();
    normalizer["lowercase"] = json!(lowercase);
    normalizer["strip_accents"] = strip_accents;
    normalizer
}

#[test]
fn every_character_of_words_has_the_tokenizers_ids() {
    every_character_has_the_tokenizers_ids(word_piece()["normalizer"].take(), 1);
}

#[test]
fn every_character_of_words_has_the_ids_of_a_cased_tokenizer() {
    every_character_has_the_tokenizers_ids(bert_normalizer(false, json!(null)), 16);
}

#[test]
fn every_character_of_words_has_the_ids_of_a_tokenizer_that_keeps_accents() {
    every_character_has_the_tokenizers_ids(bert_normalizer(true, json!(false)), 16);
}

#[test]
fn every_character_of_words_has_the_ids_of_a_tokenizer_with_nfkd() {
    let normalizers = [json!({"type": "NFKD"}), json!({"type": "Lowercase"})];
    every_character_has_the_tokenizers_ids(json!({"type": "Sequence", "normalizers": normalizers}), 16);
}

#[test]
fn word_piece_windows_are_slices_with_prompts_and_under_a_limit() {
    law(&word_piece(), "passage: ", 512);
    law(&word_piece(), "no space after:", 9);
}

#[test]
fn sentence_piece_windows_are_slices() {
    law(&sentence_piece(true), "", 512);
    law(&sentence_piece(true), "passage: ", 20);
    law(&sentence_piece(false), "", 512);
    law(&sentence_piece(false), "passage: ", 512);
}

/// A tokenizer trained by sentencepiece and converted by transformers, with XLM-RoBERTa's normalizer table: as
/// converted today, and with white space split first as in the published file.
#[test]
fn real_sentence_piece_windows_are_slices() {
    let mut tokenizer: Value = serde_json::from_str(include_str!("data/sentence_piece.json")).unwrap();
    law(&tokenizer, "", 512);
    law(&tokenizer, "passage: ", 20);
    let metaspace = tokenizer["pre_tokenizer"].clone();
    tokenizer["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]});
    tokenizer["normalizer"] = tokenizer["normalizer"]["normalizers"][0].clone();
    law(&tokenizer, "", 512);
    law(&tokenizer, "passage: ", 512);
}

/// The normalizer's table maps U+FFFD to a space, which is stripped with the white space before it at a text's end
/// only.
#[test]
fn a_character_that_becomes_a_space_ends_no_segment() {
    let tokenizer: Value = serde_json::from_str(include_str!("data/sentence_piece.json")).unwrap();
    let (_folder, model) = model(&tokenizer, 512, ("", ""));
    let text = "the moon. \u{85}\n\u{fffd} ZLa is here";
    let to = |end: &str| ByteSpan { start: "the ".len(), end: text.find(end).unwrap() };
    check(&Tokens::read(&model).unwrap(), text, &[to(" is"), to(" ZLa")]).unwrap();
}

#[test]
fn byte_level_windows_are_slices() {
    law(&byte_level(), "", 512);
    law(&byte_level(), "passage: ", 512);
}

#[test]
fn an_unknown_family_is_tokenized_window_by_window() {
    law(&unknown_family(), "", 512);
}

#[test]
fn a_long_page_is_tokenized_in_chunks_with_the_same_ids() {
    for tokenizer in [word_piece(), sentence_piece(true), sentence_piece(false), byte_level()] {
        let (_folder, model) = model(&tokenizer, 64, ("", ""));
        let tokens = Tokens::read(&model).unwrap();
        let text = "The cat is in the moon. 漢字 und der Haus.  Bread\nin Paris! ".repeat(1000);
        let windows =
            pieces::parse_pieces(&text, Unit::Sentence, Windows::new(2, 1, false).unwrap(), &unstopped).unwrap();
        let page = tokens.page(&text, &windows, &|| Ok(())).unwrap();
        for (index, window) in windows.iter().enumerate() {
            assert_eq!(page.row(index), tokens.text(window.of(&text), Role::Passage).unwrap().0, "window {index}");
        }
        assert!(windows.len() > 1000, "{} windows", windows.len());
    }
}

#[test]
fn the_tokenizer_files_own_limit_is_ignored() {
    let (_folder, model) = model(&word_piece(), 512, ("", ""));
    let ids = Tokens::read(&model).unwrap().text(&"the cat ".repeat(50), Role::Query).unwrap().0;
    assert_eq!(ids.len(), 102);
    assert_eq!((ids[0], ids[101]), (2, 3));
}

/// As `sentence_bert_config.json` of BGE asks, which has a tokenizer that does so anyway.
#[test]
fn do_lower_case_lowers_texts_before_any_normalizer() {
    let mut cased = word_piece();
    cased["normalizer"]["lowercase"] = json!(false);
    cased["normalizer"]["strip_accents"] = json!(false);
    let sequence = json!({"type": "Sequence", "normalizers": [cased["normalizer"], {"type": "NFC"}]});
    for normalizer in [json!(null), cased["normalizer"].clone(), sequence, word_piece()["normalizer"].clone()] {
        cased["normalizer"] = normalizer;
        let (_folder, mut model) = model(&cased, 512, ("", ""));
        let ids = |model: &Model, text| Tokens::read(model).unwrap().text(text, Role::Query).unwrap().0;
        let lower = ids(&model, "the cat is in paris.");
        model.lowercase = true;
        assert_eq!(ids(&model, "The CAT is in Paris."), lower, "{}", cased["normalizer"]);
        assert!(lower.iter().all(|id| *id != 1), "no token is unknown");
    }
}

#[test]
fn a_vocabulary_larger_than_the_embedding_table_is_an_error_with_both_sizes() {
    let (_folder, model): (_, Model) = model(&word_piece(), 512, ("", ""));
    let error = Tokens::read(&model).unwrap().check_vocabulary(100).unwrap_err();
    assert!(error.message().contains("100 rows"), "{error}");
}

#[test]
fn characters_per_token_are_few_in_unknown_scripts() {
    let characters_per_token = |tokenizer: &serde_json::Value, text: &str| {
        let (_folder, model) = model(tokenizer, 512, ("", ""));
        let windows =
            pieces::parse_pieces(text, Unit::Sentence, Windows::new(1, 1, false).unwrap(), &unstopped).unwrap();
        let tokens = Tokens::read(&model).unwrap();
        tokens.words(text).characters_per_token(windows.len(), 1, |window| windows[window].of(text)).unwrap()
    };
    let english = "The cat is the bread in the moon. ".repeat(20);
    assert!(characters_per_token(&word_piece(), &english) > 2.5);
    // Whole words become one unknown token, which counts no characters.
    assert!(characters_per_token(&word_piece(), &"ภาษาไทย เป็นภาษา. ".repeat(20)) < 1.0);
    // Without any safe boundary, every window is tokenized alone.
    let chinese = characters_per_token(&sentence_piece(true), &"漢字日本語漢字日本語".repeat(20));
    assert!((0.5..1.5).contains(&chinese), "{chinese}");
}

fn options(max_tokens: usize, side: TruncationSide, adds_special_tokens: bool) -> RowOptions {
    RowOptions { max_tokens, side, adds_special_tokens }
}

#[test]
fn row_of_keeps_the_end_that_the_side_says() {
    for prompt in ["", "passage: "] {
        let (_folder, model) = model(&word_piece(), 512, ("", prompt));
        let tokens = Tokens::read(&model).unwrap();
        let text = "the cat is bread in the moon";
        let whole = tokens.text(text, Role::Passage).unwrap().0;
        let row = |options| tokens.row_of(TextOrIds::Text(text), Role::Passage, &options, &unstopped).unwrap();
        assert_eq!(row(options(512, TruncationSide::Left, true)).ids, whole);
        let (max, inner) = (whole.len() - 3, &whole[1..whole.len() - 1]);
        let left = row(options(max, TruncationSide::Left, true));
        let right = row(options(max, TruncationSide::Right, true));
        assert_eq!((left.length, right.length), (whole.len(), whole.len()));
        assert!(left.is_truncated() && left.ids.len() == max && right.ids.len() == max);
        assert_eq!(right.ids[1..max - 1], inner[..max - 2]);
        let prompt_ids = left.ids.iter().zip(&whole).take_while(|(a, b)| a == b).count() - 1;
        assert_eq!(prompt_ids > 0, !prompt.is_empty());
        assert_eq!(left.ids[1 + prompt_ids..max - 1], inner[inner.len() - (max - 2 - prompt_ids)..]);
        assert_eq!(row(options(512, TruncationSide::Right, false)).ids, inner);
    }
}

#[test]
fn window_rows_overlap_and_cover_a_long_text() {
    let (_folder, model) = model(&word_piece(), 10, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    let text = "the cat is bread in the moon ".repeat(5);
    let whole = tokens
        .row_of(TextOrIds::Text(&text), Role::Passage, &options(10, TruncationSide::Right, true), &unstopped)
        .unwrap();
    let rows = tokens.window_rows(&text, Role::Passage, 10, usize::MAX, &unstopped).unwrap();
    assert!(rows.iter().all(|row| row.len() == 10 && row[0] == 2 && row[9] == 3));
    assert_eq!(rows[0], whole.ids);
    assert_eq!(rows.len(), (whole.length - 2 - 8).div_ceil(4) + 1);
    assert_eq!(tokens.window_rows("the cat", Role::Passage, 10, usize::MAX, &unstopped).unwrap().len(), 1);
    assert_eq!(tokens.window_rows(&text, Role::Passage, 10, 10, &unstopped).unwrap(), rows[..1]);
}

#[test]
fn ids_without_special_tokens_or_of_another_vocabulary_are_no_ids_of_a_text() {
    let (_folder, model) = model(&word_piece(), 512, ("", ""));
    let tokens = Tokens::read(&model).unwrap();
    let ids: Vec<u32> = tokens.text("the cat", Role::Passage).unwrap().0.iter().map(|id| id.cast_unsigned()).collect();
    let inner: Vec<i32> = ids[1..ids.len() - 1].iter().map(|id| id.cast_signed()).collect();
    assert_eq!(tokens.inner_ids(&ids, true).unwrap(), GivenIds::Valid(inner));
    assert_eq!(tokens.inner_ids(&ids[1..], true).unwrap(), GivenIds::Unmarked);
    assert!(matches!(tokens.inner_ids(&ids[1..], false).unwrap(), GivenIds::Valid(ids) if ids.len() == 3));
    assert_eq!(tokens.inner_ids(&[2, 100_000, 3], true).unwrap(), GivenIds::Unknown(100_000));
}
