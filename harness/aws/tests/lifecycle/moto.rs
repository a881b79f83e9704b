//! A moto server for one test, and a list of everything in it that does not depend on tags.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::Credentials;
use epochcost_testing::{or_skip, watch};

/// Variable with the path of the program, where it is not on the path.
const VARIABLE: &str = "EPOCHCOST_MOTO_SERVER";

pub struct Moto {
    child: Child,
    pub url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server; returns nothing where moto is not installed.
pub fn start() -> Option<Moto> {
    watch();
    let program = std::env::var_os(VARIABLE).map_or_else(|| "moto_server".into(), PathBuf::from);
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let child = Command::new(&program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        // Its Lambda would start containers, and its AMIs take long to load.
        .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            return or_skip(Err(format!(
                "{}: {error}; pip install 'moto[server,all]' or name it in {VARIABLE}",
                program.display()
            )));
        }
    };
    // Its requests go to standard error, which must be read.
    let errors = child.stderr.take().unwrap();
    std::thread::spawn(move || BufReader::new(errors).lines().count());
    let since = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "moto did not start"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(Moto {
        child,
        url: format!("http://127.0.0.1:{port}"),
    })
}

pub async fn config(url: &str, region: &str) -> SdkConfig {
    epochcost_aws::configuration()
        .region(Region::new(region.to_owned()))
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

/// Returns everything in the account and region, whatever its tags, except for what a new
/// account has.
pub async fn everything(config: &SdkConfig) -> Vec<String> {
    let mut all = Vec::new();
    let s3 = aws_sdk_s3::Client::new(config);
    for bucket in s3.list_buckets().send().await.unwrap().buckets() {
        all.push(format!("bucket {}", bucket.name().unwrap()));
    }
    let iam = aws_sdk_iam::Client::new(config);
    for role in iam.list_roles().send().await.unwrap().roles() {
        all.push(format!("role {}", role.role_name()));
    }
    for profile in iam
        .list_instance_profiles()
        .send()
        .await
        .unwrap()
        .instance_profiles()
    {
        all.push(format!("profile {}", profile.instance_profile_name()));
    }
    let ec2 = aws_sdk_ec2::Client::new(config);
    for group in ec2
        .describe_security_groups()
        .send()
        .await
        .unwrap()
        .security_groups()
    {
        if group.group_name() != Some("default") {
            all.push(format!("security group {}", group.group_name().unwrap()));
        }
    }
    everything_of_networks(&ec2, &mut all).await;
    for found in ec2
        .describe_instances()
        .send()
        .await
        .unwrap()
        .reservations()
    {
        for instance in found.instances() {
            let state = instance.state().unwrap().name().unwrap();
            if state.as_str() != "terminated" {
                all.push(format!(
                    "instance {}: {state}",
                    instance.instance_id().unwrap()
                ));
            }
        }
    }
    for volume in ec2.describe_volumes().send().await.unwrap().volumes() {
        all.push(format!("volume {}", volume.volume_id().unwrap()));
    }
    let logs = aws_sdk_cloudwatchlogs::Client::new(config);
    for group in logs
        .describe_log_groups()
        .send()
        .await
        .unwrap()
        .log_groups()
    {
        all.push(format!("log group {}", group.log_group_name().unwrap()));
    }
    let lambda = aws_sdk_lambda::Client::new(config);
    for function in lambda.list_functions().send().await.unwrap().functions() {
        all.push(format!("function {}", function.function_name().unwrap()));
    }
    let states = aws_sdk_sfn::Client::new(config);
    for machine in states
        .list_state_machines()
        .send()
        .await
        .unwrap()
        .state_machines()
    {
        all.push(format!("state machine {}", machine.name()));
    }
    all
}

/// Returns resources outside of default VPCs.
async fn everything_of_networks(ec2: &aws_sdk_ec2::Client, all: &mut Vec<String>) {
    let vpcs = ec2.describe_vpcs().send().await.unwrap();
    let theirs: Vec<_> = (vpcs.vpcs().iter())
        .filter(|vpc| vpc.is_default() == Some(true))
        .map(|vpc| vpc.vpc_id())
        .collect();
    for vpc in vpcs.vpcs() {
        if !theirs.contains(&vpc.vpc_id()) {
            all.push(format!("VPC {}", vpc.vpc_id().unwrap()));
        }
    }
    for subnet in ec2.describe_subnets().send().await.unwrap().subnets() {
        if !theirs.contains(&subnet.vpc_id()) {
            all.push(format!("subnet {}", subnet.subnet_id().unwrap()));
        }
    }
    let gateways = ec2.describe_internet_gateways().send().await.unwrap();
    for gateway in gateways.internet_gateways() {
        let id = gateway.internet_gateway_id().unwrap();
        all.push(format!("internet gateway {id}"));
    }
    let endpoints = ec2.describe_vpc_endpoints().send().await.unwrap();
    for endpoint in endpoints.vpc_endpoints() {
        // moto keeps removed instances.
        if endpoint.state().unwrap().as_str() != "deleted" {
            all.push(format!("endpoint {}", endpoint.vpc_endpoint_id().unwrap()));
        }
    }
    let tables = ec2.describe_route_tables().send().await.unwrap();
    for table in tables.route_tables() {
        if !theirs.contains(&table.vpc_id()) {
            all.push(format!("route table {}", table.route_table_id().unwrap()));
        }
    }
}

/// Returns what is paid by the second or the hour and would be for more than `within_s` if nobody
/// cared any more: instances whose start script does not end them before, and interface endpoints
/// without a switch that waits and may remove them.
pub async fn paid_without_end(config: &SdkConfig, within_s: u64) -> Vec<String> {
    let mut endless = Vec::new();
    let ec2 = aws_sdk_ec2::Client::new(config);
    for found in ec2
        .describe_instances()
        .send()
        .await
        .unwrap()
        .reservations()
    {
        for instance in found.instances() {
            let id = instance.instance_id().unwrap();
            let state = instance.state().unwrap().name().unwrap().as_str();
            if state != "terminated" && shutdown_s(&ec2, id).await.is_none_or(|s| s > within_s) {
                endless.push(format!("instance {id}"));
            }
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

/// Returns the seconds after which an instance's start script ends it.
async fn shutdown_s(ec2: &aws_sdk_ec2::Client, id: &str) -> Option<u64> {
    let asked = ec2.describe_instance_attribute().instance_id(id);
    let asked = asked.attribute(aws_sdk_ec2::types::InstanceAttributeName::UserData);
    let answer = asked.send().await.unwrap();
    let encoded = answer.user_data()?.value()?;
    let engine = &base64::engine::general_purpose::STANDARD;
    let script = base64::Engine::decode(engine, encoded).unwrap();
    let script = String::from_utf8(script).unwrap();
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
