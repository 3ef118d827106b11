//! How much of a sentence a passage says: its words, its facts, and whether one of both denies what the other says.

use std::sync::Arc;

use pullquote_wire::citations::FactKind;
use rustc_hash::{FxHashMap, FxHashSet};

use super::facts::{Date, Fact, Value, facts, is_number_word, letters_of};
use super::units::{Unit, dimension, unit_in_words};
use crate::quotes::negation::{has_unspaced, is_negation};
use crate::ranking::terms::{Language, QueryTerm, Term, query_terms, terms};
use crate::text::page::ByteSpan;
use crate::tokens::Tokens;

/// A sentence, read once for all passages.
pub(super) struct Claim {
    words: Vec<ClaimWord>,
    pub(super) facts: Vec<Fact>,
    terms: FxHashSet<Term>,
    /// The words that deny.
    negations: Vec<ByteSpan>,
}

struct ClaimWord {
    said: Said,
    weight: f32,
    is_name: bool,
}

/// What a word of a sentence stands for.
enum Said {
    Word {
        term: Term,
        beginning: Option<String>,
        dimension: Option<usize>,
    },
    Unit(Unit),
    /// The numbers that may be meant, and their unit.
    Number(Vec<String>, Option<Unit>),
}

/// What a text says, read once for all sentences.
#[derive(Default)]
pub(super) struct Contents {
    /// Of all words that are no stop words.
    terms: FxHashSet<Term>,
    all_terms: FxHashSet<Term>,
    /// The first letters of its long words.
    beginnings: FxHashSet<String>,
    /// Each number, with its unit each time that it stands here.
    numbers: FxHashMap<String, Vec<Option<Unit>>>,
    units: FxHashSet<Unit>,
    /// What is measured: "height" for a tall tower.
    dimensions: FxHashSet<usize>,
    dates: Vec<Date>,
    names: Vec<Vec<Term>>,
    letters: String,
    negations: usize,
}

/// A passage with the names above it, and the text around it.
#[derive(Clone)]
pub(super) struct Passage {
    pub(super) sentences: Arc<Vec<Contents>>,
    /// Breadcrumbs, the header of a table, the title.
    pub(super) names: Arc<Contents>,
    /// The sentences before, and the beginning of the page: what its pronouns may mean.
    pub(super) around: Arc<Contents>,
    pub(super) cosine: f32,
}

/// What passages together say of a sentence.
pub(super) struct Evidence {
    /// The probability that they are about what the sentence says, whatever facts they lack.
    pub(super) related: f32,
    /// The probability that they say the sentence.
    pub(super) probability: f32,
    /// The greater, the better.
    pub(super) order: f32,
    /// The share of the sentence's words, without its names, that the passages have themselves.
    pub(super) coverage: f32,
    /// Indices of facts that none of them has.
    pub(super) missing: Vec<usize>,
    pub(super) is_denied: bool,
}

/// Letters that words of one family share at their beginning.
const FAMILY: usize = 5;

/// How much a word of the same family counts.
const OF_FAMILY: f32 = 0.7;

/// The weight of a number as a word, for each digit up to three: 110.6 hardly stands in two sentences, 2 in many.
const OF_DIGIT: f32 = 0.4;

/// Of a passage's sentences, those count that have this share of what the best one has.
const FOCUS: f32 = 0.5;

/// From this share of a passage's sentence in the claim on, both say about the same.
const ALIKE: f32 = 0.7;

impl Claim {
    pub(super) fn new(text: &str, language: Language, tokens: &Tokens) -> Self {
        let facts = facts(text, language);
        // Numbers count by their values, also those that are written with letters: 5k, five.
        let counts = |term: &QueryTerm| !term.text.starts_with(|c: char| c.is_numeric()) && !is_number_word(&term.text);
        let is_name =
            |term: Term| facts.iter().any(|fact| matches!(&fact.value, Value::Name(of) if of.contains(&term)));
        let of_numbers: FxHashSet<Unit> = facts.iter().filter_map(|fact| fact.unit).collect();
        let word = |term: QueryTerm| ClaimWord {
            weight: term.weight * tokens.rarity(&term.text).max(0.1),
            is_name: is_name(term.term),
            said: match unit_in_words(&term.text).filter(|unit| of_numbers.contains(unit)) {
                Some(unit) => Said::Unit(unit),
                None => Said::Word {
                    term: term.term,
                    beginning: beginning(&term.text),
                    dimension: dimension(&term.text).filter(|_| !of_numbers.is_empty()),
                },
            },
        };
        let all = terms(text, language).into_iter().map(|one| one.term).collect();
        let words = query_terms(text, language).into_iter().filter(counts).map(word);
        let words = words.chain(facts.iter().filter_map(ClaimWord::of_number)).collect();
        Self { words, facts, terms: all, negations: negations(text) }
    }

    /// Its last word that denies.
    pub(super) fn negation(&self) -> Option<ByteSpan> {
        self.negations.last().copied()
    }

