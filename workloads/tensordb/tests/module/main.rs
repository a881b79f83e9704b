//! The module inside real servers.
//!
//! Without a `redis-server` these tests pass and report that they were skipped;
//! with `EPOCHCOST_REQUIRE_SERVERS=1`, as in CI, its absence is a failure.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod client;
mod concurrency;
mod durability;
mod fuzz;
mod oracle;
mod rules;
mod server;

/// The little-endian bytes of a tensor.
fn tensor(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
