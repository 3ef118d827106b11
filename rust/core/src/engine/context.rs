//! What all stages of one call of [`Engine::highlights`] share: the request, its deadline, and the work done so far.

use std::sync::Arc;
use std::time::Instant;

use super::{Engine, Question, Request, Work};
use crate::runtime::call::Call;
use crate::runtime::profiling::{Stage, TraceTrack};
use crate::scheduler::Scheduler;

/// One call of [`Engine::highlights`].
pub(super) struct CallContext<'call, 'text> {
    pub(super) engine: &'call Engine,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) request: &'call Request<'text>,
    pub(super) question: &'call Question,
    pub(super) call: &'call Call<'call>,
    pub(super) lane: TraceTrack<'call>,
    pub(super) work: Work,
}

impl CallContext<'_, '_> {
    /// A stage was gone through, from then until now.
    pub(super) fn spend(&mut self, stage: Stage, began: Instant) {
        let time = self.engine.stages.call(stage, &self.lane, began);
        match stage {
            Stage::Cut => self.work.cutting += time,
            Stage::Tokenize => self.work.tokenizing += time,
            Stage::Wait => self.work.waiting += time,
            _ => self.work.ranking += time,
        }
    }
}
