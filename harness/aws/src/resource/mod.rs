//! Resources of a run on AWS: each kind with its creation, listing and removal. No other
//! module of this crate creates resources.

mod bucket;
mod ec2;
mod endpoint;
mod function;
mod instance;
mod instance_profile;
mod internet_gateway;
mod log_group;
mod network_interface;
mod retry;
mod role;
mod security_group;
mod state_machine;
mod subnet;
mod switch;
mod volume;
mod vpc;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use bucket::{BucketSpec, ObjectSpec};
pub use endpoint::EndpointSpec;
pub use epochcost_aws_plan::EndpointService;
pub use function::{Architecture, FunctionNetwork, FunctionSpec};
pub use instance::{InstanceSpec, ended_by, launched_s};
pub use instance_profile::InstanceProfileSpec;
pub use internet_gateway::InternetGatewaySpec;
pub use log_group::LogGroupSpec;
pub(crate) use retry::once_passed;
pub use role::RoleSpec;
pub use security_group::SecurityGroupSpec;
pub use state_machine::StateMachineSpec;
pub use subnet::SubnetSpec;
pub use switch::{Ends, SwitchSpec, arm as arm_switch, disarm as disarm_switch, lease};
pub use vpc::VpcSpec;
pub(crate) use vpc::count as vpcs;

use crate::run::OwnerTags;
use crate::{AwsError, Clients, RunId, Scope};

/// Kind of resource; the order is that of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An S3 bucket.
    Bucket,
    /// An IAM role.
    Role,
    /// An IAM instance profile.
    InstanceProfile,
    /// A VPC.
    Vpc,
    /// An internet gateway.
    InternetGateway,
    /// A subnet.
    Subnet,
    /// An EC2 security group.
    SecurityGroup,
    /// A dead man's switch: ends what is paid for where the program has died. Exists before it.
    Switch,
    /// A VPC endpoint.
    Endpoint,
    /// A CloudWatch log group.
    LogGroup,
    /// A Lambda function.
    Function,
    /// A Step Functions state machine.
    StateMachine,
    /// An EBS volume: never created by itself, but an instance may leave one behind.
    Volume,
    /// An EC2 instance.
    Instance,
}

impl Kind {
    /// All kinds in the order of creation.
    pub const ALL: [Self; 14] = [
        Self::Bucket,
        Self::Role,
        Self::InstanceProfile,
        Self::Vpc,
        Self::InternetGateway,
        Self::Subnet,
        Self::SecurityGroup,
        Self::Switch,
        Self::Endpoint,
        Self::LogGroup,
        Self::Function,
        Self::StateMachine,
        Self::Volume,
        Self::Instance,
    ];

    /// Returns the kind's place in the order of removal: first what is charged for by the second
    /// and the hour, then data, then what costs nothing and may have to wait until Lambda has
    /// removed its network interfaces, which takes up to 45 minutes. Roles come last: Lambda
    /// removes the interfaces under them. The switch outlives the endpoints, which it guards.
    pub fn removal_order(self) -> usize {
        const ORDER: [Kind; 14] = [
            Kind::Instance,
            Kind::Volume,
            Kind::StateMachine,
            Kind::Function,
            Kind::Endpoint,
            Kind::Switch,
            Kind::LogGroup,
            Kind::Bucket,
            Kind::SecurityGroup,
            Kind::Subnet,
            Kind::InternetGateway,
            Kind::Vpc,
            Kind::InstanceProfile,
            Kind::Role,
        ];
        let place = ORDER.iter().position(|kind| *kind == self);
        place.unwrap_or(ORDER.len())
    }

    /// Returns whether resources of this kind belong to no region.
    pub fn is_global(self) -> bool {
        matches!(self, Self::Bucket | Self::Role | Self::InstanceProfile)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bucket => "S3 bucket",
            Self::Role => "IAM role",
            Self::InstanceProfile => "IAM instance profile",
            Self::Vpc => "VPC",
            Self::InternetGateway => "internet gateway",
            Self::Subnet => "subnet",
            Self::SecurityGroup => "security group",
            Self::Switch => "dead man's switch",
            Self::Endpoint => "VPC endpoint",
            Self::LogGroup => "log group",
            Self::Function => "Lambda function",
            Self::StateMachine => "state machine",
            Self::Volume => "EBS volume",
            Self::Instance => "EC2 instance",
        })
    }
}

