//! Delays of AWS that an emulator does not have: endpoints that are not available at once,
//! and interfaces that block the removal of their network.

use epochcost_aws::resource::{
    Address, Architecture, EndpointService, EndpointSpec, Found, FunctionNetwork, FunctionSpec,
    Holding, InstanceSpec, Kind, Spec, SubnetSpec,
};
use epochcost_aws::{
    Approval, AwsError, Clients, Consent, Journal, Removal, RunId, provision, remove_all,
};

use super::service::{Service, ec2_error, identity};

/// Returns an answer of EC2.
pub fn ec2(operation: &str, content: &str) -> String {
    format!(
        "<{operation}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>1</requestId>{content}</{operation}Response>"
    )
}

fn run() -> RunId {
    RunId::new(0xab)
}

async fn clients(service: &Service) -> Clients {
    service.clients().await
}

/// Provisions one resource.
async fn make(service: &Service, spec: Spec) -> Result<String, AwsError> {
    let clients = clients(service).await;
    let expires = "2099-01-01T00:00:00Z".parse().unwrap();
    let scope = clients.scope(run(), expires).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin(&directory.path().join("j"), scope).unwrap();
    let specs = [spec];
    let addresses = specs.iter().map(Spec::address);
    let approval = Approval::ask(addresses, Consent::Given, || None).unwrap();
    let made = provision(&specs, &clients, &mut journal, &approval).await?;
    Ok(made[0].1.clone())
}

async fn remove(service: &Service, found: Vec<Found>) -> Removal {
    remove_all(found, &clients(service).await).await
}

fn found(kind: Kind, id: &str) -> Found {
    Found {
        address: Address {
            kind,
            name: run().name("members"),
        },
        region: "eu-west-1".to_owned(),
        id: id.to_owned(),
        run: run(),
        expires: None,
        holding: Holding::Free,
    }
}

fn endpoint() -> Spec {
    Spec::Endpoint(EndpointSpec {
        name: run().name("to-functions"),
        vpc: run().name("network"),
        subnet: run().name("network"),
        security_group: run().name("members"),
        service: EndpointService::Functions,
    })
}

fn endpoints(state: &str) -> String {
    let one = format!(
        "<item><vpcEndpointId>vpce-1</vpcEndpointId><vpcEndpointType>Interface</vpcEndpointType>\
         <state>{state}</state><lastError><message>no such zone</message></lastError></item>"
    );
    ec2(
        "DescribeVpcEndpoints",
        &format!("<vpcEndpointSet>{one}</vpcEndpointSet>"),
    )
}

/// Answers where the network exists.
fn network(operation: &str) -> (u16, String) {
    let text = match operation {
        "GetCallerIdentity" => identity(),
        "DescribeVpcs" => ec2(
            operation,
            "<vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet>",
        ),
        "DescribeSubnets" => ec2(
            operation,
            "<subnetSet><item><subnetId>subnet-1</subnetId></item></subnetSet>",
        ),
        "DescribeVpcEndpointServices" => endpoint_services(&["eu-west-1a", "eu-west-1b"]),
        "DescribeSecurityGroups" => ec2(
            operation,
            "<securityGroupInfo><item><groupId>sg-1</groupId></item></securityGroupInfo>",
        ),
        other => panic!("nobody should ask for {other}"),
    };
    (200, text)
}

/// Returns Lambda's endpoint service in these zones.
fn endpoint_services(zones: &[&str]) -> String {
    let zones: String = zones
        .iter()
        .map(|zone| format!("<item>{zone}</item>"))
        .collect();
    ec2(
        "DescribeVpcEndpointServices",
        &format!(
            "<serviceDetailSet><item><serviceName>com.amazonaws.eu-west-1.lambda</serviceName>\
             <availabilityZoneSet>{zones}</availabilityZoneSet></item></serviceDetailSet>"
        ),
    )
}

#[tokio::test]
async fn an_endpoint_is_waited_for_until_it_answers() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        // The endpoint does not exist; EC2 does not know the VPC at once; then it does.
        ("DescribeVpcEndpoints", 0) => (200, ec2(operation, "<vpcEndpointSet></vpcEndpointSet>")),
        ("CreateVpcEndpoint", 0) => (400, ec2_error("InvalidVpcId.NotFound")),
        ("CreateVpcEndpoint", _) => (
            200,
            ec2(
                operation,
                "<vpcEndpoint><vpcEndpointId>vpce-1</vpcEndpointId></vpcEndpoint>",
            ),
        ),
        ("DescribeVpcEndpoints", 1) => (200, endpoints("pending")),
        ("DescribeVpcEndpoints", _) => (200, endpoints("Available")),
        (other, _) => network(other),
    })
    .await;
    assert_eq!(make(&service, endpoint()).await.unwrap(), "vpce-1");
    assert_eq!(service.asked("CreateVpcEndpoint"), 2);
    assert_eq!(service.asked("DescribeVpcEndpoints"), 3);
}

