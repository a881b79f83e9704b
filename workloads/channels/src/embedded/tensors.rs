//! The tensor store's commands: Redis' own that stock clients use on values,
//! and the table `TENSOR.*` of `docs/FORMAT.md`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;

use super::arguments::{Arguments, Parsed};
use super::connection::{Commands, Server, error_reply, housekeeping, ok, refusal, unknown};
use super::request::Request;
use crate::memory::MemoryTensors;
use crate::{Payload, Result, RobustRule, SgdStep, TensorStore};

/// A tensor store on loopback that speaks the Redis protocol.
#[derive(Debug)]
pub struct TensorServer(Server);

impl TensorServer {
    /// Serves `tensors` on a free port until dropped.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ChannelError::Unreachable) if no port can be listened on.
    pub async fn start(tensors: Arc<MemoryTensors>) -> Result<Self> {
        Server::start("tensor store", Arc::new(TensorCommands(tensors)))
            .await
            .map(Self)
    }

    /// Where it listens: `redis://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("redis://{}", self.0.address)
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
        reply.unwrap_or_else(|refusal| refusal)
    }
}

impl TensorCommands {
    /// The table `TENSOR.*`.
    async fn compute(&self, request: &Request) -> Parsed<BytesFrame> {
        let mut arguments = Arguments::of(request);
        let store = &self.0;
        match request.name.as_str() {
            "TENSOR.SET" => self.set(arguments).await,
            "TENSOR.GET" => self.get(arguments).await,
            "TENSOR.GETRANGE" => {
                let key = arguments.key()?;
                let (start, count): (u64, u64) = (arguments.integer()?, arguments.integer()?);
                arguments.end()?;
                let found = store
                    .get_range(&key, start..start.saturating_add(count))
                    .await;
                found.map_or_else(failed, optional)
            }
            "TENSOR.ACCUMULATE" => {
                let (key, value) = (arguments.key()?, arguments.blob()?);
                arguments.end()?;
                done(store.accumulate(&key, value.into()).await)
            }
            "TENSOR.MEAN" => {
                let destination = arguments.key()?;
                done(store.mean(&destination, &arguments.counted_keys()?).await)
            }
            "TENSOR.ROBUST" => {
                let destination = arguments.key()?;
                let rule = rule(&mut arguments)?;
                done(
                    store
                        .robust_mean(&destination, rule, &arguments.counted_keys()?)
                        .await,
                )
            }
            "TENSOR.SGD" => {
                let (parameters, gradient) = (arguments.key()?, arguments.key()?);
                let step = step(&mut arguments)?;
                arguments.end()?;
                done(store.sgd(&parameters, &gradient, step).await)
            }
            "TENSOR.MEANSGD" => {
                let parameters = arguments.key()?;
                let step = step(&mut arguments)?;
                done(
                    store
                        .mean_sgd(&parameters, &arguments.counted_keys()?, step)
                        .await,
                )
            }
            "TENSOR.JSONMEAN" => {
                let (key, count) = (arguments.key()?, arguments.integer()?);
                arguments.end()?;
                store.json_mean(&key, count).await.map_or_else(failed, bulk)
            }
            _ => Err(unknown(request)),
        }
    }

    /// Redis' own commands, as far as values and lists need them.
    async fn redis(&self, request: &Request) -> Parsed<BytesFrame> {
        let mut arguments = Arguments::of(request);
        let store = &self.0;
        match request.name.as_str() {
            "SET" => self.set(arguments).await,
            "GET" => self.get(arguments).await,
            "DEL" | "UNLINK" => count(store.remove(&arguments.keys()?).await),
            "EXISTS" => count(store.exist(&arguments.keys()?)),
            "STRLEN" => {
                let key = arguments.key()?;
                arguments.end()?;
                let value = store.get(&key).await.or_else(failed)?;
                Ok(BytesFrame::Integer(
                    value.map_or(0, |value| value.len() as i64),
                ))
            }
            "RPUSH" => {
                let key = arguments.key()?;
                let items = arguments.blobs()?.into_iter().map(Payload::from).collect();
                store.append(&key, items).await.map_or_else(failed, count)
            }
            "LLEN" => {
                let key = arguments.key()?;
                arguments.end()?;
                store
                    .items(&key)
                    .map_or_else(failed, |items| count(items.len()))
            }
            "LRANGE" => {
                let key = arguments.key()?;
                let (first, last) = (arguments.integer()?, arguments.integer()?);
                arguments.end()?;
                let items = store.items(&key).or_else(failed)?;
                let range = list_range(items.len(), first, last);
                let items = items[range].iter().cloned().map(bulk);
                items.collect::<Parsed<_>>().map(BytesFrame::Array)
            }
            "DBSIZE" => {
                arguments.end()?;
                count(store.key_count())
            }
            "FLUSHALL" | "FLUSHDB" => {
                store.clear().await;
                Ok(ok())
            }
            _ => Err(unknown(request)),
        }
    }

    async fn set(&self, mut arguments: Arguments<'_>) -> Parsed<BytesFrame> {
        let (key, value) = (arguments.key()?, arguments.blob()?);
        // SET's options would change what it does: none is known here.
        arguments.end().map_err(|_| refusal("syntax error"))?;
        done(self.0.set(&key, value.into()).await)
    }

    async fn get(&self, mut arguments: Arguments<'_>) -> Parsed<BytesFrame> {
        let key = arguments.key()?;
        arguments.end()?;
        self.0.get(&key).await.map_or_else(failed, optional)
    }
}

fn rule(arguments: &mut Arguments) -> Parsed<RobustRule> {
    let name = arguments.blob()?;
    match name.to_ascii_uppercase().as_slice() {
        b"MEDIAN" => Ok(RobustRule::CoordinateMedian),
        b"TRIMMED" => Ok(RobustRule::TrimmedMean {
            trim: arguments.integer()?,
        }),
        b"KRUM" => Ok(RobustRule::Krum {
            faulty: arguments.integer()?,
        }),
        _ => Err(refusal("the rule must be MEDIAN, TRIMMED or KRUM")),
    }
}

fn step(arguments: &mut Arguments) -> Parsed<SgdStep> {
    Ok(SgdStep {
        learning_rate: arguments.float()?,
        momentum: arguments.float()?,
        weight_decay: arguments.float()?,
    })
}

/// Redis' LRANGE: both ends included, negative ones counted from the end.
fn list_range(length: usize, first: i64, last: i64) -> std::ops::Range<usize> {
    let length = length as i64;
    let place = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let first = place(first).clamp(0, length);
    let end = place(last).saturating_add(1).clamp(first, length);
    first as usize..end as usize
}

fn done(result: Result<()>) -> Parsed<BytesFrame> {
    result.map_or_else(failed, |()| Ok(ok()))
}

fn failed<T>(error: crate::ChannelError) -> Parsed<T> {
    Err(error_reply(&error))
}

fn count(count: usize) -> Parsed<BytesFrame> {
    Ok(BytesFrame::Integer(count as i64))
}

fn bulk(value: Payload) -> Parsed<BytesFrame> {
    let bytes: Result<&Bytes> = value.bytes();
    bytes.cloned().map(BytesFrame::BulkString).or_else(failed)
}

fn optional(value: Option<Payload>) -> Parsed<BytesFrame> {
    value.map_or(Ok(BytesFrame::Null), bulk)
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
