//! Ids word by word, for tokenizers of BERT's kind: each word of a page is looked up once, and normalized without the
//! tokenizer, whose normalizer keeps track of every character's place and takes most of its time.
//!
//! The ids are those of [`Tokens::text`], which the tests compare.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use rustc_hash::FxHashMap;
use tokenizers::models::ModelWrapper;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{Model, NormalizedString, Normalizer, Tokenizer};

use super::boundaries::{Family, is_bert_space, is_punctuation};
use super::{Check, SEGMENTS_AT_ONCE, Tokens, append, index, tokenizer_failed};
use crate::error::Result;
use crate::runtime::sync::lock;
use crate::runtime::text_pool;
use crate::text::page::ByteSpan;

/// What the normalizer makes of a character; `None` if that may depend on its neighbours.
type NormalForm = Option<Arc<str>>;

/// What the normalizer makes of characters; see [`normal_form`].
#[derive(Debug)]
pub(super) struct NormalForms {
    ascii: Vec<NormalForm>,
    /// Of the other characters of all pages so far, up to [`MAX_FORMS`].
    others: Mutex<FxHashMap<char, NormalForm>>,
}

/// Characters whose forms are kept.
const MAX_FORMS: usize = 1 << 16;

impl NormalForms {
    /// The form of a character that is not of ASCII.
    fn of_other(&self, tokenizer: &Tokenizer, c: char) -> NormalForm {
        if let Some(known) = lock(&self.others).get(&c) {
            return known.clone();
        }
        let form = normal_form(tokenizer, c);
        let mut others = lock(&self.others);
        if others.len() < MAX_FORMS {
            others.insert(c, form.clone());
        }
        form
    }
}

/// The words of a page whose ids are known, for all that asks for ids of its parts.
#[derive(Debug)]
pub struct PageWords<'page> {
    tokens: &'page Tokens,
    /// Whether the ids of words do not depend on their neighbours here.
    is_by_word: bool,
    /// One for each thread, while no thread uses it.
    known: Mutex<Vec<WordIds<'page>>>,
}

/// Finds the ids of words, which end at white space and punctuation marks.
#[derive(Debug)]
struct WordIds<'page> {
    tokens: &'page Tokens,
    model: &'page WordPiece,
    forms: &'page NormalForms,
    words: FxHashMap<&'page str, Word>,
    /// The ids of all `words`.
    ids: Vec<i32>,
    /// The forms of the page's characters that are not of ASCII.
    characters: FxHashMap<char, NormalForm>,
    /// Reused.
    normalized: String,
    part: String,
}

/// A word whose ids are known.
#[derive(Clone, Debug)]
struct Word {
    ids: Range<u32>,
    /// The characters of known tokens, white space not counted. `None` if the tokenizer has to count them and has not
    /// yet.
    characters: Option<usize>,
}

/// The normal forms of ASCII, if words can be normalized character by character, and looked up in the vocabulary.
pub(super) fn of_separate_words(tokenizer: &Tokenizer, family: Family) -> Option<NormalForms> {
    // Marks in an order that normal forms change, unless all are stripped.
    let marks = "a\u{301}\u{323}";
    let are_separate = matches!(family, Family::Bert { punctuation: true, .. })
        && matches!(tokenizer.get_model(), ModelWrapper::WordPiece(_))
        && normalize(tokenizer, marks).is_some_and(|normal| normal == marks || normal == "a");
    are_separate.then(|| NormalForms {
        ascii: ('\0'..='\x7f').map(|c| normal_form(tokenizer, c)).collect(),
        others: Mutex::default(),
    })
}

fn normalize(tokenizer: &Tokenizer, text: &str) -> Option<String> {
    let mut normalized = NormalizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        normalizer.normalize(&mut normalized).ok()?;
    }
    Some(normalized.get().to_owned())
}

impl Tokens {
    /// The words of a page, none of which is known yet.
    pub fn words<'page>(&'page self, page: &str) -> PageWords<'page> {
        PageWords::new(self, self.separate_words.is_some() && !self.contains_added_token(page))
    }
}

