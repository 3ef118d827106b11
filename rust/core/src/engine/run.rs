//! One call of [`Engine::highlights`]: pages are read, then looked at in one round or two, then passages are chosen.
//!
//! It is a future so that it can be left where it waits for vectors, and taken up again, by any thread (see
//! [`crate::vectors::block_on`]). Between its stages it breathes: what a host's step does at a time is one stage at most.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::answers::choose_answers;
use super::effort::{View, first_views, second_views};
use super::prepared::Prepared;
use super::rows::Comparison;
use super::spoken::{Inquiry, Spoken};
use super::titles::Titles;
use super::{Answers, Engine, Pairing, Question, Request, Work, all_rows, column, token_count};
use crate::call::{self, Call};
use crate::error::Result;
use crate::formats::Document;
use crate::pool;
use crate::scores::cosines;
use crate::stages::{Lane, Stage};
use crate::tokens::Role;
use crate::vectors::{Conductor, breathe};

/// One call of [`Engine::highlights`].
pub(super) struct Run<'run, 'text> {
    pub(super) engine: &'run Engine,
    pub(super) conductor: Arc<Conductor>,
    pub(super) request: &'run Request<'text>,
    pub(super) question: &'run Question,
    pub(super) call: &'run Call<'run>,
    pub(super) lane: Lane<'run>,
    pub(super) work: Work,
}

impl Run<'_, '_> {
    /// A stage was gone through, from then until now.
    pub(super) fn spend(&mut self, stage: Stage, began: Instant) {
        let time = self.engine.stages.call(stage, &self.lane, began);
        match stage {
            Stage::Cut => self.work.cutting += time,
            Stage::Tokenize => self.work.tokenizing += time,
            Stage::Wait => self.work.encoding += time,
            _ => self.work.choosing += time,
        }
    }

    pub(super) async fn answer(mut self) -> Result<Answers> {
        let queries = self.encode(self.request.queries, Role::Query).await?;
        let documents = self.read()?;
        let titles = self.titles(&documents, &queries).await?;
        let sames = self.sames(&documents)?;
        breathe().await;
        let pages = self.prepare(&documents, &sames)?;
        breathe().await;
        let inquiries = self.inquiries(&pages, &titles)?;
        breathe().await;
        let mut comparison = Comparison::new(&pages, &sames, &queries, inquiries, &self.engine.spec);
        self.look(&mut comparison).await?;
        if self.look_again(&mut comparison) {
            self.look(&mut comparison).await?;
            self.judge(&mut comparison);
        }
        let began = Instant::now();
        let mut answers = choose_answers(&comparison.inquiries, self.request, self.question, &self.engine.tokens)?;
        self.spend(Stage::Choose, began);
        let compared = comparison.compared();
        self.work.compared = compared.iter().sum();
        self.work.truncated = comparison.truncated();
        self.keep(comparison);
        answers.work = self.work;
        answers.compared = compared.into_iter().map(column).collect();
        answers.pieces = pages.iter().map(|page| column(page.reading.rows)).collect();
        drop(pages);
        answers.formats = documents.iter().map(Document::format).collect();
        answers.texts = documents.into_iter().map(Document::into_extracted).collect();
        Ok(answers)
    }

    /// The vectors of a few short texts; texts that are equal are encoded once.
    async fn encode(&mut self, texts: &[&str], role: Role) -> Result<Vec<Vec<f32>>> {
        let began = Instant::now();
        let (mut distinct, mut known) = (Vec::new(), FxHashMap::default());
        let places = texts.iter().copied().map(|text| {
            *known.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() - 1
            })
        });
        let places: Vec<usize> = places.collect();
        let page = self.engine.tokens.texts(&distinct, role, &|| Ok(()))?;
        let rows = all_rows(&Arc::new(page));
        self.work.tokens += token_count(&rows);
        self.call.allow_tokens(self.work.tokens)?;
        self.spend(Stage::Tokenize, began);
        let dimension = self.engine.spec.dimension;
        let began = Instant::now();
        let vectors = self.conductor.submit(rows, self.call)?.await?;
        self.spend(Stage::Wait, began);
        let vector = |place: usize| vectors[place * dimension..(place + 1) * dimension].to_vec();
        Ok(places.into_iter().map(vector).collect())
    }

    /// What the pages' titles say of each query; nothing where there are none to compare.
    async fn titles(&mut self, documents: &[Document<'_>], queries: &[Vec<f32>]) -> Result<Titles> {
        let titled: Vec<(usize, &str)> = self.request.titled(documents);
        if titled.len() < 2 || self.request.pairing == Pairing::Each {
            return Ok(Titles::default());
        }
        let texts: Vec<&str> = titled.iter().map(|(_, title)| *title).collect();
        let vectors = self.encode(&texts, Role::Passage).await?.concat();
        let cosines = queries.iter().map(|query| cosines(query, &vectors)).collect();
        Ok(Titles::read(&titled, cosines, self.request, self.question))
    }

    /// Reads what each page says of each query in words, and plans what to look at first.
    fn inquiries<'page, 'document>(
        &mut self,
        pages: &'page [Prepared<'document>],
        titles: &Titles,
    ) -> Result<Vec<Inquiry<'page, 'document>>> {
        let began = Instant::now();
        let (request, question) = (self.request, self.question);
        let (stop, deadline) = (self.call.stop().clone(), self.call.deadline());
        let queries = 0..request.queries.len();
        let pairs: Vec<(usize, usize)> =
            queries.flat_map(|query| request.pages_of(query).map(move |page| (page, query))).collect();
        let bytes = pairs.iter().map(|(page, _)| pages[*page].page.text().len()).sum();
        let spoken = self.engine.pool.run(self.call, bytes, || {
            pool::map(&pairs, |(page, query)| {
                call::check(&stop, deadline)?;
                Ok(Spoken::new(&pages[*page], (*page, *query), request, question, titles))
            })
        })?;
        let mut spoken = spoken.into_iter();
        let inquiries = (0..request.queries.len()).map(|query| {
            let of_query = spoken.by_ref().take(request.pages_of(query).len()).collect();
            let mut inquiry = Inquiry::new(query, of_query, question);
            let views = first_views(&inquiry, question);
            inquiry.spoken.iter_mut().zip(views).for_each(|(spoken, view)| spoken.view = view);
            inquiry
        });
        let inquiries = inquiries.collect();
        self.spend(Stage::Choose, began);
        Ok(inquiries)
    }

    /// Judges every page by what was looked at.
    fn judge(&mut self, comparison: &mut Comparison) {
        let began = Instant::now();
        comparison.inquiries.iter_mut().for_each(Inquiry::judge);
        self.spend(Stage::Choose, began);
    }

    /// Judges what the first look has shown: whether there is more to be looked at, and what.
    fn look_again(&mut self, comparison: &mut Comparison) -> bool {
        self.judge(comparison);
        let began = Instant::now();
        let is_part = |spoken: &Spoken| spoken.view != View::Whole;
        let mut is_more = false;
        for inquiry in comparison.inquiries.iter_mut().filter(|inquiry| inquiry.spoken.iter().any(is_part)) {
            let views = second_views(inquiry, self.question);
            for (spoken, view) in inquiry.spoken.iter_mut().zip(views) {
                is_more |= spoken.view != view;
                spoken.view = view;
            }
        }
        self.spend(Stage::Choose, began);
        is_more
    }
}