#[tokio::test]
async fn an_endpoint_that_failed_says_why() {
    let service = Service::start(|operation| match operation {
        "DescribeVpcEndpoints" => (200, endpoints("failed")),
        other => network(other),
    })
    .await;
    let error = make(&service, endpoint()).await.unwrap_err().to_string();
    assert!(error.contains("is failed: no such zone"), "{error}");
    assert_eq!(service.asked("CreateVpcEndpoint"), 0);
}

#[tokio::test]
async fn an_endpoint_is_removed_when_its_interface_is() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("DeleteVpcEndpoints", _) => (200, ec2(operation, "<unsuccessful></unsuccessful>")),
        ("DescribeVpcEndpoints", 0) => (200, endpoints("deleting")),
        ("DescribeVpcEndpoints", _) => (400, ec2_error("InvalidVpcEndpointId.NotFound")),
        (other, _) => network(other),
    })
    .await;
    let removed = remove(&service, vec![found(Kind::Endpoint, "vpce-1")]).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    assert_eq!(service.asked("DescribeVpcEndpoints"), 2);
}

/// The refusal is in an answer with status 200.
#[tokio::test]
async fn an_endpoint_that_refuses_to_go_is_left_and_named() {
    let service = Service::start(|operation| match operation {
        "DeleteVpcEndpoints" => {
            let refused = "<unsuccessful><item><resourceId>vpce-1</resourceId><error>\
                           <code>UnauthorizedOperation</code><message>told to</message></error>\
                           </item></unsuccessful>";
            (200, ec2(operation, refused))
        }
        other => network(other),
    })
    .await;
    let removed = remove(&service, vec![found(Kind::Endpoint, "vpce-1")]).await;
    let (_, error) = &removed.leftovers[0];
    assert!(
        error.to_string().contains("epochcost aws policy"),
        "{error}"
    );
}

#[tokio::test]
async fn interfaces_of_functions_are_waited_for() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("DeleteSecurityGroup" | "DeleteSubnet" | "DeleteVpc", 0) => {
            (400, ec2_error("DependencyViolation"))
        }
        ("DeleteSecurityGroup" | "DeleteSubnet", _) => {
            (200, ec2(operation, "<return>true</return>"))
        }
        ("DeleteVpc", _) => (400, ec2_error("InvalidVpcID.NotFound")),
        // Detached ones are removed, and only those that Lambda made.
        ("DescribeNetworkInterfaces", _) => (200, interfaces()),
        ("DeleteNetworkInterface", _) => (200, ec2(operation, "<return>true</return>")),
        (other, _) => network(other),
    })
    .await;
    let all = vec![
        found(Kind::SecurityGroup, "sg-1"),
        found(Kind::Subnet, "subnet-1"),
        found(Kind::Vpc, "vpc-1"),
    ];
    let removed = remove(&service, all).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    for operation in ["DeleteSecurityGroup", "DeleteSubnet", "DeleteVpc"] {
        assert_eq!(service.asked(operation), 2);
    }
    // One each for the group and for the subnet.
    assert_eq!(service.asked("DeleteNetworkInterface"), 2);
}

/// Returns an interface that Lambda left behind, and one of something else.
fn interfaces() -> String {
    let one = |id: &str, description: &str| {
        format!(
            "<item><networkInterfaceId>{id}</networkInterfaceId><description>{description}\
             </description><status>available</status></item>"
        )
    };
    let all = one(
        "eni-1",
        "AWS Lambda VPC ENI-epochcost-0000000000ab-worker-1",
    ) + &one("eni-2", "x");
    ec2(
        "DescribeNetworkInterfaces",
        &format!("<networkInterfaceSet>{all}</networkInterfaceSet>"),
    )
}

/// Types and endpoints are in different zones: in neither could functions reach what they need.
#[tokio::test]
async fn a_zone_without_the_endpoints_is_none() {
    let service = Service::start(|operation| match operation {
        "DescribeSubnets" => (200, ec2(operation, "<subnetSet></subnetSet>")),
        "DescribeInstanceTypeOfferings" => (
            200,
            offerings(&[("g4dn.xlarge", "eu-west-1a"), ("t2.medium", "eu-west-1a")]),
        ),
        "DescribeVpcEndpointServices" => (200, endpoint_services(&["eu-west-1b"])),
        other => network(other),
    })
    .await;
    let error = make(&service, subnet()).await.unwrap_err().to_string();
    assert!(error.contains("no availability zone"), "{error}");
    assert_eq!(service.asked("CreateSubnet"), 0);
}

