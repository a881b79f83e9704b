//! Network of a run whose rows have hosts of services: functions must be in a VPC to reach
//! an instance, and in a VPC they have no access to the internet.

use std::collections::BTreeSet;

use epochcost_aws_plan::{EndpointService, SERVICE_INSTANCE, Training, endpoints};
use epochcost_systems::SystemError;

use crate::Scope;
use crate::names::{self, MEMBERS};
use crate::resource::{
    EndpointSpec, FunctionNetwork, InternetGatewaySpec, Spec, SubnetSpec, VpcSpec,
};

/// Returns whether a run of these rows has its own network.
pub(crate) fn is_needed(rows: &[Training]) -> Result<bool, SystemError> {
    for row in rows {
        if row.service_hosts()? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name of the VPC of a run of these rows, if it has one.
pub(crate) fn vpc(scope: &Scope, rows: &[Training]) -> Result<Option<String>, SystemError> {
    Ok(is_needed(rows)?.then(|| names::network(scope)))
}

/// Returns the name of the subnet of a run of these rows, if it has its own network. All of
/// the run's instances are in it, since their security group is.
///
/// # Errors
/// When a row's settings are invalid for its system.
pub fn subnet(scope: &Scope, rows: &[Training]) -> Result<Option<String>, SystemError> {
    vpc(scope, rows)
}

/// Returns the network of a row's functions, if they are in the run's.
pub(crate) fn of_functions(
    scope: &Scope,
    row: &Training,
) -> Result<Option<FunctionNetwork>, SystemError> {
    let inside = row.service_hosts()? > 0;
    Ok(inside.then(|| FunctionNetwork {
        subnet: names::network(scope),
        security_group: scope.run.name(MEMBERS),
    }))
}

/// Returns whether any row's functions are in the network.
pub(crate) fn has_functions(rows: &[Training]) -> Result<bool, SystemError> {
    for row in rows {
        if row.service_hosts()? > 0 && !row.calls()?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the network of a run of these rows without its security group; nothing where no
/// row has hosts of services.
pub(crate) fn specs(scope: &Scope, rows: &[Training]) -> Result<Vec<Spec>, SystemError> {
    let Some(name) = vpc(scope, rows)? else {
        return Ok(Vec::new());
    };
    // The subnet's zone must offer all instance types.
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
            addresses: addresses(0),
            instance_types: instance_types.into_iter().collect(),
            services: endpoints(rows)?.into_iter().collect(),
        }),
    ];
    // Endpoints of the services that functions call.
    for service in endpoints(rows)? {
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

/// Availability zones in which workers on instances are tried.
pub const ZONES: usize = 3;

/// Returns the addresses of a run's subnet in a zone, some 4,000. Functions share network
/// interfaces (one for each pair of subnet and security group, and more for many connections), so
/// that a thousand workers need fewer than a thousand.
fn addresses(zone: usize) -> String {
    format!("10.0.{}.0/20", 16 * zone)
}

/// Returns the subnet in another zone for a row's workers on instances, where `tried` zones had no
/// capacity for them; none for rows with hosts of services, which stay beside their hosts: traffic
/// between zones is paid by the gigabyte.
///
/// # Errors
/// When the row's settings are invalid for its system.
pub fn further_subnet(
    scope: &Scope,
    row: &Training,
    tried: usize,
) -> Result<Option<SubnetSpec>, SystemError> {
    if row.service_hosts()? > 0 || row.instances()? == 0 {
        return Ok(None);
    }
    Ok(Some(SubnetSpec {
        name: scope.run.name(&format!("network-{}", tried + 1)),
        vpc: names::network(scope),
        addresses: addresses(tried),
        instance_types: vec![row.instance_type.clone()],
        services: Vec::new(),
    }))
}

/// Returns the name of an endpoint within its run.
fn endpoint(service: EndpointService) -> &'static str {
    match service {
        EndpointService::Objects => "to-objects",
        EndpointService::Functions => "to-functions",
        EndpointService::Workflows => "to-workflows",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::deployment::tests::{rows, scope};
    use crate::deployment::{Package, TrialIndex, addresses, of_trial, shared};
    use crate::resource::{Architecture, Kind};

    fn of_systems(systems: &[&str]) -> Vec<Training> {
        let mut rows = rows();
        rows.retain(|row| systems.contains(&row.row.as_str()));
        assert_eq!(rows.len(), systems.len());
        rows
    }

    /// What all trials of systems share.
    fn specs(systems: &[&str]) -> Vec<Spec> {
        shared(&scope(), &of_systems(systems), Vec::new()).unwrap()
    }

    fn endpoints(systems: &[&str]) -> Vec<EndpointService> {
        let service = |spec| match spec {
            Spec::Endpoint(endpoint) => Some(endpoint.service),
            _ => None,
        };
        specs(systems).into_iter().filter_map(service).collect()
    }

    /// Functions must reach hosts; what needs no hosts needs no network.
    #[test]
    fn only_runs_with_hosts_of_services_have_a_network() {
        use EndpointService::{Functions, Objects, Workflows};
        use Kind::{Endpoint, InternetGateway, Subnet, Vpc};
        let kinds = |systems: &[&str]| -> Vec<Kind> {
            let specs = specs(systems);
            specs.iter().map(|spec| spec.address().kind).collect()
        };
        let without = kinds(&["allreduce", "gpu_baseline"]);
        let with = kinds(&["allreduce", "spirt"]);
        for kind in [Vpc, InternetGateway, Subnet, Endpoint] {
            assert!(!without.contains(&kind), "{kind}");
            assert!(with.contains(&kind), "{kind}");
        }
        // Whatever a run has ends with its lease.
        assert!(without.contains(&Kind::Switch));
        assert_eq!(endpoints(&["allreduce"]), []);
        assert_eq!(endpoints(&["spirt"]), [Objects, Functions, Workflows]);
        let mut all = addresses(&scope(), &of_systems(&["spirt"]))
            .unwrap()
            .into_iter();
        let network = scope().run.name("network");
        assert!(all.any(|address| address.kind == Vpc && address.name == network));
    }

    /// Functions of rows with hosts are in the network, those of others are
    /// not: nothing there would lead them to S3's other buckets or out.
    #[test]
    fn functions_are_where_their_hosts_are() {
        let package = Package {
            architecture: Architecture::X86_64,
            key: "worker.zip".into(),
            storage_mb: 512,
            environment: BTreeMap::new(),
        };
        let trial_index = TrialIndex { row: 0, trial: 0 };
        for (system, inside) in [("spirt", true), ("mlless", true), ("allreduce", false)] {
            let mut row = of_systems(&[system]).remove(0);
            row.uses_tensor_store = inside;
            row.uses_queue = inside;
            let specs = of_trial(&scope(), &row, trial_index, &package).unwrap();
            let network = |spec| match spec {
                Spec::Function(function) => Some(function.network),
                _ => None,
            };
            let networks: Vec<_> = specs.into_iter().filter_map(network).collect();
            assert!(!networks.is_empty());
            for network in networks {
                let expected = inside.then(|| scope().run.name("network"));
                assert_eq!(network.map(|of| of.subnet), expected, "{system}");
            }
        }
    }

    /// The one security group is in the network, and so must all instances be.
    #[test]
    fn all_instances_of_a_run_with_a_network_are_in_it() {
        let rows = of_systems(&["spirt", "gpu_baseline"]);
        let within = subnet(&scope(), &rows).unwrap();
        assert_eq!(within, Some(scope().run.name("network")));
        let trial_index = TrialIndex { row: 1, trial: 0 };
        let instances =
            crate::workers::of_trial(&scope(), &rows[1], trial_index, &[], within.as_deref())
                .unwrap();
        assert!(!instances.is_empty());
        for spec in instances {
            assert!(matches!(spec, Spec::Instance(instance) if instance.subnet == within));
        }
        let mut specs = specs(&["spirt", "gpu_baseline"]).into_iter();
        let types = specs.find_map(|spec| match spec {
            Spec::Subnet(subnet) => Some(subnet.instance_types),
            _ => None,
        });
        assert_eq!(types.unwrap(), ["g4dn.xlarge", SERVICE_INSTANCE]);
        let without = of_systems(&["gpu_baseline"]);
        assert_eq!(subnet(&scope(), &without).unwrap(), None);
    }
}
