use std::ops::Range;

use async_trait::async_trait;

use super::{BUCKET, ByReference, Reference, hexadecimal, reference};
use crate::memory::compute;
use crate::tensors::{SERVICE, refused_range};
use crate::{Channel, ChannelError, Operation, Payload, Reply, Result, TensorCommand};

impl ByReference<TensorCommand> {
    /// Returns the key of the object for the tensor at `key`: always the same, so
    /// that a tensor that is set repeatedly does not fill the store.
    fn object_key(&self, key: &str) -> String {
        format!("tensors/{}/{}", self.namespace, hexadecimal(key))
    }

    /// Returns the reference at `key`, if there is one. Any other value whose length
    /// is not a multiple of 4 is fetched unnecessarily.
    async fn reference_at(&self, key: &str) -> Result<Option<Reference>> {
        let key = key.to_owned();
        // A store refuses a range, even an empty one, of a value that is not a tensor.
        let probe = TensorCommand::GetRange {
            key: key.clone(),
            elements: 0..0,
        };
        match self.channel.run(probe).await {
            Ok(_) => return Ok(None),
            Err(error @ ChannelError::Unreachable { .. }) => return Err(error),
            Err(_) => {}
        }
        let value = self
            .channel
            .run(TensorCommand::Get { key })
            .await?
            .value()?;
        Ok(value.as_ref().map(reference).transpose()?.flatten())
    }

    async fn set(&self, key: String, mut value: Payload) -> Result<Reply> {
        if self.must_refer(&value) {
            value = self.refer(self.object_key(&key), true, value).await?;
        }
        self.channel.run(TensorCommand::Set { key, value }).await
    }

    async fn get(&self, key: String) -> Result<Option<Payload>> {
        let frame = self.channel.run(TensorCommand::Get { key }).await?;
        self.resolve(frame.value()?).await
    }

    async fn get_range(&self, key: String, elements: Range<u64>) -> Result<Reply> {
        let get = TensorCommand::GetRange {
            key: key.clone(),
            elements: elements.clone(),
        };
        let found = self.channel.run(get).await;
        if found.is_ok() {
            return found;
        }
        let Some(reference) = self.reference_at(&key).await? else {
            return found;
        };
        if elements.end > reference.bytes / 4 {
            let reason = format!("the tensor has {} elements", reference.bytes / 4);
            return Err(refused_range(&key, &elements, reason));
        }
        if elements.is_empty() {
            return Ok(Reply::Value(Some(Vec::new().into())));
        }
        let range = 4 * elements.start..4 * elements.end;
        let part = self.objects.get_range(BUCKET, &reference.key, range);
        part.await.map(Reply::Value)
    }

    /// Has the store carry out `operation`. If it refuses because a tensor is a reference, or if what
    /// is sent must be one, the client does the operation: fetch, compute, store, without the atomicity
    /// of the store.
    async fn operate(&self, operation: Operation, sent: Option<Payload>) -> Result<Reply> {
        if sent.as_ref().is_some_and(|sent| self.must_refer(sent)) {
            return self.compute(&operation, sent).await;
        }
        let compute = TensorCommand::Compute {
            operation: operation.clone(),
            sent: sent.clone(),
        };
        let done = self.channel.run(compute).await;
        match &done {
            Ok(_) | Err(ChannelError::Unreachable { .. } | ChannelError::Missing { .. }) => {
                return done;
            }
            Err(_) => {}
        }
        for key in operation.reads() {
            if self.reference_at(&key).await?.is_some() {
                return self.compute(&operation, sent).await;
            }
        }
        done
    }

    async fn compute(&self, operation: &Operation, sent: Option<Payload>) -> Result<Reply> {
        let mut found = Vec::new();
        for key in operation.reads() {
            found.push(self.get(key).await);
        }
        for (key, value) in compute::fetched(operation, sent, found).await? {
            self.set(key, value).await?;
        }
        Ok(Reply::Done)
    }
}

#[async_trait]
impl Channel<TensorCommand> for ByReference<TensorCommand> {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        match command {
            TensorCommand::Set { key, value } => self.set(key, value).await,
            TensorCommand::Get { key } => self.get(key).await.map(Reply::Value),
            TensorCommand::GetRange { key, elements } => self.get_range(key, elements).await,
            TensorCommand::Compute { operation, sent } => self.operate(operation, sent).await,
            TensorCommand::Push { key, value } if value.len() > self.limit_bytes => {
                let reason = format!(
                    "a text of {} bytes is over its limit of {}, and a store averages no texts \
                     that lie elsewhere: keep gradients binary",
                    value.len(),
                    self.limit_bytes
                );
                let operation = format!("RPUSH {key:?}");
                Err(ChannelError::refused(SERVICE, operation, reason))
            }
            other => self.channel.run(other).await,
        }
    }
}
