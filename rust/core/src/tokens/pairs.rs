//! Pairs of texts as a reranker or a pruner reads them: a query and a passage in one row, as the tokenizer's template joins them.

use tokenizers::Tokenizer;

use super::prompted_pairs::PromptedPairs;
use super::{Check, RowParts, TokenPage, Tokens, append, index, signed, unstopped};
use crate::encoder::model::{Model, Prompts};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::text_pool;

/// The tokenizer of a reranker or a pruner.
#[derive(Debug)]
pub struct PairTokens {
    pub(super) tokens: Tokens,
    join: Join,
}

/// How a query and a passage become a row.
#[derive(Debug)]
enum Join {
    /// As the tokenizer's template for pairs says.
    Template {
        /// The special ids before, between and after the texts.
        around: [Vec<i32>; 3],
        /// How many ids between the texts have the type of the first; `None` if all tokens have one type.
        first_type: Option<usize>,
    },
    Prompt(PromptedPairs),
}

/// How much of each passage is read.
#[derive(Clone, Copy, Debug)]
pub struct PairLimits {
    /// Its first tokens.
    pub tokens: usize,
    /// Its first windows.
    pub windows: usize,
}

impl PairLimits {
    /// All of it.
    pub const NONE: Self = Self { tokens: usize::MAX, windows: usize::MAX };
}

/// The rows of a query with passages, those of a passage one after the other.
#[derive(Clone, Debug)]
pub struct PairRows {
    pub page: TokenPage,
    /// The number of rows of each passage.
    pub counts: Vec<usize>,
    /// Whether the query is too long for any row.
    pub is_query_cut: bool,
}

/// The ids of a passage, or of a window of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passage {
    ids: Vec<i32>,
    /// Whether the text has more ids.
    is_cut: bool,
}

impl PairTokens {
    /// Reads the tokenizer of a model of pairs.
    ///
    /// # Errors
    /// As [`Tokens::read`]; [`ErrorKind::UnsupportedModel`] if its template for pairs is of another form.
    pub fn read(model: &Model) -> Result<Self> {
        let tokens = Tokens::read(model)?;
        let unsupported = |what: &str| {
            let path = model.file("tokenizer.json");
            Error::new(ErrorKind::UnsupportedModel, format!("{}: not supported: {what}", path.display()))
        };
        let (join, special) = if let Some(prompt) = &model.pair_prompt {
            let prompt = PromptedPairs::new(prompt);
            let fixed = prompt.fixed(&tokens, &unstopped)?;
            // A query and a passage need some room too.
            (Join::Prompt(prompt), 2 * fixed)
        } else {
            let (around, first_type) = template(&tokens.tokenizer).map_err(|what| unsupported(&what))?;
            let first_type = first_type.filter(|_| model.has_token_types);
            let special = around.iter().map(Vec::len).sum();
            (Join::Template { around, first_type }, special)
        };
        if tokens.limit < special + 2 {
            return Err(unsupported(&format!("{special} special tokens in rows of at most {}", tokens.limit)));
        }
        Ok(Self { tokens, join })
    }

    /// The same with one special id between both texts, and one type for all tokens: as one text with the id in it.
    pub fn as_one_text(self) -> Self {
        let join = match self.join {
            Join::Template { around: [before, mut between, after], .. } => {
                between.truncate(1);
                Join::Template { around: [before, between, after], first_type: None }
            }
            prompt @ Join::Prompt(_) => prompt,
        };
        Self { join, ..self }
    }

    /// Checks that the embedding table has a row for every id of the tokenizer.
    pub fn check_vocabulary(&self, rows: usize) -> Result<()> {
        self.tokens.check_vocabulary(rows)
    }

