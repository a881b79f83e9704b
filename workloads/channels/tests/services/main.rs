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
use std::time::Duration;

use epochcost_channels::client::open_tensors;
use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{
    ChannelError, Endpoint, ObjectStore, Payload, Queue, Scheme, Scope, TensorStore,
};
use uuid::Uuid;

const NOT: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

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

/// A tensor store of a scope of its own.
async fn tensors(url: &str, scheme: Scheme) -> TensorStore {
    let at = endpoint(url).with_scheme(scheme);
    open_tensors(&at, &fresh_scope(), &objects()).await.unwrap()
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

/// Numbers of the tensor `key`.
async fn stored(store: &TensorStore, key: &str) -> Vec<f32> {
    values(store.get(key).await.unwrap())
}

/// The next message of a queue, which is waited for.
async fn taken(queue: &Queue, from: &str) -> Payload {
    let message = queue.consume(from, LONG).await.unwrap();
    message.expect("a message")
}

fn is_missing(error: &ChannelError, absent: &str) -> bool {
    matches!(error, ChannelError::Missing { key, .. } if key == absent)
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