    /// What passages say together; the first is the best.
    #[expect(clippy::cast_precision_loss, reason = "few facts")]
    pub(super) fn evidence(&self, passages: &[&Passage]) -> Evidence {
        let focus: Vec<Vec<&Contents>> = passages.iter().map(|passage| self.focus(passage)).collect();
        let said: Vec<&Contents> = focus.iter().flatten().copied().collect();
        let named: Vec<&Contents> = passages.iter().map(|passage| passage.names.as_ref()).collect();
        let around: Vec<&Contents> = passages.iter().map(|passage| passage.around.as_ref()).collect();
        let own = self.share(&said, |_| true);
        let all = self.share(&[said.as_slice(), &named, &around].concat(), |_| true);
        let is_foreign = |name: &Vec<Term>| !name.iter().any(|term| self.terms.contains(term));
        let has_foreign = said.iter().any(|one| one.names.iter().any(is_foreign));
        let has = |fact: &Fact| match &fact.value {
            Value::Number(values) => {
                let again = |other: &&Fact| matches!(&other.value, Value::Number(of) if of == values);
                let wanted = self.facts.iter().filter(again).count();
                let count =
                    |value: &String| said.iter().chain(&named).map(|one| one.count(value, fact.unit)).sum::<usize>();
                values.iter().any(|value| count(value) >= wanted)
            }
            Value::Date(_) => said.iter().chain(&named).any(|one| one.has_fact(fact)),
            Value::Quote(_) => said.iter().chain(&named).chain(&around).any(|one| one.has_fact(fact)),
            Value::Name(_) => {
                said.iter().chain(&named).any(|one| one.has_fact(fact))
                    || (!has_foreign && around.iter().any(|one| one.has_fact(fact)))
            }
        };
        let missing: Vec<usize> =
            self.facts.iter().enumerate().filter(|(_, fact)| !has(fact)).map(|(place, _)| place).collect();
        let is_denied = self.is_denied(&focus, &said);
        let cosine = passages.iter().map(|passage| passage.cosine).fold(-1.0, f32::max);
        let count =
            |kinds: &[FactKind]| missing.iter().filter(|place| kinds.contains(&self.facts[**place].kind)).count();
        let values = count(&[FactKind::Number, FactKind::Date, FactKind::Quote]).min(2);
        let lost_names = count(&[FactKind::Name]).min(3);
        let about = OF_ALL * all + OF_OWN * own + OF_COSINE * cosine - OFFSET;
        let lacking = OF_VALUE * values as f32 + OF_NAME * lost_names as f32 + if is_denied { OF_DENIAL } else { 0.0 };
        Evidence {
            related: sigmoid(about),
            probability: sigmoid(about - lacking),
            order: about - LACKING_IN_ORDER * lacking,
            coverage: self.share(&said, |word| !word.is_name),
            missing,
            is_denied,
        }
    }

    /// The sentences of a passage that are about the claim.
    fn focus<'passage>(&self, passage: &'passage Passage) -> Vec<&'passage Contents> {
        let shares: Vec<f32> = passage.sentences.iter().map(|sentence| self.share(&[sentence], |_| true)).collect();
        let best = shares.iter().copied().fold(0.0, f32::max);
        let is_near = |(_, share): &(&Contents, f32)| *share >= best * FOCUS;
        passage.sentences.iter().zip(shares).filter(is_near).map(|(sentence, _)| sentence).collect()
    }

    /// The share of some of the claim's words that texts have.
    fn share(&self, texts: &[&Contents], counts: impl Fn(&ClaimWord) -> bool) -> f32 {
        let words = || self.words.iter().filter(|word| counts(word));
        let total: f32 = words().map(|word| word.weight).sum();
        let best = |word: &ClaimWord| texts.iter().map(|text| text.has(word)).fold(0.0, f32::max);
        let covered: f32 = words().map(|word| word.weight * best(word)).sum();
        if total > 0.0 { covered / total } else { 1.0 }
    }

    /// Whether the claim denies more than the passages, or less than passages that say about the same.
    #[expect(clippy::cast_precision_loss, reason = "few words")]
    fn is_denied(&self, focus: &[Vec<&Contents>], said: &[&Contents]) -> bool {
        let denies = self.negations.len();
        let in_focus: usize = said.iter().map(|one| one.negations).sum();
        if denies > in_focus {
            return true;
        }
        let is_alike = |one: &&&Contents| {
            let common = one.terms.intersection(&self.terms).count();
            one.negations > 0 && common as f32 >= ALIKE * one.terms.len().max(1) as f32
        };
        let alike: usize = focus.iter().flatten().filter(is_alike).map(|one| one.negations).sum();
        alike > denies
    }
}

// A logistic regression on 1,254 sentences of 130 pages, paraphrased by rule, of which a fifth were changed or taken out of
// their page, with more weight on the names above: those sentences hardly have pronouns. The probability that a passage
// answers the sentence as if it were a question adds nothing to the cosine (its weight is 0.07).
const OF_ALL: f32 = 3.2;
const OF_OWN: f32 = 4.4;
const OF_COSINE: f32 = 7.6;
const OFFSET: f32 = 11.4;
const OF_VALUE: f32 = 7.0;
const OF_NAME: f32 = 3.0;
const OF_DENIAL: f32 = 7.0;