/// A new subnet is in EC2's lists some seconds after it was made.
#[tokio::test]
async fn what_is_not_listed_yet_is_waited_for() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("DescribeInstances", _) => (200, ec2(operation, "<reservationSet/>")),
        ("DescribeSubnets", 0) => (200, ec2(operation, "<subnetSet></subnetSet>")),
        ("RunInstances", _) => {
            let started = "<instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>";
            (200, ec2(operation, started))
        }
        (other, _) => network(other),
    })
    .await;
    let subnet = Some(run().name("network"));
    assert_eq!(make(&service, instance(subnet)).await.unwrap(), "i-1");
    assert_eq!(service.asked("DescribeSubnets"), 2);
}

/// Lambda removes interfaces under the functions' role.
#[tokio::test]
async fn roles_stay_as_long_as_what_interfaces_hold() {
    let service = Service::start(|operation| match operation {
        "DeleteSecurityGroup" => (403, ec2_error("UnauthorizedOperation")),
        other => network(other),
    })
    .await;
    let all = vec![
        found(Kind::SecurityGroup, "sg-1"),
        found(Kind::Role, "arn:aws:iam::123456789012:role/x"),
    ];
    let removed = remove(&service, all).await;
    let left: Vec<Kind> = (removed.leftovers.iter())
        .map(|(found, _)| found.address.kind)
        .collect();
    assert_eq!(left, [Kind::SecurityGroup, Kind::Role]);
    assert!(
        removed.leftovers[1]
            .1
            .to_string()
            .contains("network interfaces")
    );
    assert_eq!(service.asked("DeleteRole"), 0);
}

fn offerings(zones: &[(&str, &str)]) -> String {
    let items: String = (zones.iter())
        .map(|(kind, zone)| {
            format!(
                "<item><instanceType>{kind}</instanceType>\
                 <locationType>availability-zone</locationType><location>{zone}</location></item>"
            )
        })
        .collect();
    ec2(
        "DescribeInstanceTypeOfferings",
        &format!("<instanceTypeOfferingSet>{items}</instanceTypeOfferingSet>"),
    )
}

fn subnet() -> Spec {
    Spec::Subnet(SubnetSpec {
        name: run().name("network"),
        vpc: run().name("network"),
        addresses: "10.0.0.0/20".into(),
        instance_types: vec!["g4dn.xlarge".into(), "t2.medium".into()],
        services: vec![EndpointService::Functions],
    })
}

#[tokio::test]
async fn a_region_where_no_zone_has_all_types_is_named() {
    let service = Service::start(|operation| match operation {
        "DescribeSubnets" => (200, ec2(operation, "<subnetSet></subnetSet>")),
        "DescribeInstanceTypeOfferings" => (
            200,
            offerings(&[("g4dn.xlarge", "eu-west-1a"), ("t2.medium", "eu-west-1b")]),
        ),
        other => network(other),
    })
    .await;
    let error = make(&service, subnet()).await.unwrap_err().to_string();
    for part in ["eu-west-1", "g4dn.xlarge", "t2.medium"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(service.asked("CreateSubnet"), 0);
}

/// A process that died created it, and EC2 did not know of it at the first request.
#[tokio::test]
async fn a_subnet_that_was_made_before_is_taken() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("DescribeSubnets", 0) => (200, ec2(operation, "<subnetSet></subnetSet>")),
        ("DescribeInstanceTypeOfferings", _) => (
            200,
            offerings(&[("t2.medium", "eu-west-1b"), ("g4dn.xlarge", "eu-west-1b")]),
        ),
        ("CreateSubnet", _) => (400, ec2_error("InvalidSubnet.Conflict")),
        ("ModifySubnetAttribute", _) => (200, ec2(operation, "<return>true</return>")),
        (other, _) => network(other),
    })
    .await;
    assert_eq!(make(&service, subnet()).await.unwrap(), "subnet-1");
}

