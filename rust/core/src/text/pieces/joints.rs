//! Sentences that follow each other without a space: `We met at noon.The sun was out.`

use super::abbreviations::{WordClass, first_word, is_word_of, last_word};
use super::marks::is_opening;

/// Characters of the longest word before a mark that ends a sentence without a space.
const LONGEST_WORD: usize = 64;

/// Words that start a sentence right after a name, as in `in March.The`. Others may be names too: `System.In`.
const SUBJECTS: [&str; 12] = ["The", "It", "He", "She", "They", "We", "You", "I", "This", "That", "There", "But"];

/// Whether a sentence starts right after a mark, without a space: `noon.The sun`.
///
/// Names of files, hosts and code have full stops too (`java.util.List`). A full stop ends a sentence if a word that starts
/// sentences follows, or if the whole block is written like this.
pub(super) fn is_joint(before: &str, mark: &str, after: &str, lacks_spaces: impl FnOnce() -> bool) -> bool {
    let (word, rest) = first_word(after);
    let mut letters = word.chars();
    let is_word = letters.next().is_some_and(char::is_uppercase)
        && letters.all(char::is_lowercase)
        && rest.starts_with([' ', ',', ';', '\'', '’']);
    if !is_word {
        return false;
    }
    let letters = before.chars().rev().take(LONGEST_WORD).take_while(|c| !c.is_whitespace());
    let token = &before[before.len() - letters.map(char::len_utf8).sum::<usize>()..];
    let token = token.trim_start_matches(is_opening).trim_start_matches(['"', '\'']);
    let is_of_name = |c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’' | '-' | ',' | ')' | '”' | '"' | '%');
    token.chars().nth(1).is_some()
        && !token.contains(is_of_name)
        && (!mark.starts_with('.')
            || is_word_of(WordClass::Opener, word)
                && (!token.starts_with(char::is_uppercase) || SUBJECTS.contains(&word))
            || lacks_spaces())
}

/// Whether all sentences of a block follow each other without a space, and there are at least three.
pub(super) fn lacks_spaces(block: &str) -> bool {
    let (mut joints, mut after_words, mut start) = (0, 0, 0);
    for (at, _) in block.match_indices('.') {
        let sentence = &block[start..at];
        match block[at + 1..].chars().next() {
            Some(' ') => return false,
            Some(next) if next.is_uppercase() && sentence.ends_with(char::is_lowercase) => {
                if sentence.split(' ').nth(2).is_none() {
                    return false;
                }
                joints += 1;
                // All of `Math.Max` and the like are code.
                after_words += usize::from(last_word(sentence).starts_with(char::is_lowercase));
                start = at + 1;
            }
            _ => {}
        }
    }
    joints >= 2 && after_words > 0
}
