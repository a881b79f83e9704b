use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    ClientOptions, GetOptions, ObjectStore as _, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};

use reqwest::Method;

use super::http::{causes, https, plain_http, use_ring};
use crate::endpoint::Scheme;
use crate::memory::{PAGE_KEYS, check_delete, check_range};
use crate::{ChannelError, Endpoint, ListPage, ObjectStore, Payload, Result};

/// Repetitions of a request to S3, and the time after which there is none.
const S3_RETRIES: usize = 4;
const S3_RETRY_TIMEOUT: Duration = Duration::from_secs(30);
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
}

impl S3Objects {
    /// Creates a client of `http://KEY:SECRET@HOST:PORT`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ChannelError::Endpoint`].
    pub fn new(endpoint: &str) -> Result<Self> {
        Ok(Self::open(endpoint.parse()?))
    }

    pub(super) fn open(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            buckets: Mutex::default(),
        }
    }

    /// Returns the address without path and credentials.
    fn address(&self) -> String {
        format!(
            "{}://{}",
            self.endpoint.scheme.name(),
            self.endpoint.authority()
        )
    }

    /// Returns the credentials. The embedded server checks none, but the client
    /// needs some.
    fn credentials(&self) -> (&str, &str) {
        let (user, secret) = (&self.endpoint.user, self.endpoint.password.reveal());
        if user.is_empty() && secret.is_empty() {
            return ("epochcost", "epochcost");
        }
        (user, secret)
    }

    /// Returns the settings of a client: address, region and credentials.
    fn builder(&self) -> AmazonS3Builder {
        use_ring();
        if self.endpoint.scheme == Scheme::S3 {
            // Keys and a session's token from the environment, else those of the
            // instance; AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3 as the SDK reads them.
            return AmazonS3Builder::from_env().with_region(&self.endpoint.host);
        }
        let (key, secret) = self.credentials();
        AmazonS3Builder::new()
            .with_endpoint(self.address())
            .with_region(&self.endpoint.options.region)
            .with_access_key_id(key)
            .with_secret_access_key(secret)
    }

    /// Returns how often a request is repeated. S3 asks its clients to repeat what it refuses with
    /// 500 or 503, and closes idle connections without notice; the program's own servers do
    /// neither, and a refusal of theirs is a fault to be seen. A repeated request is metered once.
    fn retries(&self) -> RetryConfig {
        let is_s3 = self.endpoint.scheme == Scheme::S3;
        RetryConfig {
            max_retries: if is_s3 { S3_RETRIES } else { 0 },
            retry_timeout: S3_RETRY_TIMEOUT,
            ..RetryConfig::default()
        }
    }

    /// Returns the options of connections: those to S3 are closed before S3 closes them. A sandbox
    /// that was frozen meanwhile finds a closed connection only when it writes.
    fn connections(&self) -> ClientOptions {
        let options = ClientOptions::new();
        match self.endpoint.scheme {
            Scheme::S3 => options.with_pool_idle_timeout(S3_IDLE),
            _ => options,
        }
    }

    /// Returns whether requests go over HTTP without TLS.
    fn is_plain(&self) -> bool {
        self.endpoint.scheme == Scheme::Http
    }

    fn bucket(&self, bucket: &str) -> Result<Arc<AmazonS3>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = buckets.get(bucket) {
            return Ok(Arc::clone(client));
        }
        let client = self
            .builder()
            .with_allow_http(true)
            .with_virtual_hosted_style_request(false)
            .with_bucket_name(bucket)
            .with_unsigned_payload(true)
            .with_retry(self.retries())
            .with_client_options(
                self.connections()
                    .with_allow_http(true)
                    // Plain HTTP needs no certificate, and a machine may have none.
                    .with_no_system_certificates(self.is_plain())
                    .with_connect_timeout(self.endpoint.connect_timeout())
                    // A large object on a slow network takes longer than the default 30 s.
                    .with_timeout(self.endpoint.options.timeout),
            )
            .build()
            .map_err(|error| self.error(bucket, "", error))?;
        let client = Arc::new(client);
        buckets.insert(bucket.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// Creates `bucket`; an existing one is no error.
    pub(super) async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let refused = |reason: String| ChannelError::Refused {
            service: SERVICE,
            operation: format!("creation of bucket {bucket:?}"),
            reason,
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
        let unreachable = |error: reqwest::Error| ChannelError::Unreachable {
            service: SERVICE,
            endpoint: self.endpoint.to_string(),
            // The address of the request holds a signature.
            reason: causes(&error.without_url()),
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
        if status.is_success() || status == reqwest::StatusCode::CONFLICT {
            return Ok(());
        }
        let body = response.text().await.map_err(unreachable)?;
        Err(refused(format!("{status}: {body}")))
    }

    /// Puts an empty object if there is none, and returns whether there was none.
    pub(super) async fn put_first(&self, bucket: &str, key: &str) -> Result<bool> {
        let path = path(bucket, key)?;
        let create = PutOptions::from(PutMode::Create);
        let client = self.bucket(bucket)?;
        match client.put_opts(&path, PutPayload::new(), create).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.error(bucket, key, error)),
        }
    }

    /// Converts an error: an answer of the service, or a failure to reach it.
    fn error(&self, bucket: &str, key: &str, error: object_store::Error) -> ChannelError {
        let reason = causes(&error);
        if answered(&error) {
            return ChannelError::Refused {
                service: SERVICE,
                operation: format!("request on {bucket}/{key}"),
                reason,
            };
        }
        ChannelError::Unreachable {
            service: SERVICE,
            endpoint: self.endpoint.to_string(),
            reason,
        }
    }

    async fn read(&self, bucket: &str, key: &str, options: GetOptions) -> Result<Option<Payload>> {
        let path = path(bucket, key)?;
        let reading = async {
            let found = self.bucket(bucket)?.get_opts(&path, options).await;
            let bytes = match found {
                Ok(found) => found.bytes().await,
                Err(error) => Err(error),
            };
            match bytes {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(self.error(bucket, key, error)),
            }
        };
        reading.await
    }
}

