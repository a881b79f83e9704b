//! The commands of the tensor store: the commands of Redis on values and lists,
//! and those of `epochcost_tensor_commands`.

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_tensor_commands::{Arguments, CommandError};
use redis_protocol::resp2::types::BytesFrame;

use super::connection::{Commands, ErrorReply, Parsed, RespServer, bulk, frame, housekeeping, ok};
use super::request::Request;
use crate::memory::MemoryTensors;
use crate::tensors::SERVICE;
use crate::{Channel, Payload, TensorCommand};

/// A tensor store on loopback that speaks the Redis protocol.
pub type TensorServer = RespServer<MemoryTensors>;

#[async_trait]
impl Commands for MemoryTensors {
    const SERVICE: &'static str = SERVICE;

    async fn execute(&self, request: &Request) -> BytesFrame {
        if let Some(reply) = housekeeping(request) {
            return reply;
        }
        let reply = if request.name.starts_with("TENSOR.") {
            tensor(self, request).await
        } else {
            redis(self, request).await
        };
        reply.unwrap_or_else(|error| error.0)
    }
}

/// Executes a command of the table `TENSOR.*`.
async fn tensor(store: &MemoryTensors, request: &Request) -> Parsed<BytesFrame> {
    let value = |value: &Bytes| value.clone().into();
    let command = TensorCommand::parse(&request.name, &request.arguments, value)?;
    frame(store.run(command).await?)
}

/// Executes a command of Redis on values, lists or the whole store.
async fn redis(store: &MemoryTensors, request: &Request) -> Parsed<BytesFrame> {
    let mut arguments = Arguments::new(&request.name, &request.arguments);
    match request.name.as_str() {
        "SET" => set(store, arguments).await,
        "GET" => {
            let key = arguments.key()?;
            arguments.end()?;
            frame(store.text(&key)?.into())
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

async fn set(store: &MemoryTensors, mut arguments: Arguments<'_, Bytes>) -> Parsed<BytesFrame> {
    let (key, value) = (arguments.key()?, arguments.blob()?.clone());
    // Options of SET would change its effect, and none is implemented.
    if arguments.end().is_err() {
        return Err(ErrorReply(BytesFrame::Error("ERR syntax error".into())));
    }
    store.set_text(key, value.into()).await;
    Ok(ok())
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

fn count(count: usize) -> BytesFrame {
    BytesFrame::Integer(count as i64)
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
