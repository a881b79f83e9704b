//! Delays of AWS that an emulator does not have: endpoints that are not available at once,
//! and interfaces that block the removal of their network.

use epochcost_aws::resource::{
    Address, Architecture, EndpointService, EndpointSpec, Found, FunctionNetwork, FunctionSpec,
    Holding, InstanceSpec, Kind, Spec, SubnetSpec,
};
use epochcost_aws::{Approval, AwsError, Consent, Journal, Removal, RunId, provision, remove_all};

use super::holds;
use super::service::{IDENTITY, Row, Service};

const GROUP: &str = "<securityGroupInfo><item><groupId>sg-1</groupId></item></securityGroupInfo>";
const VPC: &str = "<vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet>";
const DONE: &str = "<return>true</return>";
const NO_ENDPOINT: &str = "<vpcEndpointSet/>";
const NO_INSTANCE: &str = "<reservationSet/>";
const NO_SUBNET: &str = "<subnetSet/>";
const STARTED: &str = "<instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>";
const SUBNET: &str = "<subnetSet><item><subnetId>subnet-1</subnetId></item></subnetSet>";

fn run() -> RunId {
    RunId::new(0xab)
}

/// Starts a service where the network exists, but for some answers.
async fn network(but: &[Row<'_>]) -> Service {
    let zones = endpoint_services(&["eu-west-1a", "eu-west-1b"]);
    let there: [Row<'_>; 5] = [
        ("GetCallerIdentity", &[IDENTITY]),
        ("DescribeVpcs", &[VPC]),
        ("DescribeSubnets", &[SUBNET]),
        ("DescribeVpcEndpointServices", &[&zones]),
        ("DescribeSecurityGroups", &[GROUP]),
    ];
    Service::of(&[but, &there].concat()).await
}

/// Provisions one resource.
async fn make(service: &Service, spec: Spec) -> Result<String, AwsError> {
    let clients = service.clients().await;
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

async fn remove(service: &Service, found: &[Found]) -> Removal {
    remove_all(found.to_vec(), &service.clients().await).await
}

/// Removes resources, of which nothing may be left.
async fn remove_whole(service: &Service, found: &[Found]) {
    let removed = remove(service, found).await;
    assert!(removed.leftovers.is_empty(), "{:?}", removed.leftovers);
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
    format!(
        "<vpcEndpointSet><item><vpcEndpointId>vpce-1</vpcEndpointId>\
         <vpcEndpointType>Interface</vpcEndpointType><state>{state}</state>\
         <lastError><message>no such zone</message></lastError></item></vpcEndpointSet>"
    )
}

/// Returns Lambda's endpoint service in these zones.
fn endpoint_services(zones: &[&str]) -> String {
    let zones: String = zones
        .iter()
        .map(|zone| format!("<item>{zone}</item>"))
        .collect();
    format!(
        "<serviceDetailSet><item><serviceName>com.amazonaws.eu-west-1.lambda</serviceName>\
         <availabilityZoneSet>{zones}</availabilityZoneSet></item></serviceDetailSet>"
    )
}

#[tokio::test]
async fn an_endpoint_is_waited_for_until_it_answers() {
    let created = "<vpcEndpoint><vpcEndpointId>vpce-1</vpcEndpointId></vpcEndpoint>";
    let [pending, available] = ["pending", "Available"].map(endpoints);
    // The endpoint does not exist; EC2 does not know the VPC at once; then it does.
    let service = network(&[
        ("DescribeVpcEndpoints", &[NO_ENDPOINT, &pending, &available]),
        ("CreateVpcEndpoint", &["400 InvalidVpcId.NotFound", created]),
    ])
    .await;
    assert_eq!(make(&service, endpoint()).await.unwrap(), "vpce-1");
    assert_eq!(service.asked("CreateVpcEndpoint"), 2);
    assert_eq!(service.asked("DescribeVpcEndpoints"), 3);
}

#[tokio::test]
async fn an_endpoint_that_failed_says_why() {
    let service = network(&[("DescribeVpcEndpoints", &[&endpoints("failed")])]).await;
    let error = make(&service, endpoint()).await.unwrap_err();
    holds(&error.to_string(), &["is failed: no such zone"]);
    assert_eq!(service.asked("CreateVpcEndpoint"), 0);
}

#[tokio::test]
async fn an_endpoint_is_removed_when_its_interface_is() {
    let gone = "400 InvalidVpcEndpointId.NotFound";
    let service = network(&[
        ("DeleteVpcEndpoints", &["<unsuccessful></unsuccessful>"]),
        ("DescribeVpcEndpoints", &[&endpoints("deleting"), gone]),
    ])
    .await;
    remove_whole(&service, &[found(Kind::Endpoint, "vpce-1")]).await;
    assert_eq!(service.asked("DescribeVpcEndpoints"), 2);
}

/// The refusal is in an answer with status 200.
#[tokio::test]
async fn an_endpoint_that_refuses_to_go_is_left_and_named() {
    let refused = "<unsuccessful><item><resourceId>vpce-1</resourceId><error>\
                   <code>UnauthorizedOperation</code><message>told to</message></error>\
                   </item></unsuccessful>";
    let service = network(&[("DeleteVpcEndpoints", &[refused])]).await;
    let removed = remove(&service, &[found(Kind::Endpoint, "vpce-1")]).await;
    let (_, error) = &removed.leftovers[0];
    holds(&error.to_string(), &["epochcost aws policy"]);
}

#[tokio::test]
async fn interfaces_of_functions_are_waited_for() {
    let in_use = "400 DependencyViolation";
    let service = network(&[
        ("DeleteSecurityGroup", &[in_use, DONE]),
        ("DeleteSubnet", &[in_use, DONE]),
        ("DeleteVpc", &[in_use, "400 InvalidVpcID.NotFound"]),
        // Detached ones are removed, and only those that Lambda made.
        ("DescribeNetworkInterfaces", &[&interfaces()]),
        ("DeleteNetworkInterface", &[DONE]),
    ])
    .await;
    let all = [
        found(Kind::SecurityGroup, "sg-1"),
        found(Kind::Subnet, "subnet-1"),
        found(Kind::Vpc, "vpc-1"),
    ];
    remove_whole(&service, &all).await;
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
    let ours = one(
        "eni-1",
        "AWS Lambda VPC ENI-epochcost-0000000000ab-worker-1",
    );
    let other = one("eni-2", "x");
    format!("<networkInterfaceSet>{ours}{other}</networkInterfaceSet>")
}

/// Lambda removes interfaces under the functions' role.
#[tokio::test]
async fn roles_stay_as_long_as_what_interfaces_hold() {
    let service = network(&[("DeleteSecurityGroup", &["403 UnauthorizedOperation"])]).await;
    let all = [
        found(Kind::SecurityGroup, "sg-1"),
        found(Kind::Role, "arn:aws:iam::123456789012:role/x"),
    ];
    let left = remove(&service, &all).await.leftovers;
    let kinds: Vec<Kind> = left.iter().map(|(found, _)| found.address.kind).collect();
    assert_eq!(kinds, [Kind::SecurityGroup, Kind::Role]);
    holds(&left[1].1.to_string(), &["network interfaces"]);
    assert_eq!(service.asked("DeleteRole"), 0);
}

/// Returns the zones that have instance types: pairs of a type and a zone.
fn offerings(zones: [(&str, &str); 2]) -> String {
    let items = zones.map(|(kind, zone)| {
        format!(
            "<item><instanceType>{kind}</instanceType>\
             <locationType>availability-zone</locationType><location>{zone}</location></item>"
        )
    });
    format!(
        "<instanceTypeOfferingSet>{}</instanceTypeOfferingSet>",
        items.concat()
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

/// Types are in different zones, or where the endpoints are not: in neither could functions reach what they
/// need.
#[tokio::test]
async fn a_region_where_no_zone_has_everything_is_named() {
    let [both, first] = [&["eu-west-1a", "eu-west-1b"][..], &["eu-west-1b"]].map(endpoint_services);
    let region_and_types = ["eu-west-1", "g4dn.xlarge", "t2.medium"];
    for (second_type_in, services, says) in [
        ("eu-west-1b", both, &region_and_types[..]),
        ("eu-west-1a", first, &["no availability zone"]),
    ] {
        let types = offerings([("g4dn.xlarge", "eu-west-1a"), ("t2.medium", second_type_in)]);
        let service = network(&[
            ("DescribeSubnets", &[NO_SUBNET]),
            ("DescribeInstanceTypeOfferings", &[&types]),
            ("DescribeVpcEndpointServices", &[&services]),
        ])
        .await;
        let error = make(&service, subnet()).await.unwrap_err();
        holds(&error.to_string(), says);
        assert_eq!(service.asked("CreateSubnet"), 0);
    }
}

/// A process that died created it, and EC2 did not know of it at the first request.
#[tokio::test]
async fn a_subnet_that_was_made_before_is_taken() {
    let types = offerings([("t2.medium", "eu-west-1b"), ("g4dn.xlarge", "eu-west-1b")]);
    let service = network(&[
        ("DescribeSubnets", &[NO_SUBNET, SUBNET]),
        ("DescribeInstanceTypeOfferings", &[&types]),
        ("CreateSubnet", &["400 InvalidSubnet.Conflict"]),
        ("ModifySubnetAttribute", &[DONE]),
    ])
    .await;
    assert_eq!(make(&service, subnet()).await.unwrap(), "subnet-1");
}

/// Lambda needs the permissions of the role and on the key, which arrive late; then it does not
/// know the function yet, and takes time to attach its interface.
#[tokio::test]
async fn a_function_in_a_network_is_waited_for() {
    let refused = |status: u16, code: &str, message: &str| {
        format!(r#"{status} {{"Type": "User", "message": "{message}", "__type": "{code}"}}"#)
    };
    let invalid = |message| refused(400, "InvalidParameterValueException", message);
    let role = invalid(
        "The provided execution role does not have permissions to call CreateNetworkInterface on EC2",
    );
    let key = invalid(
        "Lambda was unable to configure access to your environment variables because the KMS key is \
         invalid for CreateGrant.",
    );
    let unknown = refused(404, "ResourceNotFoundException", "Function not found");
    let (pending, active) = (r#"200 {"State": "Pending"}"#, r#"200 {"State": "Active"}"#);
    let create = "POST /2015-03-31/functions";
    let service = network(&[
        (create, &[&role, &key, r#"201 {"State": "Pending"}"#]),
        ("/event-invoke-config", &["200 {}"]),
        ("/configuration", &[&unknown, pending, active]),
    ])
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
    assert_eq!(service.asked(create), 3);
    let described = format!("GET {}/configuration", path("worker"));
    assert_eq!(service.asked(&described), 3);
    // Lines in JSON would have no REPORT.
    holds(&service.first(create), &["\"LogFormat\":\"Text\""]);
}

/// Returns the path of a function.
fn path(name: &str) -> String {
    format!("/2015-03-31/functions/{}", run().name(name))
}

#[tokio::test]
async fn a_function_that_is_still_created_is_removed_when_it_is_there() {
    let conflict = r#"409 {"message": "The operation cannot be performed at this time. The function is currently in the following state: Pending", "__type": "ResourceConflictException"}"#;
    let delete = format!("DELETE {}", path("members"));
    let service = network(&[(&delete, &[conflict, "204"])]).await;
    remove_whole(&service, &[found(Kind::Function, "worker")]).await;
    assert_eq!(service.asked(&delete), 2);
}

/// EC2 knows of an instance profile some seconds after IAM has created it.
#[tokio::test]
async fn an_instance_profile_that_is_not_known_yet_is_waited_for() {
    let unknown = "400 InvalidParameterValue for parameter iamInstanceProfile.name is invalid. \
                   Invalid IAM Instance Profile name";
    let service = network(&[
        ("DescribeInstances", &[NO_INSTANCE]),
        ("RunInstances", &[unknown, STARTED]),
    ])
    .await;
    assert_eq!(make(&service, instance()).await.unwrap(), "i-1");
    assert_eq!(service.asked("RunInstances"), 2);
}

fn instance() -> Spec {
    Spec::Instance(InstanceSpec {
        name: run().name("x"),
        instance_type: "t2.medium".into(),
        image: "ami-1".into(),
        profile: run().name("instances"),
        security_group: run().name("members"),
        subnet: None,
        zones_tried: 0,
        user_data: String::new(),
        expires: "2099-01-01T00:00:00Z".parse().unwrap(),
    })
}

/// Every second of each is paid for: none waits for another's end.
#[tokio::test]
async fn instances_end_at_once() {
    // Still there when first asked for, after the one call for all.
    let ending = "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
                  <instanceState><name>shutting-down</name></instanceState></item></instancesSet>\
                  </item></reservationSet>";
    let service = network(&[
        ("TerminateInstances", &["<instancesSet/>"]),
        ("DescribeInstances", &[ending, NO_INSTANCE]),
    ])
    .await;
    let ids = ["i-1", "i-2", "i-3"];
    let all = ids.map(|id| Found {
        holding: Holding::Instance("t2.medium".to_owned()),
        ..found(Kind::Instance, id)
    });
    remove_whole(&service, &all).await;
    // The first call names all three.
    holds(&service.first("TerminateInstances"), &ids);
    assert_eq!(service.asked("TerminateInstances"), 1 + 3);
}
