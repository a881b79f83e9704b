//! Choice of the client by the endpoint.

use std::sync::Arc;

#[cfg(feature = "aws")]
use super::sqs::{MESSAGE_BYTES, SqsQueue};
use super::{LuaTensors, PlainTensors, RabbitQueue, RedisQueue, RedisTensors, S3Objects};
#[cfg(not(feature = "aws"))]
use crate::ChannelError;
use crate::endpoint::{Endpoint, Scheme};
use crate::reference::ByReference;
use crate::scope::{Scoped, ScopedObjects};
use crate::{Channel, ObjectStore, Queue, QueueCommand, Result, Scope, TensorCommand, TensorStore};

/// Largest message of RabbitMQ.
const RABBITMQ_MESSAGE_BYTES: u64 = 128 << 20;

/// Largest value of Redis.
const REDIS_VALUE_BYTES: u64 = 512 << 20;

/// Returns a client of the object store at `http://KEY:SECRET@HOST:PORT/BUCKET`
/// or, with the credentials that AWS gives the process, `s3://REGION/BUCKET`.
/// Names are prefixed with `scope`. Without a bucket in the endpoint, every object
/// is in the bucket that the caller names. Nothing is sent yet.
///
/// # Errors
/// [`ChannelError::Endpoint`](crate::ChannelError::Endpoint).
pub fn open_objects(endpoint: &Endpoint, scope: &Scope) -> Result<ObjectStore> {
    if !matches!(endpoint.scheme, Scheme::Http | Scheme::Https | Scheme::S3) {
        return Err(endpoint.unsuited("object store", "http, https or s3"));
    }
    let store = Arc::new(S3Objects::new(endpoint.clone()));
    let bucket = (!endpoint.path.is_empty()).then(|| endpoint.path.clone());
    if bucket.is_none() && scope.is_empty() {
        return Ok(ObjectStore::new(store));
    }
    let scope = scope.clone();
    Ok(ObjectStore::new(Arc::new(ScopedObjects {
        store,
        scope,
        bucket,
    })))
}

/// Connects to the tensor store at `redis://`, `redis+plain://` or `redis+lua://`
/// `:PASSWORD@HOST:PORT`. Keys are prefixed with `scope`. Values over the
/// endpoint's `limit_bytes`, by default Redis' own 512 MiB, go through `objects`.
///
/// # Errors
/// [`ChannelError`](crate::ChannelError).
pub async fn open_tensors(
    endpoint: &Endpoint,
    scope: &Scope,
    objects: &ObjectStore,
) -> Result<TensorStore> {
    let copy = endpoint.clone();
    let scope = scope.clone();
    let channel: Arc<dyn Channel<TensorCommand>> = match endpoint.scheme {
        Scheme::Redis => Arc::new(RedisTensors::connect(copy).await?),
        Scheme::RedisPlain => Arc::new(PlainTensors::connect(copy).await?),
        Scheme::RedisLua => Arc::new(LuaTensors::connect(copy).await?),
        _ => return Err(endpoint.unsuited("tensor store", "redis, redis+plain or redis+lua")),
    };
    let store = Arc::new(Scoped { channel, scope });
    let limit = endpoint.options.limit_bytes.unwrap_or(REDIS_VALUE_BYTES);
    let store = ByReference::new(store, objects.clone(), limit, &endpoint.authority());
    Ok(TensorStore::new(Arc::new(store)))
}

/// Connects to the queue at `amqp://USER:PASSWORD@HOST:PORT/VHOST` (RabbitMQ), at
/// `sqs://REGION` or `sqs+http://KEY:SECRET@HOST:PORT` (SQS), or to the embedded
/// one at `redis://`. Names are prefixed with `scope`. Messages over the endpoint's
/// `limit_bytes`, by default the service's own limit, go through `objects`.
///
/// # Errors
/// [`ChannelError`](crate::ChannelError).
pub async fn open_queue(
    endpoint: &Endpoint,
    scope: &Scope,
    objects: &ObjectStore,
) -> Result<Queue> {
    let copy = endpoint.clone();
    let scope = scope.clone();
    let (channel, limit): (Arc<dyn Channel<QueueCommand>>, _) = match endpoint.scheme {
        Scheme::Redis => (Arc::new(RedisQueue::connect(copy).await?), None),
        Scheme::Amqp => (
            Arc::new(RabbitQueue::connect(copy).await?),
            Some(RABBITMQ_MESSAGE_BYTES),
        ),
        Scheme::Sqs | Scheme::SqsHttp | Scheme::SqsHttps => open_sqs(copy, objects).await?,
        _ => return Err(endpoint.unsuited("queue", "amqp, sqs, sqs+http, sqs+https or redis")),
    };
    let queue = Arc::new(Scoped { channel, scope });
    let Some(limit) = endpoint.options.limit_bytes.or(limit) else {
        return Ok(Queue::new(queue));
    };
    let queue = ByReference::new(queue, objects.clone(), limit, &endpoint.authority());
    Ok(Queue::new(Arc::new(queue)))
}

/// Returns a queue in SQS and its largest message, bytes.
#[cfg(feature = "aws")]
async fn open_sqs(
    endpoint: Endpoint,
    bindings: &ObjectStore,
) -> Result<(Arc<dyn Channel<QueueCommand>>, Option<u64>)> {
    let queue = SqsQueue::open(endpoint, bindings.clone()).await;
    Ok((Arc::new(queue), Some(MESSAGE_BYTES)))
}

#[cfg(not(feature = "aws"))]
async fn open_sqs(
    endpoint: Endpoint,
    _: &ObjectStore,
) -> Result<(Arc<dyn Channel<QueueCommand>>, Option<u64>)> {
    let reason = format!("{endpoint} needs a program that was built with the feature \"aws\"");
    Err(ChannelError::endpoint(reason))
}

/// Creates the bucket that an object store's endpoint names, if there is none.
///
/// # Errors
/// [`ChannelError`](crate::ChannelError).
pub async fn create_bucket(endpoint: &Endpoint) -> Result<()> {
    S3Objects::new(endpoint.clone())
        .create_bucket(&endpoint.path)
        .await
}
