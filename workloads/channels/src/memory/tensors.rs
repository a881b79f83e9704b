use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use async_trait::async_trait;
use epochcost_kernels::KernelError;
use epochcost_tensor_commands::{Operation, OperationKind};

use super::key_locks::KeyLocks;
use super::{compute, locked};
use crate::{ChannelError, Payload, Result, RobustMean, SgdStep, TensorStore};

const SERVICE: &str = "tensor store";

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
    pub(crate) async fn set_text(&self, key: &str, text: Payload) {
        let _held = self.writes.lock(key).await;
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

    fn insert(&self, key: &str, value: Value) {
        // The replaced value may be large, and is freed after the lock.
        let _replaced = locked(&self.values).insert(key.to_owned(), value);
    }

    fn find(&self, key: &str) -> Result<Option<Payload>> {
        tensor(&locked(&self.values), key)
    }

    /// Executes one operation; `sent` is the value that came with the command.
    pub(crate) async fn operate(&self, operation: Operation, sent: Option<Payload>) -> Result<()> {
        let _held = self.writes.lock(&operation.target).await;
        let inputs = {
            let values = locked(&self.values);
            operation.read(sent, |key| tensor(&values, key), missing)?
        };
        let kind = operation.kind;
        let bytes = inputs.all().map(compute::real_bytes).sum();
        let (target, velocity) =
            compute::run(bytes, move || compute::operation(kind, &inputs)).await?;
        let written = [Some(operation.target.clone()), operation.velocity_key()];
        let mut values = locked(&self.values);
        let replaced: Vec<_> = written
            .into_iter()
            .zip([Some(target), velocity])
            .filter_map(|(key, value)| Some(values.insert(key?, Value::Tensor(value?))))
            .collect();
        drop(values);
        // Freed after the lock.
        drop(replaced);
        Ok(())
    }

    /// Executes an operation on stored tensors.
    async fn reduce(&self, target: &str, kind: OperationKind, sources: &[String]) -> Result<()> {
        if sources.is_empty() {
            return Err(KernelError::NoVectors {
                operation: "reduce tensors",
            }
            .into());
        }
        let operation = Operation::new(target.to_owned(), kind, sources.to_vec());
        self.operate(operation, None).await
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
    ChannelError::Refused {
        service: SERVICE,
        operation: format!("a command on {key:?}"),
        reason: WRONG_TYPE.into(),
    }
}

/// Refuses a range that ends before it starts, which no command can express.
pub(crate) fn check_elements(key: &str, range: &Range<u64>) -> Result<()> {
    if range.start <= range.end {
        return Ok(());
    }
    Err(refused_range(key, range, "it ends before it starts".into()))
}

fn refused_range(key: &str, range: &Range<u64>, reason: String) -> ChannelError {
    ChannelError::Refused {
        service: SERVICE,
        operation: format!(
            "a read of elements {}..{} of {key:?}",
            range.start, range.end
        ),
        reason,
    }
}

fn missing(key: &str) -> ChannelError {
    ChannelError::Missing {
        service: SERVICE,
        key: key.to_owned(),
    }
}

fn total_bytes(values: &[Payload]) -> u64 {
    values.iter().map(Payload::len).sum()
}

#[async_trait]
impl TensorStore for MemoryTensors {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        let _held = self.writes.lock(key).await;
        self.insert(key, Value::Tensor(value));
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.find(key)
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        check_elements(key, &elements)?;
        let Some(value) = self.find(key)? else {
            return Ok(None);
        };
        compute::slice(&value, &elements)?.map(Some).ok_or_else(|| {
            let reason = format!("the tensor has {} elements", value.len() / 4);
            refused_range(key, &elements, reason)
        })
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let operation = Operation::new(key.to_owned(), OperationKind::Accumulate, Vec::new());
        self.operate(operation, Some(value)).await
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        self.reduce(destination, OperationKind::Mean, sources).await
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        self.reduce(destination, OperationKind::Robust(rule), sources)
            .await
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        self.reduce(
            parameters,
            OperationKind::Step(step),
            &[gradient.to_owned()],
        )
        .await
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.reduce(parameters, OperationKind::Step(step), sources)
            .await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.append(key, vec![value]).await?;
        Ok(())
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let mut texts = self.items(key)?;
        if texts.is_empty() {
            return Err(missing(key));
        }
        texts.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        compute::run(total_bytes(&texts), move || compute::json_mean(&texts)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.remove(keys).await;
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use epochcost_kernels::codec::{decode_f32, encode_f32};
    use proptest::prelude::*;

    use super::*;
    use crate::RobustRule;

    fn vector(values: &[f32]) -> Payload {
        encode_f32(values).into()
    }

    async fn values(store: &MemoryTensors, key: &str) -> Vec<f32> {
        decode_f32(store.get(key).await.unwrap().unwrap().bytes().unwrap()).unwrap()
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
    async fn two_steps_with_momentum_by_hand() {
        let store = MemoryTensors::default();
        store.set("w", vector(&[1.0, 2.0])).await.unwrap();
        store.set("g", vector(&[1.0, -1.0])).await.unwrap();
        store.sgd("w", "g", STEP).await.unwrap();
        assert_eq!(values(&store, "w").await, [0.5, 2.5]);
        assert_eq!(values(&store, "w:velocity").await, [1.0, -1.0]);
        // v = 0.5·1 + 1 = 1.5; w = 0.5 - 0.5·1.5.
        store.sgd("w", "g", STEP).await.unwrap();
        assert_eq!(values(&store, "w").await, [-0.25, 3.25]);
    }

    #[tokio::test]
    async fn a_step_without_momentum_keeps_no_velocity() {
        let store = MemoryTensors::default();
        store.set("w", vector(&[1.0])).await.unwrap();
        store.set("g", vector(&[1.0])).await.unwrap();
        store
            .sgd(
                "w",
                "g",
                SgdStep {
                    momentum: 0.0,
                    ..STEP
                },
            )
            .await
            .unwrap();
        assert_eq!(store.get("w:velocity").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_range_counts_elements_and_must_lie_within() {
        let store = MemoryTensors::default();
        store.set("k", vector(&[1.0, 2.0, 3.0])).await.unwrap();
        assert_eq!(
            store.get_range("k", 1..3).await.unwrap(),
            Some(vector(&[2.0, 3.0]))
        );
        assert_eq!(store.get_range("k", 3..3).await.unwrap(), Some(vector(&[])));
        assert!(store.get_range("k", 2..4).await.is_err());
        assert_eq!(store.get_range("none", 0..1).await.unwrap(), None);
        store
            .set("p", Payload::Phantom { bytes: 12 })
            .await
            .unwrap();
        let part = store.get_range("p", 1..3).await.unwrap();
        assert_eq!(part, Some(Payload::Phantom { bytes: 8 }));
    }

    #[tokio::test]
    async fn a_failed_command_changes_nothing() {
        let store = MemoryTensors::default();
        store.set("a", vector(&[1.0, 2.0])).await.unwrap();
        store.set("b", vector(&[1.0])).await.unwrap();
        store.set("ragged", vec![0; 5].into()).await.unwrap();
        assert!(store.mean("a", &names(&["a", "b"])).await.is_err());
        assert!(store.mean("a", &[]).await.is_err());
        assert!(store.mean("a", &names(&["ragged"])).await.is_err());
        assert!(store.accumulate("a", vector(&[1.0])).await.is_err());
        assert!(store.accumulate("new", vec![0; 5].into()).await.is_err());
        assert!(store.sgd("a", "b", STEP).await.is_err());
        let missing = store.mean("a", &names(&["a", "none"])).await;
        assert!(matches!(missing, Err(ChannelError::Missing { key, .. }) if key == "none"));
        assert_eq!(values(&store, "a").await, [1.0, 2.0]);
        assert_eq!(store.key_count(), 3);
    }

    #[tokio::test]
    async fn lists_and_tensors_do_not_mix() {
        let store = MemoryTensors::default();
        store.push("list", b"[1, 3]".to_vec().into()).await.unwrap();
        store.push("list", b"[2, 5]".to_vec().into()).await.unwrap();
        store
            .push("list", b"not JSON".to_vec().into())
            .await
            .unwrap();
        assert!(store.get("list").await.is_err());
        assert!(store.mean("m", &names(&["list"])).await.is_err());
        assert_eq!(
            store.json_mean("list", 2).await.unwrap(),
            b"[1.5,4]".to_vec().into()
        );
        assert!(store.json_mean("list", 3).await.is_err());
        assert!(store.json_mean("none", 1).await.is_err());
        store.set("list", vector(&[1.0])).await.unwrap();
        assert!(store.push("list", vector(&[1.0])).await.is_err());
    }

    #[tokio::test]
    async fn one_phantom_makes_a_phantom_of_the_right_size() {
        let store = MemoryTensors::default();
        let phantom = Payload::Phantom { bytes: 8 };
        store.set("p", phantom.clone()).await.unwrap();
        store.set("v", vector(&[1.0, 2.0])).await.unwrap();
        store.mean("m", &names(&["p", "v"])).await.unwrap();
        assert_eq!(store.get("m").await.unwrap(), Some(phantom.clone()));
        store
            .robust_mean(
                "m",
                RobustRule::CoordinateMedian.into(),
                &names(&["v", "p"]),
            )
            .await
            .unwrap();
        assert_eq!(store.get("m").await.unwrap(), Some(phantom.clone()));
        store.accumulate("p", vector(&[1.0, 2.0])).await.unwrap();
        assert_eq!(store.get("p").await.unwrap(), Some(phantom.clone()));
        store
            .mean_sgd("v", &names(&["p", "p"]), STEP)
            .await
            .unwrap();
        assert_eq!(store.get("v").await.unwrap(), Some(phantom.clone()));
        assert_eq!(store.get("v:velocity").await.unwrap(), Some(phantom));
        store
            .set("q", Payload::Phantom { bytes: 12 })
            .await
            .unwrap();
        assert!(store.mean("m", &names(&["p", "q"])).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn additions_at_once_all_count() {
        let store = Arc::new(MemoryTensors::default());
        // Above the size that is computed in place.
        let ones = vector(&vec![1.0; 80_000]);
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let (store, ones) = (Arc::clone(&store), ones.clone());
                tokio::spawn(async move { store.accumulate("sum", ones).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(values(&store, "sum").await, vec![32.0; 80_000]);
    }

    #[test]
    fn commands_need_no_runtime() {
        let store = MemoryTensors::default();
        let set = store.set("a", vector(&vec![1.0; 80_000]));
        futures_util::FutureExt::now_or_never(set).unwrap().unwrap();
        let sources = names(&["a", "a"]);
        let mean = store.mean("m", &sources);
        futures_util::FutureExt::now_or_never(mean)
            .unwrap()
            .unwrap();
    }

    proptest! {
        #[test]
        fn the_fused_step_has_the_bits_of_both_in_turn(
            rows in prop::collection::vec(prop::collection::vec(-1e3_f32..1e3, 7), 2..9),
            learning_rate in 0.0_f32..1.0,
            momentum in prop_oneof![Just(0.0_f32), 0.0_f32..1.0],
            weight_decay in prop_oneof![Just(0.0_f32), 0.0_f32..0.1],
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let step = SgdStep { learning_rate, momentum, weight_decay };
            runtime.block_on(async {
                let store = MemoryTensors::default();
                let mut sources = Vec::new();
                for (i, row) in rows[1..].iter().enumerate() {
                    sources.push(format!("g{i}"));
                    store.set(&sources[i], vector(row)).await.unwrap();
                }
                for key in ["fused", "apart"] {
                    store.set(key, vector(&rows[0])).await.unwrap();
                }
                for _ in 0..2 {
                    store.mean_sgd("fused", &sources, step).await.unwrap();
                    store.mean("mean", &sources).await.unwrap();
                    store.sgd("apart", "mean", step).await.unwrap();
                }
                for suffix in ["", ":velocity"] {
                    let read = async |key| store.get(&format!("{key}{suffix}")).await.unwrap();
                    assert_eq!(read("fused").await, read("apart").await);
                }
            });
        }
    }
}
