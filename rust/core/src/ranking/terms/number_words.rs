//! Questions for a number or a date, and numbers in a text, as digits or as words.

use std::collections::HashSet;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use crate::text::page::ByteSpan;

/// Beginnings of questions for a number or a date, without accents: a line for each language.
const NUMBER_QUESTIONS: [&str; 8] = [
    "when, since when, what year, which year, in what year, in which year, what date, what time, how many, how much, how long, \
     how old, how far, how tall, how high, how big, how often, what port, which port",
    "wann, seit wann, bis wann, in welchem jahr, wie viel, wie viele, wieviel, wieviele, wie lange, wie alt, wie weit, wie hoch, \
     wie groß, wie oft",
    "quand, depuis quand, combien, en quelle annee, a quelle heure, quel age, a quel age",
    "cuando, desde cuando, en que ano, que ano, a que hora, cuanto, cuanta, cuantos, cuantas, a los cuantos",
    "quando, da quando, in che anno, in quale anno, a che ora, quanto, quanta, quanti, quante, a quanti",
    "desde quando, em que ano, a que horas, quantos, quantas, a quantos",
    "wanneer, sinds wanneer, in welk jaar, hoeveel, hoe lang, hoe oud, hoe ver, hoe hoog, hoe groot, hoe vaak",
    "cand, de cand, in ce an, la ce ora, cate, cati, cata, de cate, cat de, cat timp, cat costa",
];

/// Numbers as words, without accents: English, German and Dutch, then Romance languages. Words that mean something else
/// in English, such as due, are left out.
const NUMBER_WORDS: &str = "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty \
    hundred thousand million millions billion half once twice none zero \
    zwei drei vier funf sechs sieben acht neun zehn zwolf hundert tausend millionen halb einmal zweimal keine \
    twee drie vijf zes zeven negen tien honderd duizend miljoen helft geen \
    deux trois quatre cinq sept huit neuf dix onze douze vingt cent mille moitie aucun \
    dos tres cuatro cinco seis siete ocho nueve diez cien mil millon millones medio ninguno \
    tre quattro cinque sei sette otto nove dieci cento milione nessuno \
    dois duas quatro sete oito dez cem milhoes metade nenhum \
    doi doua trei patru cinci sase sapte opt noua zece suta mii milioane jumatate";

/// Lower case without accents.
fn plain(text: &str) -> String {
    text.to_lowercase().nfd().filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).collect()
}

/// Whether a query asks for a number or a date.
pub(crate) fn asks_for_number(query: &str) -> bool {
    let query = plain(query.trim_start_matches(|c: char| !c.is_alphanumeric()));
    let asks = |beginning: &str| {
        query.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '?']))
    };
    NUMBER_QUESTIONS.iter().any(|language| language.split(", ").any(asks))
}

/// Whether a text has a number, in digits or as a word.
pub(crate) fn has_number(text: &str) -> bool {
    text.contains(char::is_numeric) || has_number_word(text)
}

fn has_number_word(text: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| NUMBER_WORDS.split_whitespace().collect());
    plain(text).split(|c: char| !c.is_alphabetic()).any(|word| WORDS.contains(word))
}

/// The numbers of a text, sorted and disjoint.
pub(crate) fn numbers(text: &str) -> Vec<ByteSpan> {
    let mut numbers = Vec::new();
    let mut start = 0;
    // A word includes the accents after its letters.
    let ends_word = |c: char| !c.is_alphabetic() && !matches!(c, '\u{300}'..='\u{36f}');
    for part in text.split_inclusive(ends_word) {
        let end = start + part.len();
        let word = part.trim_end_matches(ends_word);
        let word_end = start + word.len();
        if word.len() <= LONGEST_NUMBER_WORD && has_number_word(word) {
            numbers.push(ByteSpan { start, end: word_end });
        }
        if part[word.len()..].contains(char::is_numeric) {
            numbers.push(ByteSpan { start: word_end, end });
        }
        start = end;
    }
    numbers
}

/// Bytes of a word that may be a number, with an accent for each letter.
const LONGEST_NUMBER_WORD: usize = 64;

/// Whether one of these numbers is in a span.
pub(crate) fn contains(numbers: &[ByteSpan], span: ByteSpan) -> bool {
    numbers.get(numbers.partition_point(|number| number.start < span.start)).is_some_and(|next| next.end <= span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_for_numbers_are_known_in_several_languages() {
        for query in [
            "When did the Rhine freeze?", "what port", "Wie viele Brücken gibt es?", "In welchem Jahr war das?",
            "Depuis quand ?", "¿Cuántos puentes hay?", "en qué año nació", "Quando è nato?", "Em que ano foi?",
            "Hoeveel bruggen zijn er?", "Când a înghețat Rinul?",
        ] {
            assert!(asks_for_number(query), "{query}");
        }
        for query in [
            "whenever it froze", "cat food", "how does it work", "Wer war es?", "catalogue", "Quantenphysik",
            "portugal",
        ] {
            assert!(!asks_for_number(query), "{query}");
        }
    }

    #[test]
    fn numbers_are_digits_or_words() {
        for text in ["It froze in 1963.", "Fünf Brücken", "trois ponts", "două poduri", "twee bruggen"] {
            assert!(has_number(text), "{text}");
        }
        assert!(!has_number("The Rhine freezes rarely."));
    }

    #[test]
    fn numbers_of_a_text_are_those_of_its_parts() {
        let text = "Fünf Brücken in 1963, u\u{308}ber fu\u{308}nf (two) or ½ more; none rarely.";
        let numbers = numbers(text);
        let found: Vec<&str> = numbers.iter().map(|number| number.of(text)).collect();
        assert_eq!(found, ["Fünf", "1", "9", "6", "3", "fu\u{308}nf", "two", "½", "none"]);
        let words: Vec<ByteSpan> = crate::text::pieces::words(text);
        for (first, start) in words.iter().enumerate() {
            for last in &words[first..] {
                let span = ByteSpan { start: start.start, end: last.end };
                assert_eq!(contains(&numbers, span), has_number(span.of(text)), "{}", span.of(text));
            }
        }
    }
}
