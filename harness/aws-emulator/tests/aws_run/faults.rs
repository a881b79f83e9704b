//! Failures that AWS may answer: the run survives each, or reports it in a row or by its
//! exit code, and leaves nothing behind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::{Value, json};

use crate::cloud::{Cloud, experiment, printed, worker};

/// Request on its way to AWS.
pub struct ProxiedRequest<'a> {
    pub path: &'a str,
    /// Operation, for services that name it in a header.
    target: &'a str,
    body: &'a str,
}

/// Treatment of a request.
pub enum Fate {
    /// Forwarded.
    Through,
    /// Answered with an error: status and code.
    Refused(u16, &'static str),
    /// Forwarded, with a changed answer.
    Changed(fn(Value) -> Value),
    /// Delivered twice by Lambda's queue.
    Twice,
    /// Answered by EC2 with an empty list of this name.
    Empty(&'static str),
}

/// Predicate for the requests that a rule applies to.
type IsIt = fn(&ProxiedRequest<'_>) -> bool;
pub type Rule = Arc<dyn Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync>;

#[derive(Clone)]
struct Proxy {
    upstream: String,
    client: reqwest::Client,
    rule: Rule,
}

/// Starts a server in front of `upstream`, which runs as long as the tests.
pub fn proxy(upstream: &str, rule: Rule) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let state = Proxy {
        upstream: upstream.to_owned(),
        client: epochcost_channels::client::plain_http().unwrap(),
        rule,
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let routes = Router::new().fallback(pass).with_state(state);
            axum::serve(listener, routes).await.unwrap();
        });
    });
    url
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    let request = ProxiedRequest {
        path: head.uri.path(),
        target: head
            .headers
            .get("x-amz-target")
            .map_or("", |value| value.to_str().unwrap()),
        body: &text,
    };
    let fate = (proxy.rule)(&request);
    if let Fate::Refused(status, code) = fate {
        let says = json!({ "__type": code, "message": "planned", "Message": "planned" });
        return Response::builder()
            .status(status)
            .header("x-amzn-errortype", code)
            .body(Body::from(
                refusal(&head.headers, &text, code).unwrap_or(says.to_string()),
            ))
            .unwrap();
    }
    if let Fate::Empty(list) = fate {
        let action = (text.split('&')).find_map(|pair| pair.strip_prefix("Action="));
        let name = format!("{}Response", action.unwrap());
        let says = format!(
            "<{name} xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><{list}/></{name}>"
        );
        return Response::builder().body(Body::from(says)).unwrap();
    }
    let url = format!("{}{}", proxy.upstream, head.uri);
    let mut sent = proxy.client.request(head.method, url).body(body);
    for (name, value) in &head.headers {
        if name != "host" && name != "content-length" && name != "transfer-encoding" {
            sent = sent.header(name, value);
        }
    }
    if matches!(fate, Fate::Twice) {
        sent = sent.header("x-emulator-deliveries", "2");
    }
    let answer = sent.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != "content-length" && name != "transfer-encoding" {
            response = response.header(name, value);
        }
    }
    let mut body = answer.bytes().await.unwrap();
    if let Fate::Changed(change) = fate
        && let Ok(value) = serde_json::from_slice(&body)
    {
        body = change(value).to_string().into();
    }
    response.body(Body::from(body)).unwrap()
}

/// Returns an error in the form of services that answer in XML.
fn refusal(headers: &axum::http::HeaderMap, body: &str, code: &str) -> Option<String> {
    let is_query = headers
        .get("content-type")?
        .to_str()
        .ok()?
        .contains("x-www-form-urlencoded");
    let error = format!("<Error><Code>{code}</Code><Message>planned</Message></Error>");
    is_query.then(|| {
        if body.contains("Version=2016-11-15") {
            format!("<Response><Errors>{error}</Errors></Response>")
        } else {
            format!("<ErrorResponse>{error}</ErrorResponse>")
        }
    })
}

/// Runs a small experiment on functions under a rule; returns exit code, messages and
/// `trials.jsonl`.
fn run(
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
) -> Option<(i32, String, String)> {
    run_system("scatterreduce", rule)
}

fn run_system(
    system: &str,
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
) -> Option<(i32, String, String)> {
    run_worker(system, None, rule)
}

