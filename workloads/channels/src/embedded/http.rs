//! Requests and answers of S3's path-style HTTP: addresses, queries, ranges.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header, request};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::xml::{ErrorDocument, document};

/// Characters that S3 encodes in the keys of a listing.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Decodes the address `/bucket/key`; the key is empty in the address of a bucket.
pub(super) fn bucket_and_key(uri: &Uri) -> Option<(String, String)> {
    let path = uri.path().strip_prefix('/')?;
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    Some((decoded(bucket)?, decoded(key)?))
}

/// Returns the value of a query parameter, empty for a name without a value.
pub(super) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    uri.query()?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then(|| decoded(&value.replace('+', " ")))?
    })
}

/// Returns the access key that a request to S3 names: in its header
/// `AWS4-HMAC-SHA256 Credential=KEY/…`, or in the query of a signed address.
pub fn access_key(parts: &request::Parts) -> Option<String> {
    let header = parts.headers.get(header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok()?.split_once("Credential="));
    let header = header.map(|(_, credential)| credential.to_owned());
    let credential = header.or_else(|| parameter(&parts.uri, "X-Amz-Credential"))?;
    let (key, _) = credential.split_once('/').unwrap_or((&credential, ""));
    Some(key.to_owned())
}

fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

/// Encodes a key for `encoding-type=url`.
pub(super) fn encoded_key(key: &str) -> String {
    utf8_percent_encode(key, KEY).to_string()
}

/// Returns the bytes that a Range header requests from an object of `length`
/// bytes; `None` without a header, or for one that HTTP requires to ignore.
pub(super) fn range(headers: &HeaderMap, length: u64) -> Option<Range<u64>> {
    let (first, last) = headers
        .get(header::RANGE)?
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    if first.is_empty() {
        let last: u64 = last.parse().ok()?;
        return Some(length.saturating_sub(last)..length);
    }
    let first: u64 = first.parse().ok()?;
    if last.is_empty() {
        return Some(first..length);
    }
    let last: u64 = last.parse().ok()?;
    (first <= last).then(|| first..last.saturating_add(1))
}

/// Returns a response with an XML document.
pub(super) fn xml(status: StatusCode, content: &impl Serialize) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/xml")];
    (status, kind, Body::from(document(content))).into_response()
}

/// Returns a response with S3's error document.
pub(super) fn refused(code: &'static str, message: impl Into<String>, uri: &Uri) -> Response {
    let status = match code {
        "InvalidAccessKeyId" => StatusCode::FORBIDDEN,
        "NoSuchKey" => StatusCode::NOT_FOUND,
        "EntityTooLarge" => StatusCode::PAYLOAD_TOO_LARGE,
        "InvalidRange" => StatusCode::RANGE_NOT_SATISFIABLE,
        "NotImplemented" => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_REQUEST,
    };
    let error = ErrorDocument {
        code,
        message: message.into(),
        resource: uri.path().to_owned(),
    };
    xml(status, &error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn addresses_and_queries_are_decoded() {
        let uri: Uri = "/b%20c/a%2Fb/%C3%A9+1?prefix=a+b%2Bc&delete&x="
            .parse()
            .unwrap();
        assert_eq!(
            bucket_and_key(&uri).unwrap(),
            ("b c".into(), "a/b/é+1".into())
        );
        assert_eq!(parameter(&uri, "prefix").unwrap(), "a b+c");
        assert_eq!(parameter(&uri, "delete").unwrap(), "");
        assert_eq!(parameter(&uri, "list-type"), None);
        assert_eq!(
            bucket_and_key(&"/b".parse().unwrap()).unwrap(),
            ("b".into(), String::new())
        );
        assert_eq!(bucket_and_key(&"/b/%FF".parse().unwrap()), None);
    }

    #[test]
    fn ranges_follow_http() {
        let of = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(text))]);
            range(&headers, 10)
        };
        assert_eq!(of("bytes=2-3"), Some(2..4));
        assert_eq!(of("bytes=2-"), Some(2..10));
        assert_eq!(of("bytes=-3"), Some(7..10));
        assert_eq!(of("bytes=-30"), Some(0..10));
        assert_eq!(of("bytes=8-99"), Some(8..100));
        assert_eq!(of("bytes=0-18446744073709551615"), Some(0..u64::MAX));
        for ignored in [
            "bytes=3-2",
            "bytes=a-b",
            "items=0-1",
            "bytes=",
            "bytes=0-1,3-4",
        ] {
            assert_eq!(of(ignored), None, "{ignored}");
        }
        assert_eq!(range(&HeaderMap::new(), 10), None);
    }
}
