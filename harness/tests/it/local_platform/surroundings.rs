//! The account that functions are invoked in, their network and environment.

use epochcost_channels::{LatencyMs, NetworkShape};
use epochcost_spec::rows::sandbox::Network;
use epochcost_systems::Fidelity;

use super::*;

/// Two peers compute two gradients each at once, of which the account runs two.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_tries_again_what_was_throttled() {
    let mut plan = plan("spirt");
    plan.row.job.epochs = 1;
    let unlimited = run(&plan).await;
    assert_eq!(unlimited.throttles, Some(0));
    plan.row.sandbox.account.concurrency_limit = WORKERS as u32;
    let outcome = run(&plan).await;
    assert_succeeds(&plan, &outcome);
    assert_eq!(course(&outcome), course(&unlimited));
    let throttles = outcome.throttles.unwrap();
    assert!(throttles > 0);
    assert_eq!(outcome.transitions, unlimited.transitions + throttles);
    holds(outcome.warnings.concat(), &["throttled"]);
}

/// The published state machine has no `Retry`.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_without_retry_fails_when_it_is_throttled() {
    let mut plan = plan("spirt");
    plan.row.job.fidelity = Fidelity::Code;
    let spirt = find("spirt").unwrap();
    let settings = spirt.settings(Fidelity::Code, &Default::default());
    plan.row.job.settings = settings.unwrap();
    plan.row.sandbox.account.concurrency_limit = WORKERS as u32;
    let outcome = failure(&plan, &["TooManyRequestsException"]).await;
    assert!(outcome.throttles > Some(0));
}

/// Worker 1 cannot start, and worker 0 waits for it until its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_throttling_keeps_from_its_end_says_so() {
    let mut plan = plan("allreduce");
    plan.row.timeout_s = 3;
    plan.row.sandbox.account.concurrency_limit = 1;
    let throttled = "were throttled by the account's limits";
    let outcome = failure(&plan, &["Task timed out", throttled]).await;
    assert!(outcome.throttles > Some(0));
}

/// Lower bounds only: that is what a link can promise.
#[tokio::test(flavor = "multi_thread")]
async fn a_shaped_network_costs_time_and_changes_nothing_else() {
    const LATENCY_MS: f64 = 30.0;
    let mut plan = plan("allreduce");
    let plain = run(&plan).await;
    plan.row.sandbox.network = Some(Network {
        shape: NetworkShape {
            bandwidth_mbit_s: Some(100.0),
            latency_ms: LatencyMs {
                objects: LATENCY_MS,
                ..LatencyMs::default()
            },
        },
        profile: None,
    });
    let shaped = run(&plan).await;
    assert_succeeds(&plan, &shaped);
    assert_eq!(course(&shaped), course(&plain));
    assert_eq!(exchanged(&shaped), exchanged(&plain));
    for step in step_records(&shaped) {
        let objects = step.traffic.exchange.objects;
        let bytes_s = objects.bytes_up as f64 / 12_500_000.0;
        let least_s = objects.puts as f64 * LATENCY_MS / 1e3 + bytes_s;
        assert!(step.seconds.put >= least_s, "{step:?}: {least_s}");
    }
    let mut told = shaped.warnings.iter();
    let told = told.find(|text| text.contains("the network was shaped"));
    holds(told.unwrap(), &["100 Mbit/s"]);
}

/// What the harness was started with reaches no worker; what Lambda sets does.
#[tokio::test(flavor = "multi_thread")]
async fn a_workers_environment_is_lambdas_and_no_more() {
    const CANARY: &str = "a-secret-of-the-user";
    let (_dir, copy) = copied();
    let names = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HTTPS_PROXY"];
    let given = names.map(|name| (name, CANARY));
    let mut harness = harness(&copy).envs(given).spawn().unwrap();
    until(|| environments(&copy.path).len() == 2 * WORKERS).await;
    let found = environments(&copy.path);
    harness.kill().unwrap();
    harness.wait().unwrap();
    assert!(!found.concat().contains(CANARY));
    let is_function = |environment: &&String| environment.contains("AWS_LAMBDA_RUNTIME_API=");
    let functions: Vec<&String> = found.iter().filter(is_function).collect();
    assert_eq!(functions.len(), WORKERS);
    for environment in functions {
        let set = [
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1769\0",
            "AWS_LAMBDA_FUNCTION_NAME=",
            "AWS_LAMBDA_FUNCTION_VERSION=$LATEST\0",
            "AWS_LAMBDA_INITIALIZATION_TYPE=on-demand\0",
            "AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/",
            "AWS_LAMBDA_LOG_STREAM_NAME=20",
            "AWS_REGION=",
            "LAMBDA_TASK_ROOT=/",
            "_HANDLER=bootstrap\0",
            "TZ=:UTC\0",
        ];
        holds(environment, &set);
        assert!(!environment.contains("AWS_EXECUTION_ENV"));
    }
    until(|| running(&copy.path) == 0).await;
}
