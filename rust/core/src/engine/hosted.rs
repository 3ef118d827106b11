//! Hosted calls: rows out, vectors in. For a host that has a model and a scheduler of its own, as vLLM has.
//!
//! A call says which rows it needs; the host encodes them in whatever order and company it likes, and gives their vectors
//! back, until the answers are there. Each call has a scheduler of its own, which the host drives by asking: so its rows are
//! nobody else's, and letting go of a call lets go of nothing but it.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::{Answers, Engine, OwnedRequest, Question};
use crate::encoder::{Batch, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker as EncoderWaker, hand_out};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::{Call, Done};
use crate::scheduler::device_stats::DeviceStats;
use crate::scheduler::{Scheduler, Telemetry};

/// Tokens of a batch that goes out. A host batches again by its own rules, so this only says how often it is spoken to.
const BATCH_TOKENS: usize = 4096;

/// A call whose rows its host encodes.
pub struct Hosted {
    /// None once it has ended.
    future: Option<Pin<Box<dyn Future<Output = Result<Answers>> + Send>>>,
    engine: Arc<Engine>,
    call: Arc<Call<'static>>,
    scheduler: Arc<Scheduler>,
    desk: Arc<Desk>,
    is_woken: Arc<Woken>,
    dimension: usize,
}

/// What an engine has for an encoder where the host encodes: its numbers, and nothing that could compute.
#[derive(Debug)]
pub struct HostEncoder(EncoderSpec);

/// Where batches lie on their way to the host, and vectors on their way back.
#[derive(Debug, Default)]
struct Desk(Mutex<Lying>);

#[derive(Debug, Default)]
struct Lying {
    /// Batches that the host has not taken.
    out: Vec<(Ticket, Batch)>,
    /// Of each batch whose vectors are not back: how many rows it has.
    rows: HashMap<Ticket, usize>,
    /// Vectors that the scheduler has not taken.
    back: HashMap<Ticket, Vec<f32>>,
}

/// The encoder of one call: what is submitted lies on the desk.
struct Outbox {
    spec: EncoderSpec,
    desk: Arc<Desk>,
    next: u64,
}

/// Whether the call can be taken further.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Lying> {
        // Nothing in there is ever left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostEncoder {
    /// Of a host whose vectors have so many values, whose rows may have so many ids, and whose table so many.
    #[must_use]
    pub fn new(name: String, dimension: usize, max_tokens: usize, vocabulary: usize) -> Self {
        let device = DeviceSpec { name, depth: 1, batch_tokens: BATCH_TOKENS };
        let dtype = "float32".to_owned();
        let (devices, notifies, needs_polling, scores, backend) = (vec![device], true, false, false, "host".to_owned());
        Self(EncoderSpec {
            dimension,
            max_tokens,
            vocabulary,
            dtype,
            devices,
            notifies,
            needs_polling,
            scores,
            backend,
        })
    }
}

impl Encoder for HostEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.0
    }

    fn set_waker(&mut self, _: EncoderWaker) {}

    fn submit(&mut self, _: usize, _: &Batch) -> Result<Ticket> {
        Err(Error::new(ErrorKind::Internal, "this engine's rows are encoded by its host"))
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, _: Ticket, _: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "this engine's rows are encoded by its host"))
    }
}

impl Encoder for Outbox {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    // Vectors come back while the scheduler stands still: whoever brings them drives it.
    fn set_waker(&mut self, _: EncoderWaker) {}

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        self.next += 1;
        let ticket = Ticket(self.next);
        let mut lying = self.desk.lock();
        lying.rows.insert(ticket, batch.lengths.len());
        lying.out.push((ticket, batch.clone()));
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        self.desk.lock().back.contains_key(&ticket)
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let missing = || Error::new(ErrorKind::Internal, "a batch whose vectors are not back");
        let vectors = self.desk.lock().back.remove(&ticket).ok_or_else(missing)?;
        hand_out(&vectors, self.spec.dimension, row);
        Ok(())
    }
}

