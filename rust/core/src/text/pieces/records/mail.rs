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

/// Characters up to the colon of a field.
const LONGEST_FIELD: usize = 24;

/// Fields of a header, with the sender.
const MIN_FIELDS: usize = 3;
const MAX_FIELDS: usize = 16;

/// The header of a message, with the line above it that says whose it was: `-----Original Message-----`.
pub(super) fn run(lines: &Lines<'_>, at: usize) -> Result<Run, usize> {
    let line = lines.get(at).filter(|_| lines.begins_part(at)).ok_or(at + 1)?;
    let first = if is_marker(line) { at + 1 } else { at };
    let fields = (first..first + MAX_FIELDS).map_while(|line| lines.get(line).and_then(field));
    let fields: Vec<String> = fields.collect();
    let end = first + fields.len();
    if fields.len() < MIN_FIELDS || !fields.iter().any(|name| SENDERS.contains(&name.as_str())) {
        return Err(end.max(at + 1));
    }
    let heading = Block { level: 1, ..lines.block(at..end, BlockKind::Heading, false) };
    Ok(Run { blocks: vec![heading], end })
}

/// The name of a line's field, in lower case and without emphasis, if headers have it.
fn field(line: &str) -> Option<String> {
    let end = line.char_indices().take(LONGEST_FIELD).find(|(_, c)| matches!(c, ':' | '：'))?.0;
    let name = line[..end].trim_matches(['*', ' ']).to_lowercase();
    (SENDERS.contains(&name.as_str()) || OTHERS.contains(&name.as_str())).then_some(name)
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