/// The same with a worker of its own.
fn run_worker(
    system: &str,
    worker: Option<&Path>,
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
) -> Option<(i32, String, String)> {
    let cloud = if system.contains("spirt") {
        Cloud::start_with_services()?
    } else {
        Cloud::start()?
    };
    let rule: Rule = Arc::new(rule);
    let moto = proxy(&cloud.moto.url, rule.clone());
    let objects = proxy(&cloud.objects, rule.clone());
    let lambda = proxy(&cloud.emulator.url, rule);
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), &format!("systems: [{system}]\n"));
    let out = directory.path().join("run");
    let out_text = out.display().to_string();
    let mut command = cloud.command(&[
        "run",
        &file,
        "--platform",
        "aws",
        "--yes",
        "--out",
        &out_text,
    ]);
    let output = command
        .current_dir(directory.path())
        .env("AWS_ENDPOINT_URL", moto)
        .env("AWS_ENDPOINT_URL_S3", objects)
        .env("AWS_ENDPOINT_URL_LAMBDA", &lambda)
        .env("AWS_ENDPOINT_URL_SFN", &lambda)
        .env("EPOCHCOST_LOG_PATIENCE_S", "2")
        .envs(worker.map(|worker| ("EPOCHCOST_WORKER", worker)))
        .output()
        .unwrap();
    cloud.assert_empty();
    let trials = std::fs::read_to_string(out.join("trials.jsonl")).unwrap_or_default();
    Some((output.status.code().unwrap(), printed(&output), trials))
}

pub fn is_invocation(request: &ProxiedRequest<'_>) -> bool {
    request.path.ends_with("/invocations")
}

pub fn is_log_read(request: &ProxiedRequest<'_>) -> bool {
    request.target.ends_with(".FilterLogEvents")
}

/// Refuses the first `times` requests for which `is_it` holds.
fn first(
    times: usize,
    is_it: IsIt,
    status: u16,
    code: &'static str,
) -> impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync {
    let count = AtomicUsize::new(0);
    move |request| {
        if is_it(request) && count.fetch_add(1, Ordering::SeqCst) < times {
            Fate::Refused(status, code)
        } else {
            Fate::Through
        }
    }
}

#[test]
fn a_service_that_throttles_or_fails_once_is_asked_again() {
    for (status, code) in [(429, "TooManyRequestsException"), (500, "ServiceException")] {
        let Some((exit, printed, _)) = run(first(1, is_invocation, status, code)) else {
            return;
        };
        assert_eq!(exit, 0, "{printed}");
    }
}

#[test]
fn a_service_that_goes_on_refusing_is_named_in_the_trials_row() {
    for (status, code) in [(429, "TooManyRequestsException"), (500, "ServiceException")] {
        let Some((exit, printed, trials)) = run(first(usize::MAX, is_invocation, status, code))
        else {
            return;
        };
        assert_eq!(exit, 3, "{printed}");
        assert!(trials.contains(code), "{trials}");
    }
}

/// A conflict passes; a refusal that nobody has heard of is its trial's.
#[test]
fn a_conflict_is_repeated_and_an_unknown_refusal_fails_its_trial() {
    let is_retention: IsIt = |request| request.target.ends_with(".PutRetentionPolicy");
    let Some((exit, printed, _)) = run(first(1, is_retention, 400, "OperationAbortedException"))
    else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    let refused = run(first(usize::MAX, is_retention, 400, "NeverSeenException"));
    let Some((exit, printed, trials)) = refused else {
        return;
    };
    assert_eq!(exit, 3, "{printed}");
    assert!(trials.contains("NeverSeenException"), "{trials}");
}

/// S3 asks its clients to come again: 500 and 503 are part of its service.
#[test]
fn an_object_store_that_refuses_now_and_then_is_asked_again() {
    let count = AtomicUsize::new(0);
    let now_and_then = move |request: &ProxiedRequest<'_>| {
        let is_object = request.path.contains("-objects/");
        if is_object && count.fetch_add(1, Ordering::SeqCst) % 7 == 3 {
            Fate::Refused(503, "SlowDown")
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, _)) = run(now_and_then) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
}

/// CloudWatch Logs takes few reads per second and account.
#[test]
fn a_log_that_may_not_be_read_so_often_is_read_later() {
    let polls = AtomicUsize::new(0);
    let throttled = move |request: &ProxiedRequest<'_>| {
        // More often than the SDK itself asks again.
        if is_log_read(request) && polls.fetch_add(1, Ordering::SeqCst) < 8 {
            Fate::Refused(400, "ThrottlingException")
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, trials)) = run(throttled) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(trials.contains("REPORT lines of all"), "{trials}");
}

