//! CloudWatch's metrics of the emulated functions, in the format of its API (Smithy
//! RPC v2 CBOR). Invocations are counted as they end, independently of their logs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ciborium::tag::Required;
use epochcost_spec::metering::report_line::{Report, Status};
use serde::{Deserialize, Serialize};

use crate::api::region;
use crate::meter::Meter;

/// Path of `GetMetricData`.
pub(crate) const PATH: &str = "/service/GraniteServiceVersion20100801/operation/GetMetricData";
/// Headers of an answer.
const FORMAT: [(&str, &str); 2] = [
    ("content-type", "application/cbor"),
    ("smithy-protocol", "rpc-v2-cbor"),
];

/// Seconds since the Unix epoch, with CBOR's tag (RFC 8949, 3.4.2).
type Time = Required<f64, 1>;

/// Parts of GetMetricData's request that this emulator reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    metric_data_queries: Vec<Query>,
    start_time: Time,
    end_time: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Query {
    id: String,
    metric_stat: MetricStat,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetricStat {
    metric: Metric,
    period: u32,
    stat: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metric {
    namespace: String,
    metric_name: String,
    #[serde(default)]
    dimensions: Vec<Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Dimension {
    name: String,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    metric_data_results: Vec<Series>,
    messages: [(); 0],
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Series {
    id: String,
    label: String,
    timestamps: Vec<Time>,
    values: Vec<f64>,
    status_code: &'static str,
}

/// Ended invocation.
struct Ran {
    started_s: f64,
    ended_s: f64,
    duration_ms: f64,
    has_failed: bool,
}

/// Ended invocations by region and function, deleted functions included.
#[derive(Default)]
pub(crate) struct MetricStore(Mutex<BTreeMap<(String, String), Vec<Ran>>>);

impl MetricStore {
    /// Counts an invocation of `function` from `started_s` to `ended_s` (seconds since
    /// the Unix epoch) with Lambda's REPORT line.
    pub(crate) fn add(
        &self,
        region: &str,
        function: &str,
        (started_s, ended_s): (f64, f64),
        report: &Report,
    ) {
        let ran = Ran {
            started_s,
            ended_s,
            duration_ms: report.duration_ms,
            has_failed: matches!(report.status, Some(Status::Timeout | Status::Error { .. })),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = (region.to_owned(), function.to_owned());
        known.entry(of).or_default().push(ran);
    }

    /// Returns one query's values, one per period; none for unknown functions and metrics.
    fn series(&self, region: &str, query: Query, from_s: f64, to_s: f64) -> Series {
        let MetricStat {
            metric,
            period,
            stat,
        } = query.metric_stat;
        // Invocations of the query's function.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let function = (metric.dimensions.into_iter())
            .find(|dimension| dimension.name == "FunctionName")
            .filter(|_| metric.namespace == "AWS/Lambda")
            .and_then(|dimension| known.get(&(region.to_owned(), dimension.value)));
        // Samples by the period in which the invocation began.
        let mut periods: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for ran in function.into_iter().flatten() {
            let at = (ran.started_s / f64::from(period)).floor() * f64::from(period);
            let is_asked_for = from_s <= at && at < to_s;
            let sample = sample(
                &metric.metric_name,
                ran,
                function.map_or(&[], Vec::as_slice),
            );
            if let Some(sample) = sample.filter(|_| is_asked_for) {
                periods.entry(at as u64).or_default().push(sample);
            }
        }
        Series {
            label: metric.metric_name,
            id: query.id,
            timestamps: periods.keys().map(|at| Required(*at as f64)).collect(),
            values: periods
                .values()
                .map(|some| statistic(&stat, some))
                .collect(),
            status_code: "Complete",
        }
    }
}

/// Returns the sample of one invocation for a metric; `all` are the function's
/// invocations.
fn sample(metric: &str, ran: &Ran, all: &[Ran]) -> Option<f64> {
    let runs_then =
        |other: &&Ran| other.started_s <= ran.started_s && ran.started_s < other.ended_s;
    match metric {
        "Invocations" => Some(1.0),
        "Errors" => Some(f64::from(u8::from(ran.has_failed))),
        // This emulator never throttles.
        "Throttles" => Some(0.0),
        "Duration" => Some(ran.duration_ms),
        "ConcurrentExecutions" => Some(all.iter().filter(runs_then).count().max(1) as f64),
        _ => None,
    }
}

/// Returns a statistic of a period's samples, of which there is at least one.
fn statistic(name: &str, samples: &[f64]) -> f64 {
    let total: f64 = samples.iter().sum();
    match name {
        "Maximum" => samples.iter().copied().fold(f64::MIN, f64::max),
        "Average" => total / samples.len() as f64,
        _ => total,
    }
}

/// Answers `GetMetricData`.
pub(crate) async fn get(
    State((store, meter)): State<(Arc<MetricStore>, Arc<Meter>)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request: Request = match ciborium::from_reader(body.as_ref()) {
        Ok(request) => request,
        Err(error) => {
            let refusal = BTreeMap::from([
                ("__type", "InvalidParameterValueException".to_owned()),
                ("message", error.to_string()),
            ]);
            return (StatusCode::BAD_REQUEST, encoded(&refusal)).into_response();
        }
    };
    meter.charge("metric_read", request.metric_data_queries.len() as f64);
    let (region, Required(from_s), Required(to_s)) =
        (region(&headers), request.start_time, request.end_time);
    let queries = request.metric_data_queries.into_iter();
    let answer = Answer {
        metric_data_results: queries
            .map(|query| store.series(&region, query, from_s, to_s))
            .collect(),
        messages: [],
    };
    encoded(&answer).into_response()
}

fn encoded(answer: &impl Serialize) -> Response {
    let mut bytes = Vec::new();
    match ciborium::into_writer(answer, &mut bytes) {
        Ok(()) => (FORMAT, bytes).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn store(runs: &[(f64, f64, Option<Status>)]) -> MetricStore {
        let store = MetricStore::default();
        for (started_s, ended_s, status) in runs {
            let report = Report {
                request_id: Uuid::nil(),
                duration_ms: (ended_s - started_s) * 1e3,
                billed_ms: 1,
                memory_mb: 128,
                peak_memory_mb: 50,
                init_ms: None,
                status: status.clone(),
            };
            store.add("eu-west-1", "f", (*started_s, *ended_s), &report);
        }
        store
    }

    fn ask(store: &MetricStore, metric: &str, stat: &str, from_s: f64) -> Vec<f64> {
        let query = Query {
            id: "m0".to_owned(),
            metric_stat: MetricStat {
                metric: Metric {
                    namespace: "AWS/Lambda".to_owned(),
                    metric_name: metric.to_owned(),
                    dimensions: vec![Dimension {
                        name: "FunctionName".to_owned(),
                        value: "f".to_owned(),
                    }],
                },
                period: 60,
                stat: stat.to_owned(),
            },
        };
        store.series("eu-west-1", query, from_s, 6000.0).values
    }

    #[test]
    fn invocations_are_counted_by_the_period_in_which_they_began() {
        let failed = Some(Status::Timeout);
        let store = store(&[
            (60.0, 70.0, None),
            (65.0, 130.0, failed),
            (69.0, 69.5, None),
            (130.0, 131.0, None),
        ]);
        assert_eq!(ask(&store, "Invocations", "Sum", 60.0), [3.0, 1.0]);
        assert_eq!(ask(&store, "Invocations", "Sum", 120.0), [1.0]);
        assert_eq!(ask(&store, "Errors", "Sum", 0.0), [1.0, 0.0]);
        assert_eq!(ask(&store, "Throttles", "Sum", 0.0), [0.0, 0.0]);
        assert_eq!(ask(&store, "Duration", "Sum", 0.0), [75_500.0, 1_000.0]);
        let most = ask(&store, "ConcurrentExecutions", "Maximum", 0.0);
        assert_eq!(most, [3.0, 1.0]);
        assert_eq!(ask(&store, "AsyncEventsDropped", "Sum", 0.0), [0.0; 0]);
        assert_eq!(ask(&MetricStore::default(), "Errors", "Sum", 0.0), [0.0; 0]);
    }
}
