//! Words that deny, in the languages of most pages.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

const NEGATIONS: &str = "not no never none nor neither nothing nobody nowhere without cannot hardly barely scarcely unless \
    except nicht kein keine keinen keinem keiner keines nie niemals ohne weder nichts niemand ne pas jamais aucun aucune sans \
    rien ni nunca jamás sin ningún ninguna ninguno nada nadie tampoco non mai senza nessun nessuno nessuna niente né não nunca \
    sem nenhum nenhuma nem ninguém niet geen nooit zonder noch niets niemand inte ingen inget inga aldrig utan ikke ingen \
    aldri uten uden nie nigdy bez ani žádný nikdy не нет ни никогда без ані ні немає nu fără niciodată nem soha nélkül sem ei \
    eivät koskaan ilman değil yok hiç hiçbir tidak bukan jangan tanpa không chưa chẳng لا لم لن ليس ليست غير بدون دون نہیں نه \
    بدون नहीं न मत बिना না নয় 안 못 아니다 아닌 없다 없는 없이 않는 않다 않았다 לא אין בלי אף δεν δε μη μην χωρίς ποτέ";

/// Of scripts without spaces.
const UNSPACED: [&str; 13] = ["不", "没", "沒", "無", "无", "非", "未", "ない", "なかっ", "ません", "なく", "ไม่", "មិន"];

/// Beginnings of words that deny the rest.
const PREFIXES: [&str; 10] = ["n", "un", "in", "im", "il", "ir", "dis", "non", "mis", "anti"];

/// Whether a word denies.
pub(crate) fn is_negation(word: &str) -> bool {
    static WORDS: LazyLock<FxHashSet<&str>> = LazyLock::new(|| NEGATIONS.split_whitespace().collect());
    let word = word.to_lowercase().replace('’', "'");
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    WORDS.contains(word) || word.ends_with("n't") || word.starts_with("n'")
}

pub(crate) fn has_unspaced(text: &str) -> bool {
    UNSPACED.iter().any(|negation| text.contains(negation))
}

/// Whether the beginning of a word denies the rest.
pub(super) fn is_prefix(part: &str) -> bool {
    PREFIXES.contains(&part.to_lowercase().as_str())
}

/// Whether the end of a word denies the rest.
pub(super) fn is_suffix(part: &str) -> bool {
    matches!(part.to_lowercase().as_str(), "n't" | "n’t" | "less" | "free")
}

/// Whether one of two words, in lower case, is the other one with a beginning that denies it.
pub(super) fn is_negated(first: &str, second: &str) -> bool {
    let (short, long) = if first.len() < second.len() { (first, second) } else { (second, first) };
    short.len() > 2 && long.strip_suffix(short).is_some_and(|prefix| PREFIXES.contains(&prefix))
}
