//! A run with at least one resource of every kind, and processes that die while they create
//! it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use epochcost_aws::resource::{
    Architecture, BucketSpec, EndpointService, EndpointSpec, FunctionNetwork, FunctionSpec,
    InstanceProfileSpec, InstanceSpec, InternetGatewaySpec, LogGroupSpec, ObjectSpec, RoleSpec,
    SecurityGroupSpec, Spec, StateMachineSpec, SubnetSpec, SwitchSpec, VpcSpec,
};
use epochcost_aws::{
    Approval, Call, Clients, Consent, Journal, Observer, RunId, Scope, configuration, permissions,
    provision, tear_down_within,
};

pub const RUN: u64 = 0x00c0_ffee;
pub const REGION: &str = "eu-west-1";
/// Time after which everything that is paid by the second or the hour ends, seconds.
pub const HOLD_S: u64 = 3600;

/// Returns everything that a run of functions, machines and instances creates.
pub fn specs(scope: &Scope) -> Vec<Spec> {
    let name = |what: &str| scope.run.name(what);
    let bucket = |what: &str, objects| {
        Spec::Bucket(BucketSpec {
            name: name(what),
            needed_s: None,
            objects,
        })
    };
    let package = ObjectSpec {
        key: "worker.zip".into(),
        body: EMPTY_ZIP.into(),
    };
    let role = |what: &str, policy| {
        let service = match what {
            "functions" => "lambda.amazonaws.com",
            "instances" => "ec2.amazonaws.com",
            _ => "states.amazonaws.com",
        };
        Spec::Role(RoleSpec {
            name: name(what),
            service,
            policy,
        })
    };
    let endpoint = |what: &str, service| {
        Spec::Endpoint(EndpointSpec {
            name: name(what),
            vpc: name("network"),
            subnet: name("network"),
            security_group: name("members"),
            service,
        })
    };
    vec![
        bucket("code", vec![package]),
        bucket("exchange", Vec::new()),
        role("functions", permissions::functions(scope, true)),
        role("machines", permissions::state_machines(scope)),
        role("instances", permissions::instances(scope, true)),
        Spec::InstanceProfile(InstanceProfileSpec {
            name: name("instances"),
            role: name("instances"),
        }),
        Spec::Vpc(VpcSpec {
            name: name("network"),
        }),
        Spec::InternetGateway(InternetGatewaySpec {
            name: name("network"),
            vpc: name("network"),
        }),
        Spec::Subnet(SubnetSpec {
            name: name("network"),
            vpc: name("network"),
            addresses: "10.0.0.0/20".into(),
            instance_types: vec!["g4dn.xlarge".into(), "t2.medium".into()],
            services: vec![EndpointService::Functions],
        }),
        Spec::SecurityGroup(SecurityGroupSpec {
            name: name("members"),
            vpc: Some(name("network")),
        }),
        role("switch", permissions::switch(scope)),
        Spec::Switch(SwitchSpec {
            name: name("switch"),
            role: name("switch"),
        }),
        endpoint("to-objects", EndpointService::Objects),
        endpoint("to-functions", EndpointService::Functions),
        Spec::LogGroup(LogGroupSpec {
            name: format!("/aws/lambda/{}", name("worker-2048")),
            retention_days: 3,
        }),
        Spec::Function(FunctionSpec {
            name: name("worker-2048"),
            role: name("functions"),
            memory_mb: 2048,
            timeout_s: 900,
            storage_mb: 512,
            architecture: Architecture::X86_64,
            code_bucket: name("code"),
            code_key: "worker.zip".into(),
            environment: [(
                "EPOCHCOST_QUEUE".to_owned(),
                "redis://10.0.0.1:6379".to_owned(),
            )]
            .into(),
            network: Some(FunctionNetwork {
                subnet: name("network"),
                security_group: name("members"),
            }),
        }),
        Spec::StateMachine(StateMachineSpec {
            name: name("spirt"),
            role: name("machines"),
            definition: r#"{"StartAt":"Only","States":{"Only":{"Type":"Pass","End":true}}}"#.into(),
        }),
        Spec::Instance(InstanceSpec {
            name: name("redis-0"),
            instance_type: "t2.medium".into(),
            image:
                "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
                    .into(),
            profile: name("instances"),
            security_group: name("members"),
            subnet: Some(name("network")),
            zones_tried: 0,
            user_data: format!("#!/bin/sh\nshutdown -h +{}\n", HOLD_S / 60),
            expires: scope.expires,
        }),
    ]
}

/// End record of a ZIP archive without entries.
const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub fn approval(specs: &[Spec]) -> Approval {
    Approval::ask(specs.iter().map(Spec::address), Consent::Given, || None).unwrap()
}

/// Hook that ends the process after a number of steps: answered calls, and events on the
/// disk.
struct Killer {
    steps: AtomicUsize,
    at: usize,
}

impl Killer {
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            std::process::abort();
        }
    }
}

impl Observer for Killer {
    fn after(&self, _call: &Call) {
        self.step();
    }
}

/// Provisions a whole run, and removes it if TEST_REMOVE is set, configured by the environment
/// alone, in the process that dies.
pub async fn provision_until_killed() {
    let at = std::env::var("TEST_KILL_AT").unwrap().parse().unwrap();
    let path = PathBuf::from(std::env::var_os("TEST_JOURNAL").unwrap());
    let killer = Arc::new(Killer {
        steps: AtomicUsize::new(0),
        at,
    });
    let config = configuration().load().await;
    let clients = Clients::new(config, Some(killer.clone())).unwrap();
    let expires = "2099-01-01T00:00:00Z".parse().unwrap();
    let scope = clients.scope(RunId::new(RUN), expires).await.unwrap();
    let mut journal = Journal::begin(&path, scope.clone()).unwrap();
    let events = killer.clone();
    journal.on_write(Box::new(move |_| events.step()));
    let specs = specs(&scope);
    provision(&specs, &clients, &mut journal, &approval(&specs))
        .await
        .unwrap();
    if std::env::var_os("TEST_REMOVE").is_some() {
        let removed = tear_down_within(&clients, &mut journal, Duration::ZERO);
        assert!(removed.await.unwrap().leftovers.is_empty());
    }
}

/// Runs the provisioning, and the removal if `removes`, in a process of its own; returns whether it
/// completed.
pub fn run_and_kill(url: &str, journal: &Path, at: usize, secret: &str, removes: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command
        .args(["--ignored", "--exact", "a_process_that_dies"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("AWS_ENDPOINT_URL", url)
        .env("AWS_REGION", REGION)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .env("AWS_SESSION_TOKEN", format!("token-{secret}"))
        .env("TEST_JOURNAL", journal)
        .env("TEST_KILL_AT", at.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if removes {
        command.env("TEST_REMOVE", "1");
    }
    command.status().unwrap().success()
}
