//! What the words of one unit show: that it asks, introduces what follows, or names a source.

use crate::text::pieces::abbreviations::is_opener;
use crate::text::pieces::list_marks::Mark;
use crate::text::pieces::marks::{is_closing, is_emphasis, is_terminal, without_note};
use crate::text::pieces::records::chat_marks::without_end;

/// Bytes of the line that names the source of a quotation.
const LONGEST_SOURCE: usize = 100;

/// Bytes of a short paragraph with a number.
const LONGEST_TITLE: usize = 200;

/// Words in capitals that label a paragraph.
const MAX_LABEL_WORDS: usize = 4;

/// Characters of the words in `QUESTION_LABELS`.
const LONGEST_LABEL: usize = 9;

/// What stands before the name of who wrote the text above.
const SIGNED: [&str; 8] = ["by", "von", "par", "por", "da", "przez", "door", "av"];

/// Words before notes that stand out.
const ADMONITIONS: [&str; 30] = [
    "NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION", "DANGER", "ATTENTION", "Note", "Tip", "Important", "Warning",
    "Caution", "Attention", "Explanation", "HINWEIS", "ACHTUNG", "WARNUNG", "VORSICHT", "Hinweis", "Achtung",
    "Warnung", "Vorsicht", "Erklärung", "ATENCIÓN", "Atención", "Nota", "AVERTISSEMENT", "Avertissement", "Remarque",
    "Explication",
];

/// Words before a question and before its answer.
const QUESTION_LABELS: [(&str, &str); 17] = [
    ("Q", "A"),
    ("Question", "Answer"),
    ("QUESTION", "ANSWER"),
    ("F", "A"),
    ("Frage", "Antwort"),
    ("Q", "R"),
    ("Question", "Réponse"),
    ("P", "R"),
    ("Pregunta", "Respuesta"),
    ("D", "R"),
    ("Domanda", "Risposta"),
    ("В", "О"),
    ("问", "答"),
    ("問", "答"),
    ("Ｑ", "Ａ"),
    ("문", "답"),
    ("س", "ج"),
];

/// Whether the labels of two units are those of a question and its answer.
pub(super) fn answers(question: &str, answer: &str) -> bool {
    label(answer).zip(label(question)).is_some_and(|(answer, question)| QUESTION_LABELS.contains(&(question, answer)))
}

/// Whether a unit begins with the label of an answer.
pub(super) fn is_answer(unit: &str) -> bool {
    label(unit).is_some_and(|label| QUESTION_LABELS.iter().any(|(_, answer)| *answer == label))
}

/// Whether a unit means little without what follows: it ends with a colon, it is a field of a wiki's template without a
/// value, or it is bold as a title is.
pub(super) fn introduces(unit: &str) -> bool {
    let bold = unit.strip_prefix("**").and_then(|unit| unit.strip_suffix("**"));
    let is_title = bold.is_some_and(|title| !title.contains("**"));
    let is_field = unit.starts_with('|') && unit.ends_with('=');
    without_closing(unit).ends_with([':', '：']) && !unit.ends_with(":::")
        // `(2) In this section—`
        || unit.strip_suffix('—').is_some_and(|unit| unit.ends_with(char::is_alphabetic))
        || is_title || is_field || is_signal(unit)
}

/// Whether a line is nothing but the word above a note: `WARNING!`, `> [!NOTE]`, `:::tip`, `!!! note`.
fn is_signal(line: &str) -> bool {
    let line = line.trim_start_matches(['>', ' ']);
    let mark =
        |start: &str| line.strip_prefix(start).is_some_and(|rest| rest.trim_start().starts_with(char::is_alphabetic));
    // Of most units the first byte tells.
    line.starts_with("[!") && line.contains(']') && !line.contains('\n')
        || (mark(":::") || mark("!!! ") || mark("??? ")) && !line.contains('\n')
        || line.strip_suffix('!').is_some_and(|word| is_admonition(word.trim_matches(['¡', ' ', '\u{a0}'])))
}

