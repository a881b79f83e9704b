use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use async_trait::async_trait;

use super::compute;
use super::key_locks::KeyLocks;
use crate::tensors::{SERVICE, missing, refused_range};
use crate::{Channel, ChannelError, Operation, Payload, Reply, Result, TensorCommand, locked};

/// Redis' error for a value of another type.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// A tensor store in memory.
///
/// Commands that write one key run in turn, and the velocity of a tensor counts as
/// the same key; commands on different keys run in parallel. All sources are read
/// at one moment and may include the destination. Large reductions run on tokio's
/// blocking threads if there is a runtime.
///
/// A value may be any bytes; only commands that compute need a tensor.
#[derive(Debug, Default)]
pub struct MemoryTensors {
    values: Mutex<HashMap<String, Value>>,
    writes: KeyLocks,
}

#[derive(Clone, Debug)]
enum Value {
    Tensor(Payload),
    /// A string stored by SET of Redis: read by every command, written by no `TENSOR.*`.
    Text(Payload),
    List(Vec<Payload>),
}

impl MemoryTensors {
    /// Returns how many of `keys` exist; a repeated key counts each time.
    pub(crate) fn exist(&self, keys: &[String]) -> usize {
        let values = locked(&self.values);
        keys.iter().filter(|key| values.contains_key(*key)).count()
    }

    /// Returns the bytes of the value at `key`, 0 if there is none.
    pub fn bytes(&self, key: &str) -> u64 {
        let found = self.find(key).unwrap_or_default();
        found.map_or(0, |value| value.len())
    }

    /// Returns the number of keys.
    pub(crate) fn key_count(&self) -> usize {
        locked(&self.values).len()
    }

    /// Deletes every key.
    pub(crate) async fn clear(&self) {
        let keys: Vec<_> = locked(&self.values).keys().cloned().collect();
        let _held = self.writes.lock_all(&keys).await;
        locked(&self.values).clear();
    }

    /// Returns the items of the list at `key`; none if there is no list.
    pub(crate) fn items(&self, key: &str) -> Result<Vec<Payload>> {
        match locked(&self.values).get(key) {
            None => Ok(Vec::new()),
            Some(Value::List(items)) => Ok(items.clone()),
            Some(_) => Err(wrong_type(key)),
        }
    }

    /// Stores a string: SET of Redis.
    pub(crate) async fn set_text(&self, key: String, text: Payload) {
        let _held = self.writes.lock(&key).await;
        self.insert(key, Value::Text(text));
    }

    /// Returns the string at `key`: GET of Redis, which refuses tensors.
    pub(crate) fn text(&self, key: &str) -> Result<Option<Payload>> {
        match locked(&self.values).get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong_type(key)),
        }
    }

    /// Appends to the list at `key` and returns its new length.
    pub(crate) async fn append(&self, key: &str, items: Vec<Payload>) -> Result<usize> {
        let _held = self.writes.lock(key).await;
        let mut values = locked(&self.values);
        match values
            .entry(key.to_owned())
            .or_insert_with(|| Value::List(Vec::new()))
        {
            Value::List(list) => {
                list.extend(items);
                Ok(list.len())
            }
            Value::Tensor(_) | Value::Text(_) => Err(wrong_type(key)),
        }
    }

    /// Deletes `keys` and returns how many existed.
    pub(crate) async fn remove(&self, keys: &[String]) -> usize {
        let _held = self.writes.lock_all(keys).await;
        let mut values = locked(&self.values);
        keys.iter()
            .filter(|key| values.remove(*key).is_some())
            .count()
    }

    fn insert(&self, key: String, value: Value) {
        // The replaced value may be large, and is freed after the lock.
        let _replaced = locked(&self.values).insert(key, value);
    }

    fn find(&self, key: &str) -> Result<Option<Payload>> {
        tensor(&locked(&self.values), key)
    }

    async fn operate(&self, operation: Operation, sent: Option<Payload>) -> Result<()> {
        let _held = self.writes.lock(&operation.target).await;
        let inputs = {
            let values = locked(&self.values);
            operation.read(sent, |key| tensor(&values, key), missing)?
        };
        let written = compute::written(&operation, inputs).await?;
        let mut values = locked(&self.values);
        let replaced: Vec<_> = written
            .into_iter()
            .filter_map(|(key, value)| values.insert(key, Value::Tensor(value)))
            .collect();
        drop(values);
        // Freed after the lock.
        drop(replaced);
        Ok(())
    }

    fn part(&self, key: &str, elements: &Range<u64>) -> Result<Option<Payload>> {
        let Some(value) = self.find(key)? else {
            return Ok(None);
        };
        compute::slice(&value, elements)?.map(Some).ok_or_else(|| {
            let reason = format!("the tensor has {} elements", value.len() / 4);
            refused_range(key, elements, reason)
        })
    }
}

