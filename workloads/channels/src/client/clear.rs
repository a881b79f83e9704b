//! Deletion of all keys or objects of a scope.

use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;

use super::S3Objects;
use super::redis::{Address, Connection, texts};
use crate::endpoint::{Endpoint, Scheme};
use crate::{ChannelError, Result, Scope};

/// Keys that Redis examines per SCAN request.
const KEYS_PER_SCAN: &str = "1000";

/// Deletes every key of `scope` from the tensor store, or every object of it
/// from the bucket, at `endpoint`. Queues are left to the broker, which deletes
/// unused ones.
///
/// # Errors
/// [`ChannelError`], always for an empty scope, which would match every key.
pub async fn clear(endpoint: &Endpoint, scope: &Scope) -> Result<()> {
    if scope.is_empty() {
        let reason = format!("nothing at {endpoint} is cleared without a scope");
        return Err(ChannelError::endpoint(reason));
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
    let connection = Connection::open(Address::new("tensor store", endpoint.clone())).await?;
    // A scope has no characters with a meaning in a pattern.
    let pattern = Bytes::from(scope.name("*"));
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let arguments = vec![
            cursor,
            "MATCH".into(),
            pattern.clone(),
            "COUNT".into(),
            KEYS_PER_SCAN.into(),
        ];
        // One page of keys, and the cursor of the next.
        let page = match connection.call("SCAN", arguments).await? {
            BytesFrame::Array(parts) => <[BytesFrame; 2]>::try_from(parts).ok(),
            _ => None,
        };
        let page = match page {
            Some([BytesFrame::BulkString(next), BytesFrame::Array(keys)]) => {
                texts(keys).map(|keys| (next, keys))
            }
            _ => None,
        };
        let (next, keys) = page.ok_or_else(|| connection.unexpected("SCAN"))?;
        if !keys.is_empty() {
            connection.done("UNLINK", keys).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

async fn clear_bucket(endpoint: &Endpoint, scope: &Scope) -> Result<()> {
    let store = S3Objects::new(endpoint.clone());
    let (bucket, prefix) = (endpoint.path.as_str(), scope.name(""));
    loop {
        let page = store.list(bucket, &prefix, None).await?;
        if page.keys.is_empty() {
            return Ok(());
        }
        store.delete(bucket, &page.keys).await?;
    }
}
