use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    ClientOptions, GetOptions, ObjectStore as _, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
};

use reqwest::Method;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::http::{causes, https, plain_http, use_ring};
use super::sizes::Sizes;
use crate::endpoint::Scheme;
use crate::memory::{PAGE_KEYS, check_delete, check_range};
use crate::{
    Channel, ChannelError, Endpoint, ListPage, ObjectCommand, Payload, Reply, Result, locked,
};

/// Time for which a request to S3 is repeated: S3 refuses while it scales.
const S3_RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before a repetition that the library does not make, at first and at most; it doubles.
const S3_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Refusals that pass and that the library does not repeat, as they are in an error's text: another
/// write to the same key, a connection that S3 found idle, and a key that is not known everywhere yet.
const PASSING: [&str; 3] = [
    "409 Conflict",
    "<Code>RequestTimeout</Code>",
    "<Code>InvalidAccessKeyId</Code>",
];
/// Time after which an unused connection to S3 is closed; S3 closes them after about 5 s.
const S3_IDLE: Duration = Duration::from_secs(4);
const SERVICE: &str = "object store";

/// An object store behind S3's HTTP, with path-style addresses; plain HTTP is
/// allowed.
///
/// Keys must have the form that `object_store` preserves: segments separated by
/// single slashes, no slash at either end, no control characters.
pub struct S3Objects {
    endpoint: Endpoint,
    buckets: Mutex<HashMap<String, Arc<AmazonS3>>>,
    sizes: Sizes,
}