/// Of passages about the same, the one with the sentence's facts comes first; one that is about less does not.
const LACKING_IN_ORDER: f32 = 0.2;

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

impl ClaimWord {
    /// A number counts as a word, by its value and unit.
    fn of_number(fact: &Fact) -> Option<Self> {
        let Value::Number(values) = &fact.value else { return None };
        let digits = values.iter().map(|value| value.trim_end_matches('0').bytes().filter(u8::is_ascii_digit).count());
        let weight = OF_DIGIT * [0.0, 1.0, 2.0, 3.0][digits.max().unwrap_or(0).min(3)];
        Some(Self { said: Said::Number(values.clone(), fact.unit), weight, is_name: false })
    }
}

impl Contents {
    pub(super) fn new(text: &str, language: Language) -> Self {
        let mut contents = Self {
            letters: format!(" {} ", letters_of(text)),
            negations: negations(text).len(),
            terms: query_terms(text, language).into_iter().map(|term| term.term).collect(),
            ..Self::default()
        };
        for occurrence in terms(text, language) {
            contents.all_terms.insert(occurrence.term);
            let word = occurrence.span.of(text);
            contents.beginnings.extend(beginning(word));
            contents.dimensions.extend(dimension(word));
        }
        for fact in facts(text, language) {
            match fact.value {
                Value::Number(values) => {
                    contents.units.extend(fact.unit);
                    for value in values {
                        contents.add_number(value, fact.unit);
                    }
                }
                Value::Date(dates) => {
                    let parts = dates.iter().flat_map(|date| [date.year, date.day]).flatten();
                    parts.for_each(|part| contents.add_number(part.to_string(), None));
                    contents.dates.extend(dates);
                }
                Value::Name(terms) => contents.names.push(terms),
                Value::Quote(_) => {}
            }
        }
        contents
    }

    fn add_number(&mut self, value: String, unit: Option<Unit>) {
        self.numbers.entry(value).or_default().push(unit);
    }

    /// How often a number stands here with no other unit.
    fn count(&self, value: &str, unit: Option<Unit>) -> usize {
        let is_same = |other: &&Option<Unit>| unit.is_none() || other.is_none() || **other == unit;
        self.numbers.get(value).map_or(0, |units| units.iter().filter(is_same).count())
    }

    fn has(&self, word: &ClaimWord) -> f32 {
        let (is_here, is_family) = match &word.said {
            Said::Word { term, beginning, dimension } => (
                self.all_terms.contains(term)
                    || dimension.is_some_and(|dimension| self.dimensions.contains(&dimension)),
                beginning.as_ref().is_some_and(|beginning| self.beginnings.contains(beginning)),
            ),
            Said::Unit(unit) => (self.units.contains(unit), false),
            Said::Number(values, unit) => (values.iter().any(|value| self.count(value, *unit) > 0), false),
        };
        if is_here {
            return 1.0;
        }
        if is_family { OF_FAMILY } else { 0.0 }
    }

    fn has_fact(&self, fact: &Fact) -> bool {
        match &fact.value {
            Value::Number(values) => values.iter().any(|value| self.count(value, fact.unit) > 0),
            Value::Date(dates) => dates.iter().any(|date| self.dates.iter().any(|other| self.has_date(*date, *other))),
            Value::Name(words) => words.is_empty() || words.iter().any(|term| self.all_terms.contains(term)),
            Value::Quote(letters) => self.letters.contains(&format!(" {letters} ")),
        }
    }

    /// Whether a date of this text says another one; the year may stand elsewhere in it.
    fn has_date(&self, date: Date, other: Date) -> bool {
        let has_year = date.year.is_none_or(|year| {
            other.year == Some(year) || (other.year.is_none() && self.numbers.contains_key(&year.to_string()))
        });
        date.month == other.month && date.day.is_none_or(|day| other.day == Some(day)) && has_year
    }
}

fn beginning(word: &str) -> Option<String> {
    let letters: String = word.chars().take(FAMILY).flat_map(char::to_lowercase).collect();
    (word.chars().count() > FAMILY && word.chars().all(char::is_alphabetic)).then_some(letters)
}

/// The words of a text that deny; the whole text if it has no spaces between words.
fn negations(text: &str) -> Vec<ByteSpan> {
    let (mut found, mut at) = (Vec::new(), 0);
    for word in text.split_inclusive(char::is_whitespace) {
        let trimmed = word.trim();
        if is_negation(trimmed) {
            let start = at + word.find(trimmed).unwrap_or(0);
            found.push(ByteSpan { start, end: start + trimmed.len() });
        }
        at += word.len();
    }
    if found.is_empty() && has_unspaced(text) {
        found.push(ByteSpan { start: 0, end: text.len() });
    }
    found
}
