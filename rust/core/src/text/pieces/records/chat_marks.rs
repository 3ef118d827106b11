//! The marks between the turns of a chat with a language model, as its templates write them, also inside a line:
//! `[INST]`, `<|im_start|>user`, `<start_of_turn>user`.

/// What starts a turn.
const STARTS: [&str; 9] = [
    "[INST]", "[/INST]", "<|im_start|>", "<|start_header_id|>", "<|user|>", "<|assistant|>", "<|system|>",
    "<start_of_turn>", "<|start|>",
];

/// What may stand before it.
const BEGINNINGS: [&str; 5] = ["<s>", "</s>", "<|begin_of_text|>", "<bos>", " "];

/// What ends a turn.
const ENDS: [&str; 6] = ["<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "</s>"];

/// Whether a text may have marks: most have none.
pub(in crate::text::pieces) fn may_have_marks(text: &str) -> bool {
    ["[INST]", "|>", "<start_of_turn>"].iter().any(|mark| text.contains(mark))
}

/// Where turns start in a line after its first one.
pub(in crate::text::pieces) fn inner_starts(line: &str) -> impl Iterator<Item = usize> {
    let is_start = |at: &usize| STARTS.iter().any(|mark| line[*at..].starts_with(mark));
    let begin = |at: usize| {
        let mut before = &line[..at];
        while let Some(shorter) = BEGINNINGS.iter().find_map(|mark| before.strip_suffix(mark)) {
            before = shorter;
        }
        before.len()
    };
    line.match_indices(['<', '[']).map(|(at, _)| at).filter(is_start).map(begin).filter(|at| *at > 0)
}

/// The end of the mark that a line begins with, and of the role in it.
pub(super) fn mark_end(line: &str) -> Option<usize> {
    let mut text = line;
    while let Some(rest) = BEGINNINGS.iter().find_map(|mark| text.strip_prefix(mark)) {
        text = rest;
    }
    let mark = STARTS.iter().find(|mark| text.starts_with(**mark))?;
    let rest = &text[mark.len()..];
    if !matches!(*mark, "<|im_start|>" | "<|start_header_id|>" | "<start_of_turn>" | "<|start|>") {
        return Some(line.len() - rest.len());
    }
    let role = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let rest = &rest[role..];
    let rest = ["<|end_header_id|>", "<|message|>"].iter().find_map(|end| rest.strip_prefix(end)).unwrap_or(rest);
    Some(line.len() - rest.len())
}

/// The text without the marks at its end.
pub(crate) fn without_end(text: &str) -> &str {
    ENDS.iter().find_map(|mark| text.strip_suffix(mark)).map_or(text, str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_start_with_a_mark_and_a_role() {
        let ends = |line: &str| mark_end(line).map(|end| line[..end].to_owned());
        assert_eq!(ends("<s>[INST] Who? [/INST] Ann.").as_deref(), Some("<s>[INST]"));
        assert_eq!(ends("<|im_start|>user Who?").as_deref(), Some("<|im_start|>user"));
        assert_eq!(
            ends("<|start_header_id|>user<|end_header_id|> Who?").as_deref(),
            Some("<|start_header_id|>user<|end_header_id|>")
        );
        assert_eq!(ends("Who? [INST]"), None);
        let line = "<s>[INST] Who? [/INST] Ann. </s><s>[INST] Where?";
        assert_eq!(inner_starts(line).map(|at| &line[at..at + 4]).collect::<Vec<_>>(), [" [/I", " </s"]);
        assert_eq!(without_end("Ann.<|im_end|>"), "Ann.");
    }
}
