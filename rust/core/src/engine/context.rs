//! Shared by all stages of one call of [`Engine::highlights`].

use std::sync::Arc;
use std::time::Instant;

use super::{Effort, Engine, Question, Request, Work};
use crate::error::Result;
use crate::ranking::candidates::CandidateLimits;
use crate::ranking::parsed_page::Parsing;
use crate::runtime::call::Call;
use crate::runtime::profiling::Stage;
use crate::scheduler::Scheduler;

pub(super) struct CallContext<'call, 'text> {
    pub(super) engine: &'call Engine,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) request: &'call Request<&'text str>,
    pub(super) question: &'call Question,
    pub(super) call: &'call Call<'call>,
    pub(super) limits: CandidateLimits,
    /// The number of pages to encode, the best by static vectors; `None` for all.
    pub(super) shortlist: Option<usize>,
    pub(super) parsing: Parsing,
    pub(super) work: Work,
}

impl<'call, 'text> CallContext<'call, 'text> {
    pub(super) fn new(
        engine: &'call Engine,
        scheduler: Arc<Scheduler>,
        request: &'call Request<&'text str>,
        question: &'call Question,
        call: &'call Call<'call>,
    ) -> Self {
        let limits = question.candidate_limits();
        let shortlist = engine.shortlist(request, question, &limits);
        let parsing = Parsing {
            unit: question.unit,
            windows: question.windows,
            // Late interaction scores units from the tokens of windows.
            encodes_units: question.encodes_units() && !engine.is_late_interaction(),
            uses_terms: question.lexical_weight.uses_terms(),
            keeps_tokens: question.effort == Effort::Instant || shortlist.is_some(),
        };
        let work = Work::default();
        Self { engine, scheduler, request, question, call, limits, shortlist, parsing, work }
    }
}

impl<'text> CallContext<'_, 'text> {
    /// The same call for other work, with a count of its own.
    pub(super) fn for_call<'aside>(&'aside self, call: &'aside Call<'aside>) -> CallContext<'aside, 'text> {
        CallContext { call, scheduler: Arc::clone(&self.scheduler), work: Work::default(), ..*self }
    }

    /// Runs a part of ranking unless the call has ended, and records its time.
    pub(super) fn ranking<T>(&mut self, act: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.call.checker()()?;
        self.timed(Stage::Choose, act)
    }

    /// Runs a part of a stage, and records its time.
    pub(super) fn timed<T>(&mut self, stage: Stage, act: impl FnOnce(&Self) -> T) -> T {
        let began = Instant::now();
        let done = act(self);
        self.record(stage, began);
        done
    }

    /// Records that a stage ran from `began` until now.
    pub(super) fn record(&mut self, stage: Stage, began: Instant) {
        let time = self.engine.profiler.record_call(stage, began);
        match stage {
            Stage::Cut => self.work.cutting += time,
            Stage::Tokenize => self.work.tokenizing += time,
            Stage::Wait => self.work.waiting += time,
            _ => self.work.ranking += time,
        }
    }
}
