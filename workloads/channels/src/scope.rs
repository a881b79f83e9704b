//! Scopes: a prefix per trial on every key, bucket, queue and exchange, so that a
//! trial never finds anything that an earlier trial left on a server.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Channel, ChannelError, Command, ListPage, ObjectCommand, Reply, Result};

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
        Err(ChannelError::endpoint(format!(
            "the scope {text:?} must be at most {MOST_BYTES} letters, digits, '.', '_' or '-'"
        )))
    }
}

/// A channel that prefixes names with a scope.
pub(crate) struct Scoped<C: Command> {
    pub(crate) channel: Arc<dyn Channel<C>>,
    pub(crate) scope: Scope,
}

#[async_trait]
impl<C: Command> Channel<C> for Scoped<C> {
    async fn run(&self, mut command: C) -> Result<Reply> {
        for name in command.names() {
            *name = self.scope.name(name);
        }
        let reply = self.channel.run(command).await;
        reply.map_err(|error| match error {
            ChannelError::Missing { service, key } => {
                ChannelError::missing(service, self.scope.bare(&key))
            }
            other => other,
        })
    }
}

/// An object store of one scope, in one bucket or in one bucket per name.
///
/// With one bucket, the bucket that a system names becomes the first part of the
/// key, after the scope: `SCOPE/BUCKET/KEY`.
pub(crate) struct ScopedObjects {
    pub(crate) store: Arc<dyn Channel<ObjectCommand>>,
    pub(crate) scope: Scope,
    pub(crate) bucket: Option<String>,
}

#[async_trait]
impl Channel<ObjectCommand> for ScopedObjects {
    async fn run(&self, mut command: ObjectCommand) -> Result<Reply> {
        // The bucket, and what precedes keys in it.
        let bucket = command.bucket();
        let before = match &self.bucket {
            Some(one) => {
                let before = self.scope.name(&format!("{bucket}/"));
                bucket.clone_from(one);
                before
            }
            None => self.scope.name(""),
        };
        for name in command.names() {
            name.insert_str(0, &before);
        }
        let reply = self.store.run(command).await?;
        let Reply::Page(page) = reply else {
            return Ok(reply);
        };
        let bare = |key: &String| key.strip_prefix(&before).unwrap_or(key).to_owned();
        Ok(Reply::Page(ListPage {
            keys: page.keys.iter().map(bare).collect(),
            truncated: page.truncated,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::memory::MemoryObjects;
    use crate::{ObjectStore, Payload};

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
    async fn buckets_become_parts_of_keys_in_one_bucket() {
        let shared = Arc::new(MemoryObjects::default());
        let within = |name| {
            ObjectStore::new(Arc::new(ScopedObjects {
                store: shared.clone(),
                scope: scope(name),
                bucket: Some("real".to_owned()),
            }))
        };
        let (one, two) = (within("one"), within("two"));
        for key in ["a", "b", "c/d"] {
            one.put("tmp", key, text(key)).await.unwrap();
        }
        one.put("tmp2", "a", text("other")).await.unwrap();
        let page = one.list("tmp", "", Some("a")).await.unwrap();
        assert_eq!(*page.keys, ["b".to_owned(), "c/d".to_owned()]);
        assert!(two.list("tmp", "", None).await.unwrap().keys.is_empty());
        assert_eq!(two.get("tmp", "a").await.unwrap(), None);
        let bare = ObjectStore::new(shared.clone())
            .get("real", "one/tmp/c/d")
            .await;
        assert_eq!(bare.unwrap(), Some(text("c/d")));
        one.delete("tmp", &["a".into()]).await.unwrap();
        assert_eq!(one.get("tmp", "a").await.unwrap(), None);
        assert_eq!(
            one.get_range("tmp", "b", 0..1).await.unwrap(),
            Some(text("b"))
        );
    }
}