/// Words before a proof, a note or an example, as a sentence of their own.
const RUN_IN: [&str; 30] = [
    "Proof", "Remark", "Remarks", "Definition", "Note", "Notes", "Solution", "Answer", "Example", "Claim", "Case",
    "Beweis", "Bemerkung", "Lösung", "Beispiel", "Anmerkung", "Hinweis", "Démonstration", "Preuve", "Remarque",
    "Exemple", "Demostración", "Solución", "Nota", "Ejemplo", "Dimostrazione", "Esempio", "Osservazione", "Exemplo",
    "Solução",
];

/// Bytes of the longest such sentence.
const LONGEST_RUN_IN: usize = 60;

/// `Proof.`, `Theorem 2.2 (Lagrange).`
fn is_run_in(unit: &str) -> bool {
    let name = unit.trim_matches(is_emphasis).strip_suffix('.').map(|name| name.trim_matches(is_emphasis));
    name.filter(|name| name.len() <= LONGEST_RUN_IN).is_some_and(|name| {
        let title = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")).map(|(label, _)| label);
        let is_statement =
            |label: &str| Mark::at_start(label).is_some_and(|mark| mark.names_statement() && mark.end == label.len());
        RUN_IN.contains(&name) || title.is_some_and(is_statement)
    })
}

/// Whether a unit is the mark at the end of a proof.
pub(super) fn ends_proof(unit: &str) -> bool {
    matches!(unit, "□" | "∎" | "■" | "◻" | "QED" | "Q.E.D.")
}

/// Whether a sentence labels the rest of its paragraph: `DOVER.`, `NOTE: Coins only.`
pub(super) fn is_label(unit: &str) -> bool {
    let is_capital = |text: &str| {
        text.chars().nth(1).is_some_and(char::is_alphabetic)
            && !text.contains(char::is_lowercase)
            && text.split(' ').count() <= MAX_LABEL_WORDS
            && text.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | '-' | ',' | '&'))
    };
    let admonition = || {
        let unit = unit.trim_start_matches('*');
        unit.find(|c: char| !c.is_alphabetic())
            .is_some_and(|end| unit[end..].starts_with(':') && is_admonition(&unit[..end]))
    };
    unit.strip_suffix('.').is_some_and(is_capital) || admonition() || is_run_in(unit)
}

/// Whether a word stands before notes that stand out.
pub(crate) fn is_admonition(word: &str) -> bool {
    ADMONITIONS.contains(&word)
}

/// Whether a sentence is nothing but the name of what its paragraph describes, if its neighbours are such names, too: `Taurus.`,
/// `**Powdery mildew.**`
pub(super) fn is_name(unit: &str) -> bool {
    let name = unit.trim_matches(is_emphasis).strip_suffix('.').map(|name| name.trim_matches(is_emphasis));
    let is_word = |word: &str| word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '’'));
    name.is_some_and(|name| {
        let first = name.split(' ').next().unwrap_or_default();
        name.split(' ').nth(MAX_LABEL_WORDS - 1).is_none()
            && name.starts_with(char::is_uppercase)
            && name.chars().nth(1).is_some()
            && name.split(' ').all(is_word)
            && !is_opener(first)
    })
}

/// Whether a line that starts with this may be an item of a list.
pub(super) fn is_symbol(c: char) -> bool {
    !c.is_alphanumeric() && !is_closing(c) && !matches!(c, '¿' | '¡' | '„' | '«' | '(' | '$' | '€' | '£')
}

/// Whether a line is nothing but numbers.
pub(super) fn is_value(line: &str) -> bool {
    line.contains(|c: char| c.is_ascii_digit()) && !line.contains(char::is_alphabetic)
}

/// Whether a line is a name and its value: `Apologies: Ann Lee`.
pub(super) fn is_field(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, value)| {
        name.split(' ').count() <= 3 && name.starts_with(char::is_uppercase) && !value.starts_with(char::is_lowercase)
    })
}

/// Whether this ends with a closing quotation mark.
pub(crate) fn is_quotation(unit: &str) -> bool {
    unit.ends_with(['"', '”', '“', '»', '’', '」', '›'])
}