/// Kind and name of a resource, which identify it before it exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Kind of the resource.
    pub kind: Kind,
    /// Name, unique within its kind.
    pub name: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Specification of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// An S3 bucket.
    Bucket(BucketSpec),
    /// An IAM role.
    Role(RoleSpec),
    /// An IAM instance profile.
    InstanceProfile(InstanceProfileSpec),
    /// A VPC.
    Vpc(VpcSpec),
    /// An internet gateway.
    InternetGateway(InternetGatewaySpec),
    /// A subnet.
    Subnet(SubnetSpec),
    /// An EC2 security group.
    SecurityGroup(SecurityGroupSpec),
    /// A dead man's switch.
    Switch(SwitchSpec),
    /// A VPC endpoint.
    Endpoint(EndpointSpec),
    /// A CloudWatch log group.
    LogGroup(LogGroupSpec),
    /// A Lambda function.
    Function(FunctionSpec),
    /// A Step Functions state machine.
    StateMachine(StateMachineSpec),
    /// An EC2 instance.
    Instance(InstanceSpec),
}

impl Spec {
    /// Returns the kind and name of the resource.
    pub fn address(&self) -> Address {
        let (kind, name) = match self {
            Self::Bucket(spec) => (Kind::Bucket, &spec.name),
            Self::Role(spec) => (Kind::Role, &spec.name),
            Self::InstanceProfile(spec) => (Kind::InstanceProfile, &spec.name),
            Self::Vpc(spec) => (Kind::Vpc, &spec.name),
            Self::InternetGateway(spec) => (Kind::InternetGateway, &spec.name),
            Self::Subnet(spec) => (Kind::Subnet, &spec.name),
            Self::SecurityGroup(spec) => (Kind::SecurityGroup, &spec.name),
            Self::Switch(spec) => (Kind::Switch, &spec.name),
            Self::Endpoint(spec) => (Kind::Endpoint, &spec.name),
            Self::LogGroup(spec) => (Kind::LogGroup, &spec.name),
            Self::Function(spec) => (Kind::Function, &spec.name),
            Self::StateMachine(spec) => (Kind::StateMachine, &spec.name),
            Self::Instance(spec) => (Kind::Instance, &spec.name),
        };
        Address {
            kind,
            name: name.clone(),
        }
    }

    /// Creates the resource if it does not exist, and completes it. May be repeated.
    /// Returns the service's id of it.
    pub(crate) async fn ensure(
        &self,
        clients: &Clients,
        scope: &Scope,
    ) -> Result<String, AwsError> {
        match self {
            Self::Bucket(spec) => bucket::ensure(spec, clients, scope).await,
            Self::Role(spec) => role::ensure(spec, clients, scope).await,
            Self::InstanceProfile(spec) => instance_profile::ensure(spec, clients, scope).await,
            Self::Vpc(spec) => vpc::ensure(spec, clients, scope).await,
            Self::InternetGateway(spec) => internet_gateway::ensure(spec, clients, scope).await,
            Self::Subnet(spec) => subnet::ensure(spec, clients, scope).await,
            Self::SecurityGroup(spec) => security_group::ensure(spec, clients, scope).await,
            Self::Switch(spec) => switch::ensure(spec, clients, scope).await,
            Self::Endpoint(spec) => endpoint::ensure(spec, clients, scope).await,
            Self::LogGroup(spec) => log_group::ensure(spec, clients, scope).await,
            Self::Function(spec) => function::ensure(spec, clients, scope).await,
            Self::StateMachine(spec) => state_machine::ensure(spec, clients, scope).await,
            Self::Instance(spec) => instance::ensure(spec, clients, scope).await,
        }
    }
}

/// Charge of an existing resource that is not used.
#[derive(Clone, Debug, PartialEq)]
pub enum Holding {
    /// No charge.
    Free,
    /// Objects of a bucket, bytes.
    ObjectBytes(u64),
    /// Logs, bytes.
    LogBytes(u64),
    /// Volume, GB.
    VolumeGb(u64),
    /// Running instance of this type.
    Instance(String),
    /// An interface endpoint.
    Endpoint,
}

/// Existing resource of this project.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Kind and name.
    pub address: Address,
    /// Region; for kinds without one, the region of the request.
    pub region: String,
    /// Id from the service.
    pub id: String,
    /// Run of the resource.
    pub run: RunId,
    /// Expiry time from the `epochcost:expires` tag, if the resource has one.
    pub expires: Option<jiff::Timestamp>,
    /// Charge while it is not used.
    pub holding: Holding,
}

impl Found {
    /// Returns the resource if its tags or its name identify it as ours.
    fn of(kind: Kind, name: &str, id: &str, region: &str, owner_tags: OwnerTags) -> Option<Self> {
        Some(Self {
            run: owner_tags.owner(name)?,
            expires: owner_tags.expires,
            address: Address {
                kind,
                name: name.to_owned(),
            },
            region: region.to_owned(),
            id: id.to_owned(),
            holding: Holding::Free,
        })
    }

