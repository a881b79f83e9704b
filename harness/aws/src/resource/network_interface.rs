//! Network interfaces that Lambda makes for functions in a run's network, and leaves behind for up
//! to 40 minutes after the functions are gone: detached ones may be removed by anyone.

use aws_sdk_ec2::types::Filter;

use super::call;
use crate::{AwsError, Clients};

/// Begin of the description that Lambda gives its interfaces.
const OF_LAMBDA: &str = "AWS Lambda VPC ENI";

/// Removes Lambda's detached interfaces for which `filter` has the value `id`: `subnet-id` or
/// `group-id`, both of which are a run's own. One that is attached again, or gone, is left alone:
/// the next attempt looks again.
pub(super) async fn remove_detached(
    filter: &str,
    id: &str,
    clients: &Clients,
) -> Result<(), AwsError> {
    let is = |name: &str, value: &str| Filter::builder().name(name).values(value).build();
    let listing = clients
        .instances
        .describe_network_interfaces()
        .filters(is(filter, id))
        .filters(is("status", "available"));
    let listed = call!(format!("list the network interfaces of {id}"), listing)?;
    for interface in listed.network_interfaces.unwrap_or_default() {
        let (Some(id), Some(of)) = (interface.network_interface_id(), interface.description())
        else {
            continue;
        };
        if of.starts_with(OF_LAMBDA) {
            let delete = clients.instances.delete_network_interface();
            let removed = delete.network_interface_id(id).send().await;
            drop(removed);
        }
    }
    Ok(())
}