impl S3Objects {
    /// Creates a client of `http://KEY:SECRET@HOST:PORT`. Nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            buckets: Mutex::default(),
            sizes: Sizes::default(),
        }
    }

    /// Returns the settings of a client: address, region and credentials.
    fn builder(&self) -> AmazonS3Builder {
        use_ring();
        if self.is_s3() {
            // Keys and a session's token from the environment, else those of the
            // instance; AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3 as the SDK reads them.
            return AmazonS3Builder::from_env().with_region(&self.endpoint.host);
        }
        let Endpoint {
            scheme,
            user,
            password,
            options,
            ..
        } = &self.endpoint;
        let (key, secret) = match (user.as_str(), password.reveal()) {
            // The embedded server may check none, but the client needs some.
            ("", "") => ("epochcost", "epochcost"),
            known => known,
        };
        AmazonS3Builder::new()
            .with_endpoint(format!("{}://{}", scheme.name(), self.endpoint.authority()))
            .with_region(&options.region)
            .with_access_key_id(key)
            .with_secret_access_key(secret)
    }

    /// Returns how often a request is repeated. S3 asks its clients to repeat what it refuses with
    /// 500 or 503, and closes idle connections without notice; the program's own servers do
    /// neither, and a refusal of theirs is a fault to be seen. A repeated request is metered once.
    fn retries(&self) -> RetryConfig {
        RetryConfig {
            // The time-out alone bounds them.
            max_retries: if self.is_s3() { usize::MAX } else { 0 },
            retry_timeout: S3_RETRY_TIMEOUT,
            ..RetryConfig::default()
        }
    }

    /// Repeats a request while S3 refuses it for what passes, until [`S3_RETRY_TIMEOUT`].
    async fn repeated<T, F>(&self, attempt: impl Fn() -> F) -> object_store::Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let (since, [mut pause, longest]) = (Instant::now(), S3_PAUSES);
        loop {
            match attempt().await {
                Err(error)
                    if self.is_s3() && passes(&error) && since.elapsed() < S3_RETRY_TIMEOUT =>
                {
                    sleep(pause).await;
                    pause = longest.min(pause * 2);
                }
                done => return done,
            }
        }
    }

    fn is_s3(&self) -> bool {
        self.endpoint.scheme == Scheme::S3
    }

    /// Returns whether requests go over HTTP without TLS.
    fn is_plain(&self) -> bool {
        self.endpoint.scheme == Scheme::Http
    }

    fn bucket(&self, bucket: &str) -> Result<Arc<AmazonS3>> {
        let mut buckets = locked(&self.buckets);
        if let Some(client) = buckets.get(bucket) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.client(self.builder(), bucket)?);
        buckets.insert(bucket.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// Returns the client of a bucket.
    fn client(&self, builder: AmazonS3Builder, bucket: &str) -> Result<AmazonS3> {
        let mut connections = ClientOptions::new();
        if self.is_s3() {
            // Closed before S3 closes them: a sandbox that was frozen meanwhile finds a closed
            // connection only when it writes.
            connections = connections.with_pool_idle_timeout(S3_IDLE);
        }
        builder
            .with_allow_http(true)
            .with_virtual_hosted_style_request(false)
            .with_bucket_name(bucket)
            .with_unsigned_payload(true)
            .with_retry(self.retries())
            .with_client_options(
                connections
                    .with_allow_http(true)
                    // Plain HTTP needs no certificate, and a machine may have none.
                    .with_no_system_certificates(self.is_plain())
                    .with_connect_timeout(self.endpoint.connect_timeout())
                    // A large object on a slow network takes longer than the default 30 s.
                    .with_timeout(self.endpoint.options.timeout),
            )
            .build()
            .map_err(|error| self.error(bucket, "", error))
    }

    /// Creates `bucket`; an existing one is no error.
    pub(super) async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let refused = |reason: String| {
            ChannelError::refused(SERVICE, format!("creation of bucket {bucket:?}"), reason)
        };
        if bucket.is_empty() {
            return Err(refused("it has no name".into()));
        }
        // The library cannot create buckets, but can sign: the address of the empty key is the bucket's.
        let bucket_itself = Path::default();
        // Sign the request.
        let client = self.bucket(bucket)?;
        let signed = client.signed_url(Method::PUT, &bucket_itself, self.endpoint.options.timeout);
        let url = signed
            .await
            .map_err(|error| self.error(bucket, "", error))?;
        // The address of the request holds a signature.
        let unreachable = |error: reqwest::Error| {
            ChannelError::unreachable(SERVICE, &self.endpoint, causes(&error.without_url()))
        };
        // Send it; an existing bucket answers with a conflict.
        let client = if self.is_plain() {
            plain_http()?
        } else {
            https()?
        };
        let request = client.put(url).timeout(self.endpoint.options.timeout);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.text().await.map_err(unreachable)?;
        // Other conflicts are not about an existing bucket.
        if status.is_success()
            || (status == reqwest::StatusCode::CONFLICT && body.contains("BucketAlready"))
        {
            return Ok(());
        }
        Err(refused(format!("{status}: {body}")))
    }

    /// Puts an object if there is none, and returns whether this call made it. A request that is
    /// repeated may find the object of its own first attempt, which S3 made and answered with an
    /// error: the object holds an id of this call.
    pub(super) async fn put_first(&self, bucket: &str, key: &str) -> Result<bool> {
        let (path, client) = (path(bucket, key)?, self.bucket(bucket)?);
        let own = Bytes::from(Uuid::new_v4().to_string());
        let put = self.repeated(|| {
            let create = PutOptions::from(PutMode::Create);
            client.put_opts(&path, own.clone().into(), create)
        });
        match put.await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => {
                let found = self.get(bucket, key, None).await?;
                Ok(found.is_some_and(|found| found.bytes().is_ok_and(|found| *found == own)))
            }
            Err(error) => Err(self.error(bucket, key, error)),
        }
    }

    /// Converts an error: an answer of the service, or a failure to reach it.
    fn error(&self, bucket: &str, key: &str, error: object_store::Error) -> ChannelError {
        let reason = causes(&error);
        if answered(&error) {
            return ChannelError::refused(SERVICE, format!("request on {bucket}/{key}"), reason);
        }
        ChannelError::unreachable(SERVICE, &self.endpoint, reason)
    }

    /// Puts an object, and returns the bytes that it is known to replace.
    async fn put(&self, bucket: &str, key: &str, body: &Payload) -> Result<u64> {
        let (path, bytes) = (path(bucket, key)?, body.bytes()?);
        let client = self.bucket(bucket)?;
        let put = self.repeated(|| client.put(&path, bytes.clone().into()));
        match put.await {
            Ok(_) => Ok(self.sizes.write(bucket, key, body.len())),
            Err(error) => Err(self.error(bucket, key, error)),
        }
    }

    async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<Option<Payload>> {
        if let Some(range) = &range {
            check_range(bucket, key, range)?;
        }
        let options = GetOptions {
            range: range.map(Into::into),
            ..GetOptions::default()
        };
        let (path, client) = (path(bucket, key)?, self.bucket(bucket)?);
        let bytes = self.repeated(|| async {
            let found = client.get_opts(&path, options.clone()).await?;
            // Of the whole object, also where a part of it is read.
            let size = found.meta.size;
            Ok((found.bytes().await?, size))
        });
        match bytes.await {
            Ok((bytes, size)) => {
                self.sizes.read(bucket, key, Some(size));
                Ok(Some(bytes.into()))
            }
            Err(object_store::Error::NotFound { .. }) => {
                self.sizes.read(bucket, key, None);
                Ok(None)
            }
            Err(error) => Err(self.error(bucket, key, error)),
        }
    }

    pub(super) async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<String>,
    ) -> Result<ListPage> {
        let options = PaginatedListOptions {
            offset: after,
            max_keys: Some(PAGE_KEYS),
            ..PaginatedListOptions::default()
        };
        let client = self.bucket(bucket)?;
        let page = self.repeated(|| client.list_paginated(Some(prefix), options.clone()));
        let page = page
            .await
            .map_err(|error| self.error(bucket, prefix, error))?;
        let keys = page
            .result
            .objects
            .into_iter()
            .map(|object| object.location.into())
            .collect();
        Ok(ListPage {
            keys,
            truncated: page.page_token.is_some(),
        })
    }

    /// Deletes objects, and returns the bytes of those whose size is known.
    pub(super) async fn delete(&self, bucket: &str, keys: &[String]) -> Result<u64> {
        check_delete(bucket, keys)?;
        let paths: Result<Vec<_>> = keys.iter().map(|key| path(bucket, key)).collect();
        let (paths, client) = (paths?, self.bucket(bucket)?);
        let deleted = self.repeated(|| {
            let paths = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            client.delete_stream(paths).try_collect::<Vec<_>>()
        });
        match deleted.await {
            Ok(_) => Ok(self.sizes.delete(bucket, keys)),
            Err(error) => Err(self.error(bucket, "?delete", error)),
        }
    }
}