fn tensor(values: &HashMap<String, Value>, key: &str) -> Result<Option<Payload>> {
    match values.get(key) {
        None => Ok(None),
        Some(Value::Tensor(value) | Value::Text(value)) => Ok(Some(value.clone())),
        Some(Value::List(_)) => Err(wrong_type(key)),
    }
}

fn wrong_type(key: &str) -> ChannelError {
    ChannelError::refused(SERVICE, format!("a command on {key:?}"), WRONG_TYPE)
}

#[async_trait]
impl Channel<TensorCommand> for MemoryTensors {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        match command {
            TensorCommand::Set { key, value } => {
                let _held = self.writes.lock(&key).await;
                self.insert(key, Value::Tensor(value));
            }
            TensorCommand::Get { key } => return self.find(&key).map(Reply::Value),
            TensorCommand::GetRange { key, elements } => {
                return self.part(&key, &elements).map(Reply::Value);
            }
            // In boxes of their own: the other commands are many, and need little.
            TensorCommand::Compute { operation, sent } => {
                Box::pin(self.operate(operation, sent)).await?;
            }
            TensorCommand::Push { key, value } => {
                self.append(&key, vec![value]).await?;
            }
            TensorCommand::JsonMean { key, count } => {
                let texts = self.items(&key)?;
                let mean = Box::pin(compute::json_mean(&key, count, texts)).await?;
                return Ok(Reply::Value(Some(mean)));
            }
            TensorCommand::Delete { keys } => {
                Box::pin(self.remove(&keys)).await;
            }
            TensorCommand::Ping => {}
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use epochcost_kernels::codec::encode_f32;

    use super::*;
    use crate::{OperationKind, RobustRule, SgdStep, TensorStore};

    fn store() -> TensorStore {
        TensorStore::new(Arc::new(MemoryTensors::default()))
    }

    fn vector(values: &[f32]) -> Payload {
        encode_f32(values).into()
    }

    fn names(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    const STEP: SgdStep = SgdStep {
        learning_rate: 0.5,
        momentum: 0.5,
        weight_decay: 0.0,
    };

    #[tokio::test]
    async fn one_phantom_makes_a_phantom_of_the_right_size() {
        let store = store();
        let phantom = Payload::Phantom { bytes: 8 };
        store.set("p", phantom.clone()).await.unwrap();
        store.set("v", vector(&[1.0, 2.0])).await.unwrap();
        store.mean("m", &names(&["p", "v"])).await.unwrap();
        assert_eq!(store.get("m").await.unwrap(), Some(phantom.clone()));
        let median = RobustRule::CoordinateMedian.into();
        let robust = store.robust_mean("m", median, &names(&["v", "p"])).await;
        robust.unwrap();
        assert_eq!(store.get("m").await.unwrap(), Some(phantom.clone()));
        store.accumulate("p", vector(&[1.0, 2.0])).await.unwrap();
        assert_eq!(store.get("p").await.unwrap(), Some(phantom.clone()));
        let step = OperationKind::Step(STEP);
        let sources = names(&["p", "p"]);
        store.compute("v", step, &sources).await.unwrap();
        assert_eq!(store.get("v").await.unwrap(), Some(phantom.clone()));
        assert_eq!(store.get("v:velocity").await.unwrap(), Some(phantom));
        let longer = Payload::Phantom { bytes: 12 };
        store.set("q", longer).await.unwrap();
        assert!(store.mean("m", &names(&["p", "q"])).await.is_err());
        let part = store.get_range("q", 1..3).await.unwrap();
        assert_eq!(part, Some(Payload::Phantom { bytes: 8 }));
    }

    #[test]
    fn commands_need_no_runtime() {
        let store = store();
        let set = store.set("a", vector(&vec![1.0; 80_000]));
        futures_util::FutureExt::now_or_never(set).unwrap().unwrap();
        let sources = names(&["a", "a"]);
        let mean = store.mean("m", &sources);
        let mean = futures_util::FutureExt::now_or_never(mean);
        mean.unwrap().unwrap();
    }
}