#[test]
fn expired_credentials_and_missing_permissions_end_the_run() {
    let is_role = |request: &ProxiedRequest<'_>| request.body.contains("Action=CreateRole");
    let rules: [(IsIt, &'static str, &str); 2] = [
        (is_invocation, "ExpiredTokenException", "aws sso login"),
        (is_role, "AccessDenied", "epochcost aws policy"),
    ];
    for (is_it, code, remedy) in rules {
        let Some((exit, printed, _)) = run(first(usize::MAX, is_it, 403, code)) else {
            return;
        };
        assert_eq!(exit, 5, "{printed}");
        assert!(
            printed.contains(code) && printed.contains(remedy),
            "{printed}"
        );
    }
}

#[test]
fn a_log_that_comes_late_is_waited_for() {
    let polls = AtomicUsize::new(0);
    let late = move |request: &ProxiedRequest<'_>| {
        if is_log_read(request) && polls.fetch_add(1, Ordering::SeqCst) < 3 {
            Fate::Changed(|_| json!({ "events": [] }))
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, trials)) = run(late) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(trials.contains("REPORT lines of all"), "{trials}");
}

/// Leaves nothing of the lines but a beginning of each stream.
fn barely_begun(mut answer: Value) -> Value {
    if let Some(events) = answer["events"].as_array_mut() {
        events.truncate(1);
        for event in events {
            event["message"] = "INIT_START Runtime Version: x".into();
            event["eventId"] = format!("early-{}", event["eventId"]).into();
        }
    }
    answer
}

/// Lines that are later than a window of new ones reaches back are found before their trial is
/// given up.
#[test]
fn all_lines_are_read_before_a_trial_that_did_not_end() {
    let first = std::sync::OnceLock::<Instant>::new();
    let late = move |request: &ProxiedRequest<'_>| {
        if !is_log_read(request) {
            return Fate::Through;
        }
        let began = first.get_or_init(Instant::now);
        let body: Value = serde_json::from_str(request.body).unwrap();
        let from = Duration::from_millis(body["startTime"].as_u64().unwrap());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        // All lines begin five minutes before the trial.
        let is_window = now.saturating_sub(from) < Duration::from_secs(200);
        if is_window || began.elapsed() < Duration::from_secs(10) {
            Fate::Changed(barely_begun)
        } else {
            Fate::Through
        }
    };
    // Its deadline comes before the next read of all lines.
    let Some((exit, printed, trials)) = run_system("{system: scatterreduce, timeout_s: 6}", late)
    else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(trials.contains("REPORT lines of all"), "{trials}");
}

fn without_reports(mut answer: Value) -> Value {
    if let Some(events) = answer["events"].as_array_mut() {
        let is_report = |event: &Value| event["message"].as_str().unwrap().starts_with("REPORT");
        events.retain(|event| !is_report(event));
    }
    answer
}

#[test]
fn a_log_that_stays_partial_fails_the_trial() {
    let partial = |request: &ProxiedRequest<'_>| {
        if is_log_read(request) {
            Fate::Changed(without_reports)
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, trials)) = run(partial) else {
        return;
    };
    assert_eq!(exit, 3, "{printed}");
    assert!(trials.contains("REPORT lines of 0 of "), "{trials}");
}

#[test]
fn lines_that_come_twice_count_once() {
    let twice = |request: &ProxiedRequest<'_>| {
        if is_log_read(request) {
            Fate::Changed(|mut answer| {
                if let Some(events) = answer["events"].as_array_mut() {
                    let again = events.clone();
                    events.extend(again);
                }
                answer
            })
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, trials)) = run(twice) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(trials.contains("more than once"), "{trials}");
    assert!(trials.contains("REPORT lines of all"), "{trials}");
}

/// Every worker is started twice under one request: one of the two does nothing.
#[test]
fn an_event_that_is_delivered_twice_counts_once() {
    let twice = |request: &ProxiedRequest<'_>| {
        if is_invocation(request) {
            Fate::Twice
        } else {
            Fate::Through
        }
    };
    let Some((exit, printed, trials)) = run(twice) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(trials.contains("ran again"), "{trials}");
    assert!(trials.contains("of all 3 invocations"), "{trials}");
    // Both are paid for, and CloudWatch counts both.
    assert!(!trials.contains("CloudWatch counts"), "{trials}");
}

