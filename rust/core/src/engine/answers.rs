//! Answers: from the cosines and the words of all pages to the columns that Python gets.

use std::ops::Range;

use super::run::Open;
use super::titles::Titles;
use super::{Answers, Pairing, Question, Request};
use crate::error::Result;
use crate::highlights::{Judged, Passage, Seeds, choose_passages};
use crate::pieces::Unit;
use crate::scores::relevance::{self, BM25, COSINE, Scale, best_around, join, of_units, score};
use crate::terms::{QueryTerm, query_terms, terms};
use crate::tokens::Tokens;

impl Question {
    /// Whether passages grow from sentences, instead of windows being returned as they are. Who skips text means the windows.
    fn grows(&self) -> bool {
        self.grow && self.unit == Unit::Sentence && self.windows.step_size() <= self.windows.highlight_length()
    }

    /// Whether units are encoded beside the windows. Where words count, these tell the units of a window apart as well, for
    /// nothing; where windows are the units, once is enough.
    pub(super) fn encodes_units(&self) -> bool {
        self.grows()
            && !self.lexical.may_count()
            && (self.windows.highlight_length(), self.windows.step_size()) != (1, 1)
    }

    /// The units of the longest passage: as far as the windows around one unit reach.
    fn longest(&self) -> usize {
        self.windows.highlight_length().saturating_mul(2) - 1
    }
}

/// What speaks for a query on a page.
struct Spoken<'open, 'text> {
    page: usize,
    query: usize,
    open: &'open Open<'text>,
    terms: Vec<QueryTerm>,
    /// Of each window.
    cosine: &'open [f32],
    /// Of each unit, where they were encoded.
    own_cosine: &'open [f32],
    /// BM25 of each window; empty where words do not count.
    lexical: Vec<f32>,
    /// Of each seed of passages.
    relevance: Vec<f32>,
    /// What the page's title adds to all of them.
    title: f32,
}

/// A page, and what speaks for each query that it has to answer at once.
struct Asked<'open, 'text> {
    spoken: Vec<Spoken<'open, 'text>>,
    /// The best of them for each seed.
    relevance: Vec<f32>,
    /// The best of what the page's title adds.
    title: f32,
}

/// Chooses on all pages, query after query.
pub(super) fn choose_answers(
    open: &[Open],
    titles: &Titles,
    request: &Request,
    question: &Question,
    tokens: &Tokens,
) -> Result<Answers> {
    let mut answers = Answers::default();
    let pages = |query: usize| if request.pairing == Pairing::Each { query..query + 1 } else { 0..open.len() };
    let all = (0..request.queries.len()).map(|query| {
        spoken(&open[pages(query)], pages(query).start, (query, request.queries[query]), titles, question)
    });
    if request.pairing == Pairing::Fused {
        let mut asked: Vec<Asked> = open
            .iter()
            .map(|_| Asked { spoken: Vec::new(), relevance: Vec::new(), title: f32::NEG_INFINITY })
            .collect();
        for (page, spoken) in all.flat_map(|spoken| spoken.into_iter().map(|spoken| (spoken.page, spoken))) {
            asked[page].add(spoken);
        }
        answers.choose(&asked, question, tokens)?;
    } else {
        for spoken in all {
            let asked: Vec<Asked> = spoken.into_iter().map(Asked::by).collect();
            answers.choose(&asked, question, tokens)?;
        }
    }
    Ok(answers)
}