#[async_trait]
impl Channel<ObjectCommand> for S3Objects {
    async fn run(&self, command: ObjectCommand) -> Result<Reply> {
        match command {
            ObjectCommand::Put { bucket, key, body } => {
                self.put(&bucket, &key, &body).await.map(Reply::Removed)
            }
            ObjectCommand::Get { bucket, key, range } => {
                self.get(&bucket, &key, range).await.map(Reply::Value)
            }
            ObjectCommand::List {
                bucket,
                prefix,
                after,
            } => self.list(&bucket, &prefix, after).await.map(Reply::Page),
            ObjectCommand::Delete { bucket, keys } => {
                self.delete(&bucket, &keys).await.map(Reply::Removed)
            }
        }
    }
}

/// Converts a key to a path that `object_store` does not change.
fn path(bucket: &str, key: &str) -> Result<Path> {
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key && !key.is_empty() => Ok(path),
        _ => {
            let reason = "a key must be segments parted by single slashes, with no slash at its \
                          ends and no control character";
            let operation = format!("request on {bucket}/{key}");
            Err(ChannelError::refused(SERVICE, operation, reason))
        }
    }
}

/// Returns whether an error is one of [`PASSING`].
fn passes(error: &object_store::Error) -> bool {
    let text = causes(error);
    PASSING.iter().any(|passing| text.contains(passing))
}