impl Hosted {
    /// A call of an engine that was made with a [`HostEncoder`]; has at most so many batches out at once. Nothing is done
    /// before the first [`Hosted::advance`].
    ///
    /// # Errors
    /// As [`Engine::highlights`] for what can be seen at once; [`ErrorKind::InvalidArgument`] where no batch may be out.
    pub fn new<Text: Deref<Target = str> + Send + Sync + 'static>(
        engine: Arc<Engine>,
        asked: OwnedRequest<Text>,
        question: Question,
        call: Call<'static>,
        depth: usize,
    ) -> Result<Self> {
        // Whether it was closed, and whether this is its process.
        engine.scheduler()?;
        asked.check()?;
        if depth == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "depth must be at least 1, not 0"));
        }
        let mut spec = engine.spec.clone();
        spec.devices.iter_mut().for_each(|device| device.depth = depth);
        let (desk, dimension) = (Arc::new(Desk::default()), spec.dimension);
        let watched = Telemetry { board: Arc::new(DeviceStats::new(&spec)), stages: Arc::clone(&engine.stages) };
        let outbox = Outbox { spec, desk: Arc::clone(&desk), next: 0 };
        let scheduler = Arc::new(Scheduler::driven(Box::new(outbox), engine.batching, watched));
        let call = Arc::new(call);
        let (for_call, driven) = (Arc::clone(&call), Arc::clone(&scheduler));
        let future = Box::pin(answer(Arc::clone(&engine), driven, asked, question, for_call));
        let is_woken = Arc::new(Woken(AtomicBool::new(true)));
        Ok(Self { future: Some(future), engine, call, scheduler, desk, is_woken, dimension })
    }

    /// Takes the call as far as it goes without more vectors. None: it waits for those of batches that are out.
    ///
    /// # Errors
    /// As [`Engine::highlights`], after which the call has ended; [`ErrorKind::InvalidArgument`] where it had before.
    pub fn advance(&mut self) -> Result<Option<Answers>> {
        let Some(mut future) = self.future.take() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "this call has ended"));
        };
        let waker = Waker::from(Arc::clone(&self.is_woken));
        self.engine.scheduler()?;
        loop {
            self.call.check()?;
            if self.is_woken.0.swap(false, Ordering::AcqRel) {
                if let Poll::Ready(answers) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return answers.map(Some);
                }
                continue;
            }
            // What came back makes room for what goes out next, which is the second round's.
            let attendant = self.scheduler.attend();
            for _ in 0..2 {
                attendant.drive(&|| false, Duration::ZERO);
            }
            drop(attendant);
            if !self.is_woken.0.load(Ordering::Acquire) {
                self.future = Some(future);
                return Ok(None);
            }
        }
    }

    /// The batches that came to be wanted since they were last taken.
    pub fn take(&mut self) -> Vec<(Ticket, Batch)> {
        std::mem::take(&mut self.desk.lock().out)
    }

    /// Brings the vectors of a batch, one behind the other; in whatever order of batches.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a batch that is not out, [`ErrorKind::Encoder`] for another number of values; then
    /// the batch is still wanted.
    pub fn give(&mut self, ticket: Ticket, vectors: Vec<f32>) -> Result<()> {
        let mut lying = self.desk.lock();
        let Some(rows) = lying.rows.get(&ticket).copied() else {
            let message = format!("batch {} is not out: its vectors were brought, or never asked for", ticket.0);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        if vectors.len() != rows * self.dimension {
            let message = format!(
                "batch {} has {rows} rows, so {} values, and {} were brought",
                ticket.0,
                rows * self.dimension,
                vectors.len()
            );
            return Err(Error::new(ErrorKind::Encoder, message));
        }
        lying.rows.remove(&ticket);
        lying.back.insert(ticket, vectors);
        Ok(())
    }

    /// How much of the call was done so far.
    #[must_use]
    pub fn done(&self) -> Done {
        self.call.done()
    }
}

async fn answer<Text: Deref<Target = str>>(
    engine: Arc<Engine>,
    scheduler: Arc<Scheduler>,
    asked: OwnedRequest<Text>,
    question: Question,
    call: Arc<Call<'static>>,
) -> Result<Answers> {
    engine.answers_through(scheduler, &asked.texts().request(), &question, &call).await
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.call.stop().stop();
    }
}
