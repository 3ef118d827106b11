//! Pairs of texts as a reranker reads them: a query and a passage in one row, as the tokenizer's template joins them.

use tokenizers::Tokenizer;

use super::{Check, RowParts, TokenPage, Tokens, append, index, signed};
use crate::encoder::model::{Model, Prompts};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::text_pool;

/// A reranker's tokenizer.
#[derive(Debug)]
pub struct PairTokens {
    tokens: Tokens,
    /// The special ids before, between and after the texts.
    around: [Vec<i32>; 3],
    /// How many ids between the texts have the type of the first; `None` if all tokens have one type.
    first_type: Option<usize>,
}

/// The ids of a passage, or of a window of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    pub ids: Vec<i32>,
    /// Whether the text has more ids.
    pub is_cut: bool,
}

impl PairTokens {
    /// Reads the tokenizer of a reranker.
    ///
    /// # Errors
    /// As [`Tokens::read`]; [`ErrorKind::UnsupportedModel`] if its template for pairs is of another form.
    pub fn read(model: &Model) -> Result<Self> {
        let tokens = Tokens::read(model)?;
        let unsupported = |what: &str| {
            let path = model.file("tokenizer.json");
            Error::new(ErrorKind::UnsupportedModel, format!("{}: not supported: {what}", path.display()))
        };
        let (around, first_type) = template(&tokens.tokenizer).map_err(|what| unsupported(&what))?;
        let first_type = first_type.filter(|_| model.has_token_types);
        let special: usize = around.iter().map(Vec::len).sum();
        if tokens.limit < special + 2 {
            return Err(unsupported(&format!("{special} special tokens in rows of at most {}", tokens.limit)));
        }
        Ok(Self { tokens, around, first_type })
    }

    /// Checks that the embedding table has a row for every id of the tokenizer.
    pub fn check_vocabulary(&self, rows: usize) -> Result<()> {
        self.tokens.check_vocabulary(rows)
    }

    /// The longest row, special ids included.
    pub const fn max_tokens(&self) -> usize {
        self.tokens.limit
    }

    /// What precedes queries.
    pub const fn prompts(&self) -> &Prompts {
        &self.tokens.prompts
    }

    /// The ids of both texts of a row, at most.
    fn room(&self, max_tokens: usize) -> usize {
        max_tokens.min(self.tokens.limit) - self.around.iter().map(Vec::len).sum::<usize>().min(max_tokens)
    }

    /// The ids of a query, and whether they are too many for any row.
    pub fn query(&self, text: &str, check: &Check) -> Result<(Vec<i32>, bool)> {
        let prompt = &self.tokens.prompts.query;
        let Passage { ids, is_cut } = self.start_of(&format!("{prompt}{text}"), check)?;
        Ok((ids, is_cut))
    }

    /// The ids of the start of each passage: as many as a row has room for.
    pub fn passages(&self, texts: &[&str], check: &Check) -> Result<Vec<Passage>> {
        text_pool::map(texts, |text| {
            check()?;
            self.start_of(text, check)
        })
    }

    /// As many ids of a text as a row has room for.
    fn start_of(&self, text: &str, check: &Check) -> Result<Passage> {
        let room = self.room(self.tokens.limit);
        let mut ids = self.tokens.first_ids(text, room + 1, check)?;
        let is_cut = ids.len() > room;
        ids.truncate(room);
        Ok(Passage { ids, is_cut })
    }

    /// The ids of a passage, in windows that each fit into a row after a query of `query` ids and together cover the
    /// first `total` ids of the text.
    pub fn windows(&self, text: &str, query: usize, total: usize, check: &Check) -> Result<Vec<Passage>> {
        let room = self.room(self.tokens.limit);
        // A query leaves a passage half of the row at least.
        let room = room - query.min(room / 2);
        let mut ids = self.tokens.first_ids(text, total, check)?;
        ids.truncate(total);
        if ids.len() <= room {
            return Ok(vec![Passage { ids, is_cut: false }]);
        }
        let step = room.div_ceil(2);
        let starts = (0..(ids.len() - room).div_ceil(step)).map(|number| number * step).chain([ids.len() - room]);
        Ok(starts.map(|start| Passage { ids: ids[start..start + room].to_vec(), is_cut: false }).collect())
    }

