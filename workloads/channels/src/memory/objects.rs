use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use crate::{Channel, ChannelError, ListPage, ObjectCommand, Payload, Reply, Result, locked};

/// Most keys on a page of a listing and in a delete request: S3's limits.
pub(crate) const PAGE_KEYS: usize = 1_000;

const SERVICE: &str = "object store";

/// An object store in memory. The first write to a bucket creates it.
#[derive(Debug, Default)]
pub struct MemoryObjects {
    buckets: Mutex<HashMap<String, BTreeMap<String, StoredObject>>>,
    writes: AtomicU64,
    deletes: AtomicU64,
    /// The last page that was listed, since workers that wait for each other
    /// repeat the same listing.
    listed: Mutex<Option<Listed>>,
}

/// A listing and its result.
#[derive(Debug)]
struct Listed {
    /// Bucket, prefix, and the key after which the page starts.
    request: (String, String, Option<String>),
    /// Numbers of writes and deletes before the listing.
    changes: (u64, u64),
    page: ListPage,
}

/// An object in the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) body: Payload,
    /// Sequence number of the write that made it: differs between versions of a key.
    pub(crate) version: u64,
}

impl MemoryObjects {
    /// Carries out `command`, at once.
    ///
    /// # Errors
    /// [`ChannelError::Refused`] for an empty range, one past the object's end, and more keys than S3 deletes.
    pub fn carry_out(&self, command: ObjectCommand) -> Result<Reply> {
        match command {
            ObjectCommand::Put { bucket, key, body } => {
                let (_, replaced) = self.store(&bucket, &key, body);
                Ok(Reply::Removed(replaced))
            }
            ObjectCommand::Get { bucket, key, range } => {
                self.get(&bucket, &key, range).map(Reply::Value)
            }
            ObjectCommand::List {
                bucket,
                prefix,
                after,
            } => Ok(Reply::Page(self.keys(bucket, prefix, after))),
            ObjectCommand::Delete { bucket, keys } => {
                check_delete(&bucket, &keys)?;
                let removed = keys.iter().map(|key| self.remove(&bucket, key));
                Ok(Reply::Removed(removed.sum()))
            }
        }
    }

    /// Returns the object under `key` with its version.
    pub(crate) fn find(&self, bucket: &str, key: &str) -> Option<StoredObject> {
        locked(&self.buckets).get(bucket)?.get(key).cloned()
    }

    fn get(&self, bucket: &str, key: &str, range: Option<Range<u64>>) -> Result<Option<Payload>> {
        if let Some(range) = &range {
            check_range(bucket, key, range)?;
        }
        let body = self.find(bucket, key).map(|object| object.body);
        let (Some(body), Some(range)) = (&body, range) else {
            return Ok(body);
        };
        cut(body, &range)
            .map(Some)
            .ok_or_else(|| refused_range(bucket, key, &range, "it starts past the object's end"))
    }

    /// Returns whether the object exists.
    pub fn has(&self, bucket: &str, key: &str) -> bool {
        let buckets = locked(&self.buckets);
        let objects = buckets.get(bucket);
        objects.is_some_and(|objects| objects.contains_key(key))
    }

    /// Returns the bytes of an object; 0 if there is none.
    pub fn bytes_of(&self, bucket: &str, key: &str) -> u64 {
        let buckets = locked(&self.buckets);
        let found = buckets.get(bucket).and_then(|objects| objects.get(key));
        found.map_or(0, |object| object.body.len())
    }

    /// Stores `body`, and returns its version and the bytes of the object that it replaced.
    pub fn store(&self, bucket: &str, key: &str, body: Payload) -> (u64, u64) {
        let mut buckets = locked(&self.buckets);
        let version = self.writes.fetch_add(1, Ordering::AcqRel) + 1;
        let (key, object) = (key.to_owned(), StoredObject { body, version });
        let replaced = match buckets.get_mut(bucket) {
            Some(objects) => objects.insert(key, object),
            None => buckets
                .entry(bucket.to_owned())
                .or_default()
                .insert(key, object),
        };
        (version, replaced.map_or(0, |object| object.body.len()))
    }

    /// Deletes one object if it exists, and returns its bytes.
    pub(crate) fn remove(&self, bucket: &str, key: &str) -> u64 {
        let mut buckets = locked(&self.buckets);
        self.deletes.fetch_add(1, Ordering::AcqRel);
        let objects = buckets.get_mut(bucket);
        let removed = objects.and_then(|objects| objects.remove(key));
        removed.map_or(0, |object| object.body.len())
    }

