//! The object store over S3's path-style HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::http::{access_key, bucket_and_key, encoded_key, parameter, range, refused, xml};
use super::strangers::{self, Trust};
use super::xml::{Deleted, Deletion, Entry, Listing, document, keys_to_delete};
use super::{Password, listen};
use crate::memory::{MemoryObjects, PAGE_KEYS, StoredObject, cut};
use crate::{Payload, Result};

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
        Self::serve(objects, Some(Password::random())).await
    }

    async fn serve(store: Arc<MemoryObjects>, key: Option<Password>) -> Result<Self> {
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
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            if let Err(error) = strangers::serve(listener, service, stopped).await {
                tracing::debug!("the object server ended: {error}");
            }
        });
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
    key: Option<Password>,
}

async fn answer(State(service): State<ObjectService>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !service.admits(&parts) {
        let message = "the access key is not that of this server";
        return refused(
            StatusCode::FORBIDDEN,
            "InvalidAccessKeyId",
            message,
            &parts.uri,
        );
    }
    if let Some(trust) = Trust::of(&parts.extensions) {
        trust.admit();
    }
    let store = service;
    let Some((bucket, key)) = bucket_and_key(&parts.uri) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "InvalidURI",
            "the address is no UTF-8",
            &parts.uri,
        );
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
        _ => refused(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("{} of this address is not served here", parts.method),
            &parts.uri,
        ),
    }
}

impl ObjectService {
    /// Returns whether a request names the access key.
    fn admits(&self, parts: &Parts) -> bool {
        let is_known = |key: &Password| access_key(parts).is_some_and(|it| key.is(it.as_bytes()));
        self.key.as_ref().is_none_or(is_known)
    }

    fn get(&self, bucket: &str, key: &str, parts: &Parts) -> Response {
        let Some(object) = self.store.find(bucket, key) else {
            return no_such_key(&parts.uri);
        };
        let length = object.body.len();
        let Some(range) = range(&parts.headers, length) else {
            return self.found(StatusCode::OK, &object, &object.body, &parts.uri);
        };
        let Some(part) = cut(&object.body, &range) else {
            return invalid_range(length, &parts.uri);
        };
        let mut response = self.found(StatusCode::PARTIAL_CONTENT, &object, &part, &parts.uri);
        let last = range.start + part.len() - 1;
        insert(
            &mut response,
            header::CONTENT_RANGE,
            &format!("bytes {}-{last}/{length}", range.start),
        );
        response
    }

    fn found(
        &self,
        status: StatusCode,
        object: &StoredObject,
        content: &Payload,
        uri: &Uri,
    ) -> Response {
        let Ok(bytes) = content.bytes() else {
            return refused(
                StatusCode::NOT_IMPLEMENTED,
                "NotImplemented",
                "a phantom has no content to send",
                uri,
            );
        };
        let mut response = (status, Body::from(bytes.clone())).into_response();
        insert(
            &mut response,
            header::CONTENT_TYPE,
            "application/octet-stream",
        );
        insert(&mut response, header::ACCEPT_RANGES, "bytes");
        insert(&mut response, header::LAST_MODIFIED, MODIFIED_HTTP);
        insert(&mut response, header::ETAG, &etag(object.version));
        response
    }