    /// The rows of a query with each passage, or of each passage alone. One that is too long for a row has several, of
    /// windows that overlap; of a language model's text it has one, with its start.
    pub fn rows(&self, query: Option<&str>, passages: &[&str], limits: PairLimits, check: &Check) -> Result<PairRows> {
        let alone;
        let (around, first_type) = match (&self.join, query) {
            (Join::Template { around, first_type }, Some(_)) => (around, *first_type),
            (Join::Template { .. }, None) => {
                alone = [self.tokens.prefix.clone(), Vec::new(), self.tokens.suffix.clone()];
                (&alone, None)
            }
            (Join::Prompt(prompt), Some(query)) => {
                return self.prompted(prompt, query, passages, (self.tokens.limit, limits.tokens), check);
            }
            (Join::Prompt(_), None) => {
                let message =
                    "this reranker is a language model, which scores pairs of a query and a text, and no text alone";
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        };
        let (query, is_query_cut) =
            query.map(|query| self.query(around, query, check)).transpose()?.unwrap_or_default();
        let windows = text_pool::map(passages, |text| {
            check()?;
            let mut windows = self.windows(around, text, query.len(), limits.tokens, check)?;
            windows.truncate(limits.windows);
            Ok(windows)
        })?;
        let page = joined((around, first_type), &query, windows.iter().flatten(), self.room(around, self.tokens.limit));
        Ok(PairRows { page, counts: windows.iter().map(Vec::len).collect(), is_query_cut })
    }

    /// The rows of a query with the start of each passage, of at most `max_tokens` ids.
    pub fn starts(&self, query: &str, passages: &[&str], max_tokens: usize, check: &Check) -> Result<TokenPage> {
        let (around, first_type) = match &self.join {
            Join::Template { around, first_type } => (around, *first_type),
            Join::Prompt(prompt) => {
                return Ok(self.prompted(prompt, query, passages, (max_tokens, usize::MAX), check)?.page);
            }
        };
        let (query, _) = self.query(around, query, check)?;
        let passages = text_pool::map(passages, |text| {
            check()?;
            self.start_of(around, text, check)
        })?;
        Ok(joined((around, first_type), &query, &passages, self.room(around, max_tokens)))
    }

    /// Rows of at most `row` ids, of which the passage has at most `most`.
    fn prompted(
        &self,
        prompt: &PromptedPairs,
        query: &str,
        passages: &[&str],
        (row, most): (usize, usize),
        check: &Check,
    ) -> Result<PairRows> {
        let row = row.min(self.tokens.limit);
        let query = prompt.query(&self.tokens, query, row, check)?;
        let rows = text_pool::map(passages, |passage| {
            check()?;
            prompt.row(&self.tokens, &query, passage, (row, most), check)
        })?;
        let mut page = TokenPage::of_rows(rows);
        page.seconds = (0..page.len()).map(|row| index(page.row_len(row))).collect();
        Ok(PairRows { page, counts: vec![1; passages.len()], is_query_cut: query.is_cut })
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
    fn room(&self, around: &[Vec<i32>; 3], max_tokens: usize) -> usize {
        max_tokens.min(self.tokens.limit) - around.iter().map(Vec::len).sum::<usize>().min(max_tokens)
    }

    /// The ids of a passage after a query of `query` ids, which leaves it half of the row at least.
    fn room_after(&self, around: &[Vec<i32>; 3], query: usize) -> usize {
        let room = self.room(around, self.tokens.limit);
        room - query.min(room / 2)
    }

    /// As [`Self::room_after`], for slices of a text.
    pub fn slice_room(&self, query: usize) -> usize {
        match &self.join {
            Join::Template { around, .. } => self.room_after(around, query),
            Join::Prompt(_) => 0,
        }
    }

    /// The ids of a query that leaves slices half of a row.
    pub fn slice_query(&self, text: &str, check: &Check) -> Result<Vec<i32>> {
        let Join::Template { around, .. } = &self.join else { return Ok(Vec::new()) };
        let (mut ids, _) = self.query(around, text, check)?;
        ids.truncate(self.room_after(around, usize::MAX));
        Ok(ids)
    }

    /// The rows of a query of [`Self::slice_query`] with slices of a text's ids, of at most [`Self::slice_room`].
    pub fn slice_rows<'ids>(&self, query: &[i32], slices: impl Iterator<Item = &'ids [i32]>) -> TokenPage {
        let Join::Template { around, first_type } = &self.join else { return TokenPage::default() };
        let passages: Vec<Passage> = slices.map(|ids| Passage { ids: ids.to_vec(), is_cut: false }).collect();
        joined((around, *first_type), query, &passages, self.room(around, self.tokens.limit))
    }

    /// The ids of a query, and whether they are too many for any row.
    fn query(&self, around: &[Vec<i32>; 3], text: &str, check: &Check) -> Result<(Vec<i32>, bool)> {
        let prompt = &self.tokens.prompts.query;
        let Passage { ids, is_cut } = self.start_of(around, &format!("{prompt}{text}"), check)?;
        Ok((ids, is_cut))
    }

    /// As many ids of a text as a row has room for.
    fn start_of(&self, around: &[Vec<i32>; 3], text: &str, check: &Check) -> Result<Passage> {
        let room = self.room(around, self.tokens.limit);
        let mut ids = self.tokens.first_ids(text, room + 1, check)?;
        let is_cut = ids.len() > room;
        ids.truncate(room);
        Ok(Passage { ids, is_cut })
    }

    /// The ids of a passage, in windows that each fit into a row after a query of `query` ids and together cover the
    /// first `total` ids of the text.
    fn windows(
        &self,
        around: &[Vec<i32>; 3],
        text: &str,
        query: usize,
        total: usize,
        check: &Check,
    ) -> Result<Vec<Passage>> {
        let room = self.room_after(around, query);
        let mut ids = self.tokens.first_ids(text, total, check)?;
        ids.truncate(total);
        if ids.len() <= room {
            return Ok(vec![Passage { ids, is_cut: false }]);
        }
        let step = room.div_ceil(2);
        let starts = (0..(ids.len() - room).div_ceil(step)).map(|number| number * step).chain([ids.len() - room]);
        Ok(starts.map(|start| Passage { ids: ids[start..start + room].to_vec(), is_cut: false }).collect())
    }
}

/// The rows of one query with each passage, with `room` for the ids of both texts. The longer of the two is cut first, as
/// transformers does.
fn joined<'passage>(
    ([before, between, after], first_type): (&[Vec<i32>; 3], Option<usize>),
    query: &[i32],
    passages: impl IntoIterator<Item = &'passage Passage>,
    room: usize,
) -> TokenPage {
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
        page.seconds.push(index(first_type.map_or(length, |of_first| first + of_first)));
        page.rows.push(RowParts { parts: [before.clone(), query, between.clone(), passage, suffix.clone()] });
        page.truncated.extend((*is_cut || of_passage < ids.len()).then_some(number));
    }
    page
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