/// Lambda needs the permissions of the role and on the key, which arrive late; then it does not
/// know the function yet, and takes time to attach its interface.
#[tokio::test]
async fn a_function_in_a_network_is_waited_for() {
    let service = Service::start_counting(|operation, before| {
        let configuration = |state: &str| format!("{{\"State\": \"{state}\"}}");
        let refusal = "{\"Type\": \"User\", \"message\": \"The provided execution role does not \
                       have permissions to call CreateNetworkInterface on EC2\", \
                       \"__type\": \"InvalidParameterValueException\"}";
        let key = "{\"Type\": \"User\", \"message\": \"Lambda was unable to configure access to \
                   your environment variables because the KMS key is invalid for CreateGrant.\", \
                   \"__type\": \"InvalidParameterValueException\"}";
        let unknown = "{\"Type\": \"User\", \"message\": \"Function not found\", \
                       \"__type\": \"ResourceNotFoundException\"}";
        let created = operation == "POST /2015-03-31/functions";
        let settings = operation.ends_with("/event-invoke-config");
        match (operation, before) {
            (_, 0) if created => (400, refusal.to_owned()),
            (_, 1) if created => (400, key.to_owned()),
            _ if created => (201, configuration("Pending")),
            _ if settings => (200, "{}".to_owned()),
            (_, 0) if operation.ends_with("/configuration") => (404, unknown.to_owned()),
            (_, 1) if operation.ends_with("/configuration") => (200, configuration("Pending")),
            _ if operation.ends_with("/configuration") => (200, configuration("Active")),
            (other, _) => network(other),
        }
    })
    .await;
    let function = Spec::Function(FunctionSpec {
        name: run().name("worker"),
        role: run().name("functions"),
        memory_mb: 2048,
        timeout_s: 900,
        storage_mb: 512,
        architecture: Architecture::X86_64,
        code_bucket: run().name("code"),
        code_key: "worker.zip".into(),
        environment: Default::default(),
        network: Some(FunctionNetwork {
            subnet: run().name("network"),
            security_group: run().name("members"),
        }),
    });
    make(&service, function).await.unwrap();
    assert_eq!(service.asked("POST /2015-03-31/functions"), 3);
    let described = format!("GET {}/configuration", path("worker"));
    assert_eq!(service.asked(&described), 3);
    // Lines in JSON would have no REPORT.
    let created = service.first("POST /2015-03-31/functions");
    assert!(created.contains("\"LogFormat\":\"Text\""), "{created}");
}

/// Returns the path of a function.
fn path(name: &str) -> String {
    format!("/2015-03-31/functions/{}", run().name(name))
}

#[tokio::test]
async fn a_function_that_is_still_created_is_removed_when_it_is_there() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        (delete, 0) if delete.starts_with("DELETE ") => {
            let text = "The operation cannot be performed at this time. The function is currently \
                        in the following state: Pending";
            let conflict = "ResourceConflictException";
            (
                409,
                format!("{{\"message\": \"{text}\", \"__type\": \"{conflict}\"}}"),
            )
        }
        (delete, _) if delete.starts_with("DELETE ") => (204, String::new()),
        (other, _) => network(other),
    })
    .await;
    let removed = remove(&service, vec![found(Kind::Function, "worker")]).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    assert_eq!(service.asked(&format!("DELETE {}", path("members"))), 2);
}

/// EC2 knows of an instance profile some seconds after IAM has created it.
#[tokio::test]
async fn an_instance_profile_that_is_not_known_yet_is_waited_for() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("DescribeInstances", _) => (200, ec2(operation, "<reservationSet/>")),
        ("RunInstances", 0) => {
            let unknown = "for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance \
                           Profile name";
            let error = ec2_error("InvalidParameterValue").replace("told to", unknown);
            (400, error)
        }
        ("RunInstances", _) => {
            let started = "<instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>";
            (200, ec2(operation, started))
        }
        (other, _) => network(other),
    })
    .await;
    assert_eq!(make(&service, instance(None)).await.unwrap(), "i-1");
    assert_eq!(service.asked("RunInstances"), 2);
}

fn instance(subnet: Option<String>) -> Spec {
    Spec::Instance(InstanceSpec {
        name: run().name("x"),
        instance_type: "t2.medium".into(),
        image: "ami-1".into(),
        profile: run().name("instances"),
        security_group: run().name("members"),
        subnet,
        zones_tried: 0,
        user_data: String::new(),
        expires: "2099-01-01T00:00:00Z".parse().unwrap(),
    })
}

/// Every second of each is paid for: none waits for another's end.
#[tokio::test]
async fn instances_end_at_once() {
    let service = Service::start_counting(|operation, before| match (operation, before) {
        ("TerminateInstances", _) => (200, ec2(operation, "<instancesSet/>")),
        // Still there when first asked for, after the one call for all.
        ("DescribeInstances", 0) => (
            200,
            ec2(
                operation,
                "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
                 <instanceState><name>shutting-down</name></instanceState></item></instancesSet>\
                 </item></reservationSet>",
            ),
        ),
        ("DescribeInstances", _) => (200, ec2(operation, "<reservationSet/>")),
        (other, _) => network(other),
    })
    .await;
    let instance = |id: &str| Found {
        holding: Holding::Instance("t2.medium".to_owned()),
        ..found(Kind::Instance, id)
    };
    let all = vec![instance("i-1"), instance("i-2"), instance("i-3")];
    let removed = remove(&service, all).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
    // The first call names all three.
    let first = service.first("TerminateInstances");
    for id in ["i-1", "i-2", "i-3"] {
        assert!(first.contains(id), "{first}");
    }
    assert_eq!(service.asked("TerminateInstances"), 1 + 3);
}
