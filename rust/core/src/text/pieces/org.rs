//! Headings of Org mode: `* Gates`, `** Hinges`. In other formats these are items of lists, so text has to follow them.

use super::lines::{Line, LineShape};

/// Gives the headings of an Org file their shape.
pub(super) fn mark_org(text: &str, lines: &mut [Line]) {
    let stars = |line: &Line| {
        let line = line.span().of(text);
        let stars = line.bytes().take_while(|byte| *byte == b'*').count();
        if line[stars..].starts_with(' ') && !line.ends_with('*') { stars } else { 0 }
    };
    let is_text = |line: &Line| line.shape == LineShape::Text && stars(line) == 0;
    let deep = || (0..lines.len()).filter(|line| stars(&lines[*line]) > 1);
    // Nested lists of wikis follow each other.
    let named = deep().filter(|line| lines.get(line + 1).is_some_and(is_text)).count();
    let is_sign = |line: &Line| {
        let line = line.span().of(text);
        line.starts_with("#+") || line.trim() == ":PROPERTIES:"
    };
    let is_other = || lines.iter().any(|line| line.shape == LineShape::Heading);
    let is_org = (named > 0 && named * 2 >= deep().count()) || lines.iter().any(is_sign);
    if !is_org || is_other() {
        return;
    }
    for line in lines {
        let stars = stars(line);
        if stars > 0 {
            line.shape = LineShape::Title(u8::try_from(stars).unwrap_or(u8::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::call::unstopped;
    use crate::text::page::BlockKind;
    use crate::text::pieces::blocks::blocks;

    #[test]
    fn stars_above_text_are_headings() {
        let levels = |text: &str| -> Vec<u8> {
            let blocks = blocks(text, &unstopped).unwrap();
            blocks.iter().filter(|block| block.kind == BlockKind::Heading).map(|block| block.level).collect()
        };
        assert_eq!(levels("* Gates\n** Oak\nThey are old.\n** Iron\nThey rust.\n* Tolls\nNine euros.\n"), [1, 2, 2, 1]);
        assert_eq!(levels("* Gates\n** Oak\n** Iron\n* Tolls\n** Boats\n"), [0_u8; 0]);
    }
}
