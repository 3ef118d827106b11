//! Lists that are written in one line: `1) a 2) b`, `• a • b`.

use super::marks::is_terminal;

/// Bullets that are typed in a line of text.
pub(super) const BULLETS: [char; 5] = ['•', '⁃', '◦', '‣', '▪'];

/// The starts of the items of a list that is written in one line, without the first: `1) a 2) b`, `• a • b`.
///
/// They have the mark of the text's start, counted on. A number with a full stop alone may also end a sentence (`1. See
/// part 2. Then`), so there must be three of them, or a sentence that ends before.
pub(super) fn inline_items(text: &str) -> Vec<usize> {
    let trimmed = text.trim_start();
    let bullet = trimmed.chars().next().filter(|c| BULLETS.contains(c)).map_or("", |c| &trimmed[..c.len_utf8()]);
    let inside = trimmed[bullet.len()..].trim_start();
    let label = &inside[..inside.bytes().take(3).take_while(u8::is_ascii_alphanumeric).count()];
    let suffix = [".)", ")", "."].into_iter().find(|suffix| inside[label.len()..].starts_with(suffix));
    let mut items = Vec::new();
    let next_of = |label: &str| match (label.parse::<u16>(), label.as_bytes()) {
        (Ok(number), _) => Some((number + 1).to_string()),
        (_, [letter @ b'a'..=b'y']) => Some(char::from(letter + 1).to_string()),
        _ => None,
    };
    let (mut at, mut label) = (text.len() - inside.len(), label.to_owned());
    loop {
        let mark = match (bullet, suffix) {
            ("", None) => break,
            ("", Some(suffix)) => match next_of(&label) {
                Some(next) => {
                    label = next;
                    format!(" {label}{suffix} ")
                }
                None => break,
            },
            (bullet, _) => format!(" {bullet}"),
        };
        let Some(found) = text[at..].find(&mark) else { break };
        at += found + 1;
        items.push(at);
    }
    let is_ended = |item: &usize| text[..*item].trim_end().ends_with(is_terminal);
    if bullet.is_empty() && suffix == Some(".") && items.len() < 2 && !items.iter().all(is_ended) {
        items.clear();
    }
    items
}