    /// The rows of one query with each passage, of at most `max_tokens` ids. The longer of the two texts is cut first,
    /// as transformers does.
    pub fn rows<'passage>(
        &self,
        query: &[i32],
        passages: impl IntoIterator<Item = &'passage Passage>,
        max_tokens: usize,
    ) -> TokenPage {
        let [before, between, after] = &self.around;
        let room = self.room(max_tokens);
        let mut page = TokenPage::default();
        let [before, suffix] = [before, after].map(|ids| append(&mut page.ids, ids));
        let whole_query = append(&mut page.ids, query);
        let between = append(&mut page.ids, between);
        for (number, Passage { ids, is_cut }) in passages.into_iter().enumerate() {
            let (of_query, of_passage) = longest_first(query.len(), ids.len(), room);
            let query = whole_query.start..whole_query.start + index(of_query);
            let passage = append(&mut page.ids, &ids[..of_passage]);
            let first = before.len() + query.len();
            let length = first + between.len() + passage.len() + suffix.len();
            page.seconds.push(index(self.first_type.map_or(length, |of_first| first + of_first)));
            page.rows.push(RowParts { parts: [before.clone(), query, between.clone(), passage, suffix.clone()] });
            page.truncated.extend((*is_cut || of_passage < ids.len()).then_some(number));
        }
        page
    }
}

/// How much of two texts fits: the longer one is cut until both are equally long.
fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let (shorter, half) = (first.min(second), room / 2);
    let (shorter, longer) = if shorter <= half { (shorter, room - shorter) } else { (half, room - half) };
    if first > second { (longer, shorter) } else { (shorter, longer) }
}

type Template = ([Vec<i32>; 3], Option<usize>);

/// The special ids around two texts, and where the second type begins.
fn template(tokenizer: &Tokenizer) -> std::result::Result<Template, String> {
    let pair = tokenizer.encode(("a", "a"), true).map_err(|error| error.to_string())?;
    let own = tokenizer.encode("a", false).map_err(|error| error.to_string())?;
    let (own, ids, types) = (own.get_ids(), pair.get_ids(), pair.get_type_ids());
    let texts: Vec<usize> = if own.is_empty() {
        Vec::new()
    } else {
        ids.windows(own.len()).enumerate().filter(|(_, window)| *window == own).map(|(at, _)| at).collect()
    };
    let &[first, second] = texts.as_slice() else {
        return Err(format!("a template for pairs that makes the ids {ids:?} of two texts of the ids {own:?}"));
    };
    let end = first + own.len();
    let change = types.iter().position(|of_type| *of_type == 1);
    let has_two_types =
        types.iter().enumerate().all(|(at, of_type)| *of_type == u32::from(change.is_some_and(|from| at >= from)));
    if !has_two_types || change.is_some_and(|from| from < end || from > second) {
        return Err(format!("the token types {types:?} of a pair; known are 0, and 1 from the second text on"));
    }
    let around = [&ids[..first], &ids[end..second], &ids[second + own.len()..]].map(signed);
    Ok((around, change.map(|from| from - end)))
}

#[cfg(test)]
mod tests {
    use super::longest_first;

    #[test]
    fn the_longer_text_is_cut_first() {
        assert_eq!(longest_first(3, 4, 7), (3, 4));
        assert_eq!(longest_first(3, 9, 7), (3, 4));
        assert_eq!(longest_first(9, 3, 7), (4, 3));
        assert_eq!(longest_first(9, 9, 7), (3, 4));
        assert_eq!(longest_first(10, 9, 7), (4, 3));
        assert_eq!(longest_first(0, 9, 7), (0, 7));
    }
}
