//! A parsed document: its text, and where each character stands on its pages.

use pullquote_core::text::formats::Format;
use pullquote_wire::result::Rectangle;

/// What the core reads, and the places of a PDF.
#[derive(Debug, Default)]
pub(crate) struct ParsedUpload {
    pub(crate) text: String,
    /// `None` for a text, whose format the request names.
    pub(crate) format: Option<Format>,
    /// The first character of each page of a PDF.
    pub(crate) page_starts: Vec<usize>,
    /// Left, bottom, right and top of each character of a PDF; zeros where it has none.
    pub(crate) boxes: Vec<[f32; 4]>,
    /// About the encoding of a text.
    pub(crate) warning: Option<String>,
}

impl ParsedUpload {
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(self.boxes.as_slice())
    }

    /// The page on which a character stands, from 1; `None` without pages.
    pub(crate) fn page_number(&self, character: usize) -> Option<usize> {
        let number = self.page_starts.partition_point(|start| *start <= character);
        (number > 0).then_some(number)
    }

    /// One rectangle for each line of a passage, which begins at this character; none without pages. As
    /// `pullquote.documents.Document.rectangles`.
    pub(crate) fn rectangles(&self, start: usize, passage: &str) -> Vec<Rectangle> {
        let mut made: Vec<Rectangle> = Vec::new();
        for (character, letter) in (start..).zip(passage.chars()) {
            let (Some([left, bottom, right, top]), Some(page)) =
                (self.boxes.get(character).copied(), self.page_number(character))
            else {
                break;
            };
            if right <= left || letter.is_whitespace() {
                continue;
            }
            let next = Rectangle { page, left, bottom, right, top };
            match made.last_mut().filter(|line| continues(line, &next)) {
                Some(line) => extend(line, &next),
                None => made.push(next),
            }
        }
        made
    }
}

/// Whether a character's box continues a line, to the right or to the left: its middle is at the line's height, and it
/// is near.
fn continues(line: &Rectangle, next: &Rectangle) -> bool {
    let middle = f32::midpoint(next.bottom, next.top);
    let near = 2.0 * (line.top - line.bottom);
    let is_near = next.left <= line.right + near && next.right >= line.left - near;
    line.page == next.page && line.bottom <= middle && middle <= line.top && is_near
}

fn extend(line: &mut Rectangle, next: &Rectangle) {
    line.left = line.left.min(next.left);
    line.bottom = line.bottom.min(next.bottom);
    line.right = line.right.max(next.right);
    line.top = line.top.max(next.top);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passage_has_a_rectangle_for_each_line() {
        let at = |page: usize, left: f32, bottom: f32| (page, [left, bottom, left + 5.0, bottom + 10.0]);
        let placed = [
            at(1, 10.0, 80.0),
            at(1, 15.0, 80.0),
            (1, [0.0; 4]),
            at(1, 10.0, 60.0),
            at(1, 90.0, 60.0),
            at(2, 10.0, 80.0),
        ];
        let document = ParsedUpload {
            text: "ab\ncde".to_owned(),
            page_starts: vec![0, 5],
            boxes: placed.iter().map(|(_, place)| *place).collect(),
            ..ParsedUpload::default()
        };
        let rectangle = |page, left, bottom, right, top| Rectangle { page, left, bottom, right, top };
        let expected = [
            rectangle(1, 10.0, 80.0, 20.0, 90.0),
            rectangle(1, 10.0, 60.0, 15.0, 70.0),
            rectangle(1, 90.0, 60.0, 95.0, 70.0),
            rectangle(2, 10.0, 80.0, 15.0, 90.0),
        ];
        assert_eq!(document.rectangles(0, &document.text), expected);
        assert_eq!(document.rectangles(1, "b"), [rectangle(1, 15.0, 80.0, 20.0, 90.0)]);
        assert_eq!([0, 4, 5].map(|character| document.page_number(character)), [Some(1), Some(1), Some(2)]);
        assert_eq!(ParsedUpload::default().page_number(0), None);
    }
}