impl<'page> PageWords<'page> {
    /// `is_by_word` unless the page contains an added token.
    pub(super) fn new(tokens: &'page Tokens, is_by_word: bool) -> Self {
        Self { tokens, is_by_word, known: Mutex::default() }
    }

    /// The ids of each unit, without special ids and prompts.
    ///
    /// # Errors
    /// Those of the tokenizer and of `check`.
    pub fn of_units(&self, text: &'page str, units: &[ByteSpan], check: &Check) -> Result<Vec<Vec<i32>>> {
        let texts: Vec<&str> = units.iter().map(|unit| unit.of(text)).collect();
        self.of_parts(&texts, check)
    }

    /// The ids of parts of the page, without special ids and prompts.
    pub(super) fn of_parts(&self, texts: &[&'page str], check: &Check) -> Result<Vec<Vec<i32>>> {
        let groups: Vec<&[&str]> = texts.chunks(SEGMENTS_AT_ONCE).collect();
        let ids = text_pool::map(&groups, |group| {
            check()?;
            let by_word = self.with_known(|words| group.iter().map(|text| words.of(text)).collect::<Result<Vec<_>>>());
            by_word.unwrap_or_else(|| group.iter().map(|text| self.tokens.ids(text)).collect())
        })?;
        Ok(ids.into_iter().flatten().collect())
    }

    /// The number of a part's tokens, and of the characters of known ones, white space not counted.
    pub(super) fn count(&self, text: &'page str) -> Result<(usize, usize)> {
        self.with_known(|words| words.count(text)).unwrap_or_else(|| self.tokens.known_characters(text))
    }

    pub(super) const fn tokens(&self) -> &'page Tokens {
        self.tokens
    }

    /// `None` if words depend on their neighbours.
    fn with_known<T>(&self, find: impl FnOnce(&mut WordIds<'page>) -> Result<T>) -> Option<Result<T>> {
        let known = self.is_by_word.then(|| lock(&self.known).pop().or_else(|| WordIds::new(self.tokens)));
        let mut words = known.flatten()?;
        let found = find(&mut words);
        lock(&self.known).push(words);
        Some(found)
    }
}

impl<'page> WordIds<'page> {
    /// `None` if this tokenizer's words depend on their neighbours.
    fn new(tokens: &'page Tokens) -> Option<Self> {
        let ModelWrapper::WordPiece(model) = tokens.tokenizer.get_model() else { return None };
        let forms = tokens.separate_words.as_ref()?;
        Some(Self {
            tokens,
            model,
            forms,
            words: FxHashMap::default(),
            ids: Vec::new(),
            characters: FxHashMap::default(),
            normalized: String::new(),
            part: String::new(),
        })
    }

    /// The ids of a text.
    fn of(&mut self, text: &'page str) -> Result<Vec<i32>> {
        let mut ids = Vec::with_capacity(text.len() / 4);
        for word in split(text) {
            let range = self.look_up(word)?.ids;
            ids.extend_from_slice(&self.ids[range.start as usize..range.end as usize]);
        }
        Ok(ids)
    }

    /// The number of a text's tokens, and of the characters of known ones.
    fn count(&mut self, text: &'page str) -> Result<(usize, usize)> {
        let (mut tokens, mut characters) = (0, 0);
        for word in split(text) {
            let found = self.look_up(word)?;
            tokens += found.ids.len();
            characters += match found.characters {
                Some(characters) => characters,
                None => self.count_with_tokenizer(word, found)?,
            };
        }
        Ok((tokens, characters))
    }

    fn look_up(&mut self, word: &'page str) -> Result<Word> {
        if let Some(known) = self.words.get(word) {
            return Ok(known.clone());
        }
        let new = self.add(word)?;
        self.words.insert(word, new.clone());
        Ok(new)
    }

    fn count_with_tokenizer(&mut self, word: &'page str, known: Word) -> Result<usize> {
        let characters = self.tokens.known_characters(word)?.1;
        self.words.insert(word, Word { characters: Some(characters), ..known });
        Ok(characters)
    }

