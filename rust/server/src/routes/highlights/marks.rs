//! Tags around the words of a highlight that match its query, as Elasticsearch's highlighters write them.

use std::ops::Range;

use pullquote_core::text::positions::Positions;
use pullquote_wire::request::{MarkEncoder, Tag};

/// The tags of a request.
pub(super) struct Marks {
    pre: String,
    post: String,
    encoder: MarkEncoder,
}

impl Marks {
    pub(super) fn read(pre: Option<Tag>, post: Option<Tag>, encoder: MarkEncoder) -> Option<Self> {
        if pre.is_none() && post.is_none() {
            return None;
        }
        let text = |tag: Option<Tag>, default: &str| match tag {
            Some(Tag::One(tag) | Tag::Listed([tag])) => tag,
            None => default.to_owned(),
        };
        Some(Self { pre: text(pre, "<em>"), post: text(post, "</em>"), encoder })
    }

    /// Bytes of the two tags around a word.
    pub(super) const fn bytes(&self) -> usize {
        self.pre.len() + self.post.len()
    }

    /// The passage with tags around `words`, which are in order and do not overlap.
    pub(super) fn around(
        &self,
        page: &Positions<'_>,
        passage: Range<usize>,
        words: impl Iterator<Item = [usize; 2]>,
    ) -> String {
        let (mut marked, mut written) = (String::new(), passage.start);
        for [start, end] in words.filter(|[start, end]| passage.start <= *start && *end <= passage.end) {
            if start < written {
                continue;
            }
            self.push(&mut marked, page.between(written, start));
            marked.push_str(&self.pre);
            self.push(&mut marked, page.between(start, end));
            marked.push_str(&self.post);
            written = end;
        }
        self.push(&mut marked, page.between(written, passage.end));
        marked
    }

    fn push(&self, marked: &mut String, text: &str) {
        if self.encoder == MarkEncoder::Default {
            return marked.push_str(text);
        }
        for character in text.chars() {
            match character {
                '&' => marked.push_str("&amp;"),
                '<' => marked.push_str("&lt;"),
                '>' => marked.push_str("&gt;"),
                '"' => marked.push_str("&quot;"),
                '\'' => marked.push_str("&#x27;"),
                _ => marked.push(character),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_marked_and_text_is_escaped() {
        let text = "<b> Brot & Brötchen";
        let page = Positions::of(text, vec![0, 4, 8, 11, 19]);
        let marks = |encoder| Marks { pre: "<em>".to_owned(), post: "</em>".to_owned(), encoder };
        let words = || [[4, 8], [11, 19]].into_iter();
        let escaped = marks(MarkEncoder::Html).around(&page, 0..19, words());
        assert_eq!(escaped, "&lt;b&gt; <em>Brot</em> &amp; <em>Brötchen</em>");
        assert_eq!(marks(MarkEncoder::Default).around(&page, 4..19, words()), "<em>Brot</em> & <em>Brötchen</em>");
        assert!(Marks::read(None, None, MarkEncoder::Html).is_none());
    }
}
