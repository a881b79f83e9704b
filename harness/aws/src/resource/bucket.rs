//! S3 buckets: closed to the public, with objects that expire with the run.

use std::time::Duration;

use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, BucketLocationConstraint,
    CreateBucketConfiguration, Delete, ExpirationStatus, LifecycleExpiration, LifecycleRule,
    LifecycleRuleFilter, ObjectIdentifier, PublicAccessBlockConfiguration, Tag, Tagging,
};

use tokio::time::{Instant, sleep};

use super::retry::once_known;
use super::{Found, Holding, Kind, built, call};
use crate::error::{Cause, if_there, unless};
use crate::run::{OwnerTags, seconds_left};
use crate::{AwsError, Clients, Scope, objects};

/// Prefix of our buckets' names.
const PREFIX: &str = "epochcost-";
/// S3 counts the age of objects in whole days.
const DAY_S: u64 = 86_400;

/// Time limit until nothing writes into a bucket any more: Lambda ends no running invocation of a
/// removed function, and each may take 15 minutes.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(960);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Specification of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketSpec {
    /// Name.
    pub name: String,
    /// Seconds after which no object is needed any more; none of those that the run needs to its end.
    pub needed_s: Option<u64>,
    /// Objects that the bucket is created with.
    pub objects: Vec<ObjectSpec>,
}

/// Object of a new bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectSpec {
    /// Key.
    pub key: String,
    /// Content.
    pub body: bytes::Bytes,
}

/// Creates the bucket if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &BucketSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let (s3, name) = (&clients.buckets, spec.name.as_str());
    // us-east-1 is the only region that must not be named.
    let location = (scope.region != "us-east-1").then(|| {
        CreateBucketConfiguration::builder()
            .location_constraint(BucketLocationConstraint::from(scope.region.as_str()))
            .build()
    });
    let create = s3
        .create_bucket()
        .bucket(name)
        .set_create_bucket_configuration(location);
    let created = call!(format!("create the bucket {name}"), create).map(drop);
    unless(created, Cause::Exists)?;
    let doing = format!("set up the bucket {name}");
    // Tags.
    let tags: Result<Vec<Tag>, _> = (scope.tags().into_iter())
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    let tags = Tagging::builder().set_tag_set(Some(built(&doing, tags)?));
    let tagging = s3
        .put_bucket_tagging()
        .bucket(name)
        .tagging(built(&doing, tags.build())?);
    once_known(|| async { call!(&doing, tagging.clone()) }).await?;
    // No public access.
    let closed = PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .ignore_public_acls(true)
        .block_public_policy(true)
        .restrict_public_buckets(true)
        .build();
    let closing = s3
        .put_public_access_block()
        .bucket(name)
        .public_access_block_configuration(closed);
    once_known(|| async { call!(&doing, closing.clone()) }).await?;
    // Expiry of objects and of unfinished uploads, none while it is needed.
    let left_s = seconds_left(scope.expires)?;
    let days = spec
        .needed_s
        .map_or(left_s, |needed_s| needed_s.min(left_s));
    let days = days.div_ceil(DAY_S);
    let days = i32::try_from(days).unwrap_or(i32::MAX);
    let rule = LifecycleRule::builder()
        .id("expire")
        .status(ExpirationStatus::Enabled)
        .filter(LifecycleRuleFilter::builder().prefix("").build())
        .expiration(LifecycleExpiration::builder().days(days).build())
        .abort_incomplete_multipart_upload(
            AbortIncompleteMultipartUpload::builder()
                .days_after_initiation(days)
                .build(),
        );
    let rules = BucketLifecycleConfiguration::builder().rules(built(&doing, rule.build())?);
    let expiry = s3
        .put_bucket_lifecycle_configuration()
        .bucket(name)
        .lifecycle_configuration(built(&doing, rules.build())?);
    once_known(|| async { call!(&doing, expiry.clone()) }).await?;
    // Content.
    for object in &spec.objects {
        let body = || object.body.clone();
        once_known(|| objects::put(clients, name, &object.key, body())).await?;
    }
    Ok(name.to_owned())
}

