//! A tensor store in unmodified Redis: the papers' naive variant, which fetches,
//! computes and stores.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;

use super::redis::{Address, Connection, Pool, blob};
use crate::memory::compute;
use crate::tensors::{SERVICE, refused_range};
use crate::{Channel, Endpoint, Operation, Payload, Reply, Result, TensorCommand};

/// A tensor store in Redis without the module.
///
/// Tensors are Redis strings. The client computes every command with the kernels
/// of the module, so that the bits are the same: it fetches the values one after
/// another and sets the result. A transaction checks that no value changed
/// meanwhile; if one did, the command starts again.
pub struct PlainTensors {
    commands: Connection,
    exclusive: Pool,
}

impl PlainTensors {
    /// Connects to `redis+plain://:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`](crate::ChannelError).
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        let address = Address::new(SERVICE, endpoint);
        Ok(Self {
            commands: Connection::open(address.clone()).await?,
            exclusive: Pool::new(address),
        })
    }

    pub(super) fn commands(&self) -> &Connection {
        &self.commands
    }

    async fn operate(&self, operation: &Operation, sent: Option<Payload>) -> Result<()> {
        loop {
            let connection = self.exclusive.take().await?;
            match computed(&connection, operation, sent.clone()).await {
                Err(error) => {
                    if connection.done("UNWATCH", Vec::new()).await.is_ok() {
                        self.exclusive.give(connection);
                    }
                    return Err(error);
                }
                Ok(written) => {
                    // A connection that fails here is within a transaction and is dropped.
                    let done = store(&connection, written).await?;
                    self.exclusive.give(connection);
                    if done {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn part(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        let name = Bytes::copy_from_slice(key.as_bytes());
        if self.commands.count("EXISTS", vec![name.clone()]).await? == 0 {
            return Ok(None);
        }
        let length = self.commands.count("STRLEN", vec![name.clone()]).await?;
        let found = compute::elements(&Payload::Phantom { bytes: length })?;
        if elements.end > found {
            let reason = format!("the tensor has {found} elements");
            return Err(refused_range(key, &elements, reason));
        }
        if elements.is_empty() {
            return Ok(Some(Vec::new().into()));
        }
        let (first, last) = (4 * elements.start, 4 * elements.end - 1);
        let bounds = [first, last].map(|bound| bound.to_string().into());
        let arguments = [name].into_iter().chain(bounds);
        self.commands.value("GETRANGE", arguments.collect()).await
    }
}

/// Fetches the inputs of `operation` and computes its outputs: keys and values.
async fn computed(
    connection: &Connection,
    operation: &Operation,
    sent: Option<Payload>,
) -> Result<Vec<(String, Payload)>> {
    let keys = operation.reads();
    let watched = keys.iter().chain([&operation.target]).cloned();
    let watched = watched.map(Bytes::from).collect();
    connection.done("WATCH", watched).await?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.push(connection.value("GET", vec![key.into()]).await);
    }
    compute::fetched(operation, sent, found).await
}

/// Stores `written` in one transaction; returns `false` if a watched key changed.
async fn store(connection: &Connection, written: Vec<(String, Payload)>) -> Result<bool> {
    connection.done("MULTI", Vec::new()).await?;
    for (key, value) in written {
        let arguments = vec![key.into(), blob(&value)?];
        connection.done("SET", arguments).await?;
    }
    Ok(connection.call("EXEC", Vec::new()).await? != BytesFrame::Null)
}

#[async_trait]
impl Channel<TensorCommand> for PlainTensors {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        let redis = &self.commands;
        match command {
            TensorCommand::Set { key, value } => {
                let arguments = vec![key.into(), blob(&value)?];
                redis.done("SET", arguments).await?;
            }
            TensorCommand::Get { key } => {
                let value = redis.value("GET", vec![key.into()]).await?;
                return Ok(Reply::Value(value));
            }
            TensorCommand::GetRange { key, elements } => {
                return self.part(&key, elements).await.map(Reply::Value);
            }
            TensorCommand::Compute { operation, sent } => self.operate(&operation, sent).await?,
            TensorCommand::JsonMean { key, count } => {
                let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
                // For a count of 0 the first item is fetched: it shows whether the list exists.
                let range = ["0".into(), last.max(0).to_string().into()];
                let arguments = [key.clone().into()].into_iter().chain(range);
                let texts = redis.values("LRANGE", arguments.collect()).await?;
                let mean = compute::json_mean(&key, count, texts).await?;
                return Ok(Reply::Value(Some(mean)));
            }
            TensorCommand::Delete { keys } if keys.is_empty() => {}
            other @ (TensorCommand::Push { .. }
            | TensorCommand::Delete { .. }
            | TensorCommand::Ping) => {
                let (name, words) = other.words(|value| blob(&value))?;
                redis.done(name, words).await?;
            }
        }
        Ok(Reply::Done)
    }
}
