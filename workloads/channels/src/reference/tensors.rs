use std::fmt::Write;
use std::ops::Range;

use async_trait::async_trait;
use epochcost_tensor_commands::{Operation, OperationKind};

use super::{BUCKET, ByReference, Reference, reference};
use crate::memory::{check_elements, compute};
use crate::{ChannelError, Payload, Result, RobustMean, SgdStep, TensorStore};

impl ByReference<dyn TensorStore> {
    /// Returns the key of the object for the tensor at `key`: always the same, so
    /// that a tensor that is set repeatedly does not fill the store.
    fn object_key(&self, key: &str) -> String {
        let mut name = format!("tensors/{}/", self.namespace);
        for byte in key.as_bytes() {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Returns the reference at `key`, if there is one. Any other value whose length
    /// is not a multiple of 4 is fetched unnecessarily.
    async fn reference_at(&self, key: &str) -> Result<Option<Reference>> {
        // A store refuses a range, even an empty one, of a value that is not a tensor.
        match self.channel.get_range(key, 0..0).await {
            Ok(_) => return Ok(None),
            Err(error @ ChannelError::Unreachable { .. }) => return Err(error),
            Err(_) => {}
        }
        match self.channel.get(key).await? {
            Some(value) => reference(&value),
            None => Ok(None),
        }
    }

    /// Completes `operation` with the result of the store. If the store refused
    /// because a tensor is a reference, the client does the operation: fetch,
    /// compute, store, without the atomicity of the store.
    async fn settle(
        &self,
        done: Result<()>,
        operation: Operation,
        sent: Option<Payload>,
    ) -> Result<()> {
        match &done {
            Ok(()) | Err(ChannelError::Unreachable { .. } | ChannelError::Missing { .. }) => {
                return done;
            }
            Err(_) => {}
        }
        let mut keys = operation.sources.clone();
        if operation.reads_target() {
            keys.push(operation.target.clone());
        }
        keys.extend(operation.velocity_key());
        for key in &keys {
            if self.reference_at(key).await?.is_some() {
                return self.compute(&operation, &keys, sent).await;
            }
        }
        done
    }

    /// Fetches the values at `keys`, in the order in which `operation` reads
    /// them, computes and stores.
    async fn compute(
        &self,
        operation: &Operation,
        keys: &[String],
        sent: Option<Payload>,
    ) -> Result<()> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.get(key).await?);
        }
        let mut values = values.into_iter();
        let inputs = operation.read(
            sent,
            |_| Ok(values.next().flatten()),
            |key| ChannelError::Missing {
                service: "tensor store",
                key: key.to_owned(),
            },
        )?;
        let kind = operation.kind;
        let bytes = inputs.all().map(Payload::len).sum();
        let (target, velocity) =
            compute::run(bytes, move || compute::operation(kind, &inputs)).await?;
        if let Some((key, velocity)) = operation.velocity_key().zip(velocity) {
            self.set(&key, velocity).await?;
        }
        self.set(&operation.target, target).await
    }
}

#[async_trait]
impl TensorStore for ByReference<dyn TensorStore> {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        let value = if self.must_refer(&value) {
            self.refer(self.object_key(key), true, value).await?
        } else {
            value
        };
        self.channel.set(key, value).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        let Some(value) = self.channel.get(key).await? else {
            return Ok(None);
        };
        match reference(&value)? {
            Some(found) => self.fetch(&found).await.map(Some),
            None => Ok(Some(value)),
        }
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        check_elements(key, &elements)?;
        let found = self.channel.get_range(key, elements.clone()).await;
        if found.is_ok() {
            return found;
        }
        let Some(reference) = self.reference_at(key).await? else {
            return found;
        };
        if elements.end > reference.bytes / 4 {
            return Err(ChannelError::Refused {
                service: "tensor store",
                operation: format!("a read of elements {elements:?} of {key:?}"),
                reason: format!("the tensor has {} elements", reference.bytes / 4),
            });
        }
        if elements.is_empty() {
            return Ok(Some(Vec::new().into()));
        }
        let range = 4 * elements.start..4 * elements.end;
        self.objects.get_range(BUCKET, &reference.key, range).await
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let operation = Operation::new(key.to_owned(), OperationKind::Accumulate, Vec::new());
        if self.must_refer(&value) {
            return self
                .compute(&operation, &[key.to_owned()], Some(value))
                .await;
        }
        let done = self.channel.accumulate(key, value.clone()).await;
        self.settle(done, operation, Some(value)).await
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        let kind = OperationKind::Mean;
        let operation = Operation::new(destination.to_owned(), kind, sources.to_vec());
        let done = self.channel.mean(destination, sources).await;
        self.settle(done, operation, None).await
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        let kind = OperationKind::Robust(rule);
        let operation = Operation::new(destination.to_owned(), kind, sources.to_vec());
        let done = self.channel.robust_mean(destination, rule, sources).await;
        self.settle(done, operation, None).await
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        let (kind, sources) = (OperationKind::Step(step), vec![gradient.to_owned()]);
        let operation = Operation::new(parameters.to_owned(), kind, sources);
        let done = self.channel.sgd(parameters, gradient, step).await;
        self.settle(done, operation, None).await
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        let kind = OperationKind::Step(step);
        let operation = Operation::new(parameters.to_owned(), kind, sources.to_vec());
        let done = self.channel.mean_sgd(parameters, sources, step).await;
        self.settle(done, operation, None).await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        if value.len() > self.limit_bytes {
            return Err(ChannelError::Refused {
                service: "tensor store",
                operation: format!("RPUSH {key:?}"),
                reason: format!(
                    "a text of {} bytes is over its limit of {}, and a store averages no texts \
                     that lie elsewhere: keep gradients binary",
                    value.len(),
                    self.limit_bytes
                ),
            });
        }
        self.channel.push(key, value).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        self.channel.json_mean(key, count).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.channel.delete(keys).await
    }

    async fn ping(&self) -> Result<()> {
        self.channel.ping().await
    }
}
