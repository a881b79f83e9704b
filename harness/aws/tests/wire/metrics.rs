//! CloudWatch's metrics in the service's own format (Smithy RPC v2 CBOR), written by hand:
//! moto does not support it.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use ciborium::{Value, cbor};
use epochcost_aws::metrics::{Measured, MetricsRequest, read};
use epochcost_aws::{AwsError, Cause};

use super::holds;
use super::service::{clients, listen};

const PATH: &str = "/service/GraniteServiceVersion20100801/operation/GetMetricData";

/// Returns a query's values on one page.
fn result(id: &str, status: &str, values: &[f64]) -> Value {
    let none: [Value; 0] = [];
    let result = cbor!({
        "Id" => id,
        "Label" => "a label",
        "StatusCode" => status,
        "Values" => values,
        "Messages" => none,
    });
    result.unwrap()
}

fn page(results: Vec<Value>, next: Option<&str>) -> Value {
    let page = match next {
        Some(token) => cbor!({ "MetricDataResults" => results, "NextToken" => token }),
        None => cbor!({ "MetricDataResults" => results }),
    };
    page.unwrap()
}

/// Answer, by the number of earlier requests.
type Answers = fn(usize) -> (u16, Value);

struct CloudWatch {
    url: String,
    asked: Arc<Mutex<Vec<Bytes>>>,
}

impl CloudWatch {
    async fn start(answers: Answers) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = asked.clone();
        let serve = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
            assert_eq!(uri.path(), PATH);
            let protocol = header::HeaderName::from_static("smithy-protocol");
            assert_eq!(headers[&protocol], "rpc-v2-cbor");
            let before = {
                let mut requests = requests.lock().unwrap();
                requests.push(body);
                requests.len() - 1
            };
            let (status, answer) = answers(before);
            let mut bytes = Vec::new();
            ciborium::into_writer(&answer, &mut bytes).unwrap();
            let headers = [
                (header::CONTENT_TYPE, "application/cbor"),
                (protocol, "rpc-v2-cbor"),
            ];
            (StatusCode::from_u16(status).unwrap(), headers, bytes)
        };
        let url = listen(Router::new().fallback(serve)).await;
        Self { url, asked }
    }

    async fn read(&self, functions: &[&str]) -> Result<Vec<Measured>, AwsError> {
        let functions: Vec<String> = functions.iter().map(|name| (*name).to_owned()).collect();
        let asked = MetricsRequest {
            functions: &functions,
            instances: &[("epochcost-worker-0".to_owned(), "i-0123".to_owned())],
            since: "2026-11-21T10:02:00Z".parse().unwrap(),
            until: "2026-11-21T10:07:00Z".parse().unwrap(),
        };
        read(&clients(&self.url).await, &asked).await
    }

    /// Returns whether a request contained these bytes.
    fn contained(&self, request: usize, text: &str) -> bool {
        let asked = self.asked.lock().unwrap();
        let mut windows = asked[request].windows(text.len());
        windows.any(|window| window == text.as_bytes())
    }
}

#[tokio::test]
async fn metrics_come_over_several_pages_and_periods() {
    let cloud = CloudWatch::start(|before| match before {
        // The first function: invocations of one period, and then of another.
        0 => {
            let results = vec![
                result("m0", "PartialData", &[3.0, 1.0]),
                result("m3", "Complete", &[250.5]),
            ];
            (200, page(results, Some("more")))
        }
        1 => {
            let results = vec![
                result("m0", "Complete", &[2.0]),
                result("m2", "Complete", &[0.0, 5.0]),
                result("m4", "Complete", &[4.0, 2.0]),
                result("m14", "Complete", &[40.0, 60.0]),
            ];
            (200, page(results, None))
        }
        _ => panic!("nobody should ask again"),
    })
    .await;
    let measured = cloud.read(&["f", "g"]).await.unwrap();
    // Seven metrics per function, and one of the instance.
    assert_eq!(measured.len(), 15);
    for (of, metric, expected) in [
        ("f", "Invocations", Some(6.0)),
        ("f", "Duration", Some(250.5)),
        ("f", "Throttles", Some(5.0)),
        ("f", "ConcurrentExecutions", Some(4.0)),
        // Unknown metrics are not 0.
        ("f", "Errors", None),
        ("g", "Invocations", None),
        ("epochcost-worker-0", "CPUUtilization", Some(50.0)),
    ] {
        let is_it = |one: &&Measured| one.of == of && one.metric == metric;
        let one = measured.iter().find(is_it).unwrap();
        assert_eq!(one.value, expected, "{metric} of {of}");
    }
    for text in "AWS/Lambda FunctionName AsyncEventsDropped AWS/EC2 i-0123".split(' ') {
        assert!(cloud.contained(0, text), "{text}");
    }
    assert!(!cloud.contained(0, "NextToken") && cloud.contained(1, "more"));
}

/// A call takes 500 queries.
#[tokio::test]
async fn many_functions_are_asked_for_in_several_calls() {
    let cloud = CloudWatch::start(|before| {
        let id = ["m0", "m500"][before];
        (200, page(vec![result(id, "Complete", &[1.0])], None))
    })
    .await;
    let names: Vec<String> = (0..72).map(|index| format!("f{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let measured = cloud.read(&names).await.unwrap();
    assert_eq!(measured.len(), 72 * 7 + 1);
    let known = measured.iter().filter(|one| one.value.is_some());
    assert_eq!(known.count(), 2);
    assert_eq!(measured[500].value, Some(1.0));
}

fn refusal(kind: &str) -> Value {
    let of = format!("com.amazonaws.cloudwatch#{kind}");
    cbor!({ "__type" => of, "message" => "told to" }).unwrap()
}

#[tokio::test]
async fn a_refusal_is_an_error_and_no_metric() {
    let denied: Answers = |_| (403, refusal("AccessDeniedException"));
    let throttled: Answers = |_| (400, refusal("ThrottlingException"));
    for (answers, cause, attempts) in [
        (denied, Cause::Permission, 1),
        (throttled, Cause::Throttled, 3),
    ] {
        let refused = CloudWatch::start(answers).await;
        let error = refused.read(&["f"]).await.unwrap_err();
        assert_eq!(error.cause(), Some(cause), "{error}");
        assert_eq!(refused.asked.lock().unwrap().len(), attempts);
    }
    // The refusal of one metric, in a successful answer.
    let partly = |_| (200, page(vec![result("m0", "InternalError", &[])], None));
    let partly = CloudWatch::start(partly).await;
    let error = partly.read(&["f"]).await.unwrap_err();
    holds(&error.to_string(), &["metric m0: InternalError"]);
}
