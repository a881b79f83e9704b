//! The object store over S3's path-style HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::http::{access_key, bucket_and_key, encoded_key, parameter, range, refused, xml};
use super::listen;
use super::strangers::{self, Trust};
use super::xml::{Deleted, Deletion, Entry, Listing, keys_to_delete};
use crate::Result;
use crate::endpoint::Secret;
use crate::memory::{MemoryObjects, PAGE_KEYS, cut};

/// Largest object, bytes: S3's limit for one PUT.
const MAX_OBJECT_BYTES: u64 = 5 << 30;
/// Largest DeleteObjects request, bytes: a thousand keys of 1,024 bytes, escaped.
const MAX_DELETE_BYTES: usize = 8 << 20;
/// Most bytes reserved at once for an announced body.
const MAX_RESERVE_BYTES: u64 = 64 << 20;

/// An object store on loopback that speaks S3's path-style HTTP: PUT, GET (with
/// a range), HEAD and DELETE of objects, ListObjectsV2 and DeleteObjects.
#[derive(Debug)]
pub struct ObjectServer {
    endpoint: String,
    // Dropping it stops the server; requests in progress are completed.
    _running: DropGuard,
}

impl ObjectServer {
    /// Serves `objects` on a free port until dropped, to every client on this machine.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ChannelError::Unreachable) if no port can be listened on.
    pub async fn start(objects: Arc<MemoryObjects>) -> Result<Self> {
        Self::serve(objects, None).await
    }

    /// Serves `objects` on a free port until dropped, to clients that sign their requests with
    /// a random access key, which is part of the address. The key is what is checked: the
    /// signatures themselves are not.
    ///
    /// # Errors
    /// As [`ObjectServer::start`].
    pub async fn start_private(objects: Arc<MemoryObjects>) -> Result<Self> {
        Self::serve(objects, Some(Secret::random())).await
    }

    async fn serve(store: Arc<MemoryObjects>, key: Option<Secret>) -> Result<Self> {
        let (listener, address) = listen("object store").await?;
        let endpoint = match &key {
            // The client needs a secret to sign with, too.
            Some(key) => format!("http://{}:epochcost@{address}", key.reveal()),
            None => format!("http://{address}"),
        };
        let service = Router::new()
            .fallback(answer)
            .with_state(ObjectService { store, key });
        let stop = CancellationToken::new();
        tokio::spawn(strangers::serve(listener, service, stop.clone()));
        Ok(Self {
            endpoint,
            _running: stop.drop_guard(),
        })
    }

    /// Returns the address of the server: `http://127.0.0.1:PORT`, or
    /// `http://KEY:SECRET@127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }
}

/// Modification time of every object, since the store keeps no times. Versions
/// differ in their ETags.
const MODIFIED_HTTP: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
const MODIFIED_XML: &str = "1970-01-01T00:00:00.000Z";

#[derive(Clone)]
struct ObjectService {
    store: Arc<MemoryObjects>,
    /// Access key of the clients that are served; none for all.
    key: Option<Secret>,
}

async fn answer(State(store): State<ObjectService>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !store.admits(&parts) {
        let message = "the access key is not that of this server";
        return refused("InvalidAccessKeyId", message, &parts.uri);
    }
    if let Some(trust) = Trust::of(&parts.extensions) {
        trust.admit();
    }
    let Some((bucket, key)) = bucket_and_key(&parts.uri) else {
        return refused("InvalidURI", "the address is no UTF-8", &parts.uri);
    };
    let listing = parameter(&parts.uri, "list-type").as_deref() == Some("2");
    let delete = parameter(&parts.uri, "delete").is_some();
    match (&parts.method, bucket.is_empty(), key.is_empty()) {
        (&Method::GET, false, true) if listing => store.list(&bucket, &parts.uri),
        (&Method::POST, false, true) if delete => store.delete_batch(&bucket, &parts, body).await,
        // Every bucket exists.
        (&Method::PUT | &Method::HEAD, false, true) => StatusCode::OK.into_response(),
        (&Method::GET | &Method::HEAD, false, false) => store.get(&bucket, &key, &parts),
        (&Method::PUT, false, false) => store.put(&bucket, &key, &parts, body).await,
        (&Method::DELETE, false, false) => {
            store.store.remove(&bucket, &key);
            StatusCode::NO_CONTENT.into_response()
        }
        (method, ..) => {
            let message = format!("{method} of this address is not served here");
            refused("NotImplemented", message, &parts.uri)
        }
    }
}

impl ObjectService {
    /// Returns whether a request names the access key.
    fn admits(&self, parts: &Parts) -> bool {
        let is_known = |key: &Secret| access_key(parts).is_some_and(|it| it == key.reveal());
        self.key.as_ref().is_none_or(is_known)
    }

