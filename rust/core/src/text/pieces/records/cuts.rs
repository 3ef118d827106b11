//! Joints: where data and code in one line are cut if they are too long: between elements, keys, statements and fields,
//! the outermost first, and never inside a string.

use std::ops::Range;

/// Bytes of a part, unless an element between two joints is longer.
const PART_BYTES: usize = 300;

/// Deeper brackets are text.
const MAX_DEPTH: u8 = 32;

/// A shorter element stays with the next one.
const SHORTEST_ELEMENT: usize = 40;

/// Elements of HTML that nothing closes.
const VOID: [&str; 7] = ["br", "hr", "img", "input", "link", "meta", "wbr"];

/// A dump has at least this share of marks of code: one in nine bytes.
const BYTES_PER_MARK: usize = 9;

/// A place where a text may be cut.
#[derive(Clone, Copy)]
struct Joint {
    at: usize,
    /// The brackets around it.
    depth: u8,
    /// Whether an object, a list or a statement ends or starts here, which stands alone.
    is_element: bool,
}

/// Whether a line is data or code instead of prose: much of it are brackets and marks of code.
pub(super) fn is_dump(line: &str) -> bool {
    let is_mark = |pair: &&[u8]| match pair[0] {
        b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b'=' | b';' | b'"' | b'|' | b'\\' => true,
        // Prose has a space after it.
        b',' => pair[1] != b' ' && !pair[1].is_ascii_digit(),
        b'\'' => matches!(pair[1], b',' | b')' | b':' | b']'),
        _ => false,
    };
    let marks = line.as_bytes().windows(2).filter(is_mark).count();
    marks * BYTES_PER_MARK > line.len()
}

/// Whether all brackets and strings of a text are closed, and nothing follows the first one's end.
pub(super) fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut scanner = Scanner::new(text);
    while let Some((at, byte, _)) = scanner.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                let Some(less) = depth.checked_sub(1) else { return false };
                depth = less;
                if depth == 0 && at + 1 < text.len() {
                    return false;
                }
            }
            _ => {}
        }
    }
    depth == 0
}

/// Bytes of a text outside its strings.
struct Scanner<'text> {
    bytes: &'text [u8],
    at: usize,
    /// The last byte that is no space.
    before: u8,
    /// For each kind of quote, whether one was found that nothing closes.
    is_open: [bool; 2],
}

impl<'text> Scanner<'text> {
    const fn new(text: &'text str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, before: b',', is_open: [false; 2] }
    }

    /// The next byte, with its place, and the last byte before it that is no space.
    fn next(&mut self) -> Option<(usize, u8, u8)> {
        loop {
            let at = self.at;
            let byte = *self.bytes.get(at)?;
            let quote = match byte {
                b'"' => Some(0),
                // In prose it is an apostrophe.
                b'\'' if matches!(self.before, b'[' | b'{' | b'(' | b',' | b':' | b'=') => Some(1),
                _ => None,
            };
            if let Some(quote) = quote.filter(|quote| !self.is_open[*quote]) {
                if let Some(end) = self.string_end(at, byte) {
                    self.at = end;
                    self.before = byte;
                    continue;
                }
                self.is_open[quote] = true;
            }
            self.at += 1;
            let before = self.before;
            if !byte.is_ascii_whitespace() {
                self.before = byte;
            }
            return Some((at, byte, before));
        }
    }

    fn string_end(&self, start: usize, quote: u8) -> Option<usize> {
        let mut at = start + 1;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                byte if *byte == quote => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// The joints of a text, in order.
fn joints(text: &str) -> Vec<Joint> {
    let bytes = text.as_bytes();
    let mut joints = Vec::new();
    let mut depth = 0_u8;
    let mut scanner = Scanner::new(text);
    let is_markup = text.starts_with('<');
    while let Some((at, byte, before)) = scanner.next() {
        let next = bytes.get(at + 1).copied().unwrap_or(b' ');
        let mut add = |at: usize, depth: u8, is_element: bool| {
            if depth <= MAX_DEPTH {
                joints.push(Joint { at, depth, is_element });
            }
        };
        match byte {
            b'{' | b'[' | b'(' => depth = depth.saturating_add(1),
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                // The end of a block of code or style; after an element of a list, its comma is the joint.
                if byte == b'}'
                    && !matches!(next, b',' | b';' | b')' | b']' | b'}' | b'(')
                    && (next != b'.' || depth == 0)
                {
                    add(at + 1, depth, true);
                }
            }
            b',' => add(at + 1, depth, matches!(before, b'}' | b']' | b')')),
            b';' | b'\n' => add(at + 1, depth, byte == b';'),
            b'\t' | b'|' | b'&' => add(at + 1, depth, false),
            b'<' if is_markup && next == b'/' => depth = depth.saturating_sub(1),
            b'<' if is_markup && opens_element(&text[at + 1..]) => depth = depth.saturating_add(1),
            b'>' if is_markup => {
                depth = depth.saturating_sub(u8::from(bytes[at - 1] == b'/'));
                add(at + 1, depth, true);
            }
            b' ' => add(at + 1, depth.saturating_add(8), false),
            _ => {}
        }
    }
    joints
}

/// Whether a tag, from its name on, opens an element.
fn opens_element(tag: &str) -> bool {
    let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    !name.is_empty() && !VOID.contains(&name)
}

/// The parts of a text that is too long, each with the marks at its end.
pub(in crate::text::pieces) fn parts(text: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    split(0..text.len(), &joints(text), &mut parts);
    parts
}

fn split(range: Range<usize>, joints: &[Joint], parts: &mut Vec<Range<usize>>) {
    let outermost = joints.iter().map(|joint| joint.depth).min();
    let Some(outermost) = outermost.filter(|_| range.len() > PART_BYTES) else {
        parts.push(range);
        return;
    };
    // The part that is being filled, and the joints inside it.
    let (mut start, mut inside) = (range.start, 0);
    // The end of what fits so far.
    let mut fits: Option<(usize, usize)> = None;
    let of_level = joints.iter().enumerate().filter(|(_, joint)| joint.depth == outermost && joint.at < range.end);
    let ends = of_level.map(|(place, joint)| (joint.at, place + 1, joint.is_element));
    for (end, place, is_element) in ends.chain([(range.end, joints.len(), true)]) {
        if end - start > PART_BYTES
            && let Some((fit, fit_place)) = fits.take()
        {
            parts.push(start..fit);
            (start, inside) = (fit, fit_place);
        }
        if end - start > PART_BYTES {
            let deeper: Vec<Joint> = joints[inside..place]
                .iter()
                .filter(|joint| joint.depth > outermost && joint.at < end)
                .copied()
                .collect();
            split(start..end, &deeper, parts);
            (start, inside) = (end, place);
        } else if is_element && end - start >= SHORTEST_ELEMENT {
            parts.push(start..end);
            (start, inside, fits) = (end, place, None);
        } else {
            fits = Some((end, place));
        }
    }
    if start < range.end {
        parts.push(start..range.end);
    }
}
