//! From batch to batch the encoder allocates nothing in Rust: everything that is allocated in this process but by torch,
//! which has C++'s allocator, is counted while batches go to workers and come back.
//!
//! Where this fails, take `.testing()` away: `dhat-heap.json` then says where in the code it was.

mod models;

use std::ffi::c_void;

use models::{Sizes, batch, draft_of, load, write};
use pullquote_core::abi::EncoderTable1;
use pullquote_core::encoder::Batch;
use pullquote_core::model::Model;
use pullquote_torch::capsule::encoder_table;
use pullquote_torch::devices::Precision;
use pullquote_torch::means::Allowed;
use pullquote_torch::network::{Network, copy_rows};
use pullquote_torch::workspace::Workspace;
use tch::Device;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const WAYS: [Allowed; 4] = [
    Allowed::PLAIN,
    Allowed { onednn: true, ..Allowed::PLAIN },
    Allowed { kernels: true, ..Allowed::PLAIN },
    Allowed::ALL,
];

/// Batches in flight at once.
const DEPTH: usize = 3;

/// One length, several in order and out of order, and a row of one token.
fn batches() -> Vec<Batch> {
    let lengths = [&[64; 8][..], &[3, 9, 9, 30, 64], &[64, 3, 30, 9, 3, 64], &[1], &[5; 100]];
    lengths.iter().zip(0..).map(|(lengths, seed)| batch(seed, lengths)).collect()
}

/// How often memory was asked for, by any thread.
fn count(work: impl FnOnce()) -> u64 {
    let profiler = dhat::Profiler::builder().testing().build();
    work();
    let count = dhat::HeapStats::get().total_blocks;
    drop(profiler);
    count
}

unsafe extern "C" fn add(context: *mut c_void, _: usize, values: *const f32) {
    // SAFETY: `Flow::collect` passes a sum, and there is at least one value.
    unsafe { *context.cast::<f32>() += values.read().abs() };
}

/// Batches through the table of C functions, as pullquote sends them.
struct Flow<'table> {
    table: &'table EncoderTable1,
    in_flight: std::collections::VecDeque<u64>,
    sum: f32,
}

impl Flow<'_> {
    fn submit(&mut self, batch: &Batch) {
        let (ids, lengths, mut ticket) = (&batch.ids, &batch.lengths, 0);
        let table = self.table;
        // SAFETY: the state is live, pointers and counts belong together.
        let failure = unsafe {
            (table.submit)(table.state, 0, ids.as_ptr(), ids.len(), lengths.as_ptr(), lengths.len(), &raw mut ticket)
        };
        assert!(failure.is_null());
        self.in_flight.push_back(ticket);
    }

    fn collect(&mut self) {
        let Some(ticket) = self.in_flight.pop_front() else { return };
        let table = self.table;
        // SAFETY: the state is live.
        let _ = unsafe { (table.is_finished)(table.state, ticket) };
        // SAFETY: the state is live; the context is what `add` expects.
        let failure = unsafe { (table.collect)(table.state, ticket, add, (&raw mut self.sum).cast()) };
        assert!(failure.is_null());
    }

    fn run(&mut self, batches: &[Batch], rounds: usize) {
        for batch in batches.iter().cycle().take(rounds * batches.len()) {
            if self.in_flight.len() == DEPTH {
                self.collect();
            }
            self.submit(batch);
        }
        (0..DEPTH).for_each(|_| self.collect());
    }
}

/// One test, because what another one allocates would count.
#[test]
fn batches_are_encoded_without_allocating() {
    let sizes = Sizes { hidden: 64, intermediate: 128, heads: 2, longest: 64 };
    let batches = batches();
    let directory = write(&draft_of("bert", sizes));

    pullquote_torch::threads::compute_alone();
    let model = Model::read(directory.path()).expect("the model is sound");
    for precision in [Precision::Float32, Precision::BFloat16, Precision::Int8] {
        for allowed in WAYS {
            let network = Network::load(&model, Device::Cpu, precision, allowed).expect("the model is sound");
            let (mut workspace, mut rows) = (Workspace::default(), Vec::new());
            let mut encode_all = || {
                for batch in &batches {
                    let packed = network.encode_packed(batch, &mut workspace).expect("torch has memory");
                    copy_rows(&packed, &mut rows).expect("they are numbers");
                    let padded = network.encode_padded(batch, &mut workspace).expect("torch has memory");
                    copy_rows(&padded, &mut rows).expect("they are numbers");
                }
            };
            encode_all();
            assert_eq!(count(encode_all), 0, "{precision:?} {allowed:?}");
        }
    }

    let table = encoder_table(load(&directory, &["cpu"], 2)).expect("a spec can be written").third.second.first;
    let mut flow = Flow { table: &table, in_flight: std::collections::VecDeque::with_capacity(DEPTH), sum: 0.0 };
    // First each slot and each worker sees each batch: all slots in flight carry the same one, again and again.
    for batch in &batches {
        flow.run(std::slice::from_ref(batch), 20);
    }
    let allocations = count(|| flow.run(&batches, 50));
    assert_eq!(allocations, 0, "in {} batches", 50 * batches.len());
    assert!(flow.sum > 0.0);
    // SAFETY: the state is live, and nothing uses it afterwards.
    unsafe { (table.release)(table.state) };
}
