//! Deletion of all keys or objects of a scope.

use fred::types::Value;

use super::S3Objects;
use super::redis::{Address, Connection};
use crate::endpoint::{Endpoint, Scheme};
use crate::{ChannelError, Result, Scope};

/// Keys that Redis examines per SCAN request.
const KEYS_PER_SCAN: i64 = 1_000;

/// Deletes every key of `scope` from the tensor store, or every object of it
/// from the bucket, at `endpoint`. Queues are left to the broker, which deletes
/// unused ones.
///
/// # Errors
/// [`ChannelError`], always for an empty scope, which would match every key.
pub async fn clear(endpoint: &Endpoint, scope: &Scope) -> Result<()> {
    if scope.is_empty() {
        return Err(ChannelError::Endpoint {
            reason: format!("nothing at {endpoint} is cleared without a scope"),
        });
    }
    match endpoint.scheme {
        Scheme::Redis | Scheme::RedisPlain | Scheme::RedisLua => clear_redis(endpoint, scope).await,
        Scheme::Http | Scheme::Https | Scheme::S3 => clear_bucket(endpoint, scope).await,
        Scheme::Amqp | Scheme::Sqs | Scheme::SqsHttp | Scheme::SqsHttps => {
            Err(endpoint.unsuited("store", "redis, http, https or s3"))
        }
    }
}

async fn clear_redis(endpoint: &Endpoint, scope: &Scope) -> Result<()> {
    let address = Address {
        service: "tensor store",
        endpoint: endpoint.clone(),
    };
    let connection = Connection::open(address).await?;
    // A scope has no characters with a meaning in a pattern.
    let pattern = scope.name("*");
    let mut cursor = Value::from("0");
    loop {
        let arguments = vec![
            cursor,
            Value::from("MATCH"),
            Value::from(pattern.as_str()),
            Value::from("COUNT"),
            Value::from(KEYS_PER_SCAN),
        ];
        // One page of keys, and the cursor of the next.
        let reply = connection.call("SCAN", arguments).await?;
        let Value::Array(parts) = reply else {
            return Err(connection.unexpected("SCAN"));
        };
        let Ok([next, Value::Array(keys)]) = <[Value; 2]>::try_from(parts) else {
            return Err(connection.unexpected("SCAN"));
        };
        if !keys.is_empty() {
            connection.done("UNLINK", keys).await?;
        }
        if next.as_str().is_some_and(|next| next == "0") {
            return Ok(());
        }
        cursor = next;
    }
}

async fn clear_bucket(endpoint: &Endpoint, scope: &Scope) -> Result<()> {
    let store = S3Objects::open(endpoint.clone());
    let (bucket, prefix) = (endpoint.path.as_str(), scope.name(""));
    loop {
        let page = store.list(bucket, &prefix, None).await?;
        if page.keys.is_empty() {
            return Ok(());
        }
        store.delete(bucket, &page.keys).await?;
    }
}
