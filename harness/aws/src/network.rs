//! A run's own network, where rows have hosts of services: functions must be in
//! a VPC to reach an instance, and in a VPC they have no way to the internet.

use std::collections::BTreeSet;

use epochcost_systems::SystemError;

use crate::Scope;
use crate::deployment::{SERVICE_INSTANCE, Training};
use crate::resource::{
    EndpointService, EndpointSpec, FunctionNetwork, InternetGatewaySpec, Spec, SubnetSpec, VpcSpec,
};

/// The security group of all members of a run.
pub(crate) const MEMBERS: &str = "members";
/// The VPC, its gateway and its subnet.
const NETWORK: &str = "network";

/// The name of a run's VPC, of its gateway and of its subnet.
pub(crate) fn name(scope: &Scope) -> String {
    scope.run.name(NETWORK)
}

/// Whether a run of these rows has a network of its own.
pub(crate) fn is_needed(rows: &[Training]) -> Result<bool, SystemError> {
    for row in rows {
        if row.service_hosts()? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of the VPC of a run of these rows, if it has one.
pub(crate) fn vpc(scope: &Scope, rows: &[Training]) -> Result<Option<String>, SystemError> {
    Ok(is_needed(rows)?.then(|| name(scope)))
}

/// The name of the subnet of a run of these rows, if it has a network of its
/// own: all of the run's instances are in it, since their security group is.
///
/// # Errors
/// When a row's settings are not its system's.
pub fn subnet(scope: &Scope, rows: &[Training]) -> Result<Option<String>, SystemError> {
    vpc(scope, rows)
}

/// Where the functions of a row are.
pub(crate) fn of_functions(
    scope: &Scope,
    row: &Training,
) -> Result<Option<FunctionNetwork>, SystemError> {
    let inside = row.service_hosts()? > 0;
    Ok(inside.then(|| FunctionNetwork {
        subnet: name(scope),
        security_group: scope.run.name(MEMBERS),
    }))
}

/// Whether functions of a row are in the network.
pub(crate) fn has_functions(rows: &[Training]) -> Result<bool, SystemError> {
    for row in rows {
        if row.service_hosts()? > 0 && !row.calls()?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a run of these rows reaches by endpoints; nothing without a network.
pub(crate) fn services(rows: &[Training]) -> Result<BTreeSet<EndpointService>, SystemError> {
    let mut services = BTreeSet::new();
    for row in rows {
        if row.service_hosts()? == 0 {
            continue;
        }
        services.insert(EndpointService::Objects);
        if !row.calls()?.is_empty() {
            services.insert(EndpointService::Functions);
        }
        if row.transitions()? > 0 {
            services.insert(EndpointService::Workflows);
        }
    }
    Ok(services)
}

/// The network of a run of these rows without its security group; nothing where
/// none has hosts of services.
pub(crate) fn specs(scope: &Scope, rows: &[Training]) -> Result<Vec<Spec>, SystemError> {
    let Some(name) = vpc(scope, rows)? else {
        return Ok(Vec::new());
    };
    let mut instance_types = BTreeSet::from([SERVICE_INSTANCE.to_owned()]);
    for row in rows {
        if row.instances()? > 0 {
            instance_types.insert(row.instance_type.clone());
        }
    }
    let mut specs = vec![
        Spec::Vpc(VpcSpec { name: name.clone() }),
        Spec::InternetGateway(InternetGatewaySpec {
            name: name.clone(),
            vpc: name.clone(),
        }),
        Spec::Subnet(SubnetSpec {
            name: name.clone(),
            vpc: name.clone(),
            instance_types: instance_types.into_iter().collect(),
        }),
    ];
    for service in services(rows)? {
        specs.push(Spec::Endpoint(EndpointSpec {
            name: scope.run.name(endpoint(service)),
            vpc: name.clone(),
            subnet: name.clone(),
            security_group: scope.run.name(MEMBERS),
            service,
        }));
    }
    Ok(specs)
}

fn endpoint(service: EndpointService) -> &'static str {
    match service {
        EndpointService::Objects => "to-objects",
        EndpointService::Functions => "to-functions",
        EndpointService::Workflows => "to-workflows",
    }
}