    async fn put(&self, bucket: &str, key: &str, parts: &Parts, body: Body) -> Response {
        // Refuse bodies that are not stored as they come.
        let chunked = parts.headers.get(header::CONTENT_ENCODING);
        if chunked.is_some_and(|value| value.as_bytes().starts_with(b"aws-chunked"))
            || parts.headers.contains_key("x-amz-copy-source")
            || parameter(&parts.uri, "uploadId").is_some()
        {
            let message = "only whole, plain bodies are taken: no aws-chunked, copy or multipart";
            return refused(
                StatusCode::NOT_IMPLEMENTED,
                "NotImplemented",
                message,
                &parts.uri,
            );
        }
        // Store the body.
        match whole(body).await {
            Ok(bytes) => {
                let (version, _) = self.store.store(bucket, key, bytes.into());
                let mut response = StatusCode::OK.into_response();
                insert(&mut response, header::ETAG, &etag(version));
                response
            }
            Err(BodyError::TooLarge) => refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "EntityTooLarge",
                format!("an object has at most {MAX_OBJECT_BYTES} bytes"),
                &parts.uri,
            ),
            Err(BodyError::Broken) => refused(
                StatusCode::BAD_REQUEST,
                "IncompleteBody",
                "the body broke off",
                &parts.uri,
            ),
        }
    }

    fn list(&self, bucket: &str, uri: &Uri) -> Response {
        // Parameters of the request.
        if parameter(uri, "delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
            let message = "listings have no delimiter here";
            return refused(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, uri);
        }
        let limit = parameter(uri, "max-keys").map_or(Ok(PAGE_KEYS), |text| text.parse());
        let Ok(max_keys) = limit.map(|limit| limit.min(PAGE_KEYS)) else {
            let message = "max-keys is no number";
            return refused(StatusCode::BAD_REQUEST, "InvalidArgument", message, uri);
        };
        let prefix = parameter(uri, "prefix").unwrap_or_default();
        // A token is the last key of the previous page and takes precedence over `start-after`.
        let after = parameter(uri, "continuation-token").or_else(|| parameter(uri, "start-after"));
        let (page, truncated) = self.store.page(bucket, &prefix, after.as_deref(), max_keys);
        // The answer, with encoded keys if requested.
        let as_url = parameter(uri, "encoding-type").as_deref() == Some("url");
        let shown = |key: &str| {
            if as_url {
                encoded_key(key)
            } else {
                key.to_owned()
            }
        };
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
                .map(|(key, object)| entry(shown(&key), &object))
                .collect(),
        };
        xml(StatusCode::OK, document(&listing))
    }

    async fn delete_batch(&self, bucket: &str, parts: &Parts, body: Body) -> Response {
        let body = axum::body::to_bytes(body, MAX_DELETE_BYTES).await;
        let keys = body.ok().and_then(|body| keys_to_delete(&body));
        let Some(keys) = keys.filter(|keys| (1..=PAGE_KEYS).contains(&keys.len())) else {
            return refused(
                StatusCode::BAD_REQUEST,
                "MalformedXML",
                format!("the body must name 1 to {PAGE_KEYS} keys"),
                &parts.uri,
            );
        };
        for key in &keys {
            self.store.remove(bucket, key);
        }
        let deleted = keys.into_iter().map(|key| Deleted { key }).collect();
        xml(StatusCode::OK, document(&Deletion { deleted }))
    }
}

fn entry(key: String, object: &StoredObject) -> Entry {
    Entry {
        key,
        last_modified: MODIFIED_XML,
        etag: etag(object.version),
        size: object.body.len(),
        storage_class: "STANDARD",
    }
}

enum BodyError {
    TooLarge,
    Broken,
}

/// Reads the whole body, with one copy of each chunk.
async fn whole(body: Body) -> Result<Bytes, BodyError> {
    let announced = body.size_hint().lower();
    if announced > MAX_OBJECT_BYTES {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = BytesMut::with_capacity(announced.min(MAX_RESERVE_BYTES) as usize);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        if (bytes.len() + chunk.len()) as u64 > MAX_OBJECT_BYTES {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn etag(version: u64) -> String {
    format!("\"{version:032x}\"")
}

/// Sets a header whose value is made of visible ASCII.
fn insert(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn no_such_key(uri: &Uri) -> Response {
    refused(
        StatusCode::NOT_FOUND,
        "NoSuchKey",
        "The specified key does not exist.",
        uri,
    )
}

fn invalid_range(length: u64, uri: &Uri) -> Response {
    let message = format!("the range is empty or starts past the object's {length} bytes");
    let mut response = refused(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "InvalidRange",
        message,
        uri,
    );
    insert(
        &mut response,
        header::CONTENT_RANGE,
        &format!("bytes */{length}"),
    );
    response
}
