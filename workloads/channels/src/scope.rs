//! Scopes: a prefix per trial on every key, bucket, queue and exchange, so that a
//! trial never finds anything that an earlier trial left on a server.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ChannelError, ListPage, ObjectStore, Payload, Queue, Result, RobustMean, SgdStep, TensorStore,
};

/// Longest scope, bytes: with the names of a system appended, a name stays within
/// AMQP's 255 bytes.
const MOST_BYTES: usize = 128;

/// Prefix of every name that one trial uses.
///
/// A scope has at most 128 letters, digits, `.`, `_` and `-`. The empty scope adds
/// no prefix, for servers that serve a single trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(String);

impl Scope {
    /// Returns `name` with the prefix, as on the server.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        if self.0.is_empty() {
            return name.to_owned();
        }
        format!("{}/{name}", self.0)
    }

    /// Returns whether the scope adds no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the prefix from a name on the server.
    fn bare<'a>(&self, scoped: &'a str) -> &'a str {
        let rest = scoped.strip_prefix(&self.0);
        match rest.and_then(|rest| rest.strip_prefix('/')) {
            Some(bare) if !self.0.is_empty() => bare,
            _ => scoped,
        }
    }

    fn names(&self, names: &[String]) -> Vec<String> {
        names.iter().map(|name| self.name(name)).collect()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Scope {
    type Err = ChannelError;

    fn from_str(text: &str) -> Result<Self> {
        let suits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if text.len() <= MOST_BYTES && text.chars().all(suits) && text != "." && text != ".." {
            return Ok(Self(text.to_owned()));
        }
        Err(ChannelError::Endpoint {
            reason: format!(
                "the scope {text:?} must be at most {MOST_BYTES} letters, digits, '.', '_' or '-'"
            ),
        })
    }
}

/// A channel that prefixes names with a scope.
pub(crate) struct Scoped<C: ?Sized> {
    channel: Arc<C>,
    scope: Scope,
}

impl<C: ?Sized> Scoped<C> {
    pub(crate) fn new(channel: Arc<C>, scope: Scope) -> Self {
        Self { channel, scope }
    }

    /// Removes the prefix from the name in an error.
    fn bare<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error {
            ChannelError::Missing { service, key } => ChannelError::Missing {
                service,
                key: self.scope.bare(&key).to_owned(),
            },
            other => other,
        })
    }
}

#[async_trait]
impl TensorStore for Scoped<dyn TensorStore> {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        self.channel.set(&self.scope.name(key), value).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.channel.get(&self.scope.name(key)).await
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        let key = self.scope.name(key);
        self.channel.get_range(&key, elements).await
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        self.channel.accumulate(&self.scope.name(key), value).await
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        let (destination, sources) = (self.scope.name(destination), self.scope.names(sources));
        self.bare(self.channel.mean(&destination, &sources).await)
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        let (destination, sources) = (self.scope.name(destination), self.scope.names(sources));
        let done = self.channel.robust_mean(&destination, rule, &sources);
        self.bare(done.await)
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        let (parameters, gradient) = (self.scope.name(parameters), self.scope.name(gradient));
        self.bare(self.channel.sgd(&parameters, &gradient, step).await)
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        let (parameters, sources) = (self.scope.name(parameters), self.scope.names(sources));
        self.bare(self.channel.mean_sgd(&parameters, &sources, step).await)
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.channel.push(&self.scope.name(key), value).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let key = self.scope.name(key);
        self.bare(self.channel.json_mean(&key, count).await)
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.channel.delete(&self.scope.names(keys)).await
    }

    async fn ping(&self) -> Result<()> {
        self.channel.ping().await
    }
}

#[async_trait]
impl Queue for Scoped<dyn Queue> {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        self.channel.publish(&self.scope.name(queue), message).await
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        let exchange = self.scope.name(exchange);
        self.bare(self.channel.publish_fanout(&exchange, message).await)
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        let (exchange, queue) = (self.scope.name(exchange), self.scope.name(queue));
        self.channel.bind(&exchange, &queue).await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        self.channel.consume(&self.scope.name(queue), wait).await
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        self.channel.peek(&self.scope.name(queue)).await
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        self.channel.count(&self.scope.name(queue)).await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.channel.purge(&self.scope.name(queue)).await
    }
}

/// An object store of one scope, in one bucket or in one bucket per name.
///
/// With one bucket, the bucket that a system names becomes the first part of the
/// key, after the scope: `SCOPE/BUCKET/KEY`.
pub(crate) struct ScopedObjects {
    store: Arc<dyn ObjectStore>,
    scope: Scope,
    bucket: Option<String>,
}

