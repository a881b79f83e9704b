//! Objects in memory with S3's consistency: a write is visible whole and at once
//! to every client, and a listing shows one moment.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use s3s::dto::*;
use s3s::{Body, S3, S3Error, S3Request, S3Response, S3Result, s3_error};

/// Most keys on a page of a listing (`ListObjectsV2`).
const PAGE_KEYS: i32 = 1_000;

/// Largest object, bytes: S3's limit for one PUT.
const MOST_BYTES: usize = 5 << 30;
/// Most bytes reserved at once for an announced body.
const MOST_RESERVED_BYTES: usize = 64 << 20;

/// Every bucket, by name.
#[derive(Debug, Default)]
pub(crate) struct Store {
    buckets: RwLock<Buckets>,
    writes: AtomicU64,
}

type Buckets = BTreeMap<String, Bucket>;
type Bucket = BTreeMap<String, Stored>;

/// An object. Requests that read it share its bytes.
#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    modified: SystemTime,
    /// Number of the write that made the object; clients see it as the entity tag.
    version: u64,
}

impl Stored {
    fn tag(&self) -> ETag {
        ETag::Strong(format!("{:016x}", self.version))
    }

    fn length(&self) -> S3Result<i64> {
        self.bytes.len().try_into().map_err(S3Error::internal_error)
    }
}

impl Store {
    fn read(&self) -> S3Result<RwLockReadGuard<'_, Buckets>> {
        self.buckets.read().map_err(|_| s3_error!(InternalError))
    }

    fn write(&self) -> S3Result<RwLockWriteGuard<'_, Buckets>> {
        self.buckets.write().map_err(|_| s3_error!(InternalError))
    }

    fn object(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        let buckets = self.read()?;
        let bucket = buckets.get(bucket).ok_or(s3_error!(NoSuchBucket))?;
        bucket.get(key).cloned().ok_or(s3_error!(NoSuchKey))
    }
}

