//! One set of cases for every backend of a channel: in memory, embedded, and
//! behind real servers, opened as a worker opens them.
//!
//! Without the servers these tests pass and name what they skipped; with
//! `EPOCHCOST_REQUIRE_SERVERS=1`, as in CI, their absence is a failure.
#![allow(clippy::unwrap_used)]

mod clearing;
mod differential;
mod failures;
mod limits;
mod lua;
mod objects;
mod queues;
mod robust;
mod secrets;
mod servers;
mod tensors;

use std::sync::Arc;

use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{Endpoint, ObjectStore, Payload, Scope};
use uuid::Uuid;

fn endpoint(url: &str) -> Endpoint {
    url.parse().unwrap()
}

fn objects() -> ObjectStore {
    ObjectStore::new(Arc::new(MemoryObjects::default()))
}

/// A scope that no test used before: servers are shared.
fn fresh_scope() -> Scope {
    format!("test-{}", Uuid::new_v4()).parse().unwrap()
}

fn text(text: &str) -> Payload {
    text.as_bytes().to_vec().into()
}

fn vector(values: &[f32]) -> Payload {
    epochcost_kernels::codec::encode_f32(values).into()
}

fn values(tensor: Option<Payload>) -> Vec<f32> {
    let tensor = tensor.expect("a tensor");
    epochcost_kernels::codec::decode_f32(tensor.bytes().unwrap()).unwrap()
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
