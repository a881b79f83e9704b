//! The commands of the tensor store: the commands of Redis on values and lists,
//! and those of `epochcost_tensor_commands`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_tensor_commands::{Arguments, Command, CommandError};
use redis_protocol::resp2::types::BytesFrame;

use super::Password;
use super::connection::{Commands, ErrorReply, Parsed, RespServer, housekeeping, ok};
use super::request::Request;
use crate::memory::MemoryTensors;
use crate::{Payload, Result, TensorStore};

/// A tensor store on loopback that speaks the Redis protocol.
#[derive(Debug)]
pub struct TensorServer(RespServer);

impl TensorServer {
    /// Serves `tensors` on a free port until dropped, to every client on this machine.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ChannelError::Unreachable) if no port can be listened on.
    pub async fn start(tensors: Arc<MemoryTensors>) -> Result<Self> {
        Self::serve(tensors, None).await
    }

    /// Serves `tensors` on a free port until dropped, to clients that give a random password,
    /// which is part of the address.
    ///
    /// # Errors
    /// As [`TensorServer::start`].
    pub async fn start_private(tensors: Arc<MemoryTensors>) -> Result<Self> {
        Self::serve(tensors, Some(Password::random())).await
    }

    async fn serve(tensors: Arc<MemoryTensors>, password: Option<Password>) -> Result<Self> {
        let commands = Arc::new(TensorCommands(tensors));
        let server = RespServer::start("tensor store", commands, password);
        server.await.map(Self)
    }

    /// Returns the address of the server: `redis://127.0.0.1:PORT`, or
    /// `redis://:PASSWORD@127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }
}

struct TensorCommands(Arc<MemoryTensors>);

#[async_trait]
impl Commands for TensorCommands {
    async fn execute(&self, request: &Request) -> BytesFrame {
        if let Some(reply) = housekeeping(request) {
            return reply;
        }
        let reply = if request.name.starts_with("TENSOR.") {
            self.compute(request).await
        } else {
            self.redis(request).await
        };
        reply.unwrap_or_else(|error| error.0)
    }
}

impl TensorCommands {
    /// Executes a command of the table `TENSOR.*`.
    async fn compute(&self, request: &Request) -> Parsed<BytesFrame> {
        let store = &self.0;
        match Command::parse(&request.name, &request.arguments)? {
            Command::Set { key, value } => done(store.set(&key, value.clone().into()).await),
            Command::Get { key } => optional(store.get(&key).await?),
            Command::GetRange { key, start, count } => {
                let range = start..start.saturating_add(count);
                optional(store.get_range(&key, range).await?)
            }
            Command::Accumulate { operation, value } => {
                done(store.operate(operation, Some(value.clone().into())).await)
            }
            Command::Compute(operation) => done(store.operate(operation, None).await),
            Command::JsonMean { key, count } => bulk(&store.json_mean(&key, count).await?),
        }
    }

    /// Executes a command of Redis on values, lists or the whole store.
    async fn redis(&self, request: &Request) -> Parsed<BytesFrame> {
        let mut arguments = Arguments::new(&request.name, &request.arguments);
        let store = &self.0;
        match request.name.as_str() {
            "SET" => self.set(arguments).await,
            "GET" => {
                let key = arguments.key()?;
                arguments.end()?;
                optional(store.text(&key)?)
            }
            "DEL" | "UNLINK" => Ok(count(store.remove(&arguments.keys()?).await)),
            "EXISTS" => Ok(count(store.exist(&arguments.keys()?))),
            "STRLEN" => {
                let key = arguments.key()?;
                arguments.end()?;
                let length = store.text(&key)?.map_or(0, |value| value.len());
                Ok(BytesFrame::Integer(length as i64))
            }
            "RPUSH" => {
                let key = arguments.key()?;
                let items = arguments.blobs()?.iter().cloned().map(Payload::from);
                Ok(count(store.append(&key, items.collect()).await?))
            }
            "LLEN" => {
                let key = arguments.key()?;
                arguments.end()?;
                Ok(count(store.items(&key)?.len()))
            }
            "LRANGE" => {
                let key = arguments.key()?;
                let (first, last) = (arguments.integer()?, arguments.integer()?);
                arguments.end()?;
                let items = store.items(&key)?;
                let range = list_range(items.len(), first, last);
                let items = items[range].iter().map(bulk);
                items.collect::<Parsed<_>>().map(BytesFrame::Array)
            }
            "DBSIZE" => {
                arguments.end()?;
                Ok(count(store.key_count()))
            }
            "FLUSHALL" | "FLUSHDB" => {
                store.clear().await;
                Ok(ok())
            }
            _ => Err(CommandError::unknown(&request.name).into()),
        }
    }

    async fn set(&self, mut arguments: Arguments<'_, Bytes>) -> Parsed<BytesFrame> {
        let (key, value) = (arguments.key()?, arguments.blob()?.clone());
        // Options of SET would change its effect, and none is implemented.
        if arguments.end().is_err() {
            return Err(ErrorReply(BytesFrame::Error("ERR syntax error".into())));
        }
        self.0.set_text(&key, value.into()).await;
        Ok(ok())
    }
}

/// Converts the bounds of LRANGE: both included, negative ones counted from the end.
fn list_range(length: usize, first: i64, last: i64) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_start = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let first = from_start(first).clamp(0, length);
    let end = from_start(last).saturating_add(1).clamp(first, length);
    first as usize..end as usize
}

fn done(result: Result<()>) -> Parsed<BytesFrame> {
    result?;
    Ok(ok())
}

fn count(count: usize) -> BytesFrame {
    BytesFrame::Integer(count as i64)
}

fn bulk(value: &Payload) -> Parsed<BytesFrame> {
    Ok(BytesFrame::BulkString(value.bytes()?.clone()))
}

fn optional(value: Option<Payload>) -> Parsed<BytesFrame> {
    value.map_or(Ok(BytesFrame::Null), |value| bulk(&value))
}

#[cfg(test)]
mod tests {
    use super::list_range;

    #[test]
    fn list_ranges_are_those_of_redis() {
        assert_eq!(list_range(3, 0, -1), 0..3);
        assert_eq!(list_range(3, 0, 0), 0..1);
        assert_eq!(list_range(3, 1, 99), 1..3);
        assert_eq!(list_range(3, -2, -1), 1..3);
        assert!(list_range(3, 2, 1).is_empty());
        assert!(list_range(3, 5, 9).is_empty());
        assert!(list_range(0, 0, -1).is_empty());
        assert_eq!(list_range(3, i64::MIN, i64::MAX), 0..3);
    }
}
