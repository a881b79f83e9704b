use std::ops::Range;
use std::sync::Arc;

use crate::{Caller, ChannelError, Command, Fare, Payload, Result};

/// Page of an object listing: the result of one LIST request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Keys in lexicographic order, at most 1,000 (S3's page size). Shared,
    /// since many readers may receive the same page.
    pub keys: Arc<[String]>,
    /// Whether more keys follow; the next page starts after the last key.
    pub truncated: bool,
}

/// A request to an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectCommand {
    /// Stores `body` under `key`, replacing what was there.
    Put {
        /// Bucket of the object.
        bucket: String,
        /// Key of the object.
        key: String,
        /// The object.
        body: Payload,
    },
    /// Answers with the object.
    Get {
        /// Bucket of the object.
        bucket: String,
        /// Key of the object.
        key: String,
        /// Bytes of the object to answer with; `None` for all.
        range: Option<Range<u64>>,
    },
    /// Answers with one page of keys.
    List {
        /// The bucket.
        bucket: String,
        /// Beginning of the keys.
        prefix: String,
        /// Key after which the page starts.
        after: Option<String>,
    },
    /// Deletes objects; absent ones are no error.
    Delete {
        /// Bucket of the objects.
        bucket: String,
        /// Their keys, at most 1,000.
        keys: Vec<String>,
    },
}

impl Command for ObjectCommand {
    fn fare(&self) -> Fare {
        match self {
            Self::Put { body, .. } => Fare::Put(body.len()),
            Self::Get { .. } => Fare::Get,
            Self::List { .. } => Fare::List,
            Self::Delete { .. } => Fare::Delete,
        }
    }

    fn names(&mut self) -> Vec<&mut String> {
        match self {
            Self::Put { key, .. } | Self::Get { key, .. } => vec![key],
            Self::List { prefix, after, .. } => std::iter::once(prefix).chain(after).collect(),
            Self::Delete { keys, .. } => keys.iter_mut().collect(),
        }
    }
}

impl ObjectCommand {
    pub(crate) fn bucket(&mut self) -> &mut String {
        match self {
            Self::Put { bucket, .. }
            | Self::Get { bucket, .. }
            | Self::List { bucket, .. }
            | Self::Delete { bucket, .. } => bucket,
        }
    }
}

/// A store of named objects in buckets, modelled on S3.
pub type ObjectStore = Caller<ObjectCommand>;

impl Caller<ObjectCommand> {
    /// Stores `body` under `key`, replacing what was there.
    pub async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.done(ObjectCommand::Put { bucket, key, body }).await
    }

    /// Returns the object, or `None` if there is none (a missed get).
    pub async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        self.run(get(bucket, key, None)).await?.value()
    }

    /// Returns the object, which must be there.
    ///
    /// # Errors
    /// [`ChannelError::Missing`] if it is not.
    pub async fn expect(&self, bucket: &str, key: &str) -> Result<Payload> {
        let found = self.get(bucket, key).await?;
        found.ok_or_else(|| ChannelError::missing("object store", key))
    }

    /// Returns the bytes `range` of the object, or `None` if there is none.
    pub async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        self.run(get(bucket, key, Some(range))).await?.value()
    }

    /// Returns one page of the keys that start with `prefix`, after the key `after`.
    pub async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        let list = ObjectCommand::List {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
        };
        self.run(list).await?.page()
    }

    /// Deletes `keys` (at most 1,000) in one request; absent keys are no error.
    pub async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        let (bucket, keys) = (bucket.to_owned(), keys.to_vec());
        self.done(ObjectCommand::Delete { bucket, keys }).await
    }
}

fn get(bucket: &str, key: &str, range: Option<Range<u64>>) -> ObjectCommand {
    let (bucket, key) = (bucket.to_owned(), key.to_owned());
    ObjectCommand::Get { bucket, key, range }
}