#[async_trait::async_trait]
impl S3 for Store {
    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let mut buckets = self.write()?;
        if buckets.contains_key(&request.input.bucket) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        buckets.insert(request.input.bucket, Bucket::new());
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        if self.read()?.contains_key(&request.input.bucket) {
            Ok(S3Response::new(HeadBucketOutput::default()))
        } else {
            Err(s3_error!(NoSuchBucket))
        }
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        // Read the whole body before the lock.
        let body = input.body.ok_or(s3_error!(IncompleteBody))?;
        let expected = input.content_length.unwrap_or_default();
        let expected = usize::try_from(expected).unwrap_or_default();
        let bytes = BytesMut::with_capacity(expected.min(MOST_RESERVED_BYTES));
        let bytes = body
            .map_err(|error| s3_error!(IncompleteBody, "{error}"))
            .try_fold(bytes, async |mut bytes, part| {
                if bytes.len() + part.len() > MOST_BYTES {
                    return Err(s3_error!(EntityTooLarge));
                }
                bytes.extend_from_slice(&part);
                Ok(bytes)
            })
            .await?;
        let stored = Stored {
            bytes: bytes.freeze(),
            #[expect(clippy::disallowed_methods, reason = "the date of an object")]
            modified: SystemTime::now(),
            version: self.writes.fetch_add(1, Ordering::Relaxed),
        };
        // Store it, unless the request wants a new key and there is one.
        let e_tag = Some(stored.tag());
        let mut buckets = self.write()?;
        let bucket = buckets.get_mut(&input.bucket);
        let bucket = bucket.ok_or(s3_error!(NoSuchBucket))?;
        let only_new = input
            .if_none_match
            .is_some_and(|condition| condition.is_any());
        if only_new && bucket.contains_key(&input.key) {
            return Err(s3_error!(PreconditionFailed));
        }
        bucket.insert(input.key, stored);
        Ok(S3Response::new(PutObjectOutput {
            e_tag,
            ..Default::default()
        }))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.object(&input.bucket, &input.key)?;
        let length = stored.bytes.len() as u64;
        let (part, content_range) = match input.range {
            None => (stored.bytes.clone(), None),
            Some(range) => {
                let range = range.check(length)?;
                let shown = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                let part = stored.bytes.slice(range.start as usize..range.end as usize);
                (part, Some(shown))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(part.len() as i64),
            content_range,
            last_modified: Some(Timestamp::from(stored.modified)),
            e_tag: Some(stored.tag()),
            body: Some(StreamingBlob::from(Body::from(part))),
            ..Default::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.object(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.length()?),
            last_modified: Some(Timestamp::from(stored.modified)),
            e_tag: Some(stored.tag()),
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let mut buckets = self.write()?;
        let bucket = buckets.get_mut(&request.input.bucket);
        bucket
            .ok_or(s3_error!(NoSuchBucket))?
            .remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let mut buckets = self.write()?;
        let bucket = buckets.get_mut(&request.input.bucket);
        let bucket = bucket.ok_or(s3_error!(NoSuchBucket))?;
        let mut deleted = Vec::new();
        for object in request.input.delete.objects {
            bucket.remove(&object.key);
            deleted.push(DeletedObject {
                key: Some(object.key),
                ..Default::default()
            });
        }
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted),
            ..Default::default()
        }))
    }

    /// Lists keys without delimiters, which no client of this project sends.
    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        if input.delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "delimiters of listings"));
        }
        let prefix = input.prefix.as_deref().unwrap_or_default();
        // A page starts after the last key of the previous one, which is also the token.
        let after = input
            .continuation_token
            .as_deref()
            .max(input.start_after.as_deref());
        let most = input.max_keys.unwrap_or(PAGE_KEYS).clamp(0, PAGE_KEYS);
        // One page of keys, and whether there are more.
        let buckets = self.read()?;
        let bucket = buckets.get(&input.bucket).ok_or(s3_error!(NoSuchBucket))?;
        let mut matching = bucket
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        let mut contents = Vec::new();
        for (key, stored) in matching.by_ref().take(most as usize) {
            contents.push(Object {
                key: Some(key.clone()),
                size: Some(stored.length()?),
                last_modified: Some(Timestamp::from(stored.modified)),
                e_tag: Some(stored.tag()),
                ..Default::default()
            });
        }
        let is_truncated = most > 0 && matching.next().is_some();
        let last = contents.last().and_then(|object| object.key.clone());
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: i32::try_from(contents.len()).ok(),
            max_keys: Some(most),
            is_truncated: Some(is_truncated),
            next_continuation_token: last.filter(|_| is_truncated),
            contents: Some(contents),
            name: Some(input.bucket),
            prefix: input.prefix,
            start_after: input.start_after,
            continuation_token: input.continuation_token,
            ..Default::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn request<T>(input: T) -> S3Request<T> {
        S3Request {
            input,
            method: hyper::Method::PUT,
            uri: hyper::Uri::default(),
            headers: hyper::HeaderMap::default(),
            extensions: hyper::http::Extensions::default(),
            credentials: None,
            region: None,
            service: None,
            trailing_headers: None,
        }
    }

    /// What a client announces costs no memory before it is sent.
    #[tokio::test]
    async fn an_announced_length_reserves_little() {
        let store = Store::default();
        let bucket = CreateBucketInput {
            bucket: "b".into(),
            ..CreateBucketInput::default()
        };
        store.create_bucket(request(bucket)).await.unwrap();
        let put = PutObjectInput {
            bucket: "b".into(),
            key: "k".into(),
            body: Some(StreamingBlob::from(Body::from(Bytes::from_static(b"abc")))),
            content_length: Some(i64::MAX),
            ..PutObjectInput::default()
        };
        store.put_object(request(put)).await.unwrap();
        assert_eq!(store.object("b", "k").unwrap().bytes, &b"abc"[..]);
    }
}