#[test]
fn no_capacity_and_a_quota_too_small_are_named_in_the_trials_row() {
    let is_start = |request: &ProxiedRequest<'_>| request.body.contains("Action=RunInstances");
    for code in [
        "InsufficientInstanceCapacity",
        "VcpuLimitExceeded",
        "PendingVerification",
    ] {
        let rule = first(usize::MAX, is_start, 400, code);
        let Some((exit, printed, trials)) = run_system("gpu_baseline", rule) else {
            return;
        };
        assert_eq!(exit, 3, "{printed}");
        assert!(trials.contains(code), "{trials}");
    }
}

#[test]
fn an_instance_that_never_reports_is_named_in_the_trials_row() {
    let is_log = |request: &ProxiedRequest<'_>| request.path.ends_with("/log.txt");
    let rule = first(usize::MAX, is_log, 404, "NoSuchKey");
    let Some((exit, printed, trials)) = run_system("gpu_baseline", rule) else {
        return;
    };
    assert_eq!(exit, 3, "{printed}");
    assert!(trials.contains("ended without a log; EC2: "), "{trials}");
}

/// Programs are read once: what was checked is what is uploaded.
#[test]
fn a_worker_that_is_replaced_while_a_run_begins_is_used_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let [copy, new] = ["bootstrap", "new"].map(|name| directory.path().join(name));
    std::fs::copy(worker(), &copy).unwrap();
    std::fs::write(&new, "x").unwrap();
    let (from, to) = (new.clone(), copy.clone());
    let replacing = move |request: &ProxiedRequest<'_>| {
        // Asked for between the check and the upload.
        if request.body.contains("Action=GetCallerIdentity") {
            let _ = std::fs::rename(&from, &to);
        }
        Fate::Through
    };
    let Some((exit, printed, _)) = run_worker("scatterreduce", Some(&copy), replacing) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(!new.exists(), "it was not replaced");
}

/// The first zone has no instance of the type: workers start in another one.
#[test]
fn a_zone_without_capacity_sends_workers_to_another() {
    let first = std::sync::Mutex::new(None::<String>);
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let rule = move |request: &ProxiedRequest<'_>| {
        let is_worker = request.body.contains("Action=RunInstances")
            && request.body.contains("InstanceType=g4dn.xlarge");
        let subnet = (request.body.split('&')).find_map(|pair| pair.strip_prefix("SubnetId="));
        let Some(subnet) = subnet.filter(|_| is_worker) else {
            return Fate::Through;
        };
        let mut first = first.lock().unwrap();
        if first.get_or_insert(subnet.to_owned()) != subnet {
            return Fate::Through;
        }
        count.fetch_add(1, Ordering::SeqCst);
        Fate::Refused(400, "InsufficientInstanceCapacity")
    };
    // The other row has hosts of services, so that there is a network.
    let Some((exit, printed, trials)) = run_system("gpu_baseline, spirt", rule) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
    assert!(!trials.contains("InsufficientInstanceCapacity"), "{trials}");
    assert!(refused.load(Ordering::SeqCst) > 0);
}

/// EC2's lists are behind by seconds: what was made must not be made again, nor be missed when it
/// is removed.
#[test]
fn lists_that_are_behind_are_waited_for() {
    let made = std::sync::Mutex::new(Vec::<(String, std::time::Instant)>::new());
    let rule = move |request: &ProxiedRequest<'_>| {
        let mut made = made.lock().unwrap();
        let action = request
            .body
            .split('&')
            .find_map(|pair| pair.strip_prefix("Action="));
        match action {
            Some("RunInstances" | "CreateSubnet" | "CreateVpc" | "CreateVpcEndpoint") => {
                let what = action.unwrap().to_owned();
                made.push((what, std::time::Instant::now()));
                Fate::Through
            }
            Some("DescribeInstances") if is_recent(&made, "RunInstances") => {
                Fate::Empty("reservationSet")
            }
            Some("DescribeSubnets") if is_recent(&made, "CreateSubnet") => Fate::Empty("subnetSet"),
            Some("DescribeVpcs") if is_recent(&made, "CreateVpc") => Fate::Empty("vpcSet"),
            Some("DescribeVpcEndpoints") if is_recent(&made, "CreateVpcEndpoint") => {
                Fate::Empty("vpcEndpointSet")
            }
            _ => Fate::Through,
        }
    };
    let Some((exit, printed, _)) = run_system("spirt", rule) else {
        return;
    };
    assert_eq!(exit, 0, "{printed}");
}

/// Returns whether something was made less than three seconds ago.
fn is_recent(made: &[(String, std::time::Instant)], what: &str) -> bool {
    let lag = std::time::Duration::from_secs(3);
    made.iter()
        .any(|(made, at)| made == what && at.elapsed() < lag)
}
