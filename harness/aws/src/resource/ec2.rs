//! Tags, names and paged lists of EC2's resources.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};

use super::{Found, Kind};
use crate::run::{OwnerTags, PROJECT_TAG};
use crate::{AwsError, Clients, Scope};

/// Returns the run's tags and the name in EC2's form for a new resource.
pub(super) fn tag_specification(kind: ResourceType, name: &str, scope: &Scope) -> TagSpecification {
    let named = ("Name".to_owned(), name.to_owned());
    let tags = (scope.tags().into_iter().chain([named]))
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    TagSpecification::builder()
        .resource_type(kind)
        .set_tags(Some(tags))
        .build()
}

/// Returns our tags among EC2's, and the name.
pub(super) fn owner_tags(tags: &[Tag]) -> (OwnerTags, Option<&str>) {
    let pairs = || {
        tags.iter()
            .filter_map(|tag| Some((tag.key()?, tag.value()?)))
    };
    let name = pairs()
        .find(|(key, _)| *key == "Name")
        .map(|(_, value)| value);
    (OwnerTags::of(pairs()), name)
}

/// Returns a filter for resources with this name.
pub(super) fn named(name: &str) -> Filter {
    Filter::builder().name("tag:Name").values(name).build()
}

/// Returns a filter for resources with this project's tag.
pub(super) fn tagged() -> Filter {
    Filter::builder()
        .name(format!("tag:{}", PROJECT_TAG.0))
        .values(PROJECT_TAG.1)
        .build()
}

/// Returns a listed resource if its tags identify it as ours. Its id replaces a missing
/// name.
pub(super) fn found_by_tags(
    kind: Kind,
    id: Option<&str>,
    tags: &[Tag],
    clients: &Clients,
) -> Option<Found> {
    let (id, (owner_tags, name)) = (id?, owner_tags(tags));
    Found::of(kind, name.unwrap_or(id), id, clients.region(), owner_tags)
}

/// Returns the id of a resource that must exist for another one.
pub(super) fn needed(
    id: Option<String>,
    doing: &str,
    what: &'static str,
) -> Result<String, AwsError> {
    id.ok_or_else(|| AwsError::Incomplete {
        doing: doing.to_owned(),
        what,
    })
}

/// Returns all items of a paged list.
macro_rules! pages {
    ($listing:expr, $doing:expr, $items:ident) => {{
        let mut pages = $listing.into_paginator().send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| crate::AwsError::of($doing, error))?;
            items.extend(page.$items.unwrap_or_default());
        }
        items
    }};
}
pub(super) use pages;