/// Whether a line names the source of the quotation above it: `— Ann Lee`. Other dashes do that only after what is known
/// to be a quotation.
pub(super) fn is_source(line: &str, is_quotation: bool) -> bool {
    let line = line.trim_start_matches(['>', ' ']);
    let name = line.strip_prefix(['—', '―']).or_else(|| {
        let rest = line.trim_start_matches(['-', '–', '~']);
        (is_quotation && rest.len() < line.len()).then_some(rest)
    });
    let begins = |name: &str| name.trim_start().trim_start_matches(is_emphasis).starts_with(char::is_uppercase);
    line.len() <= LONGEST_SOURCE && name.is_some_and(begins)
}

/// Whether a line says who wrote the text above it: `Submitted by: Ann Lee`.
pub(super) fn is_signature(line: &str) -> bool {
    let is_signed = |(label, name): (&str, &str)| {
        let by = label.rsplit_once(' ').map(|(_, by)| by);
        label.split(' ').count() <= MAX_LABEL_WORDS && by.is_some_and(|by| SIGNED.contains(&by)) && !name.is_empty()
    };
    line.len() <= LONGEST_SOURCE && line.split_once(':').is_some_and(is_signed)
}

/// Whether a line without a dash may name the source of a quotation: `Ann Lee, director`.
pub(super) fn is_attribution(line: &str) -> bool {
    line.len() <= LONGEST_SOURCE
        && line.trim_start_matches(is_emphasis).starts_with(char::is_uppercase)
        && is_open(line)
        && !line.ends_with([':', ';', ','])
}

/// Whether this opens a quotation.
pub(crate) fn starts_quotation(unit: &str) -> bool {
    unit.starts_with(['"', '“', '„', '«', '»', '‘', '「', '‹'])
}

/// The word or letter before a colon, full stop or number at the start of a question or an answer, without emphasis.
fn label(unit: &str) -> Option<&str> {
    let text = unit.trim_start_matches(|c: char| is_emphasis(c) || matches!(c, '>' | ' ' | '-' | '•'));
    let end = text.char_indices().take(LONGEST_LABEL + 1).find(|(_, c)| !c.is_alphabetic())?.0;
    let rest = text[end..].trim_start_matches(|c: char| c.is_ascii_digit() || is_emphasis(c) || c == ' ');
    // `Q Is it dry?`
    let is_letter = text[..end].chars().nth(1).is_none() && text[end..].starts_with([' ', '\u{3000}']);
    (end > 0 && (is_letter || rest.starts_with(['.', ':', ')', '：', '．']))).then_some(&text[..end])
}

/// The tag of the voice that says this in subtitles: `<v Ann`.
pub(super) fn voice(unit: &str) -> Option<&str> {
    unit.strip_prefix("<v").and_then(|tag| tag.split_once('>')).map(|(voice, _)| voice)
}

/// Whether no mark ends a sentence here.
pub(super) fn is_open(unit: &str) -> bool {
    !without_closing(unit).ends_with(is_terminal)
}

/// Whether this asks. In Japanese interviews two dashes begin a question, which may have no other mark.
pub(crate) fn is_question(text: &str) -> bool {
    without_closing(text).ends_with(['?', '？', '؟']) || text.starts_with("――")
}

/// Without closing quotes, brackets, emphasis, and the end tags that Markdown may have.
fn without_closing(text: &str) -> &str {
    let mut text = without_note(text);
    loop {
        text = text.trim_end_matches(|c| is_closing(c) || is_emphasis(c));
        text = without_end(text);
        let Some((before, name)) = text.strip_suffix('>').and_then(|tag| tag.rsplit_once("</")) else { return text };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return text;
        }
        text = before.trim_end();
    }
}

/// What follows the number at the start of a paragraph: `12. `, `(12) `.
pub(super) fn numbered(text: &str) -> Option<&str> {
    let number = text.strip_prefix('(').unwrap_or(text);
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(['.', ')']).filter(|_| rest.len() < number.len())?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Whether this is a short paragraph with a number, as questions of a list of questions have.
pub(super) fn is_numbered_title(paragraph: &str) -> bool {
    paragraph.len() <= LONGEST_TITLE && numbered(paragraph).is_some_and(|title| !title.is_empty())
}