impl ScopedObjects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, scope: Scope, bucket: Option<String>) -> Self {
        Self {
            store,
            scope,
            bucket,
        }
    }

    /// Returns the bucket on the server and the prefix of keys in it.
    fn location<'a>(&'a self, bucket: &'a str) -> (&'a str, String) {
        match &self.bucket {
            Some(one) => (one, format!("{}/", self.scope.name(bucket))),
            None => (bucket, self.scope.name("")),
        }
    }
}

#[async_trait]
impl ObjectStore for ScopedObjects {
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        let (bucket, before) = self.location(bucket);
        self.store
            .put(bucket, &format!("{before}{key}"), body)
            .await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        let (bucket, before) = self.location(bucket);
        self.store.get(bucket, &format!("{before}{key}")).await
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        let (bucket, before) = self.location(bucket);
        let key = format!("{before}{key}");
        self.store.get_range(bucket, &key, range).await
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        let (bucket, before) = self.location(bucket);
        let prefix = format!("{before}{prefix}");
        let after = after.map(|after| format!("{before}{after}"));
        let page = self.store.list(bucket, &prefix, after.as_deref()).await?;
        let bare = |key: &String| key.strip_prefix(&before).unwrap_or(key).to_owned();
        Ok(ListPage {
            keys: page.keys.iter().map(bare).collect(),
            truncated: page.truncated,
        })
    }

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        let (bucket, before) = self.location(bucket);
        let keys: Vec<_> = keys.iter().map(|key| format!("{before}{key}")).collect();
        self.store.delete(bucket, &keys).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::memory::{MemoryObjects, MemoryQueue, MemoryTensors};

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    fn text(text: &str) -> Payload {
        text.as_bytes().to_vec().into()
    }

    #[test]
    fn a_scope_is_one_part_of_a_key() {
        assert_eq!(scope("run-1.t2").name("k"), "run-1.t2/k");
        assert_eq!(scope("").name("k"), "k");
        assert_eq!(scope("s").bare("s/k"), "k");
        assert_eq!(scope("s").bare("sk"), "sk");
        for bad in ["a/b", "a b", "ü", "..", &"x".repeat(129)] {
            assert!(bad.parse::<Scope>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_another_scope_left_is_not_met() {
        let shared = Arc::new(MemoryTensors::default());
        let one = Scoped::<dyn TensorStore>::new(shared.clone(), scope("one"));
        let two = Scoped::<dyn TensorStore>::new(shared.clone(), scope("two"));
        one.set("k", text("left")).await.unwrap();
        assert_eq!(two.get("k").await.unwrap(), None);
        assert_eq!(shared.get("one/k").await.unwrap(), Some(text("left")));
        let missing = two.mean("k", &["none".into()]).await.unwrap_err();
        assert!(matches!(missing, ChannelError::Missing { key, .. } if key == "none"));

        let shared = Arc::new(MemoryQueue::default());
        let one = Scoped::<dyn Queue>::new(shared.clone(), scope("one"));
        let two = Scoped::<dyn Queue>::new(shared, scope("two"));
        one.bind("x", "q").await.unwrap();
        one.publish_fanout("x", text("left")).await.unwrap();
        assert_eq!(
            (one.count("q").await.unwrap(), two.count("q").await.unwrap()),
            (1, 0)
        );
        let missing = two.publish_fanout("x", text("lost")).await.unwrap_err();
        assert!(matches!(missing, ChannelError::Missing { key, .. } if key == "x"));
    }

    #[tokio::test]
    async fn buckets_become_parts_of_keys_in_one_bucket() {
        let shared = Arc::new(MemoryObjects::default());
        let bucket = Some("real".to_owned());
        let one = ScopedObjects::new(shared.clone(), scope("one"), bucket.clone());
        let two = ScopedObjects::new(shared.clone(), scope("two"), bucket);
        for key in ["a", "b", "c/d"] {
            one.put("tmp", key, text(key)).await.unwrap();
        }
        one.put("tmp2", "a", text("other")).await.unwrap();
        let page = one.list("tmp", "", Some("a")).await.unwrap();
        assert_eq!(*page.keys, ["b".to_owned(), "c/d".to_owned()]);
        assert!(two.list("tmp", "", None).await.unwrap().keys.is_empty());
        assert_eq!(two.get("tmp", "a").await.unwrap(), None);
        assert_eq!(
            shared.get("real", "one/tmp/c/d").await.unwrap(),
            Some(text("c/d"))
        );
        one.delete("tmp", &["a".into()]).await.unwrap();
        assert_eq!(one.get("tmp", "a").await.unwrap(), None);
        assert_eq!(
            one.get_range("tmp", "b", 0..1).await.unwrap(),
            Some(text("b"))
        );
    }
}
