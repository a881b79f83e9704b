//! Several requests at once, with a bound.

use std::future::Future;
use std::ops::Range;

use epochcost_channels::{ObjectStore, Payload};
use epochcost_kernels::chunk::chunk_range;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::{Result, Vector};

/// Number of requests of one invocation under way at once under `tuned`.
/// One stream to an object store does not fill a function's network; a score
/// of them does, and none of the services modelled here refuses so many.
pub(crate) const TRANSFERS_AT_ONCE: usize = 16;

/// Runs `requests`, at most `limit` at a time; what they give, in their order.
pub(crate) fn at_once<T, F>(
    limit: usize,
    requests: impl IntoIterator<Item = F>,
) -> impl Future<Output = Result<Vec<T>>> + Send
where
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    // Collected before the first is polled: the compiler cannot tell that an
    // iterator that borrows may be held over an await.
    let requests: Vec<F> = requests.into_iter().collect();
    stream::iter(requests).buffered(limit.max(1)).try_collect()
}

/// Runs requests 0 to `count`, each of which is made when its turn comes:
/// a thousand workers with a thousand requests each would take much memory.
pub(crate) async fn in_turn<T, F>(
    limit: usize,
    count: usize,
    request: impl Fn(usize) -> F + Send,
) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    if limit > 1 {
        let requests = stream::iter((0..count).map(request));
        return requests.buffered(limit).try_collect().await;
    }
    // What keeps several under way costs as much as a simulated request.
    let mut got = Vec::with_capacity(count);
    for index in 0..count {
        got.push(request(index).await?);
    }
    Ok(got)
}

/// Stores an object; a request for [`at_once`].
pub(crate) async fn put(
    objects: &ObjectStore,
    bucket: &str,
    key: String,
    body: Payload,
) -> Result<()> {
    Ok(objects.put(bucket, &key, body).await?)
}

/// A vector cut into objects that can be moved at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    count: usize,
    elements: usize,
}

impl Parts {
    /// Cuts a vector of `elements` into at most `count` parts, none of them empty.
    pub(crate) fn new(count: usize, elements: usize) -> Self {
        Self {
            count: count.clamp(1, elements.max(1)),
            elements,
        }
    }

    /// Returns the number of parts.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the range of each part in the vector.
    pub(crate) fn cuts(&self) -> Vec<Range<usize>> {
        (0..self.count)
            .map(|part| chunk_range(self.elements, self.count, part))
            .collect()
    }

    /// The keys of the parts of the object `key`: itself, if there is one.
    pub(crate) fn keys(&self, key: &str) -> impl Iterator<Item = String> + use<> {
        let (key, count) = (key.to_owned(), self.count);
        (0..count).map(move |part| match count {
            1 => key.clone(),
            _ => format!("{key}.{part}"),
        })
    }

    /// Keys and bodies of the parts of a vector under `key`.
    pub(crate) fn encode(&self, key: &str, vector: &Vector) -> Result<Vec<(String, Payload)>> {
        if self.count == 1 {
            return Ok(vec![(key.to_owned(), vector.encode())]);
        }
        let part = |part| vector.slice(chunk_range(self.elements, self.count, part));
        self.keys(key)
            .enumerate()
            .map(|(index, key)| Ok((key, part(index)?.encode())))
            .collect()
    }

    /// The vectors whose parts follow each other in `bodies`.
    pub(crate) fn decode(&self, bodies: Vec<Payload>) -> Result<Vec<Vector>> {
        let mut vectors = Vec::with_capacity(bodies.len() / self.count);
        let mut bodies = bodies.into_iter();
        while bodies.len() > 0 {
            let parts: Result<Vec<Vector>> = bodies
                .by_ref()
                .take(self.count)
                .map(|body| Vector::decode(&body))
                .collect();
            let mut parts = parts?;
            vectors.push(match (parts.len(), parts.pop()) {
                (1, Some(whole)) => whole,
                (_, last) => {
                    parts.extend(last);
                    Vector::concat(&parts)
                }
            });
        }
        Ok(vectors)
    }
}