/// Prints the endpoint alone: the clients hold the credentials.
impl fmt::Debug for S3Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Objects({})", self.endpoint)
    }
}

#[async_trait]
impl ObjectStore for S3Objects {
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        let (path, bytes) = (path(bucket, key)?, body.bytes()?.clone());
        let put = self.bucket(bucket)?.put(&path, bytes.into()).await;
        put.map(drop)
            .map_err(|error| self.error(bucket, key, error))
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        self.read(bucket, key, GetOptions::default()).await
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        check_range(bucket, key, &range)?;
        let range = Some(range.into());
        self.read(
            bucket,
            key,
            GetOptions {
                range,
                ..GetOptions::default()
            },
        )
        .await
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        let options = PaginatedListOptions {
            offset: after.map(str::to_owned),
            max_keys: Some(PAGE_KEYS),
            ..PaginatedListOptions::default()
        };
        let page = self
            .bucket(bucket)?
            .list_paginated(Some(prefix), options)
            .await;
        let page = page.map_err(|error| self.error(bucket, prefix, error))?;
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

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        check_delete(bucket, keys)?;
        let paths: Result<Vec<_>> = keys.iter().map(|key| path(bucket, key)).collect();
        let paths = stream::iter(paths?.into_iter().map(Ok)).boxed();
        let deleted: Result<Vec<_>, _> = self
            .bucket(bucket)?
            .delete_stream(paths)
            .try_collect()
            .await;
        deleted
            .map(drop)
            .map_err(|error| self.error(bucket, "?delete", error))
    }
}

/// Converts a key to a path that `object_store` does not change.
fn path(bucket: &str, key: &str) -> Result<Path> {
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key && !key.is_empty() => Ok(path),
        _ => Err(ChannelError::Refused {
            service: SERVICE,
            operation: format!("request on {bucket}/{key}"),
            reason: "a key must be segments parted by single slashes, with no slash at its ends \
                     and no control character"
                .into(),
        }),
    }
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
