//! What resources of EC2 have in common: tags, names, and lists by the page.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};

use super::{Found, Kind};
use crate::run::{OwnerTags, PROJECT_TAG};
use crate::{AwsError, Clients, Scope};

/// The run's tags and the name, as EC2 takes them for a new resource.
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

/// What tags of EC2 say, and the name among them.
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

/// What has that name.
pub(super) fn named(name: &str) -> Filter {
    Filter::builder().name("tag:Name").values(name).build()
}

/// What has this project's tag.
pub(super) fn tagged() -> Filter {
    Filter::builder()
        .name(format!("tag:{}", PROJECT_TAG.0))
        .values(PROJECT_TAG.1)
        .build()
}

/// What the tags make of a resource that was listed: ours, or nothing. One
/// without a name goes by its id.
pub(super) fn found_by_tags(
    kind: Kind,
    id: Option<&str>,
    tags: &[Tag],
    clients: &Clients,
) -> Option<Found> {
    let (id, (owner_tags, name)) = (id?, owner_tags(tags));
    Found::of(kind, name.unwrap_or(id), id, clients.region(), owner_tags)
}

/// The id of something that another thing is to be in.
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

/// All items of a list that comes by the page.
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