    fn keys(&self, bucket: String, prefix: String, after: Option<String>) -> ListPage {
        let mut listed = locked(&self.listed);
        // Read before the listing: a change during the listing makes the cached page
        // outdated, and it is not used again.
        let changes = (
            self.writes.load(Ordering::Acquire),
            self.deletes.load(Ordering::Acquire),
        );
        let request = (bucket, prefix, after);
        if let Some(listed) = listed.as_ref()
            && (listed.changes, &listed.request) == (changes, &request)
        {
            return listed.page.clone();
        }
        let (bucket, prefix, after) = &request;
        let (page, truncated) = self.page(bucket, prefix, after.as_deref(), PAGE_KEYS);
        let page = ListPage {
            keys: page.into_iter().map(|(key, _)| key).collect(),
            truncated,
        };
        *listed = Some(Listed {
            request,
            changes,
            page: page.clone(),
        });
        page
    }

    /// Returns up to `limit` objects whose keys start with `prefix` and follow
    /// `after`, in order, and whether there are more.
    pub(crate) fn page(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<(String, StoredObject)>, bool) {
        let buckets = locked(&self.buckets);
        let Some(objects) = buckets.get(bucket) else {
            return (Vec::new(), false);
        };
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut found = objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let page: Vec<_> = found
            .by_ref()
            .take(limit)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let truncated = limit > 0 && found.next().is_some();
        (page, truncated)
    }
}

#[async_trait]
impl Channel<ObjectCommand> for MemoryObjects {
    async fn run(&self, command: ObjectCommand) -> Result<Reply> {
        self.carry_out(command)
    }
}

/// Returns the bytes `range` of `body`, cut at its end as in S3; `None` if no
/// bytes remain.
pub(crate) fn cut(body: &Payload, range: &Range<u64>) -> Option<Payload> {
    let end = range.end.min(body.len());
    if range.start >= end {
        return None;
    }
    Some(match body {
        // Both fit usize: they are at most the length of bytes in memory.
        Payload::Bytes(bytes) => bytes.slice(range.start as usize..end as usize).into(),
        Payload::Phantom { .. } | Payload::Headed { .. } => Payload::Phantom {
            bytes: end - range.start,
        },
    })
}

/// Refuses an empty range, which HTTP cannot express.
pub(crate) fn check_range(bucket: &str, key: &str, range: &Range<u64>) -> Result<()> {
    if range.is_empty() {
        return Err(refused_range(bucket, key, range, "it is empty"));
    }
    Ok(())
}

fn refused_range(bucket: &str, key: &str, range: &Range<u64>, reason: &str) -> ChannelError {
    let operation = format!(
        "a read of bytes {}..{} of {bucket}/{key}",
        range.start, range.end
    );
    ChannelError::refused(SERVICE, operation, reason)
}

/// Refuses more keys than one S3 request can delete.
pub(crate) fn check_delete(bucket: &str, keys: &[String]) -> Result<()> {
    if keys.len() <= PAGE_KEYS {
        return Ok(());
    }
    let operation = format!("delete of {} keys in {bucket}", keys.len());
    let reason = format!("one request deletes at most {PAGE_KEYS}; send several");
    Err(ChannelError::refused(SERVICE, operation, reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::ObjectStore;

    fn empty() -> ObjectStore {
        ObjectStore::new(Arc::new(MemoryObjects::default()))
    }

    async fn filled(keys: &[&str]) -> ObjectStore {
        let store = empty();
        for key in keys {
            store
                .put("b", key, Payload::from(key.as_bytes().to_vec()))
                .await
                .unwrap();
        }
        store
    }

    #[tokio::test]
    async fn ranges_are_cut_at_the_end_and_refused_past_it() {
        let store = filled(&["0123456789"]).await;
        let get = |range| store.get_range("b", "0123456789", range);
        for (range, part) in [(2..4, "23"), (8..40, "89")] {
            let found = get(range).await.unwrap().unwrap();
            assert_eq!(found, Payload::from(part.as_bytes().to_vec()));
        }
        assert!(get(10..11).await.is_err());
        assert!(get(3..3).await.is_err());
        assert_eq!(store.get_range("b", "none", 0..1).await.unwrap(), None);
    }

    #[tokio::test]
    async fn phantoms_are_cut_like_bytes() {
        let store = empty();
        store
            .put("b", "k", Payload::Phantom { bytes: 10 })
            .await
            .unwrap();
        let part = store.get_range("b", "k", 8..40).await.unwrap().unwrap();
        assert_eq!(part, Payload::Phantom { bytes: 2 });
    }

    #[tokio::test]
    async fn a_listing_starts_after_a_key_within_its_prefix() {
        let store = filled(&["a", "b/1", "b/2", "b/3", "c"]).await;
        let three = ["b/1", "b/2", "b/3"];
        for (after, expected) in [
            (None, &three[..]),
            (Some("b/1"), &three[1..]),
            (Some("a"), &three),
            (Some("c"), &[]),
        ] {
            let page = store.list("b", "b/", after).await.unwrap();
            assert_eq!(*page.keys, *expected, "{after:?}");
        }
        let other = store.list("other", "", None).await.unwrap();
        assert!(other.keys.is_empty());
    }
}
