//! The most requests that one invocation may send to the object store: what a cloud bills, and a loop
//! that polls in vain would send without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Caller, Channel, ChannelError, Command, Fare, ObjectCommand, ObjectStore, Reply, Result,
};

/// Requests of each price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// LIST requests.
    pub lists: u64,
    /// Reads, in vain or not.
    pub reads: u64,
}

/// An object store of which only so many requests may be asked.
struct Allowed {
    store: Arc<dyn Channel<ObjectCommand>>,
    allowance: Allowance,
    listed: AtomicU64,
    read: AtomicU64,
}

impl Caller<ObjectCommand> {
    /// Returns a caller of the same store that refuses the first request above `allowance`.
    #[must_use]
    pub fn allowed(&self, allowance: Allowance) -> ObjectStore {
        Self::new(Arc::new(Allowed {
            store: self.channel.clone(),
            allowance,
            listed: AtomicU64::default(),
            read: AtomicU64::default(),
        }))
    }
}

#[async_trait]
impl Channel<ObjectCommand> for Allowed {
    async fn run(&self, command: ObjectCommand) -> Result<Reply> {
        let counted = match command.fare() {
            Fare::List => Some((&self.listed, self.allowance.lists, "listings")),
            Fare::Get => Some((&self.read, self.allowance.reads, "reads")),
            _ => None,
        };
        if let Some((asked, allowed, what)) = counted
            && asked.fetch_add(1, Ordering::Relaxed) >= allowed
        {
            return Err(ChannelError::Spent { what, allowed });
        }
        self.store.run(command).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Payload;
    use crate::memory::MemoryObjects;

    /// Only what is billed like a poll is counted, and each kind apart.
    #[tokio::test]
    async fn requests_end_with_the_allowance() {
        let store = ObjectStore::new(Arc::new(MemoryObjects::default()));
        let allowance = Allowance { lists: 2, reads: 3 };
        let store = store.allowed(allowance);
        let one = || Payload::from(vec![1]);
        for key in ["a", "b", "c", "d", "e"] {
            store.put("bucket", key, one()).await.unwrap();
        }
        for _ in 0..2 {
            store.list("bucket", "", None).await.unwrap();
        }
        let error = store.list("bucket", "", None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("more than 2 listings"), "{text}");
        for key in ["a", "absent", "b"] {
            store.get("bucket", key).await.unwrap();
        }
        let error = store.get("bucket", "a").await.unwrap_err();
        let is_spent = matches!(error, ChannelError::Spent { allowed: 3, .. });
        assert!(is_spent, "{error}");
        store.put("bucket", "f", one()).await.unwrap();
    }
}
