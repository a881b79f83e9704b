//! Failures that AWS may answer: the run survives each, or reports it in a row or by its
//! exit code, and leaves nothing behind.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::{Value, json};

use crate::cloud::{Cloud, Ended, RUN, holds, worker};

/// Request on its way to AWS.
pub struct ProxiedRequest<'a> {
    pub path: &'a str,
    /// Operation, for services that name it in a header.
    target: &'a str,
    body: &'a str,
}

/// Treatment of a request.
#[derive(Clone, Copy)]
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

impl<'a> ProxiedRequest<'a> {
    /// Value of a field of a form.
    fn field(&self, name: &str) -> Option<&'a str> {
        let mut fields = self.body.split('&').filter_map(|pair| pair.split_once('='));
        fields.find_map(|(own, value)| (own == name).then_some(value))
    }
}

/// Predicate for the requests that a rule applies to.
type IsIt = fn(&ProxiedRequest<'_>) -> bool;
type Rule = Arc<dyn Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync>;

#[derive(Clone)]
struct Proxy {
    upstream: String,
    client: reqwest::Client,
    rule: Rule,
}

/// Starts a server in front of `upstream`, which runs as long as the tests.
fn proxy(upstream: &str, rule: Rule) -> String {
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
        target: (head.headers.get("x-amz-target")).map_or("", |value| value.to_str().unwrap()),
        body: &text,
    };
    let fate = (proxy.rule)(&request);
    if let Fate::Refused(status, code) = fate {
        let says = json!({ "__type": code, "message": "planned", "Message": "planned" });
        let says = refusal(&head.headers, &text, code).unwrap_or(says.to_string());
        let answer = Response::builder().status(status);
        let answer = answer.header("x-amzn-errortype", code);
        return answer.body(Body::from(says)).unwrap();
    }
    if let Fate::Empty(list) = fate {
        let name = format!("{}Response", request.field("Action").unwrap());
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

/// Returns variables that lead a program to Lambda, Step Functions and moto under a rule.
pub fn through(
    cloud: &Cloud,
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
) -> [(&'static str, String); 3] {
    through_all(cloud, Arc::new(rule))
}

fn through_all(cloud: &Cloud, rule: Rule) -> [(&'static str, String); 3] {
    let own = proxy(&cloud.emulator.url, rule.clone());
    [
        ("AWS_ENDPOINT_URL", proxy(&cloud.moto.url, rule)),
        ("AWS_ENDPOINT_URL_LAMBDA", own.clone()),
        ("AWS_ENDPOINT_URL_SFN", own),
    ]
}

/// Runs a small experiment of systems under a rule: the run ends with this code, leaves nothing, and its
/// trials' rows say these words. Returns its messages and rows.
#[track_caller]
fn run(
    systems: &str,
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
    code: i32,
    says: &[&str],
) -> Option<(String, String)> {
    run_worker(None, systems, rule, code, says)
}

/// The same with a worker of its own.
#[track_caller]
fn run_worker(
    worker: Option<&Path>,
    systems: &str,
    rule: impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync + 'static,
    code: i32,
    says: &[&str],
) -> Option<(String, String)> {
    let cloud = Cloud::of(systems)?;
    let rule: Rule = Arc::new(rule);
    let objects = proxy(&cloud.objects, rule.clone());
    let mut command = cloud.command(&format!("{RUN} --out run"));
    let command = command
        .envs(through_all(&cloud, rule))
        .env("AWS_ENDPOINT_URL_S3", objects)
        .env("EPOCHCOST_LOG_PATIENCE_S", "2")
        .envs(worker.map(|worker| ("EPOCHCOST_WORKER", worker)));
    let ended = Ended::of(command);
    cloud.assert_empty();
    let ended = ended.ends(code);
    let trials = cloud.trials("run");
    holds(&trials, says);
    Some((ended.message(), trials))
}

pub fn is_invocation(request: &ProxiedRequest<'_>) -> bool {
    request.path.ends_with("/invocations")
}

pub fn is_log_read(request: &ProxiedRequest<'_>) -> bool {
    request.target.ends_with(".FilterLogEvents")
}

/// Treats the first `times` requests for which `is_it` holds in this way.
pub fn first(
    times: usize,
    is_it: IsIt,
    fate: Fate,
) -> impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync {
    let count = AtomicUsize::new(0);
    move |request| {
        if is_it(request) && count.fetch_add(1, Ordering::SeqCst) < times {
            fate
        } else {
            Fate::Through
        }
    }
}

/// Treats all requests for which `is_it` holds in this way.
pub fn every(is_it: IsIt, fate: Fate) -> impl Fn(&ProxiedRequest<'_>) -> Fate + Send + Sync {
    first(usize::MAX, is_it, fate)
}

/// A system of functions alone.
const FUNCTIONS: &str = "scatterreduce";
/// All of a trial's invocations are in the log.
const WHOLE: &str = "REPORT lines of all";
/// Refusals that a service may get over.
const PASSING: [(u16, &str); 2] = [(429, "TooManyRequestsException"), (500, "ServiceException")];

#[test]
fn a_service_that_throttles_or_fails_once_is_asked_again() {
    for (status, code) in PASSING {
        let once = first(1, is_invocation, Fate::Refused(status, code));
        run(FUNCTIONS, once, 0, &[]);
    }
}

#[test]
fn a_service_that_goes_on_refusing_is_named_in_the_trials_row() {
    for (status, code) in PASSING {
        let always = every(is_invocation, Fate::Refused(status, code));
        run(FUNCTIONS, always, 3, &[code]);
    }
}

/// A conflict passes; a refusal that nobody has heard of is its trial's.
#[test]
fn a_conflict_is_repeated_and_an_unknown_refusal_fails_its_trial() {
    let is_retention: IsIt = |request| request.target.ends_with(".PutRetentionPolicy");
    let conflict = Fate::Refused(400, "OperationAbortedException");
    run(FUNCTIONS, first(1, is_retention, conflict), 0, &[]);
    let unknown = every(is_retention, Fate::Refused(400, "NeverSeenException"));
    run(FUNCTIONS, unknown, 3, &["NeverSeenException"]);
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
    run(FUNCTIONS, now_and_then, 0, &[]);
}

/// CloudWatch Logs takes few reads per second and account.
#[test]
fn a_log_that_may_not_be_read_so_often_is_read_later() {
    // More often than the SDK itself asks again.
    let throttled = first(8, is_log_read, Fate::Refused(400, "ThrottlingException"));
    run(FUNCTIONS, throttled, 0, &[WHOLE]);
}

#[test]
fn expired_credentials_and_missing_permissions_end_the_run() {
    let is_role = |request: &ProxiedRequest<'_>| request.field("Action") == Some("CreateRole");
    let rules: [(IsIt, &'static str, &str); 2] = [
        (is_invocation, "ExpiredTokenException", "aws sso login"),
        (is_role, "AccessDenied", "epochcost aws policy"),
    ];
    for (is_it, code, remedy) in rules {
        let refused = every(is_it, Fate::Refused(403, code));
        if let Some((said, _)) = run(FUNCTIONS, refused, 5, &[]) {
            holds(&said, &[code, remedy]);
        }
    }
}

#[test]
fn a_log_that_comes_late_is_waited_for() {
    let late = first(3, is_log_read, Fate::Changed(|_| json!({ "events": [] })));
    run(FUNCTIONS, late, 0, &[WHOLE]);
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
    let first = OnceLock::<Instant>::new();
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
    run("{system: scatterreduce, timeout_s: 6}", late, 0, &[WHOLE]);
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
    let partial = every(is_log_read, Fate::Changed(without_reports));
    run(FUNCTIONS, partial, 3, &["REPORT lines of 0 of "]);
}

fn doubled(mut answer: Value) -> Value {
    if let Some(events) = answer["events"].as_array_mut() {
        let again = events.clone();
        events.extend(again);
    }
    answer
}

#[test]
fn lines_that_come_twice_count_once() {
    let twice = every(is_log_read, Fate::Changed(doubled));
    run(FUNCTIONS, twice, 0, &["more than once", WHOLE]);
}

/// Every worker is started twice under one request: one of the two does nothing.
#[test]
fn an_event_that_is_delivered_twice_counts_once() {
    let says = ["ran again", "of all 3 invocations"];
    let twice = every(is_invocation, Fate::Twice);
    if let Some((_, trials)) = run(FUNCTIONS, twice, 0, &says) {
        // Both are paid for, and CloudWatch counts both.
        assert!(!trials.contains("CloudWatch counts"), "{trials}");
    }
}

#[test]
fn no_capacity_and_a_quota_too_small_are_named_in_the_trials_row() {
    let is_start: IsIt = |request| request.field("Action") == Some("RunInstances");
    for code in [
        "InsufficientInstanceCapacity",
        "VcpuLimitExceeded",
        "PendingVerification",
    ] {
        let refused = every(is_start, Fate::Refused(400, code));
        run("gpu_baseline", refused, 3, &[code]);
    }
}

#[test]
fn an_instance_that_never_reports_is_named_in_the_trials_row() {
    let is_log: IsIt = |request| request.path.ends_with("/log.txt");
    let missing = every(is_log, Fate::Refused(404, "NoSuchKey"));
    run("gpu_baseline", missing, 3, &["ended without a log; EC2: "]);
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
        if request.field("Action") == Some("GetCallerIdentity") {
            let _ = std::fs::rename(&from, &to);
        }
        Fate::Through
    };
    if run_worker(Some(&copy), FUNCTIONS, replacing, 0, &[]).is_some() {
        assert!(!new.exists(), "it was not replaced");
    }
}

/// The first zone has no instance of the type: workers start in another one.
#[test]
fn a_zone_without_capacity_sends_workers_to_another() {
    let first = Mutex::new(None::<String>);
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let rule = move |request: &ProxiedRequest<'_>| {
        let is_worker = request.field("Action") == Some("RunInstances")
            && request.field("InstanceType") == Some("g4dn.xlarge");
        let Some(subnet) = request.field("SubnetId").filter(|_| is_worker) else {
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
    if let Some((_, trials)) = run("gpu_baseline, spirt", rule, 0, &[]) {
        assert!(!trials.contains("InsufficientInstanceCapacity"), "{trials}");
        assert!(refused.load(Ordering::SeqCst) > 0);
    }
}

/// EC2's lists are behind by seconds: what was made must not be made again, nor be missed when it
/// is removed.
#[test]
fn lists_that_are_behind_are_waited_for() {
    let lists = [
        ("RunInstances", "DescribeInstances", "reservationSet"),
        ("CreateSubnet", "DescribeSubnets", "subnetSet"),
        ("CreateVpc", "DescribeVpcs", "vpcSet"),
        (
            "CreateVpcEndpoint",
            "DescribeVpcEndpoints",
            "vpcEndpointSet",
        ),
    ];
    // When something was last made of each.
    let made = Mutex::new([None::<Instant>; 4]);
    let rule = move |request: &ProxiedRequest<'_>| {
        let action = request.field("Action").unwrap_or_default();
        for ((making, listing, list), at) in lists.iter().zip(&mut *made.lock().unwrap()) {
            if action == *making {
                *at = Some(Instant::now());
            }
            if action == *listing && at.is_some_and(|at| at.elapsed().as_secs() < 3) {
                return Fate::Empty(list);
            }
        }
        Fate::Through
    };
    run("spirt", rule, 0, &[]);
}