/// Returns whether the service answered: its errors carry a status, errors of the
/// transport do not.
fn answered(error: &object_store::Error) -> bool {
    match error {
        object_store::Error::Generic { .. } => {
            let mut cause: Option<&dyn std::error::Error> = Some(error);
            while let Some(error) = cause {
                if error
                    .downcast_ref::<object_store::client::HttpError>()
                    .is_some()
                {
                    return false;
                }
                cause = error.source();
            }
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers the requests of one client of S3 with `answers`, a status and a code each, and every
    /// later one with success; returns the client and the number of requests. What is written while
    /// S3 fails is kept, and can be read.
    fn scripted(answers: &'static [(&str, &str)]) -> (S3Objects, Arc<AtomicUsize>) {
        epochcost_testing::watch();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        std::thread::spawn(move || {
            let mut kept = String::new();
            for stream in listener.incoming() {
                let (mut stream, mut request) = (stream.unwrap(), Vec::new());
                let mut part = [0; 4096];
                // The bodies of these requests are as long as an id, or empty.
                loop {
                    let length = stream.read(&mut part).unwrap();
                    request.extend_from_slice(&part[..length]);
                    let text = String::from_utf8_lossy(&request).to_lowercase();
                    let is_put = text.starts_with("put");
                    let whole = text.split_once("\r\n\r\n");
                    if length == 0 || whole.is_some_and(|(_, body)| !is_put || body.len() == 36) {
                        break;
                    }
                }
                let (status, code) =
                    (answers.get(count.fetch_add(1, Ordering::SeqCst))).unwrap_or(&("200 OK", ""));
                let request = String::from_utf8_lossy(&request).into_owned();
                let body = if request.starts_with("GET") && !kept.is_empty() {
                    kept.clone()
                } else {
                    format!("<Error><Code>{code}</Code></Error>")
                };
                if status.starts_with('5') {
                    kept = request[request.len() - 36..].to_owned();
                }
                let text = format!(
                    "HTTP/1.1 {status}\r\nETag: \"1\"\r\nConnection: close\r\n\
                     Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(text.as_bytes()).unwrap();
            }
        });
        let objects = S3Objects::new("s3://us-east-1/bucket".parse().unwrap());
        let builder = AmazonS3Builder::new()
            .with_endpoint(address)
            .with_region("us-east-1")
            .with_access_key_id("key")
            .with_secret_access_key("secret");
        let client = Arc::new(objects.client(builder, "bucket").unwrap());
        let known = HashMap::from([("bucket".to_owned(), client)]);
        *objects.buckets.lock().unwrap() = known;
        (objects, served)
    }

    /// Time bounds the repetitions, not their number; what the library does not repeat is, too.
    #[tokio::test]
    async fn what_s3_refuses_for_a_while_is_sent_again() {
        use_ring();
        const BUSY: (&str, &str) = ("503 Slow Down", "SlowDown");
        for answers in [
            &[BUSY; 6][..],
            &[("400 Bad Request", "RequestTimeout")],
            &[("409 Conflict", "OperationAborted")],
            &[("403 Forbidden", "InvalidAccessKeyId")],
        ] {
            let (objects, served) = scripted(answers);
            let body = Payload::from(Bytes::from_static(&[7; 36]));
            objects.put("bucket", "k", &body).await.unwrap();
            assert_eq!(served.load(Ordering::SeqCst), answers.len() + 1);
        }
        let (objects, served) = scripted(&[("403 Forbidden", "AccessDenied")]);
        let body = Payload::from(Bytes::from_static(&[7; 36]));
        objects.put("bucket", "k", &body).await.unwrap_err();
        assert_eq!(served.load(Ordering::SeqCst), 1);
    }

    /// A conflict is no claim of another; a claim that exists is another's, unless it holds this
    /// call's id.
    #[tokio::test]
    async fn a_claim_is_lost_to_another_alone() {
        use_ring();
        const LOST: (&str, &str) = ("412 Precondition Failed", "PreconditionFailed");
        for (answers, is_first, requests) in [
            (
                &[("409 Conflict", "ConditionalRequestConflict")][..],
                true,
                2,
            ),
            (&[LOST], false, 2),
            // S3 made the object, and answered with an error: the repetition finds the call's own.
            (
                &[("500 Internal Server Error", "InternalError"), LOST],
                true,
                3,
            ),
        ] {
            let (objects, served) = scripted(answers);
            let found = objects.put_first("bucket", "k").await.unwrap();
            assert_eq!((found, served.load(Ordering::SeqCst)), (is_first, requests));
        }
    }
}
