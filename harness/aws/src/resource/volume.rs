//! EBS volumes that an instance left. They are made with instances, and go
//! with them unless something went wrong.

use aws_sdk_ec2::types::{Filter, VolumeState};

use super::security_group::{marks, tagged};
use super::{Found, Holding, Kind, call};
use crate::error::{Cause, unless};
use crate::{AwsError, Clients};

pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    // One that is attached belongs to an instance, which is found by itself.
    let left = Filter::builder()
        .name("status")
        .values(VolumeState::Available.as_str())
        .values(VolumeState::Creating.as_str())
        .values(VolumeState::Error.as_str())
        .build();
    let listing = clients
        .instances
        .describe_volumes()
        .filters(tagged())
        .filters(left);
    let mut pages = listing.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list volumes", error))?;
        for volume in page.volumes.unwrap_or_default() {
            let Some(id) = volume.volume_id() else {
                continue;
            };
            let (marks, name) = marks(volume.tags());
            let gb = u64::try_from(volume.size().unwrap_or(0)).unwrap_or(0);
            let name = name.unwrap_or(id);
            let ours = Found::of(Kind::Volume, name, id, clients.region(), marks);
            found.extend(ours.map(|ours| ours.holding(Holding::VolumeGb(gb))));
        }
    }
    Ok(found)
}

pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let delete = clients.instances.delete_volume().volume_id(&found.id);
    let removed = call!(format!("remove the volume {}", found.id), delete).map(drop);
    unless(removed, Cause::NotFound)
}
