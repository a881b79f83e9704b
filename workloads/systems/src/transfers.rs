//! Several requests at once, with a bound.

use std::future::Future;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::Result;

/// How many requests of one invocation are under way at once under `tuned`.
/// One stream to an object store does not fill a function's network; a score
/// of them does, and none of the services modelled here refuses so many.
pub(crate) const TRANSFERS_AT_ONCE: usize = 16;

/// Runs `requests`, at most `limit` at a time; what they give, in their order.
pub(crate) async fn at_once<T, F>(
    limit: usize,
    requests: impl IntoIterator<Item = F> + Send,
) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    stream::iter(requests)
        .buffered(limit.max(1))
        .try_collect()
        .await
}