/// What speaks for a query on these pages, the first of which has this number.
fn spoken<'open, 'text>(
    open: &'open [Open<'text>],
    first: usize,
    (query, text): (usize, &str),
    titles: &Titles,
    question: &Question,
) -> Vec<Spoken<'open, 'text>> {
    let mut all: Vec<Spoken> = (first..)
        .zip(open)
        .filter_map(|(page, open)| {
            let (_, cosines) = open.cosines.iter().find(|(asked, _)| *asked == query)?;
            let (cosine, own_cosine) = cosines.split_at(open.prepared.reading.ranges.len());
            let terms = query_terms(text, open.prepared.reading.language);
            let title = titles.of(query, page);
            Some(Spoken {
                page,
                query,
                open,
                terms,
                cosine,
                own_cosine,
                lexical: Vec::new(),
                relevance: Vec::new(),
                title,
            })
        })
        .collect();
    let covered: Vec<Option<Covered>> = all.iter_mut().map(|spoken| spoken.read(question)).collect();
    // Scales are those of all pages together, so that scores can be compared between them.
    let cosine = Scale::of(all.iter().flat_map(|spoken| spoken.cosine), COSINE);
    let own_cosine = Scale::of(all.iter().flat_map(|spoken| spoken.own_cosine), COSINE);
    let lexical = Scale::of(all.iter().flat_map(|spoken| &spoken.lexical), BM25);
    let found = covered.iter().flatten().flat_map(|covered| &covered.units).copied().reduce(f32::max).unwrap_or(1.0);
    for (spoken, covered) in all.iter_mut().zip(covered) {
        let prepared = &spoken.open.prepared;
        let weight = question.lexical.weight(prepared.reading.characters_per_token, found);
        let (cosine, lexical) = (cosine.all(spoken.cosine), lexical.all(&spoken.lexical));
        spoken.relevance = if question.grows() {
            // A unit in no window (a step over the length) is like the least of all.
            let around =
                |values: &[f32]| best_around(prepared.reading.units.spans.len(), &prepared.reading.ranges, values, 0.0);
            let meaning = relevance::meaning(&around(&cosine), &own_cosine.all(spoken.own_cosine));
            let mut relevance = of_units(&match covered {
                None => meaning,
                Some(Covered { units, paragraphs }) => {
                    join(&meaning, &relevance::words(&around(&lexical), &units, &paragraphs), weight)
                }
            });
            for unit in &prepared.reading.units.quiet {
                relevance[*unit] = relevance[*unit].min(0.0);
            }
            relevance
        } else if lexical.is_empty() {
            cosine
        } else {
            join(&cosine, &lexical, weight)
        };
    }
    all
}

/// How much of the query each unit holds, and the paragraph that it stands in.
struct Covered {
    units: Vec<f32>,
    paragraphs: Vec<f32>,
}

impl Spoken<'_, '_> {
    /// Reads the page's words, where they count.
    fn read(&mut self, question: &Question) -> Option<Covered> {
        let prepared = &self.open.prepared;
        let found = prepared.reading.terms.as_ref()?.find(&self.terms);
        self.lexical = found.bm25(&prepared.reading.ranges);
        question.grows().then(|| {
            let units: Vec<Range<usize>> = (0..prepared.reading.units.spans.len()).map(|unit| unit..unit + 1).collect();
            let paragraphs = &prepared.reading.units.paragraphs;
            let each = paragraphs.iter().zip(found.coverage(paragraphs));
            let of_paragraphs = each.flat_map(|(run, covered)| std::iter::repeat_n(covered, run.len())).collect();
            Covered { units: found.coverage(&units), paragraphs: of_paragraphs }
        })
    }

    /// The best cosine and the best BM25 of the windows around a unit, or of a window; and of the unit, where it was encoded.
    fn evidence(&self, seed: usize, question: &Question) -> (f32, f32) {
        let ranges = &self.open.prepared.reading.ranges;
        let around = if question.grows() {
            let first = ranges.partition_point(|window| window.end <= seed);
            first..first + ranges[first..].partition_point(|window| window.start <= seed)
        } else {
            seed..seed + 1
        };
        let best = |values: &[f32]| values.iter().copied().reduce(f32::max);
        let own = if question.grows() { self.own_cosine.get(seed).copied() } else { None };
        let cosine = best(&self.cosine[around.clone()]).into_iter().chain(own).reduce(f32::max);
        (cosine.unwrap_or(0.0), best(self.lexical.get(around).unwrap_or_default()).unwrap_or(0.0))
    }
}

impl<'open, 'text> Asked<'open, 'text> {
    fn by(mut spoken: Spoken<'open, 'text>) -> Self {
        let relevance = std::mem::take(&mut spoken.relevance);
        Self { title: spoken.title, spoken: vec![spoken], relevance }
    }

    /// One more query; a seed is worth what it is to the query that it answers best.
    fn add(&mut self, spoken: Spoken<'open, 'text>) {
        if self.spoken.is_empty() {
            self.relevance.clone_from(&spoken.relevance);
        }
        for (best, relevance) in self.relevance.iter_mut().zip(&spoken.relevance) {
            *best = best.max(*relevance);
        }
        self.title = self.title.max(spoken.title);
        self.spoken.push(spoken);
    }

