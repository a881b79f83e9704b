use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use epochcost_tensor_commands::VELOCITY_SUFFIX;
use tokio::sync::OwnedMutexGuard;

use crate::locked;

/// One write lock per key: commands on different keys compute side by side,
/// commands on one key in turn.
#[derive(Debug, Default)]
pub(super) struct KeyLocks(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

/// Number of locks above which unused ones are removed.
const SWEEP_ABOVE: usize = 1_024;

impl KeyLocks {
    /// Waits for the right to write `key`.
    ///
    /// A tensor and its velocity share a lock: an SGD step writes both.
    pub(super) async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        self.mutex(owner(key)).lock_owned().await
    }

    /// Waits for the right to write all of `keys`. Every caller takes locks in the
    /// same order, so that no two commands wait for each other.
    pub(super) async fn lock_all(&self, keys: &[String]) -> Vec<OwnedMutexGuard<()>> {
        let mut owners: Vec<_> = keys.iter().map(|key| owner(key)).collect();
        owners.sort_unstable();
        owners.dedup();
        let mut held = Vec::with_capacity(owners.len());
        for owner in owners {
            held.push(self.mutex(owner).lock_owned().await);
        }
        held
    }

    fn mutex(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = locked(&self.0);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() > SWEEP_ABOVE {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

fn owner(key: &str) -> &str {
    key.trim_end_matches(VELOCITY_SUFFIX)
}
