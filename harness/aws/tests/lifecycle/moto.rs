//! What is in a moto server, by lists that do not depend on tags.

use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::Credentials;

use super::REGION;

pub async fn config(url: &str) -> SdkConfig {
    epochcost_aws::configuration()
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(url)
        .load()
        .await
}

/// Resets the server.
pub async fn reset(url: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /moto-api/reset HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Adds a line for each item of a list in the account that is there.
macro_rules! list {
    ($all:ident, $what:literal, $call:expr, $items:ident, $item:ident => $name:expr $(, if $is:expr)?) => {
        for $item in $call.send().await.unwrap().$items() {
            if true $(&& $is)? {
                $all.push(format!("{} {}", $what, $name));
            }
        }
    };
}

/// Returns everything in the account and region, whatever its tags, except for what a new
/// account has.
pub async fn everything(config: &SdkConfig) -> Vec<String> {
    let mut all = Vec::new();
    let s3 = aws_sdk_s3::Client::new(config);
    list!(all, "bucket", s3.list_buckets(), buckets, one => one.name().unwrap());
    let iam = aws_sdk_iam::Client::new(config);
    list!(all, "role", iam.list_roles(), roles, one => one.role_name());
    list!(all, "profile", iam.list_instance_profiles(), instance_profiles, one => one.instance_profile_name());
    let logs = aws_sdk_cloudwatchlogs::Client::new(config);
    list!(all, "log group", logs.describe_log_groups(), log_groups, one => one.log_group_name().unwrap());
    let lambda = aws_sdk_lambda::Client::new(config);
    list!(all, "function", lambda.list_functions(), functions, one => one.function_name().unwrap());
    let states = aws_sdk_sfn::Client::new(config);
    list!(all, "state machine", states.list_state_machines(), state_machines, one => one.name());
    let ec2 = aws_sdk_ec2::Client::new(config);
    list!(all, "security group", ec2.describe_security_groups(), security_groups,
        one => one.group_name().unwrap(), if one.group_name() != Some("default"));
    list!(all, "volume", ec2.describe_volumes(), volumes, one => one.volume_id().unwrap());
    let instances = instances(&ec2).await;
    all.extend(instances.iter().map(|id| format!("instance {id}")));
    // Outside of default VPCs.
    let vpcs = ec2.describe_vpcs().send().await.unwrap();
    let theirs: Vec<_> = (vpcs.vpcs().iter())
        .filter(|vpc| vpc.is_default() == Some(true))
        .map(|vpc| vpc.vpc_id())
        .collect();
    list!(all, "VPC", ec2.describe_vpcs(), vpcs,
        one => one.vpc_id().unwrap(), if !theirs.contains(&one.vpc_id()));
    list!(all, "subnet", ec2.describe_subnets(), subnets,
        one => one.subnet_id().unwrap(), if !theirs.contains(&one.vpc_id()));
    list!(all, "route table", ec2.describe_route_tables(), route_tables,
        one => one.route_table_id().unwrap(), if !theirs.contains(&one.vpc_id()));
    list!(all, "internet gateway", ec2.describe_internet_gateways(), internet_gateways,
        one => one.internet_gateway_id().unwrap());
    // moto keeps removed ones.
    list!(all, "endpoint", ec2.describe_vpc_endpoints(), vpc_endpoints,
        one => one.vpc_endpoint_id().unwrap(), if one.state().unwrap().as_str() != "deleted");
    all
}

/// Returns the instances that have not ended.
async fn instances(ec2: &aws_sdk_ec2::Client) -> Vec<String> {
    let found = ec2.describe_instances().send().await.unwrap();
    let all = found.reservations().iter().flat_map(|one| one.instances());
    let alive = all.filter(|one| one.state().unwrap().name().unwrap().as_str() != "terminated");
    alive
        .map(|one| one.instance_id().unwrap().to_owned())
        .collect()
}

/// Returns what is paid by the second or the hour and would be for more than `within_s` if nobody
/// cared any more: instances whose start script does not end them before, and interface endpoints
/// without a switch that waits and may remove them.
pub async fn paid_without_end(config: &SdkConfig, within_s: u64) -> Vec<String> {
    let mut endless = Vec::new();
    let ec2 = aws_sdk_ec2::Client::new(config);
    for id in instances(&ec2).await {
        if shutdown_s(&ec2, &id).await.is_none_or(|s| s > within_s) {
            endless.push(format!("instance {id}"));
        }
    }
    let endpoints = ec2.describe_vpc_endpoints().send().await.unwrap();
    let paid = endpoints.vpc_endpoints().iter().filter(|endpoint| {
        let is_there = endpoint.state().unwrap().as_str() != "deleted";
        is_there && endpoint.vpc_endpoint_type().unwrap().as_str() == "Interface"
    });
    let paid: Vec<&str> = paid.filter_map(|one| one.vpc_endpoint_id()).collect();
    if !paid.is_empty() && !is_armed(config, within_s).await {
        endless.extend(paid.iter().map(|id| format!("endpoint {id}")));
    }
    endless
}

/// Returns an instance's start script.
pub async fn user_data(ec2: &aws_sdk_ec2::Client, id: &str) -> Option<String> {
    let asked = ec2.describe_instance_attribute().instance_id(id);
    let asked = asked.attribute(aws_sdk_ec2::types::InstanceAttributeName::UserData);
    let answer = asked.send().await.unwrap();
    let encoded = answer.user_data()?.value()?;
    let engine = &base64::engine::general_purpose::STANDARD;
    let script = base64::Engine::decode(engine, encoded).unwrap();
    Some(String::from_utf8(script).unwrap())
}

/// Returns the seconds after which an instance's start script ends it.
async fn shutdown_s(ec2: &aws_sdk_ec2::Client, id: &str) -> Option<u64> {
    let script = user_data(ec2, id).await?;
    let minutes = script.split("shutdown -h +").nth(1)?.lines().next()?;
    Some(minutes.parse::<u64>().unwrap() * 60)
}

/// Returns whether an execution of a switch waits until a time within `within_s`, with a role that
/// has its policy.
async fn is_armed(config: &SdkConfig, within_s: u64) -> bool {
    let states = aws_sdk_sfn::Client::new(config);
    let iam = aws_sdk_iam::Client::new(config);
    let latest = jiff::Timestamp::now().as_second() + i64::try_from(within_s).unwrap();
    let machines = states.list_state_machines().send().await.unwrap();
    for machine in machines.state_machines() {
        if !machine.name().ends_with("-switch") {
            continue;
        }
        let role = iam.get_role_policy().role_name(machine.name());
        if role.policy_name("run").send().await.is_err() {
            continue;
        }
        let running = states
            .list_executions()
            .state_machine_arn(machine.state_machine_arn())
            .status_filter(aws_sdk_sfn::types::ExecutionStatus::Running);
        for execution in running.send().await.unwrap().executions() {
            let asked = states.describe_execution();
            let asked = asked.execution_arn(execution.execution_arn());
            let input = asked.send().await.unwrap().input.unwrap();
            let input: serde_json::Value = serde_json::from_str(&input).unwrap();
            let until: jiff::Timestamp = input["until"].as_str().unwrap().parse().unwrap();
            if until.as_second() <= latest {
                return true;
            }
        }
    }
    false
}