    /// What speaks for the query that a seed answers best.
    fn best(&self, seed: usize) -> &Spoken<'open, 'text> {
        let is_best = |spoken: &&Spoken| spoken.relevance.get(seed) == self.relevance.get(seed);
        self.spoken.iter().find(is_best).unwrap_or(&self.spoken[0])
    }
}

impl Answers {
    /// Chooses on pages that share bounds, and appends an answer for each.
    fn choose(&mut self, asked: &[Asked], question: &Question, tokens: &Tokens) -> Result<()> {
        let judged: Vec<Judged> = asked
            .iter()
            .map(|asked| {
                let prepared = &asked.spoken[0].open.prepared;
                let seeds = if question.grows() {
                    Seeds::Units(question.longest())
                } else {
                    Seeds::Windows(&prepared.reading.ranges)
                };
                Judged {
                    page: &prepared.page,
                    units: &prepared.reading.units,
                    seeds,
                    relevance: &asked.relevance,
                    title: asked.title,
                    tokens_before: &prepared.tokens_before,
                    language: prepared.reading.language,
                }
            })
            .collect();
        let mut chosen = choose_passages(&judged, &question.bounds);
        if question.bounds.counts_tokens() {
            let count = |page: usize, run: &Range<usize>| {
                let prepared = &asked[page].spoken[0].open.prepared;
                tokens.count(prepared.reading.units.span(run).of(prepared.page.text()))
            };
            question.bounds.keep_tokens(&mut chosen, count)?;
        }
        for (asked, passages) in asked.iter().zip(chosen) {
            for passage in passages {
                self.write(asked.best(passage.seed), &passage, question);
            }
            self.ends.push(column(self.scores.len()));
        }
        Ok(())
    }

    fn write(&mut self, spoken: &Spoken, passage: &Passage, question: &Question) {
        let prepared = &spoken.open.prepared;
        let (units, run) = (&prepared.reading.units, &passage.units);
        let push = |columns: &mut Vec<i64>, run: &Range<usize>| {
            let span = prepared.page.chars(units.span(run));
            columns.extend([column(span.start), column(span.end)]);
        };
        push(&mut self.spans, run);
        let around = run.start.saturating_sub(question.context)
            ..(run.end.saturating_add(question.context)).min(units.spans.len());
        push(&mut self.contexts, &around);
        let source = prepared.document.source_span(units.span(run));
        let source = prepared.source.as_ref().unwrap_or(&prepared.page).chars(source);
        self.sources.extend([column(source.start), column(source.end)]);
        self.scores.push(score(passage.relevance));
        let (cosine, lexical) = spoken.evidence(passage.seed, question);
        self.cosines.push(cosine);
        self.lexicals.push(lexical);
        self.pages.push(column(spoken.page));
        self.queries.push(column(spoken.query));
        if question.explain {
            self.explain(spoken, run);
        }
    }

    /// Finds the words of a passage that the query has too; of a compound and its parts the longest that does.
    fn explain(&mut self, spoken: &Spoken, run: &Range<usize>) {
        let prepared = &spoken.open.prepared;
        let span = prepared.reading.units.span(run);
        let first_word = self.matches.query_words.len();
        self.matches.query_words.extend(spoken.terms.iter().map(|term| term.text.clone()));
        let mut read_to = 0;
        for found in terms(span.of(prepared.page.text()), prepared.reading.language) {
            let Some(word) = spoken.terms.iter().position(|term| term.term == found.term) else { continue };
            if found.span.start < read_to {
                continue;
            }
            read_to = found.span.end;
            let start = span.start + found.span.start;
            let chars = prepared.page.chars(crate::page::ByteSpan { start, end: span.start + found.span.end });
            self.matches.spans.extend([column(chars.start), column(chars.end)]);
            self.matches.words.push(column(first_word + word));
        }
        self.matches.ends.push(column(self.matches.words.len()));
    }
}

/// A count or an index, as numpy's default integer.
fn column(value: usize) -> i64 {
    i64::try_from(value).expect("nothing in memory has 2^63 parts")
}
