//! All integration tests in one program, which is linked once. `allocations.rs` and `memory_growth.rs` are others,
//! because they count allocations.

mod adversarial;
mod batching;
mod common;
mod cost;
mod deberta_configs;
mod device_cosines;
mod devices;
mod effort;
mod engine;
mod engine_steps;
mod golden;
mod hosted;
mod hub_cache;
mod model_configs;
mod model_id;
mod owned_rows;
mod pairs;
mod streamed;
mod streamed_embed;
mod terms;
mod token_vectors;
mod tokens;
mod units;
