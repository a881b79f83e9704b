//! Sizes of objects, as far as a client of a store sees them: S3 answers a PUT or a DELETE without
//! the size of what it removed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crate::locked;

/// Sizes of the objects that this client wrote or read, by the hash of bucket and key.
#[derive(Default)]
pub(super) struct Sizes {
    known: Mutex<HashMap<u64, Known>>,
    hasher: RandomState,
}

#[derive(Clone, Copy)]
struct Known {
    bytes: u64,
    /// Whether the object was read since this client wrote it: if not, another client may have
    /// deleted it meanwhile.
    is_read: bool,
}

impl Sizes {
    fn id(&self, bucket: &str, key: &str) -> u64 {
        self.hasher.hash_one((bucket, key))
    }

    /// Notes a write, and returns the bytes that it replaced: of an object that this client has read,
    /// as one does that changes it.
    pub(super) fn write(&self, bucket: &str, key: &str, bytes: u64) -> u64 {
        let before = self.note(bucket, key, bytes, false);
        let replaced = before.filter(|before| before.is_read);
        replaced.map_or(0, |before| before.bytes)
    }

    /// Notes a read; none was found without `bytes`.
    pub(super) fn read(&self, bucket: &str, key: &str, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => self.note(bucket, key, bytes, true),
            None => locked(&self.known).remove(&self.id(bucket, key)),
        };
    }

    /// Notes the size of an object, and returns what was known of it before.
    fn note(&self, bucket: &str, key: &str, bytes: u64, is_read: bool) -> Option<Known> {
        let known = Known { bytes, is_read };
        locked(&self.known).insert(self.id(bucket, key), known)
    }

    /// Notes that objects were deleted, and returns the bytes of those whose size is known.
    pub(super) fn delete(&self, bucket: &str, keys: &[String]) -> u64 {
        let mut known = locked(&self.known);
        let deleted = keys
            .iter()
            .filter_map(|key| known.remove(&self.id(bucket, key)));
        deleted.map(|object| object.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_or_read_has_a_size_once_it_is_deleted() {
        let sizes = Sizes::default();
        sizes.write("b", "own", 5);
        sizes.read("b", "read", Some(7));
        sizes.read("c", "read", Some(11));
        let keys = ["own", "read", "unknown"].map(str::to_owned);
        assert_eq!(sizes.delete("b", &keys), 12);
        assert_eq!(sizes.delete("b", &keys), 0);
        assert_eq!(sizes.delete("c", &keys), 11);
    }

    /// A worker writes under one key again and again, and another one deletes what it read there.
    #[test]
    fn only_what_was_read_is_known_to_be_replaced() {
        let sizes = Sizes::default();
        assert_eq!([5, 6].map(|bytes| sizes.write("b", "k", bytes)), [0, 0]);
        sizes.read("b", "k", Some(6));
        assert_eq!([8, 9].map(|bytes| sizes.write("b", "k", bytes)), [6, 0]);
        sizes.read("b", "k", None);
        assert_eq!(sizes.write("b", "k", 1), 0);
    }
}
