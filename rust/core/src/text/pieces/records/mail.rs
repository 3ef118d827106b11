//! The headers of messages in mail: their fields name all of the message, as a heading does.

use super::run::{Lines, Run};
use crate::text::page::{Block, BlockKind};

/// What says who wrote a message, in lower case, and what else its header has.
const SENDERS: [&str; 11] = ["from", "von", "de", "da", "van", "från", "fra", "od", "от", "发件人", "差出人"];
const OTHERS: [&str; 39] = [
    "to", "cc", "date", "sent", "subject", "reply-to", "an", "datum", "gesendet", "betreff", "à", "envoyé", "objet",
    "para", "fecha", "enviado", "asunto", "assunto", "data", "a", "inviato", "oggetto", "aan", "verzonden",
    "onderwerp", "till", "skickat", "ämne", "do", "wysłano", "temat", "кому", "дата", "тема", "收件人", "发送时间",
    "主题", "宛先", "件名",
];

/// Fields of a header, with the sender.
const MIN_FIELDS: usize = 3;
const MAX_FIELDS: usize = 16;

/// The header of a message, with the line above it that says whose it was: `-----Original Message-----`.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let is_alone = at.checked_sub(1).is_none_or(|above| lines.is_blank(above));
    let line = lines.get(at).filter(|_| is_alone).ok_or(at + 1)?;
    let first = if is_marker(line) { at + 1 } else { at };
    let is_of = |line: usize, names: &[&str]| {
        let name = lines.get(line).and_then(field_name);
        name.is_some_and(|name| names.contains(&name.to_lowercase().as_str()))
    };
    let is_field = |line: &usize| is_of(*line, &SENDERS) || is_of(*line, &OTHERS);
    let end = first + (first..first + MAX_FIELDS).take_while(is_field).count();
    if end - first < MIN_FIELDS || !(first..end).any(|line| is_of(line, &SENDERS)) {
        return Err(end.max(at + 1));
    }
    let heading = Block { level: 1, ..lines.block(at..end, BlockKind::Heading, false) };
    Ok(Run { blocks: vec![heading], end })
}

/// The name of a field, without emphasis.
fn field_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once([':', '：'])?;
    Some(name.trim_matches(['*', ' ']))
}

/// `---------- Forwarded message ----------`
fn is_marker(line: &str) -> bool {
    line.starts_with("---") && line.ends_with("---") && line.contains(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use crate::runtime::call::unstopped;
    use crate::text::page::BlockKind;
    use crate::text::pieces::blocks::blocks;

    #[test]
    fn headers_are_headings() {
        let header = |text: &str| {
            let blocks = blocks(text, &unstopped).unwrap();
            blocks.iter().find(|block| block.kind == BlockKind::Heading).map(|block| block.span.of(text).to_owned())
        };
        for head in [
            "From: Ann\nTo: Ben\nSubject: The gate",
            "Von: Ann\nGesendet: Freitag, 7. Juli 2023\nBetreff: AW: Tor",
            "-----Original Message-----\nFrom: Ann\nSent: Tuesday\nSubject: The gate",
            "**De:** Ann\n**Para:** Ben\n**Assunto:** O portão",
        ] {
            assert_eq!(header(&format!("{head}\n\nIt opens at nine. Come early.\n")).as_deref(), Some(head));
        }
        for text in ["From: Ann\nTo: Ben\n\nHello.\n", "To: Ben\nDate: Friday\nSubject: Gate\n\nHello.\n"] {
            assert_eq!(header(text), None, "{text}");
        }
    }
}
