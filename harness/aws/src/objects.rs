//! Objects of a run beside those that a bucket is created with.

use aws_sdk_s3::primitives::ByteStream;

use crate::error::if_there;
use crate::resource::{call, once_passed};
use crate::{AwsError, Clients};

/// Puts an object into a bucket of the run.
///
/// # Errors
/// When S3 refuses the object.
pub async fn put(
    clients: &Clients,
    bucket: &str,
    key: &str,
    body: bytes::Bytes,
) -> Result<(), AwsError> {
    // A request with a stream cannot be sent twice.
    let put = || async {
        let put = clients.buckets.put_object().bucket(bucket).key(key);
        let sent = put.body(ByteStream::from(body.clone())).send().await;
        sent.map(drop)
            .map_err(|error| AwsError::of(format!("put {key} into the bucket {bucket}"), error))
    };
    once_passed(put).await
}

/// Returns an object of a bucket of the run, if it exists.
///
/// # Errors
/// When S3 refuses or cannot be reached.
pub async fn get(
    clients: &Clients,
    bucket: &str,
    key: &str,
) -> Result<Option<bytes::Bytes>, AwsError> {
    let doing = format!("get {key} from the bucket {bucket}");
    let get = clients.buckets.get_object().bucket(bucket).key(key);
    let Some(found) = if_there(call!(&doing, get))? else {
        return Ok(None);
    };
    let body = found.body.collect().await;
    let body = body.map_err(|error| AwsError::Unusable {
        problem: format!("failed to {doing}: {error}"),
        remedy: "check the network".to_owned(),
    })?;
    Ok(Some(body.into_bytes()))
}