    fn add(&mut self, word: &str) -> Result<Word> {
        let tokens = self.tokens;
        let start = index(self.ids.len());
        let Some(is_one_to_one) = self.normalize(word) else {
            let ids = tokens.ids(word)?;
            return Ok(Word { ids: append(&mut self.ids, &ids), characters: None });
        };
        let mut characters = 0;
        let normalized = std::mem::take(&mut self.normalized);
        // The normalizer puts spaces around Han characters.
        for piece in normalized.split(' ').filter(|piece| !piece.is_empty()) {
            let first = self.ids.len();
            if !self.append_parts(piece) {
                self.ids.truncate(first);
                let found = self.model.tokenize(piece).map_err(|error| tokenizer_failed(piece, &error))?;
                self.ids.extend(found.iter().map(|token| token.id.cast_signed()));
            }
            let is_known = self.ids[first..].iter().any(|id| Some(*id) != tokens.unknown);
            characters += if is_known { piece.chars().count() } else { 0 };
        }
        self.normalized = normalized;
        // Several tokens may have parts of a character that became several.
        Ok(Word { ids: start..index(self.ids.len()), characters: is_one_to_one.then_some(characters) })
    }

    /// Appends the ids of a normalized word: its own, or those of its parts, each the longest that the vocabulary has.
    /// [`WordPiece::tokenize`] finds the same and allocates each part. Returns false for an unknown word.
    fn append_parts(&mut self, word: &str) -> bool {
        if let Some(id) = self.model.token_to_id(word) {
            self.ids.push(id.cast_signed());
            return true;
        }
        if word.chars().count() > self.model.max_input_chars_per_word {
            return false;
        }
        let (mut rest, mut prefix) = (word, "");
        while !rest.is_empty() {
            self.part.clear();
            self.part.push_str(prefix);
            self.part.push_str(rest);
            let id = loop {
                if self.part.len() == prefix.len() {
                    return false;
                }
                match self.model.token_to_id(&self.part) {
                    Some(id) => break id,
                    None => self.part.pop(),
                };
            };
            self.ids.push(id.cast_signed());
            rest = &rest[self.part.len() - prefix.len()..];
            prefix = &self.model.continuing_subword_prefix;
        }
        true
    }

    /// Fills `normalized`, and says whether each character remained one. `None` if the word has to go through the
    /// tokenizer.
    fn normalize(&mut self, word: &str) -> Option<bool> {
        self.normalized.clear();
        let mut is_one_to_one = true;
        for c in word.chars() {
            let normal = match self.forms.ascii.get(c as usize) {
                Some(normal) => normal,
                None => self.characters.entry(c).or_insert_with(|| self.forms.of_other(&self.tokens.tokenizer, c)),
            };
            let normal = normal.as_deref()?;
            is_one_to_one &= normal.trim_matches(' ').chars().count() == 1;
            self.normalized.push_str(normal);
        }
        Some(is_one_to_one)
    }
}

/// What the normalizer makes of a letter, a digit, a symbol or a punctuation mark, if that is of the same kind.
fn normal_form(tokenizer: &Tokenizer, c: char) -> NormalForm {
    if !(c.is_alphanumeric() || is_punctuation(c) || is_symbol(c)) {
        return None;
    }
    let normal = normalize(tokenizer, c.encode_utf8(&mut [0; 4]))?;
    normal.chars().all(|part| part.is_alphanumeric() || part == ' ' || part == c).then(|| normal.into())
}

/// Whether this is a symbol, which stays in its word: `→`, `°`, `€`.
fn is_symbol(c: char) -> bool {
    GeneralCategoryGroup::Symbol.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

/// The words of a text, and its punctuation marks.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(is_bert_space);
    words.flat_map(|word| word.split_inclusive(is_punctuation)).flat_map(|word| {
        let last = word.chars().next_back().filter(|c| is_punctuation(*c));
        let edge = word.len() - last.map_or(0, char::len_utf8);
        [&word[..edge], &word[edge..]].into_iter().filter(|part| !part.is_empty())
    })
}
