//! EBS volumes that an instance left behind. They are created and removed with their
//! instance unless something went wrong.

use aws_sdk_ec2::types::{Filter, VolumeState};

use super::ec2::{found_by_tags, pages, tagged};
use super::{Found, Holding, Kind, call};
use crate::error::{Cause, unless};
use crate::{AwsError, Clients};

/// Lists our volumes in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    // An attached volume belongs to an instance, which is listed itself.
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
    let volumes = pages!(listing, "list volumes", volumes);
    let ours = volumes.iter().filter_map(|volume| {
        let gb = u64::try_from(volume.size().unwrap_or(0)).unwrap_or(0);
        let found = found_by_tags(Kind::Volume, volume.volume_id(), volume.tags(), clients)?;
        Some(found.holding(Holding::VolumeGb(gb)))
    });
    Ok(ours.collect())
}

/// Removes the volume, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let delete = clients.instances.delete_volume().volume_id(&found.id);
    let removed = call!(format!("remove the volume {}", found.id), delete).map(drop);
    unless(removed, Cause::NotFound)
}
