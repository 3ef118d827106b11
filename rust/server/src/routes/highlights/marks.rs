//! Tags around the words of a highlight that match its query, as Elasticsearch's highlighters write them.

use std::ops::Range;

use pullquote_core::text::positions::Positions;
use pullquote_wire::request::{MarkEncoder, Tag};

use crate::http::failure::{Failure, refused};

/// The tags of a request.
pub(super) struct Marks {
    pre: String,
    post: String,
    encoder: MarkEncoder,
}

impl Marks {
    /// Tags that are not there are those that fit the other one.
    pub(super) fn read(pre: Option<Tag>, post: Option<Tag>, encoder: MarkEncoder) -> Result<Option<Self>, Failure> {
        let text = |tag| match tag {
            Tag::One(tag) | Tag::Listed([tag]) => tag,
        };
        let (pre, post) = match (pre.map(text), post.map(text)) {
            (None, None) => return Ok(None),
            (Some(pre), Some(post)) => (pre, post),
            (Some(pre), None) => match closing(&pre) {
                Some(post) => (pre, post),
                None => return refused("post_tags", format!("pass what stands after a word, too: {pre:?} is no tag")),
            },
            (None, Some(post)) if post == "</em>" => ("<em>".to_owned(), post),
            (None, Some(post)) => {
                return refused("pre_tags", format!("pass what stands before a word, too, as {post:?} does after it"));
            }
        };
        Ok(Some(Self { pre, post, encoder }))
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

/// The end tags of start tags, the last one first.
fn closing(opening: &str) -> Option<String> {
    let (mut rest, mut closing) = (opening, String::new());
    while let Some((tag, after)) = rest.strip_prefix('<').and_then(|inside| inside.split_once('>')) {
        let name = tag.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next()?;
        if name.is_empty() {
            return None;
        }
        closing.insert_str(0, &format!("</{name}>"));
        rest = after;
    }
    (rest.is_empty() && !closing.is_empty()).then_some(closing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tags_close_start_tags_in_reverse() {
        for (opening, expected) in [
            ("<b>", Some("</b>")),
            ("<b><i class=\"a b\">", Some("</i></b>")),
            ("<my-mark id=1>", Some("</my-mark>")),
            ("[[", None),
            ("<b>: ", None),
            ("<>", None),
            ("", None),
        ] {
            assert_eq!(closing(opening).as_deref(), expected, "{opening}");
        }
    }

    #[test]
    fn words_are_marked_and_text_is_escaped() {
        let text = "<b> Brot & Brötchen";
        let page = Positions::of(text, vec![0, 4, 8, 11, 19]);
        let marks = |encoder| Marks { pre: "<em>".to_owned(), post: "</em>".to_owned(), encoder };
        let words = || [[4, 8], [11, 19]].into_iter();
        let escaped = marks(MarkEncoder::Html).around(&page, 0..19, words());
        assert_eq!(escaped, "&lt;b&gt; <em>Brot</em> &amp; <em>Brötchen</em>");
        assert_eq!(marks(MarkEncoder::Default).around(&page, 4..19, words()), "<em>Brot</em> & <em>Brötchen</em>");
        assert!(Marks::read(None, None, MarkEncoder::Html).unwrap().is_none());
    }
}
