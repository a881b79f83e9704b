//! A claim among several processes: an object that only the first can create.

use super::S3Objects;
use crate::endpoint::{Endpoint, Scheme};
use crate::{Result, Scope};

/// Puts an object at `key` of `scope` into the bucket of `endpoint` if
/// there is none, and returns whether this call made it. Of several concurrent
/// calls, exactly one returns true.
///
/// # Errors
/// [`ChannelError`](crate::ChannelError), also where the service knows no
/// conditional writes.
pub async fn claim(endpoint: &Endpoint, scope: &Scope, key: &str) -> Result<bool> {
    if !matches!(endpoint.scheme, Scheme::Http | Scheme::Https | Scheme::S3) {
        return Err(endpoint.unsuited("object store", "http, https or s3"));
    }
    let store = S3Objects::new(endpoint.clone());
    store.put_first(&endpoint.path, &scope.name(key)).await
}
