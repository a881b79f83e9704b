//! Values above the limit of a broker or database: the object store keeps the
//! value, and a small reference is sent instead.
//!
//! The decorator is below the metering, which counts the requests of the system:
//! a message of 200 MB counts as one message of 200 MB, although the broker
//! received a reference and the object store the value.

mod frame;
mod queue;
mod tensors;

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;

use crate::stash::Stash;
use crate::{Channel, ChannelError, Command, ObjectStore, Payload, Result};
use frame::Reference;

/// Bucket of the values that are sent by reference.
pub const BUCKET: &str = "by-reference";

/// A channel that accepts values of any size.
pub struct ByReference<C: Command> {
    channel: Arc<dyn Channel<C>>,
    objects: ObjectStore,
    limit_bytes: u64,
    /// Messages that were taken from a queue and not handed over.
    taken: Stash,
    /// Prefix of the names of a tensor store's objects.
    namespace: String,
}

impl<C: Command> ByReference<C> {
    /// Decorates `channel`: values of more than `limit_bytes` go to `objects`.
    /// `namespace` separates tensor stores that share one object store.
    pub fn new(
        channel: Arc<dyn Channel<C>>,
        objects: ObjectStore,
        limit_bytes: u64,
        namespace: &str,
    ) -> Self {
        Self {
            channel,
            objects,
            limit_bytes,
            taken: Stash::default(),
            namespace: namespace.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-"),
        }
    }

    /// Returns whether `value` must be sent by reference: it is too large, or would
    /// be read as a reference.
    fn must_refer(&self, value: &Payload) -> bool {
        let looks_like_one = |bytes: &Bytes| Reference::is_one(bytes);
        value.len() > self.limit_bytes || value.bytes().is_ok_and(looks_like_one)
    }

    /// Stores `value` as the object `key` and returns the reference to it.
    async fn refer(&self, key: String, shared: bool, value: Payload) -> Result<Payload> {
        let bytes = value.len();
        self.objects.put(BUCKET, &key, value).await?;
        let reference = Reference { key, bytes, shared };
        Ok(reference.encode().into())
    }

    /// Fetches the value of `frame` if it is a reference.
    async fn resolve(&self, frame: Option<Payload>) -> Result<Option<Payload>> {
        match frame.as_ref().map(reference).transpose()?.flatten() {
            Some(found) => self.fetch(&found).await.map(Some),
            None => Ok(frame),
        }
    }

    /// Fetches the value of `reference`.
    async fn fetch(&self, reference: &Reference) -> Result<Payload> {
        let found = self.objects.get(BUCKET, &reference.key).await?;
        let name = || format!("{BUCKET}/{}", reference.key);
        found.ok_or_else(|| ChannelError::missing("object store", name()))
    }
}

/// Parses a value as a reference; `None` if it is none.
fn reference(value: &Payload) -> Result<Option<Reference>> {
    match value {
        Payload::Bytes(bytes) if Reference::is_one(bytes) => Reference::decode(bytes).map(Some),
        _ => Ok(None),
    }
}

/// Returns the bytes of a name as hexadecimal digits.
pub(crate) fn hexadecimal(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