    /// Returns the same resource with its charge.
    fn holding(self, holding: Holding) -> Self {
        Self { holding, ..self }
    }
}

/// Lists our resources of one kind in the clients' region.
pub(crate) async fn list(kind: Kind, clients: &Clients) -> Result<Vec<Found>, AwsError> {
    match kind {
        Kind::Bucket => bucket::list(clients).await,
        Kind::Role => role::list(clients).await,
        Kind::InstanceProfile => instance_profile::list(clients).await,
        Kind::Vpc => vpc::list(clients).await,
        Kind::InternetGateway => internet_gateway::list(clients).await,
        Kind::Subnet => subnet::list(clients).await,
        Kind::SecurityGroup => security_group::list(clients).await,
        Kind::Switch => switch::list(clients).await,
        Kind::Endpoint => endpoint::list(clients).await,
        Kind::LogGroup => log_group::list(clients).await,
        Kind::Function => function::list(clients).await,
        Kind::StateMachine => state_machine::list(clients).await,
        Kind::Volume => volume::list(clients).await,
        Kind::Instance => instance::list(clients).await,
    }
}

/// Asks for the end of all instances in `found` at once, so that none is charged for while the
/// program waits for the end of another. What fails here is reported when they are removed one
/// by one.
pub(crate) async fn terminate_instances(found: &[Found], clients: &Clients) {
    let mut by_region: std::collections::BTreeMap<&str, Vec<String>> = Default::default();
    for found in found {
        // One id that EC2 does not know would have it refuse all of them.
        if matches!(found.holding, Holding::Instance(_)) {
            let of_region = by_region.entry(&found.region).or_default();
            of_region.push(found.id.clone());
        }
    }
    for (region, ids) in by_region {
        instance::terminate(ids, &clients.in_region(region)).await;
    }
}

/// Removes a resource, and waits until it is gone. A missing resource is no error.
pub(crate) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    match found.address.kind {
        Kind::Bucket => bucket::remove(found, clients).await,
        Kind::Role => role::remove(found, clients).await,
        Kind::InstanceProfile => instance_profile::remove(found, clients).await,
        Kind::Vpc => vpc::remove(found, clients).await,
        Kind::InternetGateway => internet_gateway::remove(found, clients).await,
        Kind::Subnet => subnet::remove(found, clients).await,
        Kind::SecurityGroup => security_group::remove(found, clients).await,
        Kind::Switch => switch::remove(found, clients).await,
        Kind::Endpoint => endpoint::remove(found, clients).await,
        Kind::LogGroup => log_group::remove(found, clients).await,
        Kind::Function => function::remove(found, clients).await,
        Kind::StateMachine => state_machine::remove(found, clients).await,
        Kind::Volume => volume::remove(found, clients).await,
        Kind::Instance => instance::remove(found, clients).await,
    }
}

/// Sends a request and converts its error; `doing` follows "failed to".
macro_rules! call {
    ($doing:expr, $request:expr) => {{
        let request = $request;
        let attempt = || async {
            let answer = request.clone().send().await;
            answer.map_err(|error| crate::AwsError::of($doing, error))
        };
        crate::resource::once_passed(attempt).await
    }};
}
pub(crate) use call;

/// Converts the error of a builder of the SDK, which is a fault of this program.
pub(crate) fn built<T, E: fmt::Display>(doing: &str, built: Result<T, E>) -> Result<T, AwsError> {
    built.map_err(|error| AwsError::Unusable {
        problem: format!("failed to {doing}: {error}"),
        remedy: "this is a fault of this program".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What costs money is gone before the wait for network interfaces begins, which subnets and
    /// security groups are held by; roles, under which Lambda removes them, stay until then.
    #[test]
    fn what_is_paid_for_is_removed_before_anything_waits() {
        let order = |kind: Kind| kind.removal_order();
        let waits = order(Kind::SecurityGroup).min(order(Kind::Subnet));
        use Kind::{Bucket, Endpoint, Instance, LogGroup, Volume};
        for paid in [Instance, Volume, Endpoint, LogGroup, Bucket] {
            assert!(order(paid) < waits, "{paid}");
        }
        assert!(order(Kind::Switch) > order(Kind::Endpoint));
        assert!(Kind::Switch < Kind::Endpoint && Kind::Role < Kind::Switch);
        assert!(order(Kind::Role) > order(Kind::Subnet));
        assert!(order(Kind::Vpc) > order(Kind::Subnet));
        let mut all: Vec<usize> = Kind::ALL.into_iter().map(order).collect();
        all.sort_unstable();
        assert_eq!(all, (0..Kind::ALL.len()).collect::<Vec<_>>());
    }
}
