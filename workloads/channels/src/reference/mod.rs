//! Values over a broker's or a database's limit, kept in the object store: what
//! is sent in their place is a small reference.
//!
//! The decorator stands below the metering, which counts what a system asked
//! for: a message of 200 MB is one message of 200 MB, also where a broker saw a
//! reference and the object store the rest.

mod frame;
mod queue;
mod tensors;

use std::sync::Arc;

use bytes::Bytes;

use crate::stash::Stash;
use crate::{ChannelError, ObjectStore, Payload, Result};
use frame::Reference;

/// Where values lie whose references are elsewhere.
pub const BUCKET: &str = "by-reference";

/// A channel that takes values of any size.
pub struct ByReference<C: ?Sized> {
    channel: Arc<C>,
    objects: Arc<dyn ObjectStore>,
    limit_bytes: u64,
    /// Of a queue: messages that were taken and could not be handed over.
    taken: Stash,
    /// Of a tensor store: what stands before the names of its objects.
    namespace: String,
}

impl<C: ?Sized> ByReference<C> {
    /// Values of more than `limit_bytes` go to `objects` instead of `channel`.
    /// `namespace` separates tensor stores that share one object store.
    pub fn new(
        channel: Arc<C>,
        objects: Arc<dyn ObjectStore>,
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

    /// Whether `value` must not be sent as it is: it is too large, or would be
    /// taken for a reference.
    fn must_refer(&self, value: &Payload) -> bool {
        let looks_like_one = |bytes: &Bytes| Reference::is_one(bytes);
        value.len() > self.limit_bytes || value.bytes().is_ok_and(looks_like_one)
    }

    /// Stores `value` as the object `key` and makes the reference to it.
    async fn refer(&self, key: String, shared: bool, value: Payload) -> Result<Payload> {
        let bytes = value.len();
        self.objects.put(BUCKET, &key, value).await?;
        let reference = Reference { key, bytes, shared };
        Ok(reference.encode().into())
    }

    /// The value that `reference` stands for.
    async fn fetch(&self, reference: &Reference) -> Result<Payload> {
        let found = self.objects.get(BUCKET, &reference.key).await?;
        found.ok_or_else(|| ChannelError::Missing {
            service: "object store",
            key: format!("{BUCKET}/{}", reference.key),
        })
    }
}

/// The reference that a value is, if it is one.
fn reference(value: &Payload) -> Result<Option<Reference>> {
    match value {
        Payload::Bytes(bytes) if Reference::is_one(bytes) => Reference::decode(bytes).map(Some),
        _ => Ok(None),
    }
}