    fn get(&self, bucket: &str, key: &str, parts: &Parts) -> Response {
        let Some(object) = self.store.find(bucket, key) else {
            let message = "The specified key does not exist.";
            return refused("NoSuchKey", message, &parts.uri);
        };
        let length = object.body.len();
        let (status, content, range) = match range(&parts.headers, length) {
            None => (StatusCode::OK, object.body, None),
            Some(range) => {
                let Some(part) = cut(&object.body, &range) else {
                    return invalid_range(length, &parts.uri);
                };
                let last = range.start + part.len() - 1;
                let shown = format!("bytes {}-{last}/{length}", range.start);
                (StatusCode::PARTIAL_CONTENT, part, Some(shown))
            }
        };
        let Ok(bytes) = content.bytes() else {
            let message = "a phantom has no content to send";
            return refused("NotImplemented", message, &parts.uri);
        };
        let tag = etag(object.version);
        let headers = [
            (header::CONTENT_TYPE, "application/octet-stream"),
            (header::ACCEPT_RANGES, "bytes"),
            (header::LAST_MODIFIED, MODIFIED_HTTP),
            (header::ETAG, tag.as_str()),
        ];
        let range = range.map(|range| [(header::CONTENT_RANGE, range)]);
        (status, headers, range, Body::from(bytes.clone())).into_response()
    }

    async fn put(&self, bucket: &str, key: &str, parts: &Parts, body: Body) -> Response {
        // Refuse bodies that are not stored as they come.
        let chunked = parts.headers.get(header::CONTENT_ENCODING);
        if chunked.is_some_and(|value| value.as_bytes().starts_with(b"aws-chunked"))
            || parts.headers.contains_key("x-amz-copy-source")
            || parameter(&parts.uri, "uploadId").is_some()
        {
            let message = "only whole, plain bodies are taken: no aws-chunked, copy or multipart";
            return refused("NotImplemented", message, &parts.uri);
        }
        // Store the body.
        match whole(body).await {
            Ok(bytes) => {
                let (version, _) = self.store.store(bucket, key, bytes.into());
                [(header::ETAG, etag(version))].into_response()
            }
            Err((code, message)) => refused(code, message, &parts.uri),
        }
    }

    fn list(&self, bucket: &str, uri: &Uri) -> Response {
        // Parameters of the request.
        if parameter(uri, "delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
            let message = "listings have no delimiter here";
            return refused("NotImplemented", message, uri);
        }
        let limit = parameter(uri, "max-keys").map_or(Ok(PAGE_KEYS), |text| text.parse());
        let Ok(max_keys) = limit.map(|limit| limit.min(PAGE_KEYS)) else {
            let message = "max-keys is no number";
            return refused("InvalidArgument", message, uri);
        };
        let prefix = parameter(uri, "prefix").unwrap_or_default();
        // A token is the last key of the previous page and takes precedence over `start-after`.
        let after = parameter(uri, "continuation-token").or_else(|| parameter(uri, "start-after"));
        let (page, truncated) = self.store.page(bucket, &prefix, after.as_deref(), max_keys);
        // The answer, with encoded keys if requested.
        let as_url = parameter(uri, "encoding-type").as_deref() == Some("url");
        let shown: fn(&str) -> String = if as_url { encoded_key } else { str::to_owned };
        let last = page.last().map(|(key, _)| key.clone());
        let listing = Listing {
            name: bucket.to_owned(),
            prefix: shown(&prefix),
            key_count: page.len(),
            max_keys,
            is_truncated: truncated,
            encoding_type: as_url.then_some("url"),
            next_continuation_token: last.filter(|_| truncated),
            contents: page
                .into_iter()
                .map(|(key, object)| Entry {
                    key: shown(&key),
                    last_modified: MODIFIED_XML,
                    etag: etag(object.version),
                    size: object.body.len(),
                    storage_class: "STANDARD",
                })
                .collect(),
        };
        xml(StatusCode::OK, &listing)
    }

    async fn delete_batch(&self, bucket: &str, parts: &Parts, body: Body) -> Response {
        let body = axum::body::to_bytes(body, MAX_DELETE_BYTES).await;
        let keys = body.ok().and_then(|body| keys_to_delete(&body));
        let Some(keys) = keys.filter(|keys| (1..=PAGE_KEYS).contains(&keys.len())) else {
            let message = format!("the body must name 1 to {PAGE_KEYS} keys");
            return refused("MalformedXML", message, &parts.uri);
        };
        for key in &keys {
            self.store.remove(bucket, key);
        }
        let deleted = keys.into_iter().map(|key| Deleted { key }).collect();
        xml(StatusCode::OK, &Deletion { deleted })
    }
}

/// Reads the whole body, with one copy of each chunk.
async fn whole(body: Body) -> Result<Bytes, (&'static str, String)> {
    let too_large = || {
        let message = format!("an object has at most {MAX_OBJECT_BYTES} bytes");
        ("EntityTooLarge", message)
    };
    let announced = body.size_hint().lower();
    if announced > MAX_OBJECT_BYTES {
        return Err(too_large());
    }
    let mut bytes = BytesMut::with_capacity(announced.min(MAX_RESERVE_BYTES) as usize);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ("IncompleteBody", "the body broke off".to_owned()))?;
        if (bytes.len() + chunk.len()) as u64 > MAX_OBJECT_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn etag(version: u64) -> String {
    format!("\"{version:032x}\"")
}

fn invalid_range(length: u64, uri: &Uri) -> Response {
    let message = format!("the range is empty or starts past the object's {length} bytes");
    let range = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
    (range, refused("InvalidRange", message, uri)).into_response()
}
