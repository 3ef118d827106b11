//! Conversations whose speakers are headings: `### User`, `### Assistant`. What each says is a turn instead of a section.

use std::borrow::Cow;

use super::entry_starts::turn_label;
use super::speakers::{Counts, lone_name};
use crate::text::page::{Block, BlockKind};

/// Who asks, and who answers, in lower case.
const ROLES: [&[&str]; 2] = [
    &[
        "user", "human", "prompt", "question", "you", "me", "q", "interviewer", "customer", "frage", "pregunta",
        "domanda", "instruction", "inst",
    ],
    &[
        "assistant", "ai", "bot", "model", "response", "answer", "chatgpt", "claude", "gemini", "copilot", "a",
        "agent", "antwort", "respuesta", "réponse", "risposta", "output", "completion",
    ],
];

/// The blocks of a page, with turns instead of headings that are speakers. No other heading stands between them.
pub(in crate::text::pieces) fn with_turns<'page>(text: &str, blocks: Cow<'page, [Block]>) -> Cow<'page, [Block]> {
    let is_heading = |block: &Block| block.kind == BlockKind::Heading;
    let headings: Vec<usize> = (0..blocks.len()).filter(|place| is_heading(&blocks[*place])).collect();
    let name = |place: usize| lone_name(blocks[place].span.of(text)).map(|(name, _)| name);
    let is_same = |one: &usize, next: &usize| {
        blocks[*one].level == blocks[*next].level && name(*one).is_some() && name(*next).is_some()
    };
    let mut turns: Vec<usize> = Vec::new();
    let mut first = 0;
    for run in headings.chunk_by(is_same) {
        first += run.len();
        let end = headings.get(first).copied().unwrap_or(blocks.len());
        let names: Vec<&str> = run.iter().filter_map(|place| name(*place)).collect();
        let ends = run.iter().skip(1).copied().chain([end]);
        // Titles come again in the parts of a manual: somebody asks here.
        let asks = |end: usize| blocks[end - 1].span.of(text).ends_with(['?', '？']);
        if names.len() > 1 && (have_roles(&names) || Counts::new(&names).are_speakers() && ends.clone().any(asks)) {
            turns.extend(run.iter().zip(ends).flat_map(|(start, end)| *start..end));
        }
    }
    if turns.is_empty() {
        return blocks;
    }
    let mut blocks = blocks.into_owned();
    for place in turns {
        let block = &mut blocks[place];
        match block.kind {
            BlockKind::Heading => *block = Block { kind: BlockKind::Turn, level: 0, continues: false, ..*block },
            BlockKind::Prose => *block = Block { kind: BlockKind::Turn, continues: true, ..*block },
            _ => {}
        }
    }
    Cow::Owned(blocks)
}

/// Whether the label of a turn asks, and that of the next one answers, whatever they say: `### Instruction:` and
/// `### Response:`.
pub(crate) fn is_prompted(turn: &str, next: &str) -> bool {
    let label = |turn: &str| turn_label(turn).map_or(String::new(), |end| turn[..end].to_lowercase());
    let (asks, answers) = (label(turn), label(next));
    let has =
        |label: &str, roles: &[&str]| label.split(|c: char| !c.is_alphanumeric()).any(|word| roles.contains(&word));
    has(&asks, ROLES[0]) && !asks.contains("[/inst]") && (has(&answers, ROLES[1]) || answers.contains("[/inst]"))
}

/// Whether one of them asks and another one answers.
fn have_roles(names: &[&str]) -> bool {
    ROLES.iter().all(|roles| names.iter().any(|name| roles.contains(&name.to_lowercase().as_str())))
}