/// Lists our buckets in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut found = Vec::new();
    let mut pages = clients
        .buckets
        .list_buckets()
        .prefix(PREFIX)
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list buckets", error))?;
        for bucket in page.buckets.unwrap_or_default() {
            let Some(name) = bucket.name else { continue };
            // Emulators and older endpoints ignore the prefix.
            if name.starts_with(PREFIX)
                && let Some(bucket) = describe(&name, bucket.bucket_region, clients).await?
            {
                found.push(bucket);
            }
        }
    }
    Ok(found)
}

/// Returns a bucket with its region, tags and size, if it is ours.
///
/// The region is that of the list, if it has one: asked in another region for the bucket's, S3
/// redirects, which the SDK does not follow.
async fn describe(
    name: &str,
    region: Option<String>,
    clients: &Clients,
) -> Result<Option<Found>, AwsError> {
    let doing = format!("describe the bucket {name}");
    let region = match region {
        Some(region) => region,
        None => {
            let location = call!(&doing, clients.buckets.get_bucket_location().bucket(name));
            let Some(location) = if_there(location)? else {
                return Ok(None);
            };
            match location.location_constraint {
                None => "us-east-1".to_owned(),
                Some(name) if name.as_str().is_empty() => "us-east-1".to_owned(),
                Some(BucketLocationConstraint::Eu) => "eu-west-1".to_owned(),
                Some(name) => name.as_str().to_owned(),
            }
        }
    };
    let there = clients.in_region(&region);
    let tags = call!(&doing, there.buckets.get_bucket_tagging().bucket(name));
    let tags = if_there(tags)?.map(|tags| tags.tag_set).unwrap_or_default();
    let owner_tags = OwnerTags::of(tags.iter().map(|tag| (tag.key(), tag.value())));
    let Some(found) = Found::of(Kind::Bucket, name, name, &region, owner_tags) else {
        return Ok(None);
    };
    // The size of all objects decides the price.
    let mut bytes = 0;
    let mut pages = there
        .buckets
        .list_objects_v2()
        .bucket(name)
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of(&doing, error))?;
        bytes += (page.contents().iter())
            .map(|object| u64::try_from(object.size().unwrap_or(0)).unwrap_or(0))
            .sum::<u64>();
    }
    Ok(Some(found.holding(Holding::ObjectBytes(bytes))))
}

/// Removes the bucket, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let (name, there) = (
        found.address.name.as_str(),
        clients.in_region(&found.region),
    );
    let doing = format!("remove the bucket {name}");
    // S3 removes empty buckets only, and functions that still run may write meanwhile.
    let since = Instant::now();
    loop {
        let page = call!(&doing, there.buckets.list_objects_v2().bucket(name));
        let Some(page) = if_there(page)? else {
            return Ok(());
        };
        let keys: Result<Vec<ObjectIdentifier>, _> = (page.contents().iter())
            .filter_map(|object| object.key())
            .map(|key| ObjectIdentifier::builder().key(key).build())
            .collect();
        let keys = built(&doing, keys)?;
        if keys.is_empty() {
            let removed = call!(&doing, there.buckets.delete_bucket().bucket(name)).map(drop);
            match unless(removed, Cause::NotFound) {
                Err(error)
                    if error.cause() == Some(Cause::InUse) && since.elapsed() < WRITERS_TIMEOUT =>
                {
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
                removed => return removed,
            }
        }
        let delete = Delete::builder()
            .set_objects(Some(keys))
            .quiet(true)
            .build();
        let deleting = there
            .buckets
            .delete_objects()
            .bucket(name)
            .delete(built(&doing, delete)?);
        // The call succeeds even where objects could not be deleted.
        let deleted = call!(&doing, deleting)?;
        if let Some(error) = deleted.errors().first() {
            let code = error.code().unwrap_or("unnamed error").to_owned();
            let message = error.message().unwrap_or("no message");
            let message = format!("{}: {message}", error.key().unwrap_or_default());
            return Err(AwsError::refused(&doing, code, message));
        }
    }
}
