//! A tensor store in unmodified Redis: the papers' naive variant, which fetches,
//! computes and stores.

use std::ops::Range;

use async_trait::async_trait;
use epochcost_kernels::KernelError;
use epochcost_tensor_commands::{Operation, OperationKind};
use fred::types::Value;

use super::redis::{Address, Connection, Pool, blob, with_keys};
use crate::memory::{check_elements, compute};
use crate::{ChannelError, Endpoint, Payload, Result, RobustMean, SgdStep, TensorStore};

const SERVICE: &str = "tensor store";

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
    /// [`ChannelError`].
    pub async fn connect(endpoint: &str) -> Result<Self> {
        Self::open(endpoint.parse()?).await
    }

    pub(super) async fn open(endpoint: Endpoint) -> Result<Self> {
        let address = Address {
            service: SERVICE,
            endpoint,
        };
        Ok(Self {
            commands: Connection::open(address.clone()).await?,
            exclusive: Pool::new(address),
        })
    }

    pub(super) fn commands(&self) -> &Connection {
        &self.commands
    }

    async fn reduce(&self, target: &str, kind: OperationKind, sources: &[String]) -> Result<()> {
        check_sources(sources)?;
        let operation = Operation::new(target.to_owned(), kind, sources.to_vec());
        self.operate(&operation, None).await
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
}

/// Refuses a reduction without sources.
pub(super) fn check_sources(sources: &[String]) -> Result<()> {
    if sources.is_empty() {
        return Err(KernelError::NoVectors {
            operation: "reduce tensors",
        }
        .into());
    }
    Ok(())
}

/// Fetches the inputs of `operation` and computes its outputs: keys and values.
async fn computed(
    connection: &Connection,
    operation: &Operation,
    sent: Option<Payload>,
) -> Result<Vec<(String, Payload)>> {
    let mut keys = operation.sources.clone();
    keys.push(operation.target.clone());
    keys.extend(operation.velocity_key());
    connection
        .done("WATCH", with_keys(Vec::new(), &keys))
        .await?;
    if !operation.reads_target() {
        keys.truncate(operation.sources.len());
    }
    let mut fetched = Vec::with_capacity(keys.len());
    for key in keys {
        let value = connection.value("GET", vec![key.as_str().into()]).await;
        fetched.push((key, value));
    }
    let mut fetched = fetched.into_iter();
    // The operation reads its keys in the order in which they were fetched.
    let inputs = operation.read(
        sent,
        |_| fetched.next().map_or(Ok(None), |(_, value)| value),
        |key| ChannelError::Missing {
            service: SERVICE,
            key: key.to_owned(),
        },
    )?;
    let kind = operation.kind;
    let bytes = inputs.all().map(Payload::len).sum();
    let (target, velocity) = compute::run(bytes, move || compute::operation(kind, &inputs)).await?;
    let mut written = vec![(operation.target.clone(), target)];
    written.extend(operation.velocity_key().zip(velocity));
    Ok(written)
}

/// Stores `written` in one transaction; returns `false` if a watched key changed.
async fn store(connection: &Connection, written: Vec<(String, Payload)>) -> Result<bool> {
    connection.done("MULTI", Vec::new()).await?;
    for (key, value) in written {
        let arguments = vec![key.as_str().into(), blob(&value)?];
        connection.done("SET", arguments).await?;
    }
    Ok(connection.call("EXEC", Vec::new()).await? != Value::Null)
}

#[async_trait]
impl TensorStore for PlainTensors {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        let arguments = vec![key.into(), blob(&value)?];
        self.commands.done("SET", arguments).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.commands.value("GET", vec![key.into()]).await
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        check_elements(key, &elements)?;
        if self.commands.count("EXISTS", vec![key.into()]).await? == 0 {
            return Ok(None);
        }
        let length = self.commands.count("STRLEN", vec![key.into()]).await?;
        let found = compute::elements(&Payload::Phantom { bytes: length })?;
        if elements.end > found {
            return Err(ChannelError::Refused {
                service: SERVICE,
                operation: format!("GETRANGE {key:?}"),
                reason: format!("the tensor has {found} elements"),
            });
        }
        if elements.is_empty() {
            return Ok(Some(Vec::new().into()));
        }
        let (first, last) = (4 * elements.start, 4 * elements.end - 1);
        let arguments = vec![
            key.into(),
            first.to_string().into(),
            last.to_string().into(),
        ];
        self.commands.value("GETRANGE", arguments).await
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let operation = Operation::new(key.to_owned(), OperationKind::Accumulate, Vec::new());
        self.operate(&operation, Some(value)).await
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
        let sources = [gradient.to_owned()];
        self.reduce(parameters, OperationKind::Step(step), &sources)
            .await
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.reduce(parameters, OperationKind::Step(step), sources)
            .await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        let arguments = vec![key.into(), blob(&value)?];
        self.commands.done("RPUSH", arguments).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
        // For a count of 0 the first item is fetched: it shows whether the list exists.
        let arguments = vec![key.into(), "0".into(), last.max(0).to_string().into()];
        let mut texts = self.commands.values("LRANGE", arguments).await?;
        if texts.is_empty() {
            return Err(ChannelError::Missing {
                service: SERVICE,
                key: key.to_owned(),
            });
        }
        texts.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let bytes = texts.iter().map(Payload::len).sum();
        compute::run(bytes, move || compute::json_mean(&texts)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.commands.done("DEL", with_keys(Vec::new(), keys)).await
    }

    async fn ping(&self) -> Result<()> {
        self.commands.done("PING", Vec::new()).await
    }
}
